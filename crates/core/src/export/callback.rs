//! Telling a function what would be written.

use std::collections::HashMap;

use super::{
    Argument,
    lower::{Entry, Id, Names, Trace},
};
use crate::{Array, Result, compile::letters, primitives::Spec};

/// An array of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Letters, which stand for the array in all events of an export.
    pub name: String,
    /// Its shape and dtype.
    pub spec: Spec,
}

/// A part of a trace, in the order in which a callback is told of them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// All arguments, those by name last.
    Inputs(&'a [Value]),
    /// The arguments by name: their keywords, and what they are called among the inputs.
    KeywordInputs(&'a [(String, String)]),
    /// What the function returns.
    Outputs(&'a [Value]),
    /// Arrays that were there, as far as no earlier trace had them.
    Constants(&'a [(String, Array)]),
    /// An operation.
    Primitive {
        /// Upstream's name of it.
        name: &'a str,
        /// What upstream makes it with.
        arguments: &'a [Argument],
        /// What it reads.
        inputs: &'a [Value],
        /// What it gives.
        outputs: &'a [Value],
    },
}

/// A callback, and what it was told.
pub(super) struct Told<'a> {
    callback: Box<dyn FnMut(Event<'_>) -> Result<()> + Send + 'a>,
    /// How many of the constants it was told of.
    constants: usize,
}

impl<'a> Told<'a> {
    pub(super) fn new(callback: Box<dyn FnMut(Event<'_>) -> Result<()> + Send + 'a>) -> Self {
        Told { callback, constants: 0 }
    }

    /// Tells it of a trace.
    pub(super) fn tell(&mut self, trace: &Trace, names: &Names) -> Result<()> {
        let mut letters = Letters::default();
        let Trace { signature, .. } = trace;
        let specs = signature.positional.iter().chain(signature.keywords.iter().map(|(_, s)| s));
        let inputs: Vec<_> = trace.inputs.iter().copied().zip(specs.cloned()).collect();
        let inputs = letters.values(&inputs);
        let named = &inputs[signature.positional.len()..];
        let keywords = signature.names().zip(named);
        let keywords = keywords.map(|(keyword, value)| (keyword.into(), value.name.clone()));
        let keywords: Vec<(String, String)> = keywords.collect();
        let outputs = letters.values(&trace.outputs);
        let new = &names.constants[self.constants..];
        let constants = new.iter().map(|(id, array)| (letters.of(*id), array.clone()));
        let constants: Vec<(String, Array)> = constants.collect();
        self.constants = names.constants.len();
        let tell = &mut self.callback;
        tell(Event::Inputs(&inputs))?;
        tell(Event::KeywordInputs(&keywords))?;
        tell(Event::Outputs(&outputs))?;
        tell(Event::Constants(&constants))?;
        for entry in &trace.tape {
            if let Entry::Node(node) = entry {
                let (inputs, outputs) =
                    (letters.values(&node.inputs), letters.values(&node.outputs));
                let (name, arguments) = (node.name, &node.arguments);
                tell(Event::Primitive { name, arguments, inputs: &inputs, outputs: &outputs })?;
            }
        }
        Ok(())
    }
}

/// What arrays are called, in the order in which they come up.
#[derive(Default)]
struct Letters(HashMap<Id, usize>);

impl Letters {
    fn of(&mut self, id: Id) -> String {
        let next = self.0.len();
        letters(*self.0.entry(id).or_insert(next))
    }

    fn values(&mut self, arrays: &[(Id, Spec)]) -> Vec<Value> {
        let value = |(id, spec): &(Id, Spec)| Value { name: self.of(*id), spec: spec.clone() };
        arrays.iter().map(value).collect()
    }
}
