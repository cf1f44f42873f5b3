//! Affine quantization.

use mlx::ops;

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("quantize", |x| {
        let (group_size, bits) = (x.at("group_size").count()?, x.at("bits").count()?);
        let (w, scales, biases) = ops::quantize(&x.array(0)?, group_size, bits)?;
        Ok(vec![w, scales, biases])
    }),
    ("dequantize", |x| {
        let (group_size, bits) = (x.at("group_size").count()?, x.at("bits").count()?);
        one(ops::dequantize(&x.array(0)?, &x.array(1)?, &x.array(2)?, group_size, bits))
    }),
    ("quantized_matmul", |x| {
        let (group_size, bits) = (x.at("group_size").count()?, x.at("bits").count()?);
        let (w, scales, biases) = (x.array(1)?, x.array(2)?, x.array(3)?);
        let transpose = x.at("transpose").flag();
        one(ops::quantized_matmul(&x.array(0)?, &w, &scales, &biases, transpose, group_size, bits))
    }),
];
