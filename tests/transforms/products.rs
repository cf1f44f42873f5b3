//! Derivatives and mapping of matrix products, and of what is built on them.

use mlx::{Array, Dtype, Result, ops, transforms::grad};
use mlx_tests::{array, filled, noise, on_each_device, values};

use crate::{derivatives, mapping};

/// Random numbers, other ones for each seed.
fn random(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    filled(shape, dtype, noise(seed, -1.0, 1.0))
}

fn numbers(values: &[u32], shape: &[usize]) -> Array {
    Array::from_slice(values, shape).unwrap()
}

/// Checks the derivatives of a function of arrays of these shapes, and the function mapped over them.
fn check<const N: usize>(
    name: &str,
    shapes: [&[usize]; N],
    apply: impl Fn([&Array; N]) -> Result<Array>,
) {
    let apply = |inputs: &[Array]| Ok(vec![apply(std::array::from_fn(|i| &inputs[i]))?]);
    let inputs = |dtype, seed: u64| -> Vec<Array> {
        shapes.iter().zip(1..).map(|(shape, i)| random(shape, dtype, 10 * seed + i)).collect()
    };
    derivatives::check_function(name, &inputs(Dtype::Float64, 0), apply);
    mapping::check_function(name, |seed| inputs(Dtype::Float32, seed), apply);
}

#[test]
fn products_of_matrices_and_vectors() {
    let matmul = |[a, b]: [&Array; 2]| ops::matmul(a, b);
    check("batches", [&[2, 1, 3, 4], &[3, 4, 2]], matmul);
    check("a matrix for all batches", [&[2, 3, 4], &[4, 2]], matmul);
    check("vector @ matrix", [&[4], &[4, 2]], matmul);
    check("matrix @ vector", [&[2, 3, 4], &[4]], matmul);
    check("vectors", [&[4], &[4]], matmul);
    check("no inner elements", [&[2, 0], &[0, 3]], matmul);
    check("no rows", [&[0, 4], &[4, 3]], matmul);
    for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0)] {
        let addmm = |[c, a, b]: [&Array; 3]| ops::addmm(c, a, b, alpha, beta);
        check("addmm", [&[2, 3, 5], &[2, 3, 4], &[4, 5]], addmm);
        check("a row of c", [&[5], &[3, 4], &[4, 5]], addmm);
        check("a scalar c", [&[], &[3, 4], &[4]], addmm);
    }
}

#[test]
fn the_derivative_by_a_matrix_for_all_batches_is_rounded_once() {
    on_each_device(|device| {
        let x = array(&[256.0, 1.0, 256.0, 1.0, 256.0, 1.0], &[3, 2, 1], Dtype::Bfloat16);
        let loss = |w: &Array| ops::sum(&ops::matmul(&x, w)?, &[], false);
        let by_matrix = grad(loss, &array(&[1.0], &[1, 1], Dtype::Bfloat16)).unwrap();
        // Each batch alone is 257, which would be 256.
        assert_eq!(values(&by_matrix), [772.0], "{device}");
    });
}

/// A layer's matrix is (outputs, inputs), and so is its derivative in memory: what updates the matrix reads
/// both in order.
#[test]
fn the_derivative_by_a_transposed_matrix_lies_as_the_matrix_does() {
    on_each_device(|device| {
        let w = random(&[5, 7], Dtype::Float32, 3);
        for shape in [&[6, 7][..], &[2, 3, 7]] {
            let x = random(shape, Dtype::Float32, 4);
            let layer =
                |w: &Array| ops::sum(&ops::matmul(&x, &ops::transpose(w, &[])?)?, &[], false);
            let derivative = grad(layer, &w).unwrap();
            let flat = ops::reshape(&x, &[6, 7]).unwrap();
            let sums = ops::sum(&flat, &[0], false).unwrap();
            let want = ops::broadcast_to(&sums, &[5, 7]).unwrap();
            for (got, want) in values(&derivative).into_iter().zip(values(&want)) {
                assert!((got - want).abs() < 1e-5, "{device} {shape:?}: {got} and {want}");
            }
            assert!(derivative.evaluated().layout.flags.row_contiguous, "{device} {shape:?}");
        }
    });
}

