//! Project automation: `cargo xtask COMMAND`.
//!
//! This file is the table of commands and the usage text made from it; each command
//! lives in the file of its name.

mod bench;
mod ci;
mod digest;
mod error;
mod generate;
mod model;
mod ops;
mod oracle;
mod paths;
mod process;
mod setup;
mod shaders;
mod test;
mod tidy;

use error::{Error, Result};
use std::process::ExitCode;

/// One thing that `cargo xtask` can do.
struct Task {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const TASKS: [Task; 10] = [
    Task {
        name: "generate",
        arguments: "[--prompt TEXT] [mlx-vulkan generate's arguments]",
        about: "fetch SmolLM2 and generate text with it, on Vulkan unless told otherwise",
        run: generate::main,
    },
    Task {
        name: "test",
        arguments: "[--ops] [--leg NAME] [cargo test's arguments]",
        about: "run the whole test suite, as on unified memory, as on a discrete GPU, and under the \
                validation layers",
        run: test::main,
    },
    Task {
        name: "oracle",
        arguments: "[--family NAME] [--seeds N] [--first S] [--vulkan-every N]",
        about: "compare random calls with upstream MLX, on the CPU and on Vulkan",
        run: oracle::main,
    },
    Task {
        name: "shaders",
        arguments: "[--check]",
        about: "compile and validate the kernels into shaders/spv; --check: fail if that is not what is \
                committed",
        run: shaders::main,
    },
    Task {
        name: "ops",
        arguments: "[--json]",
        about: "print which primitive runs where: native, fallback or refused",
        run: ops::main,
    },
    Task {
        name: "bench",
        arguments: "dispatch [--json]",
        about: "measure building, evaluating, encoding and dispatching",
        run: bench::main,
    },
    Task {
        name: "tidy",
        arguments: "",
        about: "check formatting, lints and documentation",
        run: tidy::main,
    },
    Task {
        name: "ci",
        arguments: "",
        about: "everything that must pass before a change lands: tidy, shaders --check, test, oracle",
        run: ci::main,
    },
    Task {
        name: "model",
        arguments: "",
        about: "fetch SmolLM2 and print where it lies",
        run: model::main,
    },
    Task {
        name: "setup",
        arguments: "[run|model|oracle|shaders|shader-macros|validation]...",
        about: "install what is missing on this machine (all by default)",
        run: setup::main,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_reported() {
                eprintln!("xtask: error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((name, rest)) = args.split_first() else {
        return Err(Error::new(format!("no command; there are {}", names())));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return Ok(());
    }
    (find(name)?.run)(rest)
}

fn find(name: &str) -> Result<&'static Task> {
    let found = TASKS.iter().find(|task| task.name == name);
    found.ok_or_else(|| Error::new(format!("no command {name:?}; there are {}", names())))
}

fn names() -> String {
    TASKS.iter().map(|task| task.name).collect::<Vec<_>>().join(", ")
}

fn usage() -> String {
    let tasks = TASKS
        .iter()
        .map(|task| format!("  {} {}\n      {}\n", task.name, task.arguments, task.about));
    format!("usage: cargo xtask COMMAND\n\n{}", tasks.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_names_every_task_once() {
        let usage = usage();
        for task in &TASKS {
            assert_eq!(usage.matches(&format!("\n  {} ", task.name)).count(), 1, "{}", task.name);
        }
    }

    #[test]
    fn unknown_commands_are_refused_with_the_known_ones() {
        let error = dispatch(&["tset".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"tset\"") && error.contains("setup"), "{error}");
        assert!(dispatch(&[]).is_err());
    }
}
