//! Makes the calls that `tests/oracle/generate.py` wrote down, on the CPU and on Vulkan, and
//! compares what comes out with what upstream gave: `oracle DIR [--vulkan-every N]`. Calls of
//! the family `export` are written again, which `tests/oracle/reimport.py` calls upstream.
//!
//! `cargo xtask oracle` runs both. The exit status is 1 if anything differs.

mod argument;
mod calls;
mod compare;
mod exported;
mod families;
mod report;
mod run;

use std::{path::PathBuf, process::ExitCode};

use report::Report;

/// What the command line asks for.
struct Options {
    folder: PathBuf,
    /// Vulkan runs each N-th call only; 1 means all of them.
    vulkan_every: usize,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: oracle DIR [--vulkan-every N]");
        return ExitCode::from(2);
    };
    mlx_tests::init();
    // A panic is a difference, and reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    let mut report = Report::default();
    for family in calls::families(&options.folder) {
        run::family(&family, options.vulkan_every, &mut report);
    }
    print!("{}", report.table(&calls::uncovered(&options.folder)));
    mlx::shutdown();
    ExitCode::from(u8::from(report.differs()))
}

fn options() -> Option<Options> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next()?);
    let mut vulkan_every = 1;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--vulkan-every" => vulkan_every = args.next()?.parse().ok().filter(|&n| n > 0)?,
            _ => return None,
        }
    }
    Some(Options { folder, vulkan_every })
}
