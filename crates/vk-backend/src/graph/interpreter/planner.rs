//! Runs of steps in one dispatch (`interpreter/interpreter.comp`): what it serves, and how steps are spread
//! over the workgroups that stay for all of them.

use crate::{
    kernels::{
        attention::planner::Sizes,
        delta::{Heads, TokenDelta},
        layouts::run_delta::{DELTA_QUADS, DELTA_TEAM},
        layouts::run_mixture::{MOST_EXPERTS, MOST_PICKS},
        matvec::planner::MatvecSizes,
        mixture::token::TokenMixture,
    },
    runtime::{
        capabilities::{Capabilities, DeviceKind, vendor},
        config::Config,
    },
};

/// Results of a team of subgroups at a time, as in the kernel: half of them belong to another
/// matrix where one gates the other.
pub(crate) const RESULTS: u32 = 4;
/// Quads of the row that a thread brings, at most; as in the kernel.
const QUADS: u32 = 6;
/// Results of a step that may serve another one; more (the head of a language model) go to memory only.
pub(crate) const MOST_MARKED: u32 = 1 << 15;
/// Keys that a cluster of lanes takes one after the other; with more, attention is a dispatch of its own.
const MOST_ROUNDS: u32 = 24;
/// Keys that a cluster takes before another workgroup helps. Measured on an H200, 16 heads of 128, a
/// run of 140 steps: 600 keys in two shares 620 µs (one 675, four 632), 1,500 in four 695 (two 758,
/// eight 728), 200 in one or two 560.
const ROUNDS: u32 = 6;
/// Lanes that share a key.
const CLUSTER: u32 = 8;

/// Threads of the workgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Threads of a workgroup.
    pub workgroup: u32,
}

impl Shape {
    /// Subgroups of a workgroup.
    pub(crate) fn subgroups(&self) -> u32 {
        self.workgroup / self.subgroup
    }

    /// Longest row of a product.
    fn longest(&self) -> u32 {
        4 * QUADS * self.workgroup
    }
}

/// The shape of workgroups on this device; none where it has no interpreter. By default it is used where the
/// number of workgroups that fit at once is known beforehand, and where it was measured to be faster:
/// NVIDIA's discrete GPUs whose driver tells the number of multiprocessors.
pub(crate) fn shape(caps: &Capabilities, config: &Config) -> Option<Shape> {
    let measured = caps.kind == DeviceKind::Discrete && caps.vendor_id == vendor::NVIDIA;
    let wanted = config.enable_interpreter.unwrap_or(measured && caps.compute_units_known);
    let ops = &caps.subgroup_ops;
    let able = ops.arithmetic && ops.shuffle && caps.subgroup_size.is_multiple_of(CLUSTER);
    let workgroup = (16 * caps.subgroup_size).min(512).min(caps.max_workgroup);
    let shape = Shape { subgroup: caps.subgroup_size, workgroup };
    // Rows and their sums; what subgroups have of the widest head.
    let shared = 9 * QUADS * workgroup + shape.subgroups() * 4 * (256 + 16) + 4096;
    (wanted && able && workgroup.is_power_of_two() && shared <= caps.shared_memory).then_some(shape)
}

/// Whether a product of 16-bit floats can be a step.
pub(crate) fn serves_product(p: &MatvecSizes, inner: u32, bits: u32, shape: &Shape) -> bool {
    let whole = p.outputs.iter().all(|o| o.is_multiple_of(RESULTS / p.sets));
    let fits = inner <= shape.longest() && inner.is_multiple_of(8);
    p.rows == 1 && bits <= 16 && fits && whole
}

/// Whether a mixture can be a step.
pub(crate) fn serves_mixture(m: &TokenMixture, shape: &Shape) -> bool {
    m.each() <= MOST_PICKS as usize
        && m.experts <= MOST_EXPERTS as usize
        && m.width.is_multiple_of(8)
        && m.each() * m.width <= shape.longest() as usize
        // Behind the row are the experts' keys, as long as two elements each.
        && m.inner + 2 * MOST_EXPERTS as usize <= shape.longest() as usize
        // Offsets within an expert's matrix are 32 bits.
        && m.inner * m.width < 1 << 28
}

