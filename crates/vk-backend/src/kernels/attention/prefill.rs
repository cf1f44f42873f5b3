//! Attention of many query rows on cooperative matrices: which workgroup, how many parts of the keys.

use super::planner::{Sizes, first_closed};
use crate::runtime::{
    capabilities::{Capabilities, Fragment},
    config::Config,
};

/// Queries from which attention goes to cooperative matrices; below, a fragment is mostly air.
const LEAST: usize = 9;

/// Features that a head may have: the sums of a subgroup stay in registers.
const WIDEST: usize = 256;

/// Blocks, keys and their splits, and whether queries stay in shared memory.
type Shape = ([u32; 3], bool);

// Measured on an H200 with 128 features: 512 queries 26.0 µs by the first and 25.2 by the second, 4096
// of them 412 and 589; 192 features 17.0 by the second and 18.9 by the third, 256 features 43.7 and 33.7.
const WHOLE: Shape = ([4, 32, 1], false);
const PAIRED: Shape = ([2, 32, 2], false);
const SLIM: Shape = ([2, 16, 1], true);

/// How attention runs (`attention/matrix.comp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefill {
    /// What the device multiplies.
    pub fragment: Fragment,
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Fragments of queries of a workgroup.
    pub blocks: u32,
    /// Keys at a time.
    pub keys: u32,
    /// Subgroups that split these keys.
    pub tile_splits: u32,
    /// Queries stay in shared memory, for the lack of registers.
    pub queries_shared: bool,
    /// Parts of all keys, each a workgroup's.
    pub splits: u32,
}

impl Prefill {
    /// Queries of a workgroup.
    pub(crate) const fn rows(&self) -> u32 {
        self.blocks * self.fragment.m
    }

    /// Threads of a workgroup.
    pub(crate) const fn threads(&self) -> u32 {
        self.blocks * self.tile_splits * self.subgroup
    }

    /// Workgroups without splits.
    pub(crate) fn count(&self, sizes: &Sizes) -> u64 {
        (sizes.batches * sizes.heads * sizes.queries.div_ceil(self.rows() as usize)) as u64
    }

    /// Bytes of shared memory: `SHARED` of the shader, and a row's maximum and factor.
    fn shared(&self, sizes: &Sizes) -> u32 {
        let (key, value) = (sizes.key_width as u32 / 8 + 1, sizes.value_width as u32 / 8 + 1);
        let subgroups = self.blocks * self.tile_splits;
        let slots = self.fragment.m * (self.keys / self.tile_splits / 4 + 1) * subgroups;
        let tiles = (self.keys * key).max(slots) + self.keys * value;
        let queries = self.rows() * key;
        let walk = if self.queries_shared { tiles + queries } else { tiles.max(queries) };
        let out = self.fragment.m * (sizes.value_width as u32 / 4 + 1);
        let join = out * self.blocks * (self.tile_splits - 1);
        walk.max(join).max(out) * 16 + self.rows() * self.tile_splits * 8
    }

    /// Whether the device can run it.
    fn runs(&self, sizes: &Sizes, caps: &Capabilities) -> bool {
        let part = self.keys / self.tile_splits;
        self.threads() <= caps.max_workgroup
            && self.shared(sizes) <= caps.shared_memory
            // Lanes that share a row take pairs of its keys.
            && part.is_multiple_of((self.subgroup / self.fragment.m).max(1) * 2)
    }
}

/// Whether the kernel is made for such an attention.
fn fits(sizes: &Sizes, caps: &Capabilities) -> bool {
    let ops = caps.subgroup_ops;
    let widths = [sizes.key_width, sizes.value_width];
    sizes.queries >= LEAST
        && sizes.keys > 0
        && widths.iter().all(|w| w.is_multiple_of(16) && (16..=WIDEST).contains(w))
        && ops.ballot
        && ops.shuffle
}

/// The gate that keeps attention of many queries from cooperative matrices, if one does.
pub(crate) fn closed(sizes: &Sizes, caps: &Capabilities, config: &Config) -> Option<&'static str> {
    if !fits(sizes, caps) {
        return None;
    }
    let most = match config.sdpa_max_k_len_prefill {
        None => (config.sdpa_max_k_len, "more keys than MLX_VK_SDPA_MAX_K_LEN"),
        Some(most) => (most, "more keys than MLX_VK_SDPA_MAX_K_LEN_PREFILL"),
    };
    first_closed(&[
        (config.enable_sdpa_native, "MLX_VK_ENABLE_SDPA_NATIVE=0"),
        (most.0 == 0 || sizes.keys as u64 <= most.0, most.1),
    ])
}

