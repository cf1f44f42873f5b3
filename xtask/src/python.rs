//! `cargo xtask python`: the package that serves as `mlx.core`, its tests, and upstream's own suite on it.

mod profile;
mod suite;
mod wheel;

use crate::error::{Context, Result};
use crate::generate;
use crate::paths;
use crate::process;
use crate::setup::{self, component::Purpose};
use crate::test;
use crate::venv::{self, Venv};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// What the package's tests need. Upstream's binding is there too: `MLX_VULKAN_UPSTREAM=1` loads it.
const VENV: Venv = Venv {
    name: "python",
    packages: &[
        venv::UPSTREAM,
        "numpy>=2",
        "pytest>=9",
        "hypothesis",
        "ml_dtypes",
        "nbclient",
        "ipykernel",
        "maturin>=1.9,<2",
    ],
    imports: "numpy, pytest, hypothesis, ml_dtypes, nbclient, ipykernel, mlx.nn",
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build the wheel that users install, with optimizations, and install that
    #[arg(long)]
    wheel: bool,
    /// Build it twice, the second time by a profile of programs that run on the first one
    #[arg(long, requires = "wheel")]
    profiled: bool,
    /// Run upstream's tests, which lie in this folder (python/tests of its repository)
    #[arg(long, value_name = "DIR")]
    upstream_tests: Option<PathBuf>,
    /// The device that tests run on
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = DEVICES)]
    device: String,
    /// Turn the validation layers on, whose errors fail the package's tests
    #[arg(long)]
    validation: bool,
    /// What pytest is given; runs the package's own tests
    #[arg(last = true)]
    of_pytest: Vec<String>,
}

/// Devices to run tests on.
const DEVICES: [&str; 2] = ["cpu", "gpu"];

/// `cargo xtask python [--wheel [--profiled]] [--upstream-tests DIR] [--device NAME] [--validation]
/// [-- ARGUMENT…]`.
pub(crate) fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Purpose::Run, Purpose::Oracle])?;
    let python = VENV.python()?;
    match args.wheel {
        true => wheel::install(&python, args.profiled)?,
        false => install(&python, Profile::Dev)?,
    }
    if let Some(tests) = &args.upstream_tests {
        return suite::run(&python, tests, &args.device, &args.of_pytest);
    }
    if !args.of_pytest.is_empty() {
        let environment = if args.validation { test::VALIDATION } else { &[] };
        return test(&python, &args.device, &args.of_pytest, environment);
    }
    println!("{} -c 'import mlx.core as mx; print(mx.default_device())'", paths::shown(&python));
    Ok(())
}

/// What CI runs: the package's tests on both devices at the same time, on Vulkan under the validation layers.
pub(crate) fn ci() -> Result<()> {
    setup::ensure(&[Purpose::Run, Purpose::Oracle, Purpose::Validation])?;
    let python = VENV.python()?;
    install(&python, Profile::Dev)?;
    let quiet = ["-q".to_owned()];
    thread::scope(|scope| {
        let on_vulkan = scope.spawn(|| {
            let mut pytest = own_tests(&python, "gpu", &quiet, test::VALIDATION);
            let status = process::run_beside(&mut pytest)?;
            process::check(&pytest, status)
        });
        let on_cpu = test(&python, "cpu", &quiet, &[]);
        process::joined(on_vulkan).and(on_cpu)
    })
}

/// What calls cost, ours beside upstream's binding.
pub(crate) fn bench() -> Result<Command> {
    setup::ensure(&[Purpose::Oracle])?;
    let python = VENV.python()?;
    install(&python, Profile::Release)?;
    let mut bench = Command::new(&python);
    bench.current_dir(paths::root()).args(["-B", "tests/python/bench.py"]);
    Ok(bench)
}

/// How the extension is built.
#[derive(Debug, Clone, Copy)]
enum Profile {
    /// As the other crates are for tests.
    Dev,
    Release,
}

/// Builds the extension and puts it where a wheel would.
fn install(python: &Path, profile: Profile) -> Result<()> {
    // All libraries: features of the workspace are what tests are built with.
    let (arguments, built) = match profile {
        Profile::Dev => (vec!["build", "--workspace", "--lib"], "debug"),
        Profile::Release => {
            (vec!["build", "--release", "--package", "mlx-vulkan-python"], "release")
        }
    };
    process::run(&mut process::cargo(arguments))?;
    let package = venv::site_packages(python)?.join("mlx/core");
    fs::create_dir_all(&package).context(|| format!("cannot make {}", package.display()))?;
    let copy = |from: PathBuf, to: &str| {
        let to = package.join(to);
        // Another process may have the old file open.
        let _ = fs::remove_file(&to);
        fs::copy(&from, &to).context(|| format!("cannot copy {}", from.display())).map(drop)
    };
    let (library, extension) = library();
    copy(paths::target().join(built).join(library), extension)?;
    copy(paths::root().join("crates/python/python/mlx/core/__init__.py"), "__init__.py")
}

/// What cargo calls the extension, and what Python looks for.
fn library() -> (&'static str, &'static str) {
    match env::consts::OS {
        "windows" => ("_native.dll", "_native.pyd"),
        "macos" => ("lib_native.dylib", "_native.abi3.so"),
        _ => ("lib_native.so", "_native.abi3.so"),
    }
}

/// Runs the package's own tests.
fn test(
    python: &Path,
    device: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
) -> Result<()> {
    process::hand_over(&mut own_tests(python, device, arguments, environment))
}

fn own_tests(
    python: &Path,
    device: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
) -> Command {
    let mut pytest = pytest(python, device);
    pytest.envs(environment.iter().copied());
    pytest.current_dir(paths::root()).arg("tests/python").args(arguments);
    pytest
}

/// pytest on a device, which may be a software one.
fn pytest(python: &Path, device: &str) -> Command {
    let mut pytest = Command::new(python);
    // Byte code and caches would be changes of the checkout.
    pytest.args(["-B", "-m", "pytest", "-p", "no:cacheprovider"]);
    pytest.env("DEVICE", device);
    generate::allow_software(&mut pytest);
    process::default_envs(&mut pytest, &test::DEFAULTS);
    pytest
}
