//! Kernels of users, in Metal's language.

use super::{Exact, Family, Input, SpecRef, Specs};
use crate::Dtype;

/// A user's kernel where it is called. A GPU compiles its program and runs it; other backends refuse it. The
/// fields are upstream's, in the order of its files, of which some are of kernels for CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CustomKernel {
    /// Name of the kernel's function, another one for each kind of arguments.
    pub name: String,
    /// The whole program.
    pub source: String,
    /// Threads along three axes.
    pub grid: [i32; 3],
    /// Threads of a group along three axes.
    pub threadgroup: [i32; 3],
    /// Whether the kernel is given shape, strides and number of axes of each input.
    pub shape_infos: Vec<[bool; 3]>,
    /// Whether it is given inputs in rows.
    pub ensure_row_contiguous: bool,
    /// What outputs hold before it runs.
    pub init_value: Option<Exact<f32>>,
    /// Numbers that it is given besides.
    pub scalars: Vec<Scalar>,
    /// Whether `source` is compiled already.
    pub is_precompiled: bool,
    /// Bytes that a group shares.
    pub shared_memory: i32,
    /// How exact its compiler has to be.
    pub math_mode: MathMode,
    /// Shapes and dtypes of what it gives.
    pub outputs: Specs,
}

/// A number that a kernel is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are types")]
pub enum Scalar {
    Int(i32),
    Float(Exact<f32>),
    Bool(bool),
}

/// How exact Metal's compiler has to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MathMode {
    /// As IEEE has it.
    #[default]
    Safe,
    /// Faster, but infinities and what is no number are respected.
    Relaxed,
    /// Faster still.
    Fast,
}

impl Family for Box<CustomKernel> {
    fn name(&self) -> &'static str {
        "CustomKernel"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let fits = inputs.len() == self.shape_infos.len() && !self.outputs.is_empty();
        fits.then(|| self.outputs.clone())
    }

    /// None: there is nothing that can be tried.
    fn examples(_dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        Vec::new()
    }
}
