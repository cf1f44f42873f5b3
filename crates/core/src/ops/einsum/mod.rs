//! Einstein summation: a path of contractions, each a matrix product or a product and a sum.

mod path;
mod subscripts;

use std::collections::BTreeMap;

use crate::{Array, Result, Shape, ops, shape::row_major_strides};
use path::Path;
use subscripts::Subscripts;

/// Axes of a term, named by letters.
type Term = Vec<char>;
/// Sizes of the named axes.
type Sizes = BTreeMap<char, usize>;

/// The order in which [`einsum`] contracts `operands`: positions in the list of what is left, to
/// whose end each result goes; and a summary of the costs.
///
/// # Errors
/// As [`einsum`].
pub fn einsum_path(subscripts: &str, operands: &[&Array]) -> Result<(Vec<Vec<usize>>, String)> {
    let path = Path::find(Subscripts::parse("einsum_path", subscripts, operands)?);
    let summary = path.summary(subscripts);
    Ok((path.contractions.into_iter().map(|x| x.positions).collect(), summary))
}

/// Sum of products of the operands' elements over the axes that the output lacks, in Einstein's
/// notation: `"ij,jk->ik"` is a matrix product. Without `->` the output has the letters that occur
/// once, in alphabetical order. `...` stands for any axes, which broadcast.
///
/// # Errors
/// When the subscripts do not fit the operands, or a contraction has no inexact dtype.
pub fn einsum(subscripts: &str, operands: &[&Array]) -> Result<Array> {
    let path = Path::find(Subscripts::parse("einsum", subscripts, operands)?);
    let mut left: Vec<Array> = operands.iter().map(|&a| a.clone()).collect();
    for contraction in &path.contractions {
        let terms = contraction.positions.iter().zip(&contraction.inputs);
        let terms: Vec<(Array, Term)> =
            terms.map(|(&i, term)| (left[i].clone(), term.clone())).collect();
        let result = contract(terms, &contraction.output)?;
        // Positions ascend.
        contraction.positions.iter().rev().for_each(|&i| drop(left.remove(i)));
        left.push(result);
    }
    Ok(left.remove(0))
}

fn contract(mut terms: Vec<(Array, Term)>, output: &Term) -> Result<Array> {
    for term in &mut terms {
        collapse_repeats(term)?;
    }
    sum_lonely_axes(&mut terms, output)?;
    let contracts = |term: &Term| term.iter().any(|c| !output.contains(c));
    match terms.as_slice() {
        [left, right] if contracts(&left.1) => dot(left, right, output),
        _ => multiply_and_sum(&terms, output),
    }
}

/// Takes the diagonal of axes that have the same letter: one stride is the sum of theirs.
fn collapse_repeats((a, term): &mut (Array, Term)) -> Result<()> {
    let mut letters = Term::new();
    let mut shape = Shape::new();
    let mut strides = Vec::new();
    let dense = row_major_strides(a.shape());
    for (axis, &letter) in term.iter().enumerate() {
        match letters.iter().position(|&l| l == letter) {
            Some(i) => strides[i] += dense[axis],
            None => {
                letters.push(letter);
                shape.push(a.shape()[axis]);
                strides.push(dense[axis]);
            }
        }
    }
    if letters.len() < term.len() {
        *a = ops::as_strided(a, &shape, &strides, 0)?;
        *term = letters;
    }
    Ok(())
}

/// Sums axes that neither another term nor the output has.
fn sum_lonely_axes(terms: &mut [(Array, Term)], output: &Term) -> Result<()> {
    let count = |letter: &char| {
        let terms = terms.iter().map(|(_, term)| term).chain([output]);
        terms.filter(|term| term.contains(letter)).count()
    };
    let lonely: Vec<char> =
        terms.iter().flat_map(|(_, term)| term).copied().filter(|c| count(c) == 1).collect();
    for (a, term) in terms {
        let axes: Vec<isize> =
            (0..term.len()).filter(|&i| lonely.contains(&term[i])).map(|i| i as isize).collect();
        if !axes.is_empty() {
            *a = ops::sum(a, &axes, false)?;
            term.retain(|c| !lonely.contains(c));
        }
    }
    Ok(())
}