/// Lanes that share a row of a state of the delta rule.
fn team(shape: &Shape) -> u32 {
    shape.subgroup.min(DELTA_TEAM)
}

/// Rows of a state that a workgroup takes at a time.
pub(crate) fn state_rows(shape: &Shape) -> u32 {
    shape.workgroup / team(shape)
}

/// Whether a token's step of the delta rule can be a step.
pub(crate) fn serves_delta(token: &TokenDelta, shape: &Shape) -> bool {
    let Heads { values, keys, .. } = token.heads;
    let lane = 4 * team(shape);
    token.batch == 1
        && token.dtype.size() == 2
        && keys.is_multiple_of(lane)
        && keys / lane <= DELTA_QUADS
        && values <= shape.workgroup
        && values.is_multiple_of(state_rows(shape))
        && token.state.is_aligned(16)
}

/// Subgroups that share a row, as a power of two, for `blocks` of rows of `chunks` chunks on `groups`
/// workgroups: those with which the last subgroup is done first.
pub(crate) fn splits_log(blocks: u32, chunks: u32, groups: u32, shape: &Shape) -> u32 {
    let time = |log: &u32| {
        let teams = groups * (shape.subgroups() >> log);
        let rounds = blocks.div_ceil(teams);
        // In fifths of the time of a chunk: what ends a round, and a meeting of subgroups.
        rounds * (5 * chunks.div_ceil(shape.subgroup << log) + 1 + u32::from(*log > 0))
    };
    (0..=shape.subgroups().ilog2()).min_by_key(time).unwrap_or(0)
}

