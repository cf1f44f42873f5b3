//! Sums of products over chosen axes.

use mlx::ops;

use super::{Table, one};

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
        let arrays = x.all()[1..].iter().map(|a| a.array()).collect::<Result<Vec<_>, _>>()?;
        one(ops::einsum(x.at(0).text(), &arrays.iter().collect::<Vec<_>>()))
    }),
];
