//! `cargo xtask drivers`: lets the compilers of GPUs that are not here compile every kernel.
//!
//! Mesa's driver of AMD GPUs makes a device without hardware of the chip that `RADV_FORCE_FAMILY` names. It
//! compiles kernels as it would for the chip, and runs nothing.

use crate::error::{Error, Result};
use crate::setup::{self, component::MESA_DRIVERS, component::Purpose, probe};
use crate::{paths, process};
use std::process::Command;

/// One whose subgroups have 64 threads and no others, and one with matrix units.
const FAMILIES: [&str; 2] = ["VEGA10", "NAVI31"];

/// Builds the program for a test of its command line, with the features that it has in the suite: where that
/// has run, nothing is built anew.
const BUILD: [&str; 5] = ["test", "--workspace", "--no-run", "--test", "cli"];

/// Start of the name of the driver's manifest.
const MANIFEST: &str = "radeon_icd";

pub(crate) fn main() -> Result<()> {
    setup::ensure(&[Purpose::Run])?;
    let missing =
        || Error::new(format!("Mesa's driver of AMD GPUs is not here: see {MESA_DRIVERS}"));
    let manifest = probe::installed_manifest(MANIFEST).ok_or_else(missing)?;
    process::run(&mut process::cargo(BUILD))?;
    let program = format!("mlx-vulkan{}", std::env::consts::EXE_SUFFIX);
    let program = paths::target().join("debug").join(program);
    let devices = |family: &str| {
        let mut command = Command::new(&program);
        command.arg("devices");
        command.env("RADV_FORCE_FAMILY", family).env("VK_DRIVER_FILES", &manifest);
        command
    };
    let mut tried = 0;
    for family in FAMILIES {
        let listed = process::output(&mut devices(family))?.stdout;
        if !String::from_utf8_lossy(&listed).contains(family) {
            eprintln!("xtask: note: this Mesa does not know {family}");
            continue;
        }
        process::run(devices(family).arg("--check"))?;
        tried += 1;
    }
    match tried {
        0 => Err(Error::new("Mesa's driver of AMD GPUs makes no device without hardware")),
        _ => Ok(()),
    }
}
