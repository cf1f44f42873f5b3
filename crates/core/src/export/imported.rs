//! Functions of files.

use std::fmt::Write;

use smallvec::SmallVec;

use super::{IMPORT, signature::Signature, table::Operation};
use crate::{
    Array, Device, Error, Result, Shape, compile,
    io::Arrays,
    primitives::{Primitive, Spec},
    stream::{default_stream, with_stream},
};

const CALL: &str = "import_function::call";

/// The functions that a file has, one for each signature. A call adds their operations to the graph.
pub struct ImportedFunction {
    pub(super) shapeless: bool,
    pub(super) metadata: String,
    pub(super) functions: Vec<Function>,
}

/// A function of arguments of one signature.
pub(super) struct Function {
    pub(super) signature: Signature,
    /// Its values are the arguments, then what each entry gives.
    pub(super) entries: Vec<Entry>,
    /// The values that it returns.
    pub(super) outputs: Vec<usize>,
}

/// What gives the next values.
pub(super) enum Entry {
    /// An array of the file.
    Constant(Array),
    /// A primitive of upstream.
    Step(Box<Step>),
}

/// A primitive of upstream.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// It runs on the calling thread's stream of this device.
    pub(super) device: Device,
    /// The values that it reads.
    pub(super) inputs: Vec<usize>,
    /// What it gives for arguments of the signature.
    pub(super) outputs: Vec<Spec>,
    /// The shape that its first input must have, if it holds sizes that mean something else for others.
    pub(super) fixed: Option<Shape>,
}

impl ImportedFunction {
    /// What the function of these arguments returns.
    ///
    /// # Errors
    /// When no function of the file takes such arguments, it runs on a device that is not there, or is not
    /// what the file says.
    pub fn call(&self, args: &[Array], kwargs: &Arrays) -> Result<Vec<Array>> {
        let called = Signature::of(args, kwargs);
        let takes = |function: &&Function| function.signature.takes(&called, self.shapeless);
        let Some(function) = self.functions.iter().find(takes) else {
            return Err(Error::invalid(CALL, self.no_match(&called)));
        };
        let others = !function.signature.takes(&called, false);
        let mut values: Vec<Array> = args.iter().chain(kwargs.values()).cloned().collect();
        for entry in &function.entries {
            match entry {
                Entry::Constant(array) => values.push(array.clone()),
                Entry::Step(step) => {
                    let inputs: SmallVec<[Array; 4]> =
                        step.inputs.iter().map(|&value| values[value].clone()).collect();
                    values.extend(step.apply(&inputs, self.shapeless, others)?);
                }
            }
        }
        Ok(function.outputs.iter().map(|&output| values[output].clone()).collect())
    }

    /// What was written beside the functions.
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// Whether the functions take arguments of any sizes.
    pub fn is_shapeless(&self) -> bool {
        self.shapeless
    }

    /// The arrays that the functions hold.
    pub fn constants(&self) -> impl Iterator<Item = &Array> {
        let entries = self.functions.iter().flat_map(|function| &function.entries);
        entries.filter_map(|entry| match entry {
            Entry::Constant(array) => Some(array),
            Entry::Step(_) => None,
        })
    }

    fn no_match(&self, called: &Signature) -> String {
        let mut message = String::from(
            "No imported function found which matches the given positional and keyword arguments. \
             Possible functions include:\n",
        );
        for (number, Function { signature, .. }) in (1..).zip(&self.functions) {
            let _ =
                write!(message, " {number}. Function with {signature}:\n{}", signature.list("   "));
        }
        let _ = write!(message, "\nCalled with {called}:\n{}", called.list("  "));
        message
    }
}

impl std::fmt::Debug for ImportedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let signatures: Vec<_> =
            self.functions.iter().map(|function| &function.signature).collect();
        f.debug_struct("ImportedFunction")
            .field("shapeless", &self.shapeless)
            .field("functions", &signatures)
            .finish_non_exhaustive()
    }
}

impl Step {
    /// What it computes; in a function whose arguments may have others than its file's sizes, or have.
    fn apply(&self, inputs: &[Array], shapeless: bool, others: bool) -> Result<Vec<Array>> {
        let is_kernel = matches!(self.operation, Operation::Primitive(Primitive::Kernel(_)));
        let has_shape = matches!(&self.operation, Operation::Primitive(p) if p.has_own_shape());
        let is_fixed =
            self.fixed.as_ref().is_some_and(|shape| shape.as_slice() != inputs[0].shape());
        if is_fixed || shapeless && is_kernel || others && has_shape {
            return Err(compile::cannot_infer(&self.name));
        }
        let stream = default_stream(self.device)?;
        let outputs = with_stream(stream, || self.operation.apply(inputs))?;
        let agrees = |(given, declared): (&Array, &Spec)| {
            given.dtype() == declared.dtype
                && (shapeless || given.shape() == declared.shape.as_slice())
        };
        match outputs.len() == self.outputs.len() && outputs.iter().zip(&self.outputs).all(agrees) {
            true => Ok(outputs),
            false => {
                let message = format!("{} does not give what the file says.", self.name);
                Err(Error::invalid(IMPORT, message))
            }
        }
    }
}
