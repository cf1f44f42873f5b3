//! Proof that `shader!` embeds exactly the committed SPIR-V.
//!
//! The backend is built with its kernels declared through vulkano's macro, into a program that refers
//! to all of them; the macro keeps a module's words in a static array, so each committed file must
//! occur in that program byte for byte.

use super::shaderc;
use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use std::fs;
use std::path::PathBuf;

/// The example of mlx-vulkan-vk that refers to every kernel.
const EXAMPLE: &str = "kernels";

/// The variable that the `shader!` invocations take their sources' folder from.
const ROOT_VARIABLE: &str = "MLX_VK_SHADER_ROOT";

/// The program is never run, so nothing of the backend is worth optimizing. What it depends on is built as
/// for the tests: with the features that the whole workspace asks for, so that they need not build it again.
const BUILD: [&str; 8] = [
    "--config",
    "profile.dev.package.mlx-vulkan-vk.opt-level=0",
    "build",
    "--workspace",
    "--features",
    "mlx-vulkan-vk/shader-macros",
    "--example",
    EXAMPLE,
];

/// The first word of every SPIR-V module, as it lies in memory on the little-endian machines this runs on.
const MAGIC: [u8; 4] = 0x0723_0203_u32.to_le_bytes();

/// A committed module: its kernel's name and its bytes.
pub(crate) type Module = (String, Vec<u8>);

/// Builds the program and looks for every module in it.
///
/// # Errors
/// When it does not build, or with the names of the modules that the macro compiles differently.
pub(crate) fn check(modules: &[Module]) -> Result<()> {
    let program = build()?;
    let bytes = fs::read(&program).context(|| format!("cannot read {}", program.display()))?;
    let absent = absent(modules, &bytes);
    match absent.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "`shader!` compiles {} of {} kernels to other SPIR-V than is committed (run `cargo xtask \
             shaders`): {}",
            absent.len(),
            modules.len(),
            absent.join(", ")
        ))),
    }
}

fn build() -> Result<PathBuf> {
    let mut cargo = process::cargo(BUILD);
    cargo
        .env(shaderc::VARIABLE, shaderc::folder()?)
        .env(ROOT_VARIABLE, paths::root().join("shaders"));
    process::run(&mut cargo)?;
    Ok(paths::target()
        .join("debug/examples")
        .join(format!("{EXAMPLE}{}", std::env::consts::EXE_SUFFIX)))
}

/// The names of the modules that do not occur in `program`.
fn absent<'a>(modules: &'a [Module], program: &[u8]) -> Vec<&'a str> {
    let starts: Vec<_> = starts(program).collect();
    let occurs = |module: &[u8]| starts.iter().any(|start| program[*start..].starts_with(module));
    modules.iter().filter(|(_, module)| !occurs(module)).map(|(name, _)| name.as_str()).collect()
}

/// Where SPIR-V may begin; words are aligned, which makes this a pass over words.
fn starts(program: &[u8]) -> impl Iterator<Item = usize> {
    let words = program.chunks_exact(MAGIC.len()).enumerate();
    words.filter(|(_, word)| *word == MAGIC).map(|(index, _)| index * MAGIC.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, tail: &[u8]) -> Module {
        (name.to_owned(), [&MAGIC, tail].concat())
    }

    #[test]
    fn modules_are_found_whole_and_aligned_only() {
        let modules =
            [module("a", &[1; 8]), module("b", &[2; 8]), module("c", &[1, 1, 1, 1, 3, 3, 3, 3])];
        let program = [&[0; 4], modules[0].1.as_slice(), &[9; 4], &modules[1].1[..8]].concat();
        assert_eq!(absent(&modules, &program), ["b", "c"]);
        let shifted = [&[0; 2], modules[0].1.as_slice(), &[0; 2]].concat();
        assert_eq!(absent(&modules[..1], &shifted), ["a"]);
    }
}