/// Gives the axes of `a` that `sizes` names their broadcast size.
fn broadcast((a, term): &(Array, Term), sizes: &Sizes) -> Result<Array> {
    let size = |(axis, letter)| sizes.get(letter).copied().unwrap_or(a.shape()[axis]);
    let shape: Shape = term.iter().enumerate().map(size).collect();
    ops::broadcast_to(a, &shape)
}

/// A product of matrices: letters of both terms and the output are batch axes, letters of both
/// alone are summed over.
fn dot(left: &(Array, Term), right: &(Array, Term), output: &Term) -> Result<Array> {
    let mut shared = Sizes::new();
    for (axis, letter) in left.1.iter().enumerate() {
        if let Some(other) = right.1.iter().position(|l| l == letter) {
            shared.insert(*letter, left.0.shape()[axis].max(right.0.shape()[other]));
        }
    }
    let letters = |term: &Term, of: &dyn Fn(&char) -> bool| -> Term {
        term.iter().copied().filter(|c| of(c)).collect()
    };
    let is_shared = |c: &char| shared.contains_key(c);
    let batch = letters(&left.1, &|c| is_shared(c) && output.contains(c));
    let summed = letters(&left.1, &|c| !output.contains(c));
    let rows = letters(&left.1, &|c| !is_shared(c) && output.contains(c));
    let columns = letters(&right.1, &|c| !is_shared(c));
    let (a, b) = (broadcast(left, &shared)?, broadcast(right, &shared)?);
    let a_sizes: Sizes = left.1.iter().copied().zip(a.shape().iter().copied()).collect();
    let sizes: Sizes =
        right.1.iter().copied().zip(b.shape().iter().copied()).chain(a_sizes).collect();
    let a = as_matrices(&a, &left.1, [&batch, &rows, &summed], &sizes)?;
    let b = as_matrices(&b, &right.1, [&batch, &summed, &columns], &sizes)?;
    let order = [batch, rows, columns].concat();
    let shape: Vec<isize> = order.iter().map(|c| sizes[c] as isize).collect();
    permute(&ops::reshape(&ops::matmul(&a, &b)?, &shape)?, &order, output)
}

/// Batch axes, then one axis of all rows and one of all columns.
fn as_matrices(
    a: &Array,
    term: &Term,
    [batch, rows, columns]: [&Term; 3],
    sizes: &Sizes,
) -> Result<Array> {
    let order = [batch.as_slice(), rows, columns].concat();
    let product = |letters: &Term| letters.iter().map(|c| sizes[c] as isize).product::<isize>();
    let mut shape: Vec<isize> = batch.iter().map(|c| sizes[c] as isize).collect();
    shape.extend([product(rows), product(columns)]);
    ops::reshape(&permute(a, term, &order)?, &shape)
}

/// Brings axes with the letters `from` into the order of `to`.
fn permute(a: &Array, from: &Term, to: &Term) -> Result<Array> {
    let axis = |c: &char| from.iter().position(|l| l == c).expect("the same letters") as isize;
    match to.is_empty() {
        true => Ok(a.clone()),
        false => ops::transpose(a, &to.iter().map(axis).collect::<Vec<_>>()),
    }
}

/// Multiplies the terms elementwise and sums over what the output lacks.
fn multiply_and_sum(terms: &[(Array, Term)], output: &Term) -> Result<Array> {
    let mut all = Term::new();
    for &letter in terms.iter().flat_map(|(_, term)| term) {
        if !all.contains(&letter) {
            all.push(letter);
        }
    }
    let mut product: Option<Array> = None;
    for (a, term) in terms {
        let present: Term = all.iter().copied().filter(|c| term.contains(c)).collect();
        let missing = (0..all.len()).filter(|&i| !term.contains(&all[i])).map(|i| i as isize);
        let aligned = permute(a, term, &present)?;
        let aligned = ops::expand_dims(&aligned, &missing.collect::<Vec<_>>())?;
        product = Some(match product {
            Some(product) => ops::multiply(&product, &aligned)?,
            None => aligned,
        });
    }
    let mut product = product.expect("at least one operand");
    let summed: Vec<isize> =
        (0..all.len()).filter(|&i| !output.contains(&all[i])).map(|i| i as isize).collect();
    if !summed.is_empty() {
        product = ops::sum(&product, &summed, false)?;
        all.retain(|c| output.contains(c));
    }
    permute(&product, &all, output)
}
