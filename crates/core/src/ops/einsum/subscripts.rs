//! The notation: terms of letters, with ellipses expanded and sizes checked.

use super::{Sizes, Term};
use crate::{Array, Error, Result};

/// Checked subscripts of some operands.
pub(super) struct Subscripts {
    pub(super) inputs: Vec<Term>,
    pub(super) output: Term,
    pub(super) sizes: Sizes,
}

impl Subscripts {
    /// Parses `"ij,jk->ik"` for these operands. Errors are those of `op`.
    pub(super) fn parse(op: &'static str, text: &str, operands: &[&Array]) -> Result<Self> {
        if operands.is_empty() {
            return Err(Error::invalid(op, "At least one operand is required."));
        }
        let (inputs, output) = split(text);
        if operands.len() != inputs.len() {
            let message = format!(
                "Number of operands, {}, does not match number of input subscripts, {}",
                operands.len(),
                inputs.len()
            );
            return Err(Error::invalid(op, message));
        }
        let mut expansion = Expansion::new(op, text);
        let mut terms = Vec::new();
        for (i, (term, operand)) in inputs.iter().zip(operands).enumerate() {
            terms.push(expansion.expand(term, Some((i, operand)))?);
        }
        let output = expansion.expand(&output, None)?;
        if (1..output.len()).any(|i| output[..i].contains(&output[i])) {
            return Err(Error::invalid(op, "Repeat indices not allowed in output."));
        }
        let mut sizes = Sizes::new();
        for (i, (term, operand)) in terms.iter().zip(operands).enumerate() {
            collect_sizes(op, i, term, operand, &mut sizes)?;
        }
        if let Some(letter) = output.iter().find(|c| !sizes.contains_key(c)) {
            let message = format!("Output subscript '{letter}' does not occur in any input.");
            return Err(Error::invalid(op, message));
        }
        Ok(Subscripts { inputs: terms, output, sizes })
    }
}

/// The terms before the arrow and the one behind it, which is inferred if there is none.
fn split(text: &str) -> (Vec<Term>, Term) {
    let text: String = text.chars().filter(|&c| c != ' ').collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, output.chars().collect()),
        None => (text.as_str(), implicit_output(&text)),
    };
    let terms = inputs.split(',').map(|term| term.chars().collect()).collect();
    (terms, output)
}

/// An ellipsis if there is one, then the letters that occur once, sorted.
fn implicit_output(text: &str) -> Term {
    let once = |c: &char| text.chars().filter(|x| x == c).count() == 1;
    let mut output: Term = text.chars().filter(|c| !matches!(c, ',' | '.') && once(c)).collect();
    output.sort_unstable();
    if text.contains('.') {
        output.splice(0..0, "...".chars());
    }
    output
}

/// Replaces ellipses by letters that the text does not use.
struct Expansion {
    op: &'static str,
    unused: Term,
    longest: usize,
}

impl Expansion {
    fn new(op: &'static str, text: &str) -> Self {
        let unused = ('a'..='z').chain('A'..='Z').filter(|&c| !text.contains(c)).collect();
        Expansion { op, unused, longest: 0 }
    }

    /// The letters of a term: the last ones of the unused stand for an ellipsis, as many as the
    /// operand has axes left, so that missing ones are the leading ones.
    fn expand(&mut self, term: &Term, operand: Option<(usize, &Array)>) -> Result<Term> {
        let text: String = term.iter().collect();
        let invalid = |message: String| Err(Error::invalid(self.op, message));
        let Some((before, after)) = text.split_once("...") else {
            return match term.iter().find(|c| !c.is_ascii_alphabetic()) {
                Some(c) => invalid(format!("Subscripts must be letters, but got '{c}'.")),
                None => Ok(term.clone()),
            };
        };
        if after.contains("...") {
            return invalid(format!(
                "Only one ellipsis per subscript is allowed but found more in '{text}'."
            ));
        }
        if let Some(c) = before.chars().chain(after.chars()).find(|c| !c.is_ascii_alphabetic()) {
            return invalid(format!("Subscripts must be letters, but got '{c}'."));
        }
        let letters = before.len() + after.len();
        let length = match operand {
            None => self.longest,
            Some((i, operand)) => operand.ndim().checked_sub(letters).ok_or_else(|| {
                let message = format!(
                    "Operand {i} with shape {:?} has insufficient dimensions for subscript '{text}'. The \
                     ellipsis requires at least {letters} dimensions but the operand has {} dimensions.",
                    operand.shape(),
                    operand.ndim()
                );
                Error::invalid(self.op, message)
            })?,
        };
        if length > self.unused.len() {
            return invalid("There are not enough letters left for the ellipsis.".into());
        }
        self.longest = self.longest.max(length);
        let filling = self.unused[self.unused.len() - length..].iter().copied();
        Ok(before.chars().chain(filling).chain(after.chars()).collect())
    }
}

/// Adds the sizes of an operand's axes: the larger one where an axis of size 1 broadcasts.
fn collect_sizes(
    op: &'static str,
    i: usize,
    term: &Term,
    operand: &Array,
    sizes: &mut Sizes,
) -> Result<()> {
    if term.len() != operand.ndim() {
        let message = format!(
            "Invalid number of subscripts {} for input {i} with {} dimensions.",
            term.len(),
            operand.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    let mut own = Sizes::new();
    for (&letter, &size) in term.iter().zip(operand.shape()) {
        let first = *own.entry(letter).or_insert(size);
        if first != size {
            let message = format!(
                "Dimensions of repeated subscripts do not have the same size ({first} != {size})."
            );
            return Err(Error::invalid(op, message));
        }
    }
    for (axis, (&letter, &size)) in term.iter().zip(operand.shape()).enumerate() {
        let joint = sizes.entry(letter).or_insert(size);
        if size != 1 && *joint != 1 && *joint != size {
            let message = format!(
                "Cannot broadcast dimension {axis} of input {i} with shape {:?} to size {joint}.",
                operand.shape()
            );
            return Err(Error::invalid(op, message));
        }
        *joint = size.max(*joint);
    }
    Ok(())
}
