//! Nodes that pass arrays on as they are, for what they mean to transforms.

use std::sync::Arc;

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{Family, Input, SpecRef, Specs};
use crate::{Array, Dtype, Result, foreign};

/// Nodes whose outputs are some of their inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum PassOp {
    /// The input; stands for an argument of a function that is differentiated.
    Copy,
    /// The input, through which no derivative goes.
    StopGradient,
    /// The first inputs, which are there only when the others are as well.
    Depends {
        /// How many are passed on.
        outputs: usize,
    },
    /// The last inputs, which are a function of the first ones with rules of its own.
    Custom(Custom),
}

/// What transforms make of a function, instead of what they make of its operations.
pub trait CustomRules: Send + Sync {
    /// Derivatives by each of `primals` along `cotangents`, one for each of `outputs`.
    ///
    /// # Errors
    /// What goes wrong in the function's own code.
    fn vjp(&self, primals: &[Array], cotangents: &[Array], outputs: &[Array])
    -> Result<Vec<Array>>;

    /// Derivatives of the outputs along tangents of the primals, of which some are zero.
    ///
    /// # Errors
    /// What goes wrong in the function's own code.
    fn jvp(&self, primals: &[Array], tangents: &[Option<Array>]) -> Result<Vec<Array>>;

    /// Outputs for arguments that have another axis, where one is named, and which axis it is in each.
    ///
    /// # Errors
    /// What goes wrong in the function's own code.
    fn vmap(
        &self,
        inputs: &[Array],
        axes: &[Option<usize>],
    ) -> Result<(Vec<Array>, Vec<Option<usize>>)>;
}

/// A function with rules of its own; equal to itself alone.
#[derive(Clone)]
pub struct Custom {
    outputs: usize,
    /// Always there; an option so that dropping can hand it on.
    rules: Option<Arc<dyn CustomRules>>,
}

impl Custom {
    /// Of a function with so many outputs.
    pub fn new(outputs: usize, rules: Arc<dyn CustomRules>) -> Self {
        Custom { outputs, rules: Some(rules) }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The rules.
    pub fn rules(&self) -> &Arc<dyn CustomRules> {
        self.rules.as_ref().expect("only dropping takes them")
    }

    /// Hands the rules on, to be dropped with this.
    pub(crate) fn take(&mut self) -> Custom {
        Custom { outputs: self.outputs, rules: self.rules.take() }
    }

    fn address(&self) -> *const () {
        Arc::as_ptr(self.rules()).cast()
    }
}

impl Drop for Custom {
    /// The rules are a user's: whatever they hold is dropped where nothing is held.
    fn drop(&mut self) {
        self.rules.take().into_iter().for_each(foreign::release);
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        (self.outputs, self.address()) == (other.outputs, other.address())
    }
}

impl Eq for Custom {}

impl std::hash::Hash for Custom {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Custom {{ outputs: {} }}", self.outputs)
    }
}

impl PassOp {
    /// Which of `inputs` inputs are the outputs.
    pub(crate) fn passed(&self, inputs: usize) -> std::ops::Range<usize> {
        match self {
            Self::Copy | Self::StopGradient => 0..1,
            Self::Depends { outputs } => 0..*outputs,
            Self::Custom(custom) => inputs - custom.outputs..inputs,
        }
    }
}

impl Family for PassOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Copy => "Copy",
            Self::StopGradient => "StopGradient",
            Self::Depends { .. } => "Depends",
            Self::Custom(_) => "CustomTransforms",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Copy | Self::StopGradient | Self::Depends { .. } | Self::Custom(_) => true,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (least, most) = match self {
            Self::Copy | Self::StopGradient => (1, 1),
            Self::Depends { outputs } => (*outputs, usize::MAX),
            Self::Custom(custom) => (custom.outputs, usize::MAX),
        };
        if !(least.max(1)..=most).contains(&inputs.len()) {
            return None;
        }
        let passed = &inputs[self.passed(inputs.len())];
        let specs: Specs = passed.iter().map(|spec| spec.to_spec()).collect();
        (!specs.is_empty()).then_some(specs)
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let rows = || Input::new(&[4, 6], dtype);
        let example = |member| match member {
            Member::Copy => (Self::Copy, vec![rows()]),
            Member::StopGradient => (Self::StopGradient, vec![rows()]),
            Member::Depends => (Self::Depends { outputs: 1 }, vec![rows(), rows()]),
            Member::Custom => {
                let custom = Custom::new(1, Arc::new(Identity));
                (Self::Custom(custom), vec![rows(), rows()])
            }
        };
        Member::iter().map(example).collect()
    }
}

/// The rules of a function that returns its only argument: the example.
struct Identity;

impl CustomRules for Identity {
    fn vjp(&self, _: &[Array], cotangents: &[Array], _: &[Array]) -> Result<Vec<Array>> {
        Ok(cotangents.into())
    }

    fn jvp(&self, _: &[Array], tangents: &[Option<Array>]) -> Result<Vec<Array>> {
        Ok(tangents.iter().flatten().cloned().collect())
    }

    fn vmap(
        &self,
        inputs: &[Array],
        axes: &[Option<usize>],
    ) -> Result<(Vec<Array>, Vec<Option<usize>>)> {
        Ok((inputs.into(), axes.into()))
    }
}
