//! The static shaderc that vulkano-shaders links.
//!
//! The `shaderc-sys` crate links one archive, `libshaderc_combined.a`, and builds it from source for many
//! minutes where it finds none. Debian's file of that name lacks glslang and SPIRV-Tools, which lie in
//! archives of their own; merged into one in a folder of ours they are what it looks for.

use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use crate::setup::probe;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The variable by which `shaderc-sys` is told where to look.
pub(crate) const VARIABLE: &str = "SHADERC_LIB_DIR";

const COMBINED: &str = "libshaderc_combined.a";

/// The archives that are merged, as far as they exist: newer releases have folded some of them into others.
const PARTS: [&str; 11] = [
    COMBINED,
    "libglslang.a",
    "libSPIRV.a",
    "libMachineIndependent.a",
    "libGenericCodeGen.a",
    "libOGLCompiler.a",
    "libOSDependent.a",
    "libHLSL.a",
    "libglslang-default-resource-limits.a",
    "libSPIRV-Tools-opt.a",
    "libSPIRV-Tools.a",
];

/// The folder to set [`VARIABLE`] to: the caller's own, or the one with the merged archive, which is made if
/// it is missing or older than its parts.
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(own) = env::var_os(VARIABLE) {
        return Ok(PathBuf::from(own));
    }
    let parts: Vec<_> = PARTS.into_iter().filter_map(probe::library).collect();
    if parts.is_empty() {
        return Err(Error::new(format!(
            "no {COMBINED}; run `cargo xtask setup`, or set {VARIABLE} to its folder"
        )));
    }
    let folder = paths::target().join("shaderc");
    let archive = folder.join(COMBINED);
    if !is_newer(&archive, &parts) {
        merge(&parts, &folder, &archive)?;
    }
    Ok(folder)
}

fn is_newer(archive: &Path, parts: &[PathBuf]) -> bool {
    let made = modified(archive);
    made.is_some() && parts.iter().all(|part| modified(part) < made)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn merge(parts: &[PathBuf], folder: &Path, archive: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
    let temporary = format!("merging-{}.a", std::process::id());
    run_ar(&script(parts, &temporary), folder)?;
    fs::rename(folder.join(temporary), archive)
        .context(|| format!("cannot write {}", archive.display()))
}

/// A script for `ar -M`. The result is named relative to the folder, because that language knows no quotes.
fn script(parts: &[PathBuf], result: &str) -> String {
    let parts = parts.iter().map(|part| format!("ADDLIB {}\n", part.display()));
    format!("CREATE {result}\n{}SAVE\nEND\n", parts.collect::<String>())
}

fn run_ar(script: &str, folder: &Path) -> Result<()> {
    let mut ar = Command::new("ar");
    ar.arg("-M").current_dir(folder).stdin(Stdio::piped());
    let mut child = ar.spawn().context(|| "cannot start ar".to_owned())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes()).context(|| "cannot write to ar".to_owned())?;
    }
    let status = child.wait().context(|| "cannot wait for ar".to_owned())?;
    process::check(&ar, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_adds_every_part() {
        let parts = [PathBuf::from("/lib/libA.a"), PathBuf::from("/lib/libB-c.a")];
        assert_eq!(
            script(&parts, "all.a"),
            "CREATE all.a\nADDLIB /lib/libA.a\nADDLIB /lib/libB-c.a\nSAVE\nEND\n"
        );
    }
}