#[test]
fn contractions() {
    check("einsum", [&[2, 3, 4], &[2, 4, 5]], |[a, b]| ops::einsum("bij,bjk->bki", &[a, b]));
    check("three factors", [&[2, 3], &[3, 4], &[4]], |[a, b, c]| {
        ops::einsum("ij,jk,k->i", &[a, b, c])
    });
    check("tensordot", [&[2, 3, 4], &[3, 4, 2]], |[a, b]| ops::tensordot(a, b, 2));
    check("inner", [&[2, 3], &[4, 3]], |[a, b]| ops::inner(a, b));
    check("outer", [&[2], &[3]], |[a, b]| ops::outer(a, b));
    check("kron", [&[2, 1], &[3]], |[a, b]| ops::kron(a, b));
    check("vecdot", [&[2, 3], &[1, 3]], |[a, b]| ops::vecdot(a, b, -1));
}

#[test]
fn masked_blocks() {
    let shapes: [&[usize]; 5] = [&[33, 40], &[40, 8], &[2, 1], &[2, 2], &[2, 1]];
    check("block_masked_mm", shapes, |[a, b, out, lhs, rhs]| {
        ops::block_masked_mm(a, b, 32, Some(out), Some(lhs), Some(rhs))
    });
}

#[test]
fn picked_matrices() {
    let stacks: [&[usize]; 2] = [&[3, 2, 4], &[2, 2, 4, 3]];
    let (left, right) = (numbers(&[2, 0, 2, 1], &[2, 2]), numbers(&[3, 1, 1, 0], &[2, 2]));
    check("gather_mm", stacks, |[a, b]| ops::gather_mm(a, b, Some(&left), Some(&right), false));
    let ascending = numbers(&[0, 2, 2], &[3]);
    for sorted in [false, true] {
        check("each left matrix once", stacks, |[a, b]| {
            ops::gather_mm(a, b, None, Some(&ascending), sorted)
        });
        let right: [&[usize]; 2] = [&[3, 2, 4], &[3, 4, 3]];
        check("each right matrix once", right, |[a, b]| {
            ops::gather_mm(a, b, Some(&ascending), None, sorted)
        });
    }
    // Indices that are repeated in front of an axis do not ascend any more; behind it they do.
    let batches: [&[usize]; 2] = [&[2, 3, 2, 4], &[3, 4, 3]];
    for ascending in [numbers(&[0, 2, 2], &[3]), numbers(&[0, 2], &[2, 1])] {
        check("sorted indices are broadcast", batches, |[a, b]| {
            ops::gather_mm(a, b, None, Some(&ascending), true)
        });
    }
    check("vectors", [&[4], &[2, 4, 3]], |[a, b]| {
        let a = ops::reshape(a, &[1, 1, 4])?;
        ops::gather_mm(&a, b, Some(&numbers(&[0], &[])), Some(&numbers(&[1], &[])), false)
    });
    check("nothing is picked", stacks, |[a, b]| {
        ops::gather_mm(a, b, Some(&numbers(&[], &[0])), Some(&numbers(&[], &[0])), false)
    });
}

#[test]
fn segments() {
    let pairs: [(&[u32], &[usize]); 3] =
        [(&[0, 2, 2, 6], &[2, 2]), (&[1, 5, 3, 9, 4, 4], &[3, 1, 2]), (&[2, 4], &[2])];
    for (pairs, shape) in pairs {
        let pairs = numbers(pairs, shape);
        check("segmented_mm", [&[3, 6], &[6, 2]], |[a, b]| ops::segmented_mm(a, b, &pairs));
    }
}

#[test]
fn mapped_picks_and_segments() {
    let picks = |shape: &[usize], seed, count: f64| {
        let random = noise(seed, 0.0, count);
        filled(shape, Dtype::Uint32, move |i| random(i).floor())
    };
    let inputs = |i| {
        let (a, b) =
            (random(&[3, 2, 4], Dtype::Float32, i), random(&[2, 2, 4, 3], Dtype::Float32, i));
        vec![a, b, picks(&[2, 1], i + 5, 3.0), picks(&[3], i + 6, 4.0)]
    };
    mapping::check_function("gather_mm", inputs, |x| {
        Ok(vec![ops::gather_mm(&x[0], &x[1], Some(&x[2]), Some(&x[3]), false)?])
    });
    let inputs = |i| {
        let (a, b) = (random(&[3, 6], Dtype::Float32, i), random(&[6, 2], Dtype::Float32, i + 1));
        vec![a, b, picks(&[4, 2], i + 5, 8.0)]
    };
    mapping::check_function("segmented_mm", inputs, |x| {
        Ok(vec![ops::segmented_mm(&x[0], &x[1], &x[2])?])
    });
}
