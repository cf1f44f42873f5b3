//! What functions are told apart by: how many arguments there are, of which shapes and dtypes.

use std::fmt::{self, Write};

use super::argument::tuple;
use crate::{Array, io::Arrays, primitives::Spec};

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) positional: Vec<Spec>,
    /// By name, in the order of the names.
    pub(super) keywords: Vec<(String, Spec)>,
}

impl Signature {
    pub(super) fn of(args: &[Array], kwargs: &Arrays) -> Self {
        let spec = |array: &Array| array.spec().to_spec();
        Signature {
            positional: args.iter().map(spec).collect(),
            keywords: kwargs.iter().map(|(name, array)| (name.clone(), spec(array))).collect(),
        }
    }

    /// Whether a function of these arguments takes those of `call`: a shapeless one takes any sizes.
    pub(super) fn takes(&self, call: &Self, shapeless: bool) -> bool {
        let fits = |own: &Spec, given: &Spec| {
            own.dtype == given.dtype
                && match shapeless {
                    true => own.shape.len() == given.shape.len(),
                    false => own.shape == given.shape,
                }
        };
        self.positional.len() == call.positional.len()
            && self.keywords.len() == call.keywords.len()
            && self.positional.iter().zip(&call.positional).all(|(own, given)| fits(own, given))
            && self
                .keywords
                .iter()
                .zip(&call.keywords)
                .all(|((name, own), (other, given))| name == other && fits(own, given))
    }

    /// Names of the keyword arguments.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.keywords.iter().map(|(name, _)| name.as_str())
    }

    /// A line for each argument, as upstream words it.
    pub(super) fn list(&self, indent: &str) -> String {
        let mut lines = String::new();
        let numbers = (1..=self.positional.len()).map(|number| number.to_string());
        let names = self.names().map(|name| format!("{name:?}"));
        let specs = self.positional.iter().chain(self.keywords.iter().map(|(_, spec)| spec));
        for (name, Spec { shape, dtype }) in numbers.chain(names).zip(specs) {
            let _ = writeln!(lines, "{indent}{name}: {} {dtype}", tuple(shape));
        }
        lines
    }
}

impl fmt::Display for Signature {
    /// How many arguments there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (positional, keywords) = (self.positional.len(), self.keywords.len());
        write!(f, "{positional} positional inputs and {keywords} keyword inputs")
    }
}
