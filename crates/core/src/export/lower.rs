//! Traced functions in upstream's primitives.

use std::{cell::Cell, collections::HashMap};

use super::{
    Argument,
    signature::Signature,
    table::{Applied, Form, form},
};
use crate::{
    Array, Error, Result, Stream,
    compile::{Step, Template, record},
    primitives::Spec,
    stream,
    transforms::trace::Mark,
};

/// What an array is called in a file.
pub(super) type Id = u64;

/// A function in upstream's primitives.
pub(super) struct Trace {
    pub(super) signature: Signature,
    /// The positional arguments, then those by name.
    pub(super) inputs: Vec<Id>,
    pub(super) outputs: Vec<(Id, Spec)>,
    /// Everything else, in an order in which it can be computed.
    pub(super) tape: Vec<Entry>,
}

/// An array that a function reads or computes, or several that a primitive gives.
pub(super) enum Entry {
    /// An array that was there; the file may have it from another function.
    Constant(Id),
    /// A primitive of upstream.
    Node(Node),
}

/// A primitive of upstream where it is applied.
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) arguments: Vec<Argument>,
    /// Where it runs; nothing stands for a GPU that need not be here.
    pub(super) stream: Option<Stream>,
    pub(super) inputs: Vec<(Id, Spec)>,
    pub(super) outputs: Vec<(Id, Spec)>,
}

/// What arrays are called, over all functions of a file.
#[derive(Default)]
pub(super) struct Names {
    last: Id,
    /// Constants by their addresses, which are theirs as long as they are here.
    known: HashMap<usize, Id>,
    /// Constants in the order of their ids.
    pub(super) constants: Vec<(Id, Array)>,
}

impl Names {
    fn next(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// The id of an array that was there.
    fn constant(&mut self, array: &Array) -> Id {
        if let Some(&id) = self.known.get(&array.address()) {
            return id;
        }
        let id = self.next();
        self.known.insert(array.address(), id);
        self.constants.push((id, array.clone()));
        id
    }
}

thread_local! {
    static EXPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread traces a function that is to be exported.
pub fn is_exporting() -> bool {
    EXPORTING.get()
}

/// While a function is traced.
struct Exporting {
    before: bool,
}

impl Exporting {
    fn begin() -> Self {
        Exporting { before: EXPORTING.replace(true) }
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        EXPORTING.set(self.before);
    }
}

/// Traces a function on arguments of a signature and puts it in upstream's primitives.
pub(super) fn lower(
    names: &mut Names,
    signature: Signature,
    inputs: &[Array],
    shapeless: bool,
    fun: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
) -> Result<Trace> {
    let (template, ()) = {
        let _exporting = Exporting::begin();
        record(inputs, shapeless, |inputs| Ok((fun(inputs)?, ())))?
    };
    let template = template.simplified();
    let ids: Vec<Id> = inputs.iter().map(|_| names.next()).collect();
    let specs = inputs.iter().map(|input| input.spec().to_spec());
    let values = ids.iter().copied().zip(specs).collect();
    let mut lowering = Lowering { names, shapeless, tape: Vec::new() };
    let outputs = lowering.template(&template, values)?;
    Ok(Trace { signature, inputs: ids, outputs, tape: lowering.tape })
}

/// An array of which only shape and dtype count.
fn placeholder(spec: &Spec) -> Array {
    Array::placeholder(spec.shape.clone(), spec.dtype, Mark::NONE)
}

struct Lowering<'a> {
    names: &'a mut Names,
    shapeless: bool,
    tape: Vec<Entry>,
}

impl Lowering<'_> {
    /// Adds what a template computes from `values`, its inputs; returns its outputs.
    fn template(
        &mut self,
        template: &Template,
        mut values: Vec<(Id, Spec)>,
    ) -> Result<Vec<(Id, Spec)>> {
        for constant in &template.constants {
            let id = self.names.constant(constant);
            self.tape.push(Entry::Constant(id));
            values.push((id, constant.spec().to_spec()));
        }
        for step in &template.steps {
            let inputs = step.inputs.iter().map(|&value| values[value].clone()).collect();
            values.extend(self.step(step, inputs)?);
        }
        Ok(template.outputs.iter().map(|&output| values[output].clone()).collect())
    }

    /// Adds a primitive of upstream; returns its outputs.
    fn node(
        &mut self,
        name: &'static str,
        arguments: Vec<Argument>,
        stream: Option<Stream>,
        inputs: Vec<(Id, Spec)>,
        specs: &[Spec],
    ) -> Vec<(Id, Spec)> {
        let outputs: Vec<_> = specs.iter().map(|spec| (self.names.next(), spec.clone())).collect();
        let node = Node { name, arguments, stream, inputs, outputs: outputs.clone() };
        self.tape.push(Entry::Node(node));
        outputs
    }

    /// Adds a step; returns its outputs.
    fn step(&mut self, step: &Step, inputs: Vec<(Id, Spec)>) -> Result<Vec<(Id, Spec)>> {
        let Step { primitive, stream, outputs, .. } = step;
        let specs: Vec<Spec> = inputs.iter().map(|(_, spec)| spec.clone()).collect();
        let device = stream.device.kind;
        match form(Applied { primitive, inputs: &specs, outputs, device }) {
            Form::Passed(range) => Ok(inputs[range].to_vec()),
            Form::Named(name, arguments) => {
                Ok(self.node(name, arguments, Some(*stream), inputs, outputs))
            }
            Form::OnGpu(name, arguments) => Ok(self.node(name, arguments, None, inputs, outputs)),
            Form::Converted(name) => {
                let complex = self.node(name, Vec::new(), Some(*stream), inputs.clone(), &specs);
                let dtype = vec![Argument::Dtype(outputs[0].dtype)];
                Ok(self.node("AsType", dtype, Some(*stream), complex, outputs))
            }
            Form::Composed(fun) => {
                let placeholders = specs.iter().map(placeholder).collect::<Vec<_>>();
                let composed = |inputs: &[Array]| Ok((fun(inputs)?, ()));
                let record = || record(&placeholders, self.shapeless, composed);
                let (template, ()) = stream::with_stream(*stream, record)?;
                self.template(&template.simplified(), inputs)
            }
            Form::Missing => {
                let message = format!("Unable to serialize primitive {}", primitive.name());
                Err(Error::invalid("export_function", message))
            }
        }
    }
}
