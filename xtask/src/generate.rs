//! `cargo xtask generate`: from a fresh machine to text on the terminal in one command.

use crate::error::Result;
use crate::model;
use crate::paths;
use crate::process;
use crate::setup::{self, component::Purpose, probe};
use std::path::Path;
use std::process::Command;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of `mlx-vulkan generate`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// `cargo xtask generate [ARGUMENT…]`: the arguments go to `mlx-vulkan generate`, with
/// defaults for those that are missing.
pub(crate) fn main(args: &Args) -> Result<()> {
    process::hand_over(&mut ready(&args.rest)?)
}

/// `mlx-vulkan generate` with these arguments, built, and with everything that it needs.
///
/// # Errors
/// When something can neither be found nor installed.
pub(crate) fn ready(args: &[String]) -> Result<Command> {
    if option(args, "--device") != Some("cpu") {
        setup::ensure(&[Purpose::Run])?;
    }
    let model = match option(args, "--model") {
        Some(_) => None,
        None => Some(model::fetch(&mlx_fetch::SMOLLM2)?),
    };
    build_lm()?;
    let mut command = lm("generate");
    command.args(defaults(args, model.as_deref())).args(args);
    Ok(command)
}

/// Builds the `mlx-vulkan` binary in release.
pub(crate) fn build_lm() -> Result<()> {
    process::run(&mut process::cargo(["build", "--release", "--package", "mlx-vulkan-lm"]))
}

/// `mlx-vulkan SUBCOMMAND`, in the folder where the person is, because the paths
/// they type are meant from there.
pub(crate) fn lm(subcommand: &str) -> Command {
    let binary = format!("mlx-vulkan{}", std::env::consts::EXE_SUFFIX);
    let mut command = Command::new(paths::target().join("release").join(binary));
    command.arg(subcommand);
    allow_software(&mut command);
    command
}

/// Asks for a software Vulkan device where there is no other: the library by itself refuses them, as the
/// CPU backend is many times faster.
pub(crate) fn allow_software(command: &mut Command) {
    if !probe::has_hardware_vulkan() {
        command.env("MLX_VK_ALLOW_SOFTWARE", "1");
    }
}

/// The arguments that `mlx-vulkan generate` gets beside the given ones.
fn defaults(args: &[String], model: Option<&Path>) -> Vec<String> {
    let mut defaults = Vec::new();
    if let Some(path) = model {
        defaults.extend(["--model".to_owned(), path.display().to_string()]);
    }
    for (name, value) in
        [("--prompt", "Once upon a time"), ("--max-tokens", "64"), ("--device", "gpu")]
    {
        if option(args, name).is_none() {
            defaults.extend([name.to_owned(), value.to_owned()]);
        }
    }
    defaults
}

/// The value of an option given as `--name value` or `--name=value`; empty for a last `--name` without one.
fn option<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let position = args.iter().position(|arg| arg == name);
    let apart = position.map(|at| args.get(at + 1).map_or("", String::as_str));
    let joined = || args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    apart.or_else(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn options_are_found_in_both_forms() {
        let args = strings(&["--prompt", "--device", "--model=m.gguf", "--last"]);
        assert_eq!(option(&args, "--prompt"), Some("--device"));
        assert_eq!(option(&args, "--model"), Some("m.gguf"));
        assert_eq!(option(&args, "--last"), Some(""));
        assert_eq!(option(&args, "--mod"), None);
    }

    #[test]
    fn defaults_fill_in_what_is_missing() {
        let all = defaults(&[], Some(Path::new("m.gguf")));
        let expected = [
            "--model",
            "m.gguf",
            "--prompt",
            "Once upon a time",
            "--max-tokens",
            "64",
            "--device",
            "gpu",
        ];
        assert_eq!(all, expected);
        let given = strings(&["--prompt", "Hi", "--device=cpu", "--max-tokens", "3"]);
        assert!(defaults(&given, None).is_empty());
    }
}
