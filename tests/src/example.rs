//! Arrays for the examples of primitives.

use mlx::{
    Array, Dtype, Result, Shape, ops,
    primitives::{Example, Input},
};

use crate::{array, filled, noise};

/// The arrays that an example asks for; those without given values differ from seed to seed.
///
/// # Errors
/// When memory is out.
pub fn example_inputs(example: &Example, seed: u64) -> Result<Vec<Array>> {
    let numbered = example.inputs.iter().zip(1..);
    numbered.map(|(input, i)| example_input(input, 100 * seed + i)).collect()
}

fn example_input(input: &Input, seed: u64) -> Result<Array> {
    let mut shape: Shape = input.shape.clone();
    if input.transposed {
        shape.reverse();
    }
    let dense = match &input.values {
        Some(values) => array(values, &shape, input.dtype),
        None => operand(&shape, input.dtype, seed),
    };
    if input.transposed { ops::transpose(&dense, &[]) } else { Ok(dense) }
}

/// An array without special values: in 0.1 to 0.9, small integers, or both truth values.
fn operand(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    match dtype {
        Dtype::Bool => filled(shape, dtype, |i| ((i as u64 + seed) % 2) as f64),
        _ if dtype.is_inexact() => filled(shape, dtype, noise(seed, 0.1, 0.9)),
        _ => filled(shape, dtype, |i| 1.0 + ((i as u64 * 5 + seed) % 7) as f64),
    }
}