/// Chooses the variant; `None` where `attention.comp` has to serve. `fragment` is what products
/// of the dtype may use.
pub(crate) fn plan(
    sizes: &Sizes,
    fragment: Option<Fragment>,
    caps: &Capabilities,
    config: &Config,
) -> Option<Prefill> {
    let fragment = fragment?;
    if !fits(sizes, caps) || closed(sizes, caps, config).is_some() {
        return None;
    }
    let widths = [sizes.key_width, sizes.value_width];
    let make = |&([blocks, keys, tile_splits], queries_shared): &([u32; 3], bool)| {
        let subgroup = caps.subgroup_size;
        Prefill { fragment, subgroup, blocks, keys, tile_splits, queries_shared, splits: 1 }
    };
    let few = sizes.queries <= 2 * fragment.m as usize;
    let shapes: &[_] = match widths[0].max(widths[1]) {
        193.. => &[SLIM],
        129.. => &[PAIRED, SLIM],
        _ if few => &[PAIRED, SLIM],
        _ => &[WHOLE, PAIRED, SLIM],
    };
    let mut plan = shapes.iter().map(make).find(|p| p.runs(sizes, caps))?;
    plan.splits = splits(sizes, &plan, caps, config);
    Some(plan)
}

/// Parts of the keys: so many that the device is filled, none of them short.
fn splits(sizes: &Sizes, plan: &Prefill, caps: &Capabilities, config: &Config) -> u32 {
    let c = config;
    if let Some(fixed) = c.sdpa_split_k {
        return fixed.clamp(1, sizes.keys as u64) as u32;
    }
    let shortest = c.sdpa_splitk_target_chunk_prefill.or(c.sdpa_splitk_target_chunk).unwrap_or(256);
    let most = c.sdpa_splitk_max_parts_prefill.or(c.sdpa_splitk_max_parts).unwrap_or(8);
    let fill = u64::from(caps.compute_units) / plan.count(sizes).max(1);
    fill.min(sizes.keys as u64 / shortest.max(1)).clamp(1, most.max(1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::Capabilities;

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    fn caps() -> Capabilities {
        Capabilities { shared_memory: 48 << 10, compute_units: 132, ..Capabilities::default() }
    }

    fn prompt(queries: usize, keys: usize, width: usize) -> Sizes {
        Sizes {
            batches: 1,
            heads: 16,
            kv_heads: 8,
            queries,
            keys,
            key_width: width,
            value_width: width,
        }
    }

    fn shape(sizes: &Sizes) -> Option<([u32; 3], u32)> {
        let found = plan(sizes, Some(SQUARE), &caps(), &Config::default())?;
        Some(([found.blocks, found.keys, found.tile_splits], found.splits))
    }

    #[test]
    fn width_and_number_of_queries_decide() {
        assert_eq!(shape(&prompt(512, 512, 128)), Some((WHOLE.0, 1)));
        assert_eq!(shape(&prompt(30, 30, 64)), Some((PAIRED.0, 1)));
        assert_eq!(shape(&prompt(512, 512, 192)), Some((PAIRED.0, 1)));
        assert_eq!(shape(&prompt(512, 512, 256)), Some((SLIM.0, 1)));
        assert_eq!(shape(&prompt(8, 512, 128)), None);
        assert_eq!(shape(&prompt(512, 512, 72)), None);
        assert_eq!(shape(&prompt(512, 512, 272)), None);
        assert_eq!(shape(&prompt(512, 0, 128)), None);
    }

    #[test]
    fn long_keys_are_shared_when_there_are_few_queries() {
        assert_eq!(shape(&prompt(64, 4096, 128)), Some((WHOLE.0, 8)));
        assert_eq!(shape(&prompt(64, 600, 128)), Some((WHOLE.0, 2)));
        assert_eq!(shape(&prompt(512, 4096, 128)), Some((WHOLE.0, 1)));
        let fixed = Config { sdpa_split_k: Some(3), ..Config::default() };
        let found = plan(&prompt(512, 512, 128), Some(SQUARE), &caps(), &fixed);
        assert_eq!(found.map(|p| p.splits), Some(3));
    }

    #[test]
    fn device_and_gates_decide() {
        let (sizes, config) = (prompt(512, 512, 128), Config::default());
        let run = |caps: &Capabilities, config| plan(&sizes, Some(SQUARE), caps, config);
        assert_eq!(plan(&sizes, None, &caps(), &config), None);
        let off = Config { enable_sdpa_native: false, ..Config::default() };
        assert_eq!(run(&caps(), &off), None);
        let limited = Config { sdpa_max_k_len_prefill: Some(511), ..Config::default() };
        assert_eq!(run(&caps(), &limited), None);
        let reason = closed(&sizes, &caps(), &limited);
        assert_eq!(reason, Some("more keys than MLX_VK_SDPA_MAX_K_LEN_PREFILL"));
        assert_eq!(closed(&prompt(8, 512, 128), &caps(), &off), None, "it does not fit anyway");
        let small = Capabilities { shared_memory: 16 << 10, ..caps() };
        assert_eq!(run(&small, &config), None);
        let wide = Capabilities { subgroup_size: 64, max_workgroup: 128, ..caps() };
        let found = run(&wide, &config).unwrap();
        assert_eq!((found.blocks, found.threads()), (2, 128));
        for shape in [WHOLE, PAIRED, SLIM] {
            let found = Prefill {
                fragment: SQUARE,
                subgroup: 32,
                blocks: shape.0[0],
                keys: shape.0[1],
                tile_splits: shape.0[2],
                queries_shared: shape.1,
                splits: 1,
            };
            assert!(found.runs(&sizes, &caps()) && found.shared(&sizes) < 31 << 10);
        }
    }
}
