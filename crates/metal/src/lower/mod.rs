//! From a program to a module: types are checked, names resolved, instructions written.
//!
//! Memory of the device is read and written by addresses, numbers of 64 bits that pointers are; variables of
//! threads and groups by paths that are fixed when the module is written, so that a pointer to them is a path
//! and an index. Functions are written for the arguments that they are called with.

mod atomics;
mod call;
mod constants;
mod convert;
mod device;
mod entry;
mod expression;
mod library;
mod memory;
mod methods;
mod names;
mod operators;
mod statement;
mod threads;
mod value;

use rspirv::spirv::Word;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Kernel, Options, Simd,
    ast::Program,
    emit::Emitter,
    error::{Error, Result},
    types::Type,
};
use call::{Key, Waiting};
use memory::Place;
use names::{Binding, StructType};
use statement::Loop;
use value::{Root, Value};

/// Expressions and statements within each other, and calls of what is found on the way.
const DEEPEST: u32 = 600;
/// How often a module is written again until it is known in what threads differ.
const ROUNDS: usize = 64;

/// A module that is being written.
struct Lowering<'a> {
    program: &'a Program,
    options: &'a Options,
    emitter: Emitter,
    structs: Vec<StructType>,
    scopes: Vec<FxHashMap<String, Binding>>,
    /// Constants of the program that were asked for.
    globals: FxHashMap<String, Place>,
    /// What the function gives.
    result: Type,
    flow: Flow,
    /// Whether some threads have left the function before others.
    returned_apart: bool,
    loops: Vec<Loop>,
    instances: FxHashMap<Key, Word>,
    waiting: Vec<Waiting>,
    /// The function that is written now, and which call which.
    function: usize,
    caller: Word,
    calls: Vec<(Word, Word)>,
    /// How many variables and loops there are.
    numbers: usize,
    /// Variables in which threads differ, and loops that they leave apart, as far as known.
    varying: &'a FxHashSet<usize>,
    /// The same, as it is found.
    found: FxHashSet<usize>,
    line: u32,
    depth: u32,
    /// Bytes that a group's threads share.
    shared: u64,
    /// Memory by which threads exchange values.
    exchange: Option<Root>,
    /// A thread's number in its group.
    thread_index: Value,
    /// What the device tells threads, by its number.
    inputs: FxHashMap<u32, Word>,
}

/// How threads come to what is written now.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Whether all of a group come together.
    is_uniform: bool,
}

/// The kernel of a program.
pub(crate) fn lower(program: &Program, name: &str, options: &Options) -> Result<Kernel> {
    let mut varying = FxHashSet::default();
    for _ in 0..ROUNDS {
        let mut lowering = Lowering::new(program, options, &varying);
        let result = lowering.kernel(name);
        let found = std::mem::take(&mut lowering.found);
        let is_settled = options.simd == Simd::Native || found.is_subset(&varying);
        if is_settled || result.is_err() {
            let id = result?;
            let shared = lowering.shared;
            let words = lowering.emitter.finish(id, options.threadgroup);
            return Ok(Kernel { words, shared });
        }
        varying.extend(found);
    }
    Err(Error::new(1, "it did not turn out in what threads differ"))
}

impl<'a> Lowering<'a> {
    fn new(
        program: &'a Program,
        options: &'a Options,
        varying: &'a FxHashSet<usize>,
    ) -> Lowering<'a> {
        Lowering {
            program,
            options,
            emitter: Emitter::new(),
            structs: Vec::new(),
            scopes: Vec::new(),
            globals: FxHashMap::default(),
            result: Type::Void,
            flow: Flow { is_uniform: true },
            returned_apart: false,
            loops: Vec::new(),
            instances: FxHashMap::default(),
            waiting: Vec::new(),
            function: usize::MAX,
            caller: 0,
            calls: Vec::new(),
            numbers: 0,
            varying,
            found: FxHashSet::default(),
            line: 1,
            depth: 0,
            shared: 0,
            exchange: None,
            thread_index: Value::new(Type::UINT, 0, false),
            inputs: FxHashMap::default(),
        }
    }

    /// Counts how deep it goes.
    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth <= DEEPEST {
            true if self.emitter.is_full() => Err(self.error("the program is too large")),
            true => Ok(()),
            false => Err(self.error("nested too deeply")),
        }
    }
}
