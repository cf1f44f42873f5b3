//! Fused functions of `mx.fast`.

use mlx::fast::{self, Mask};

use super::{Table, one, two};

pub(super) const TABLE: Table = &[
    ("fast.rms_norm", |x| {
        let weight = x.at(1).maybe_array()?;
        one(fast::rms_norm(&x.array(0)?, weight.as_ref(), x.at(2).single()))
    }),
    ("fast.layer_norm", |x| {
        let (weight, bias) = (x.at(1).maybe_array()?, x.at(2).maybe_array()?);
        one(fast::layer_norm(&x.array(0)?, weight.as_ref(), bias.as_ref(), x.at(3).single()))
    }),
    ("fast.rope", |x| {
        let (dims, offset) = (x.at(1).count()?, x.at("offset").operand()?);
        let base = x.at("base").given().map(|base| base.single());
        let (scale, freqs) = (x.at("scale").single(), x.at("freqs").maybe_array()?);
        let traditional = x.at("traditional").flag();
        one(fast::rope(&x.array(0)?, dims, traditional, base, scale, &*offset, freqs.as_ref()))
    }),
    ("fast.scaled_dot_product_attention", |x| {
        let (q, k, v) = (x.array(0)?, x.array(1)?, x.array(2)?);
        let mask = x.at("mask");
        let array = if mask.is_array() { Some(mask.array()?) } else { None };
        let mask = match &array {
            Some(array) => Mask::Array(array),
            None if mask.is_none() => Mask::None,
            None => Mask::Causal,
        };
        one(fast::scaled_dot_product_attention(&q, &k, &v, x.at("scale").single(), mask))
    }),
    ("fast.cross_entropy", |x| one(fast::cross_entropy(&x.array(0)?, &x.array(1)?))),
    ("fast.gated_delta_update", |x| {
        let (q, k, v) = (x.array(0)?, x.array(1)?, x.array(2)?);
        let (gamma, beta) = (x.array(3)?, x.array(4)?);
        let (state, mask) = (x.at(5).maybe_array()?, x.at(6).maybe_array()?);
        let inputs = [&q, &k, &v];
        two(fast::gated_delta_update(inputs, &gamma, &beta, state.as_ref(), mask.as_ref()))
    }),
];
