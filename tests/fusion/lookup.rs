//! Rows picked from a quantized matrix and dequantized.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::array;

use super::{Quantized, agrees, turn};

/// Rows that are picked, and what makes one.
const ROWS: usize = 37;

fn indices(values: &[i64], shape: &[usize], dtype: Dtype) -> Array {
    array(&values.iter().map(|&i| i as f64).collect::<Vec<_>>(), shape, dtype)
}

/// What the matrix's rows at `picks` stand for, twice as large.
fn lookup(matrix: &Quantized, picks: [&Array; 3]) -> Result<Vec<Array>> {
    let [words, scales, biases] = &matrix.parts;
    let words = ops::take(words, picks[0], 0)?;
    let (scales, biases) = (ops::take(scales, picks[1], 0)?, ops::take(biases, picks[2], 0)?);
    let rows = ops::dequantize(&words, &scales, &biases, matrix.group, matrix.bits)?;
    Ok(vec![ops::multiply(&rows, 2.0f32)?])
}

/// Formats, dtypes and indices of every kind; those outside become the nearest ones.
pub(super) fn all() {
    let _turn = turn();
    for (bits, group, dtype) in [
        (4, 64, Dtype::Bfloat16),
        (4, 32, Dtype::Float16),
        (8, 128, Dtype::Float32),
        (3, 64, Dtype::Bfloat16),
        (6, 32, Dtype::Float32),
    ] {
        let matrix = Quantized::new(bits as u64, ROWS, 256, group, bits, dtype);
        for (values, shape, index) in [
            (&[5i64][..], &[1usize][..], Dtype::Uint32),
            (&[0, 36, 7, 7, 1, 2], &[2, 3], Dtype::Int32),
            (&[-1, -37, 3], &[3, 1], Dtype::Int64),
            (&[4, 200], &[2], Dtype::Uint8),
        ] {
            let picks = indices(values, shape, index);
            let graph = || lookup(&matrix, [&picks; 3]);
            agrees(&format!("{bits} bits {dtype} at {values:?}"), 3, dtype, &graph);
        }
    }
}

#[test]
fn picked_rows_are_dequantized_at_once() {
    all();
}

/// Other rows of the scales, a matrix in another order, and rows that somebody else needs, too.
#[test]
fn lookups_of_other_kinds_are_left_alone() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let matrix = Quantized::new(1, ROWS, 128, 32, 4, dtype);
    let [a, b] = [[3i64, 8], [8, 3]].map(|values| indices(&values, &[2], Dtype::Int32));
    agrees("other indices", 0, dtype, &|| lookup(&matrix, [&a, &b, &a]));

    let [words, scales, biases] = &matrix.parts;
    let columns = ops::contiguous(&ops::transpose(words, &[1, 0]).unwrap(), false).unwrap();
    mlx::eval(&[&columns]).unwrap();
    let turned = || {
        let words = ops::transpose(&columns, &[1, 0])?;
        let parts = [words, scales.clone(), biases.clone()];
        lookup(&Quantized { parts, group: matrix.group, bits: matrix.bits }, [&a; 3])
    };
    agrees("columns", 0, dtype, &turned);

    let shared = || {
        let picked = ops::take(scales, &a, 0)?;
        let (words, biases) = (ops::take(words, &a, 0)?, ops::take(biases, &a, 0)?);
        let rows = ops::dequantize(&words, &picked, &biases, matrix.group, matrix.bits)?;
        Ok(vec![rows, picked])
    };
    agrees("scales for others", 0, dtype, &shared);

    // Indices that are not dense: the members one by one.
    let wide = indices(&[1, 0, 2, 0, 30, 0], &[3, 2], Dtype::Int32);
    mlx::eval(&[&wide]).unwrap();
    let strided = || {
        let picks = ops::slice_axis(&wide, 1, 0, 1)?;
        lookup(&matrix, [&picks; 3])
    };
    agrees("strided indices", 0, dtype, &strided);
}
