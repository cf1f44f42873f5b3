//! `cargo xtask drivers`: lets the compilers of GPUs that are not here compile every kernel.
//!
//! Mesa's driver of AMD GPUs makes a device without hardware of the chip that `RADV_FORCE_FAMILY` names. It
//! compiles kernels as it would for the chip, and runs nothing.

use crate::error::{Error, Result};
use crate::process;
use crate::setup::{self, component::MESA_DRIVERS, component::Purpose, probe};

/// One whose subgroups have 64 threads and no others, and one with matrix units.
const FAMILIES: [&str; 2] = ["VEGA10", "NAVI31"];

/// Start of the name of the driver's manifest.
const MANIFEST: &str = "radeon_icd";

pub(crate) fn main() -> Result<()> {
    setup::ensure(&[Purpose::Run])?;
    let missing =
        || Error::new(format!("Mesa's driver of AMD GPUs is not here: see {MESA_DRIVERS}"));
    let manifest = probe::installed_manifest(MANIFEST).ok_or_else(missing)?;
    for family in FAMILIES {
        let mut command = process::cargo(["run", "--quiet", "--package", "mlx-vulkan-lm", "--"]);
        command.args(["devices", "--check"]);
        command.env("RADV_FORCE_FAMILY", family).env("VK_DRIVER_FILES", &manifest);
        process::run(&mut command)?;
    }
    Ok(())
}
