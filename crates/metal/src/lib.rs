//! A compiler from Metal's shading language to SPIR-V, for kernels that users write.
//!
//! It knows the part of the language that kernels of MLX programs are written in: functions, templates of
//! them, structures with fields and functions, pointers, vectors, memory of a group, functions of simdgroups,
//! atomic numbers, macros. What it does not know is an error with the line where it stands.
//!
//! The module's entry point is `main`. Its push constants (32 bytes) are the address of a table of addresses,
//! one for each buffer of the kernel, the threads of the grid along three axes, and the groups before the
//! dispatch's first along each.

mod ast;
mod emit;
mod error;
mod lower;
mod parse;
mod preprocess;
mod token;
mod types;

pub use error::{Error, Result};

/// What a kernel is made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Threads of a group along three axes.
    pub threadgroup: [u32; 3],
    /// Threads that groups have elsewhere in the grid: at its end they may have fewer.
    pub dispatched: [u32; 3],
    /// How threads of a simdgroup reach each other.
    pub simd: Simd,
}

/// How the 32 threads of a simdgroup reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Simd {
    /// They are a subgroup.
    Native,
    /// Through memory of the group, because the device's subgroups have other sizes.
    Emulated,
}

/// A kernel as a module.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The words of the module.
    pub words: Vec<u32>,
    /// Bytes of memory that a group's threads share, as far as the program says.
    pub shared: u64,
}

/// Functions that MLX and Metal's library give every kernel.
const PRELUDE: &str = include_str!("prelude.metal");

/// The stack on which a program is read: it may be nested deeply.
const STACK: usize = 16 << 20;

/// The module of a program's kernel.
///
/// # Errors
/// What is wrong with the program, and on which line; what of it is not known here.
pub fn compile(source: &str, name: &str, options: &Options) -> Result<Kernel> {
    let work = || {
        let mut program = parse::parse(source)?;
        let prelude = parse::parse(PRELUDE)?;
        program.functions.extend(prelude.functions);
        program.structs.extend(prelude.structs);
        program.aliases.extend(prelude.aliases);
        lower::lower(&program, name, options)
    };
    let gone = |_| Error::new(1, "no thread to compile it on");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("mlx-metal".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).map_err(gone)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
