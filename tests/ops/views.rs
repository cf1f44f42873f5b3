//! Views of views of views, against a gather by index arithmetic.

use mlx::{Array, Result, ops};
use mlx_tests::{cases, indices, on_each_device, ravel, unravel};
use proptest::prelude::*;

/// A view of what came before. Numbers are taken modulo what is possible there.
#[derive(Debug, Clone)]
enum Look {
    /// To axes of these sizes, of which each is cut down to a divisor of what is left.
    Reshape(Vec<usize>),
    /// Axes exchanged.
    Swap(usize, usize),
    /// An axis from its first element on, to its last one, by a step.
    Slice { axis: usize, first: usize, count: usize, step: isize },
    /// A new first axis, and repeated elements of one axis of size 1.
    Broadcast { first: usize, repeats: usize },
    /// A new axis of size 1.
    Expand(usize),
    /// Without axes of size 1.
    Squeeze,
    /// Windows of a flat array.
    Windows { size: usize, step: usize },
}

/// An array, and the number of the first array's element in each of its own.
type Seen = (Array, Vec<i32>);

fn look() -> impl Strategy<Value = Look> {
    let n = || 0usize..12;
    let step = prop_oneof![Just(1isize), Just(2), Just(3), Just(-1), Just(-2)];
    prop_oneof![
        prop::collection::vec(1usize..7, 0..4).prop_map(Look::Reshape),
        (n(), n()).prop_map(|(a, b)| Look::Swap(a, b)),
        (n(), n(), n(), step).prop_map(|(axis, first, count, step)| Look::Slice {
            axis,
            first,
            count,
            step
        }),
        (0usize..3, 1usize..4).prop_map(|(first, repeats)| Look::Broadcast { first, repeats }),
        n().prop_map(Look::Expand),
        Just(Look::Squeeze),
        (1usize..5, 1usize..4).prop_map(|(size, step)| Look::Windows { size, step }),
    ]
}

/// The elements of an array of `shape` whose index is `from(index)` in one of `old`.
fn gathered(
    seen: &[i32],
    old: &[usize],
    shape: &[usize],
    from: impl Fn(&[usize]) -> Vec<usize>,
) -> Vec<i32> {
    indices(shape).map(|i| seen[ravel(&from(&i), old)]).collect()
}

fn signed(shape: &[usize]) -> Vec<isize> {
    shape.iter().map(|&d| d as isize).collect()
}

/// Sizes of which the product is `left`: divisors next to the wanted ones.
fn sizes(wanted: &[usize], mut left: usize) -> Vec<usize> {
    let mut shape = Vec::new();
    for &want in wanted {
        let divisor = (1..=want).rev().find(|d| left.is_multiple_of(*d)).unwrap_or(1);
        shape.push(divisor);
        left /= divisor.max(1);
    }
    shape.push(left);
    shape
}

fn apply(look: &Look, (a, seen): &Seen) -> Result<Seen> {
    let (old, ndim) = (a.shape().to_vec(), a.ndim());
    Ok(match look {
        Look::Reshape(wanted) => {
            (ops::reshape(a, &signed(&sizes(wanted, a.size())))?, seen.clone())
        }
        &Look::Swap(x, y) if ndim > 0 => {
            let (x, y) = (x % ndim, y % ndim);
            let b = ops::swapaxes(a, x as isize, y as isize)?;
            let from = |i: &[usize]| {
                let mut i = i.to_vec();
                i.swap(x, y);
                i
            };
            let seen = gathered(seen, &old, b.shape(), from);
            (b, seen)
        }
        &Look::Slice { axis, first, count, step } if ndim > 0 => {
            let axis = axis % ndim;
            let n = old[axis];
            let first = first % n;
            // As many as fit, at least one.
            let room = if step > 0 { n - 1 - first } else { first } / step.unsigned_abs();
            let count = 1 + count.min(room);
            let (mut start, mut stop) = (vec![0; ndim], signed(&old));
            let mut steps = vec![1; ndim];
            let end = first as isize + (count as isize - 1) * step + step.signum();
            // Behind the first element is what a stop far below zero says.
            let end = if end < 0 { -(n as isize) - 1 } else { end };
            (start[axis], stop[axis], steps[axis]) = (first as isize, end, step);
            let b = ops::slice(a, &start, &stop, &steps)?;
            let from = |i: &[usize]| {
                let mut i = i.to_vec();
                i[axis] = (first as isize + i[axis] as isize * step) as usize;
                i
            };
            let seen = gathered(seen, &old, b.shape(), from);
            (b, seen)
        }
        &Look::Broadcast { first, repeats } if a.size() * first.max(1) * repeats < 2000 => {
            let wide = |&d: &usize| if d == 1 { repeats } else { d };
            let mut shape: Vec<usize> = old.iter().map(wide).collect();
            shape.splice(..0, (first > 0).then_some(first));
            let skipped = shape.len() - ndim;
            let b = ops::broadcast_to(a, &shape)?;
            let from = |i: &[usize]| {
                let own = i[skipped..].iter().zip(&old);
                own.map(|(&i, &d)| if d == 1 { 0 } else { i }).collect()
            };
            let seen = gathered(seen, &old, &shape, from);
            (b, seen)
        }
        &Look::Expand(axis) if ndim < 6 => {
            (ops::expand_dims(a, &[(axis % (ndim + 1)) as isize])?, seen.clone())
        }
        Look::Squeeze => (ops::squeeze(a, &[])?, seen.clone()),
        &Look::Windows { size, step } if a.size() >= size => {
            let count = (a.size() - size) / step + 1;
            let b = ops::as_strided(a, &[count, size], &[step as isize, 1], 0)?;
            let from = |i: &[usize]| unravel(i[0] * step + i[1], &old);
            let seen = gathered(seen, &old, &[count, size], from);
            (b, seen)
        }
        _ => (a.clone(), seen.clone()),
    })
}

/// Reads what the last view shows, through the host and through a copy on the device.
fn check(looks: &[Look]) -> Result<()> {
    let all: Vec<i32> = (0..360).collect();
    let mut seen = (Array::from_slice(&all, &[6, 5, 1, 12])?, all);
    for look in looks {
        seen = apply(look, &seen)?;
    }
    let (view, want) = seen;
    // The device has the elements in the order of the view, and then in the opposite one.
    let copy = ops::contiguous(&view, false)?;
    let flat = ops::reshape(&view, &[-1])?;
    let back = ops::slice(&flat, &[-1], &[-(want.len() as isize) - 1], &[-1])?;
    let negative = ops::negative(&back)?;
    assert_eq!(view.to_vec::<i32>()?, want);
    assert_eq!(copy.to_vec::<i32>()?, want);
    assert_eq!(negative.to_vec::<i32>()?, want.iter().rev().map(|x| -x).collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn views_of_views_show_the_same_elements(looks in prop::collection::vec(look(), 1..9)) {
        on_each_device(|_| check(&looks).unwrap());
    }
}