/// Shares of the keys of one token's attention on `groups` workgroups; none where it is better done by a
/// dispatch.
pub(crate) fn shares(sizes: &Sizes, groups: u32, shape: &Shape, config: &Config) -> Option<u32> {
    let (keys, heads) = (sizes.keys as u32, sizes.heads as u32);
    let clusters = shape.workgroup / CLUSTER;
    let most = (groups / heads).clamp(1, 16);
    let shares = match config.sdpa_split_k {
        Some(fixed) => (fixed as u32).clamp(1, 16),
        None => keys.div_ceil(ROUNDS * clusters).clamp(1, most),
    };
    let rounds = keys.div_ceil(shares * clusters);
    let fits = match config.interpreter_max_rounds {
        Some(most) => u64::from(rounds) <= most,
        None => groups == 1 || rounds <= MOST_ROUNDS,
    };
    fits.then_some(shares)
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::{Dtype, primitives::Affine};
    use smallvec::SmallVec;

    use super::*;
    use crate::kernels::{
        Operand,
        matvec::{Format, Weights},
        mixture::{Router, SharedShare, token::Shared},
    };

    fn gpu() -> Capabilities {
        let known = Capabilities {
            shared_memory: 48 << 10,
            compute_units: 132,
            compute_units_known: true,
            vendor_id: vendor::NVIDIA,
            ..Capabilities::default()
        };
        Capabilities { subgroup_size: 32, max_workgroup: 1024, kind: DeviceKind::Discrete, ..known }
    }

    const SHAPE: Shape = Shape { subgroup: 32, workgroup: 512 };

    #[test]
    fn devices_whose_multiprocessors_are_known_have_it() {
        let config = Config::default();
        assert_eq!(shape(&gpu(), &config), Some(SHAPE));
        assert_eq!(shape(&Capabilities { compute_units_known: false, ..gpu() }, &config), None);
        assert_eq!(shape(&Capabilities { vendor_id: vendor::INTEL, ..gpu() }, &config), None);
        let software = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..gpu() };
        assert_eq!(shape(&software, &config), None);
        let asked = Config { enable_interpreter: Some(true), ..config };
        assert_eq!(shape(&software, &asked), Some(Shape { subgroup: 8, workgroup: 128 }));
        let closed = Config { enable_interpreter: Some(false), ..asked };
        assert_eq!(shape(&gpu(), &closed), None);
    }

    #[test]
    fn subgroups_share_rows_so_that_all_have_work() {
        assert_eq!(splits_log(256, 64, 132, &SHAPE), 1, "2048 -> 1024 of 4 bits");
        assert_eq!(splits_log(1024, 32, 132, &SHAPE), 0, "1024 -> 4096");
        assert_eq!(
            splits_log(256, 96, 132, &SHAPE),
            2,
            "3072 -> 1024: four have half a chunk less"
        );
        assert_eq!(splits_log(2, 4096, 1, &Shape { subgroup: 8, workgroup: 64 }), 2);
    }

    #[test]
    fn rows_that_fit_and_whole_blocks_of_results_are_served() {
        let p = |outputs, sets| MatvecSizes { rows: 1, outputs: [outputs, outputs, 0], sets };
        let serves = |p: &MatvecSizes, inner, bits| serves_product(p, inner, bits, &SHAPE);
        assert!(serves(&p(1024, 1), 12_288, 4) && !serves(&p(1024, 1), 12_296, 4), "too long");
        assert!(!serves(&p(1022, 1), 1024, 4) && serves(&p(1022, 2), 1024, 4));
        assert!(!serves(&p(1023, 2), 1024, 4));
        assert!(!serves(&MatvecSizes { rows: 2, ..p(1024, 1) }, 1024, 4));
        assert!(!serves(&p(1024, 1), 1024, 32));
    }

    #[test]
    fn mixtures_whose_picks_and_rows_fit_are_served() {
        let at = Operand::default();
        let packing = Affine { group_size: 64, bits: 4 }.into();
        let format = Format::packed(Dtype::Bfloat16, packing);
        let router = Router { matrix: Weights::default(), format, reads: SmallVec::new() };
        let mixture = |[inner, width, experts, count]: [usize; 4]| TokenMixture {
            x: at,
            norm: at,
            eps: 1e-6,
            router: router.clone(),
            gate: [at; 3],
            up: [at; 3],
            down: [at; 3],
            shared: None,
            scores: None,
            residual: None,
            result: at,
            packing,
            dtype: Dtype::Bfloat16,
            inner,
            width,
            experts,
            count,
        };
        let serves = |sizes| serves_mixture(&mixture(sizes), &SHAPE);
        assert!(serves([2048, 768, 128, 8]), "Qwen3-30B-A3B");
        assert!(serves([4096, 768, 512, 16]), "as many as there may be");
        assert!(!serves([2048, 512, 513, 8]) && !serves([2048, 512, 128, 17]), "too many");
        assert!(!serves([2048, 1540, 128, 8]) && !serves([2048, 764, 128, 8]), "rows");
        assert!(!serves([11_272, 768, 128, 8]) && serves([11_264, 768, 128, 8]), "too long a row");
        let shared = Shared {
            gate: [at; 3],
            up: [at; 3],
            down: [at; 3],
            share: SharedShare::One,
            reads: SmallVec::new(),
        };
        let mixture = TokenMixture { shared: Some(shared), ..mixture([2048, 512, 512, 16]) };
        assert!(!serves_mixture(&mixture, &SHAPE), "one more than there may be");
        assert!(serves_mixture(&TokenMixture { count: 15, ..mixture }, &SHAPE));
    }

    #[test]
    fn attention_of_many_keys_is_shared_and_of_very_many_left_to_its_kernel() {
        let sizes = |keys| Sizes {
            batches: 1,
            heads: 16,
            kv_heads: 8,
            queries: 1,
            keys,
            key_width: 128,
            value_width: 128,
        };
        let of = |keys| shares(&sizes(keys), 132, &SHAPE, &Config::default());
        assert_eq!((of(1), of(384), of(385), of(1500)), (Some(1), Some(1), Some(2), Some(4)));
        assert_eq!((of(8000), of(64_000)), (Some(8), None));
        assert_eq!(shares(&sizes(64_000), 1, &SHAPE, &Config::default()), Some(1));
    }
}
