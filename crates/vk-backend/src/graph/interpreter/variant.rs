//! What the interpreter kernel is specialized for.

use crate::{
    graph::interpreter::planner::Shape,
    kernels::{
        attention::decode::{Quantized, Token},
        layouts::interpreter::{
            BIASES_FLAG, Constants, DELTAS_FLAG, DIVISORS_FLAG, INTERPRETER, INTERPRETER_DOTS,
            INTERPRETER_FLOATS, INTERPRETER_HALVES, MIXTURES_FLAG, NORM_FLAG, Push, SCORES_FLAG,
            SHARED_FLAG, SUMS_FLAG, TRADITIONAL_FLAG,
        },
        matvec::{Format, Fused, planner as matvec},
        steps::{Kind, Step},
    },
    runtime::device::DeviceState,
    shaders::KernelOf,
};

/// Bits and group size where caches are not quantized.
const DENSE_CACHE: [u32; 2] = [16, 64];

/// What the kernel is specialized for: steps of one run agree in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Variant {
    pub(super) format: Format,
    /// Of attentions: features, heads that share keys, features that are rotated, flags, and bits and group
    /// size of caches.
    width: u32,
    sharing: u32,
    rotated: u32,
    flags: u32,
    cache: [u32; 2],
    /// Of products: rows are int8 rows, or half rows; lanes take chunks of twice the length, and some have
    /// biases.
    int8_rows: bool,
    half_rows: bool,
    wide: bool,
    pub(super) biased: bool,
    /// There are mixtures.
    pub(super) mixed: bool,
    /// Some of them have an expert that all tokens have.
    pub(super) shared: bool,
    /// The first one picks experts by scores.
    pub(super) scored: bool,
    /// Key features and values of a head of delta rules, or none.
    pub(super) delta: [u32; 2],
    /// There are products whose row is a sum.
    pub(super) summed: bool,
}

impl Variant {
    /// What the first product and the first attention of `steps` need; none without a product.
    pub(super) fn of(steps: &[Step], shape: &Shape, device: &DeviceState) -> Option<Self> {
        let product = steps.iter().find_map(|step| match &step.kind {
            Kind::Product(fused) => Some(fused),
            _ => None,
        })?;
        let format = product.format;
        let (caps, config) = (device.capabilities(), device.config);
        let int8_rows = matvec::takes_int8_rows(format, caps, config);
        let half_rows = matvec::takes_half_rows(format, caps, config);
        let wide =
            int8_rows && matvec::is_wide(format.bits, format.group, product.inner, shape.subgroup);
        let any = |has: fn(&Fused) -> bool| {
            steps.iter().any(|step| matches!(&step.kind, Kind::Product(fused) if has(fused)))
        };
        let (biased, summed) = (any(Fused::is_biased), any(|fused| fused.sum.is_some()));
        let mut mixtures = steps.iter().filter_map(|step| match &step.kind {
            Kind::Mixture(mixture) => Some(mixture),
            _ => None,
        });
        let first = mixtures.clone().next();
        let scored = first.is_some_and(|mixture| mixture.scores.is_some());
        let mixed = first.is_some();
        let shared = mixtures.any(|mixture| mixture.shared.is_some());
        let delta = steps.iter().find_map(|step| match &step.kind {
            Kind::Delta(token) => Some([token.heads.keys, token.heads.values]),
            _ => None,
        });
        let delta = delta.unwrap_or_default();
        let (width, sharing, rotated, flags, cache) = (64, 1, 64, 0, DENSE_CACHE);
        let alone = Variant {
            format,
            width,
            sharing,
            rotated,
            flags,
            cache,
            int8_rows,
            half_rows,
            wide,
            biased,
            mixed,
            shared,
            scored,
            delta,
            summed,
        };
        let token = steps.iter().find_map(|step| match &step.kind {
            Kind::Attention(token) => Some(token),
            _ => None,
        });
        Some(token.map_or(alone, |token| alone.with(token)))
    }

    /// The same for such an attention.
    pub(super) fn with(self, Token { attention, projections, .. }: &Token) -> Self {
        let bit = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags = bit(projections.norms.is_some(), NORM_FLAG)
            | bit(projections.angle.traditional, TRADITIONAL_FLAG)
            | bit(projections.angle.divisors, DIVISORS_FLAG);
        let sharing = attention.heads / attention.kv_heads;
        let cache = attention.quantized.map_or(DENSE_CACHE, |Quantized { affine, .. }| {
            [affine.bits as u32, affine.group_size as u32]
        });
        let (width, rotated) = (attention.width, projections.angle.features);
        Variant { width, sharing, rotated, flags, cache, ..self }
    }

    /// The kernel that walks such steps.
    pub(super) fn kernel(&self) -> KernelOf<Constants, Push> {
        match (self.format.floats, self.int8_rows, self.half_rows) {
            (true, _, true) => INTERPRETER_HALVES,
            (true, _, false) => INTERPRETER_FLOATS,
            (false, true, _) => INTERPRETER_DOTS,
            (false, false, _) => INTERPRETER,
        }
    }

    /// Elements of a row that a lane takes at a time.
    pub(super) fn chunk(&self) -> u32 {
        matvec::chunk(self.format.bits as usize, self.wide) as u32
    }

    /// Specialization constants.
    pub(super) fn constants(&self, shape: &Shape) -> Constants {
        let Format { dtype, bits, group, .. } = self.format;
        let Variant { width, sharing, rotated, wide, .. } = *self;
        let of = |has: bool, flag: u32| if has { flag } else { 0 };
        let flags = self.flags
            | of(self.biased, BIASES_FLAG)
            | of(self.mixed, MIXTURES_FLAG)
            | of(self.shared, SHARED_FLAG)
            | of(self.scored, SCORES_FLAG)
            | of(self.summed, SUMS_FLAG)
            | of(self.delta != [0; 2], DELTAS_FLAG);
        let (workgroup, subgroup) = (shape.workgroup, shape.subgroup);
        let [cache_bits, cache_group] = self.cache;
        let [delta_keys, delta_values] = self.delta;
        Constants {
            workgroup,
            dtype,
            bits,
            group,
            subgroup,
            width,
            sharing,
            flags,
            wide,
            cache_bits,
            cache_group,
            rotated,
            delta_keys,
            delta_values,
        }
    }
}
