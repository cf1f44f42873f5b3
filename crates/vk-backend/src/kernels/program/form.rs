//! What a linked kernel computes and how its operands lie: the identity of its module.

use mlx_vulkan_core::{
    Dtype,
    primitives::{Primitive, Program},
};
use smallvec::SmallVec;

/// How an input of a program lies, for the elements that the output has one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// In the output's order.
    Dense,
    /// One element.
    Scalar,
    /// Walked, with the elements that a thread takes one after the other.
    Row,
    /// The same for all elements that a thread reduces: those beside each other from the column's first on.
    Column,
    /// Walked, with one element for all that a thread takes.
    Repeat,
    /// Walked, with any distance between the elements that a thread takes.
    Strided,
}

impl Kind {
    /// Whether offsets of the operand come from the walk.
    pub(crate) fn is_walked(self) -> bool {
        matches!(self, Kind::Row | Kind::Repeat | Kind::Strided)
    }
}

/// A program with the layouts of its operands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// Steps without broadcasts: all values have one shape.
    pub(crate) program: Program,
    /// Dtypes of its values: inputs, then steps.
    pub(crate) dtypes: SmallVec<[Dtype; 16]>,
    /// Of each input.
    pub(crate) kinds: SmallVec<[Kind; 8]>,
    /// Which strides of the walk each input that is walked has, in their order: inputs may share some.
    pub(crate) walks: SmallVec<[usize; 8]>,
    /// Elements that a thread takes at a time: 1, 4 or 8.
    pub(crate) lanes: usize,
    /// Elements of the last axis where a thread takes several rows of it, else as many as it takes.
    pub(crate) fold: usize,
    /// How many of the outputs, the last ones, are reduced and not stored. They are floats.
    pub(crate) reduced: usize,
}

impl Form {
    /// Elements that a thread takes of operands of these dtypes: 16 bytes of the narrow floats.
    pub(crate) fn lanes(dtypes: impl IntoIterator<Item = Dtype>) -> usize {
        let halves = |dtype| matches!(dtype, Dtype::Float16 | Dtype::Bfloat16);
        if dtypes.into_iter().any(halves) { 8 } else { 4 }
    }

    /// Bytes that the first of `lanes` elements is aligned to where they are loaded or stored together.
    pub(crate) fn alignment(dtype: Dtype, lanes: usize) -> u64 {
        let together = if matches!(dtype, Dtype::Float16 | Dtype::Bfloat16) { lanes } else { 4 };
        match dtype.size() {
            _ if lanes == 1 => dtype.size() as u64,
            8 => 8,
            size => (size * together) as u64,
        }
    }

    /// Words that are those of no other form.
    pub(crate) fn key(&self) -> SmallVec<[u32; 64]> {
        let Program { inputs, steps, outputs } = &self.program;
        let mut words: SmallVec<[u32; 64]> = SmallVec::new();
        let counts = [*inputs, steps.len(), outputs.len(), self.lanes, self.fold, self.reduced];
        words.extend(counts.map(|count| count as u32));
        words.extend(self.kinds.iter().map(|&kind| kind as u32));
        words.extend(self.walks.iter().map(|&strides| strides as u32));
        words.extend(self.dtypes.iter().map(|&dtype| dtype as u32));
        words.extend(outputs.iter().map(|&step| step as u32));
        for step in steps {
            // Conversions are told by the dtypes.
            words.push(match step.primitive {
                Primitive::Unary(op) => op as u32,
                Primitive::Binary(op) => 1 << 8 | op as u32,
                Primitive::Ternary(op) => 2 << 8 | op as u32,
                _ => 3 << 8,
            });
            // How many each reads follows from what it does.
            words.extend(step.inputs.iter().map(|&value| value as u32));
        }
        words
    }

    /// Whether results are rounded to `dtype`.
    pub(super) fn rounds_to(&self, dtype: Dtype) -> bool {
        self.dtypes[self.program.inputs..].contains(&dtype)
    }

    /// How many of the outputs are stored.
    pub(super) fn stored(&self) -> usize {
        self.program.outputs.len() - self.reduced
    }

    /// The value of an output.
    pub(super) fn output(&self, nth: usize) -> usize {
        self.program.inputs + self.program.outputs[nth]
    }
}
