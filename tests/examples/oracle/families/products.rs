//! Sums of products over chosen axes.

use mlx::{Array, Result, ops};

use super::{Table, one};
use crate::argument::Args;

pub(super) const TABLE: Table = &[
    ("tensordot", |x| {
        let (a, b, axes) = (x.array(0)?, x.array(1)?, x.at(2));
        one(match axes.is_list() {
            true => {
                let [left, right] = [0, 1].map(|i| axes.items()[i].ints());
                ops::tensordot_axes(&a, &b, &left, &right)
            }
            false => ops::tensordot(&a, &b, axes.count()?),
        })
    }),
    ("inner", |x| one(ops::inner(&x.array(0)?, &x.array(1)?))),
    ("outer", |x| one(ops::outer(&x.array(0)?, &x.array(1)?))),
    ("vecdot", |x| one(ops::vecdot(&x.array(0)?, &x.array(1)?, x.at("axis").int()))),
    ("kron", |x| one(ops::kron(&x.array(0)?, &x.array(1)?))),
    ("einsum", |x| {
        let arrays = operands(x)?;
        one(ops::einsum(x.at(0).text(), &arrays.iter().collect::<Vec<_>>()))
    }),
    ("einsum_path", |x| {
        let arrays = operands(x)?;
        let (steps, summary) =
            ops::einsum_path(x.at(0).text(), &arrays.iter().collect::<Vec<_>>())?;
        let positions = |step: &Vec<usize>| {
            let step: Vec<i32> = step.iter().map(|&position| position as i32).collect();
            Array::from_slice(&step, &[step.len()])
        };
        let mut results = steps.iter().map(positions).collect::<Result<Vec<_>>>()?;
        results.push(Array::from_slice(summary.as_bytes(), &[summary.len()])?);
        Ok(results)
    }),
];

/// The arrays behind the subscripts.
fn operands(x: &Args<'_>) -> Result<Vec<Array>> {
    x.all()[1..].iter().map(|a| a.array()).collect()
}
