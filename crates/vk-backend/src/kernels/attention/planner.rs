//! Attention: rows and keys of a workgroup, and parts of the keys.

pub(crate) use crate::kernels::layouts::attention_decode::MOST_SPLITS;
use mlx_vulkan_core::{Dtype, primitives::Affine};

use crate::{
    kernels::{
        fragment::{NUMBERS, fragment},
        team::Team,
    },
    runtime::{
        capabilities::{Capabilities, Fragment},
        config::Config,
    },
};

/// Sizes of an attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Batches.
    pub batches: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// Features of a query and a key.
    pub key_width: usize,
    /// Features of a value.
    pub value_width: usize,
}

impl Sizes {
    /// Batches and heads of queries, and of keys.
    pub(crate) fn of_rows(&self) -> [[usize; 2]; 2] {
        [[self.batches, self.heads], [self.batches, self.kv_heads]]
    }

    /// Elements of the largest of queries, keys and values.
    pub(crate) fn elements(&self) -> usize {
        let rows = (self.heads * self.queries).max(self.kv_heads * self.keys);
        let width = self.key_width.max(self.value_width);
        [rows, width].into_iter().fold(self.batches, usize::saturating_mul)
    }

    /// Multiplications of queries with keys and of weights with values.
    pub(crate) fn multiplications(&self) -> usize {
        let factors = [self.heads, self.queries, self.keys, self.key_width + self.value_width];
        factors.into_iter().fold(self.batches, usize::saturating_mul)
    }
}

/// How attention runs (`attention.comp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LanesPlan {
    /// How rows are reduced.
    pub team: Team,
    /// Threads.
    pub workgroup: u32,
    /// Query rows of a workgroup.
    pub rows: u32,
    /// Keys at a time.
    pub keys: u32,
    /// Threads per key.
    pub parts: u32,
    /// Parts of the keys, each a workgroup's.
    pub splits: u32,
}

impl LanesPlan {
    /// Bytes of shared memory.
    fn shared(&self, sizes: &Sizes) -> u64 {
        let quads = sizes.key_width.div_ceil(4) as u64;
        let (rows, keys) = (u64::from(self.rows), u64::from(self.keys * self.parts));
        rows * quads * 16 + rows * keys * 4 + rows * 12 + u64::from(self.workgroup) * 16
    }

    /// Accumulators of a thread, in quads.
    fn registers(&self, sizes: &Sizes) -> u32 {
        let quads = sizes.value_width.div_ceil(4) as u32;
        self.rows * quads.div_ceil(self.workgroup.min(quads.max(1)))
    }

    /// Workgroups of work without splits.
    fn blocks(&self, sizes: &Sizes) -> u64 {
        let rows = sizes.heads / sizes.kv_heads.max(1) * sizes.queries;
        (sizes.batches * sizes.kv_heads * rows.div_ceil(self.rows as usize)) as u64
    }
}

/// Chooses the variant; `None` when a head is too wide for the device's shared memory.
pub(crate) fn plan(sizes: &Sizes, caps: &Capabilities, config: &Config) -> Option<LanesPlan> {
    let team = Team::of(caps, true);
    let software = caps.is_software();
    let workgroup = team.workgroup(caps, 128);
    let group_rows = (sizes.heads / sizes.kv_heads.max(1) * sizes.queries).max(1) as u32;
    let most = match (software, group_rows) {
        (true, _) => 8,
        (false, ..=8) => 8,
        _ => 16,
    };
    let parts = if workgroup >= 128 { 4 } else { 1 };
    let rows = group_rows.next_power_of_two().min(most);
    let mut plan = LanesPlan { team, workgroup, rows, keys: 32, parts, splits: 1 };
    while plan.rows > 1
        && (plan.shared(sizes) > u64::from(caps.shared_memory) || plan.registers(sizes) > 16)
    {
        plan.rows /= 2;
    }
    if plan.shared(sizes) > u64::from(caps.shared_memory) {
        return None;
    }
    if !software && config.enable_sdpa_native {
        plan.splits = splits(sizes, &plan, config);
    }
    Some(plan)
}

/// Parts of the keys: by the knobs, so many that the device is filled.
fn splits(sizes: &Sizes, plan: &LanesPlan, config: &Config) -> u32 {
    let c = config;
    let decode = sizes.queries == 1;
    let keys = sizes.keys as u64;
    let (min_keys, chunk, most) = if decode {
        (
            c.sdpa_splitk_min_k_len_decode.or(c.sdpa_splitk_min_k_len).unwrap_or(64),
            c.sdpa_splitk_target_chunk.unwrap_or(c.sdpa_splitk_target_chunk_decode),
            c.sdpa_splitk_max_parts.unwrap_or(c.sdpa_splitk_max_parts_decode),
        )
    } else {
        (
            c.sdpa_splitk_min_k_len_prefill.or(c.sdpa_splitk_min_k_len).unwrap_or(256),
            c.sdpa_splitk_target_chunk_prefill.or(c.sdpa_splitk_target_chunk).unwrap_or(128),
            c.sdpa_splitk_max_parts_prefill.or(c.sdpa_splitk_max_parts).unwrap_or(8),
        )
    };
    if keys <= min_keys {
        return 1;
    }
    if let Some(fixed) = c.sdpa_split_k {
        return fixed.clamp(1, keys) as u32;
    }
    let fill = c.sdpa_splitk_target_wg_decode.div_ceil(plan.blocks(sizes).max(1));
    keys.div_ceil(chunk.max(1)).min(most).min(fill).max(1) as u32
}

/// Whether the kernel for one query token is made for such an attention.
fn fits_decode(sizes: &Sizes, caps: &Capabilities) -> bool {
    let clusters = caps.subgroup_ops.arithmetic
        && caps.subgroup_ops.shuffle
        && caps.subgroup_size.is_multiple_of(8);
    clusters
        && sizes.queries == 1
        // Heads of all batches are counted through.
        && sizes.batches * sizes.kv_heads <= caps.max_groups[2] as usize
        && sizes.key_width == sizes.value_width
        && sizes.key_width.is_multiple_of(64)
        && sizes.key_width <= 256
}

/// The gate that keeps the attention of one token from the kernel that is made for it, if one does.
pub(crate) fn closed_decode(
    sizes: &Sizes,
    caps: &Capabilities,
    config: &Config,
) -> Option<&'static str> {
    if !fits_decode(sizes, caps) {
        return None;
    }
    let most = match config.sdpa_max_k_len_decode {
        0 => (config.sdpa_max_k_len, "more keys than MLX_VK_SDPA_MAX_K_LEN"),
        most => (most, "more keys than MLX_VK_SDPA_MAX_K_LEN_DECODE"),
    };
    first_closed(&[
        (config.enable_sdpa_native, "MLX_VK_ENABLE_SDPA_NATIVE=0"),
        (config.enable_sdpa_decode, "MLX_VK_ENABLE_SDPA_DECODE=0"),
        (
            config.enable_sdpa_decode_d128 || sizes.key_width != 128,
            "MLX_VK_ENABLE_SDPA_DECODE_D128=0",
        ),
        (most.0 == 0 || sizes.keys as u64 <= most.0, most.1),
    ])
}

/// The first gate that is not open.
pub(super) fn first_closed(gates: &[(bool, &'static str)]) -> Option<&'static str> {
    gates.iter().find(|(open, _)| !open).map(|(_, gate)| *gate)
}

/// How attention of one query token runs (`decode.comp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decode {
    /// Shares of the keys, each a workgroup's.
    pub splits: u32,
    /// Cooperative matrices multiply all heads that share keys with them.
    pub fragments: bool,
}

/// Threads and heads of a workgroup of `decode.comp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecodeShape {
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Query heads of a workgroup.
    pub heads: u32,
}

/// Keys of a split from which on two keys of a quantized cache are asked for ahead. Measured on an H100, 8B:
/// 256 keys a split (4,096 in all) 286 tokens/s with two and 300 with one, 993 (32,768) 194 and 184.
pub(crate) const MANY_ROUNDS: u32 = 512;

/// Whether that gains: with cooperative matrices over 32,768 keys of 8B 303.6 tokens/s instead of 285.1 with
/// 8 bits, 277.6 instead of 307.5 with 4 (H200).
pub(crate) fn asks_far(affine: Affine, fragments: bool) -> bool {
    !fragments || affine.bits == 8
}

/// Keys of a split that one workgroup takes without help.
const SHARE: usize = 256;

/// Fields and groups of a quantized cache that cooperative matrices take.
const FIELD_BITS: [usize; 2] = [4, 8];
const FIELD_GROUP: usize = 64;

/// Keys of all query heads from which cooperative matrices take no longer there. Measured on an H200 with
/// timestamps, caches of 8 bits of 8 key/value heads, µs without and with: 32 heads over 2,000 keys 17.0 and
/// 17.3; 16 heads over 2,000 14.3 and 16.3, over 4,000 17.1 and 17.8. Over 4,096 keys 32 heads decode 340 and
/// 381 tokens/s (8B).
const MANY_FIELDS: usize = 65_536;

/// Keys of a split, of which each of four subgroups has a part, up to which sums keep the bits that they
/// need: a field is 1,024 too much until its subgroup has ended. Reckoned with sums that are cut off, for
/// values around zero of 4 bits: 256 keys of a subgroup are 0.08 % off, 1,024 are 0.8 %.
const FIELD_KEYS: usize = 2048;

/// Splits of which one more or less is much.
const FEW_SPLITS: u32 = 8;

/// What products with a quantized cache may use: its fields are float16 in any case.
pub(crate) fn fields_fragment(
    sizes: &Sizes,
    dtype: Dtype,
    affine: Affine,
    caps: &Capabilities,
    config: &Config,
) -> Option<Fragment> {
    let fits = FIELD_BITS.contains(&affine.bits)
        && affine.group_size == FIELD_GROUP
        && sizes.batches * sizes.heads * sizes.keys >= MANY_FIELDS;
    let halves = matches!(dtype, Dtype::Float16 | Dtype::Bfloat16);
    fragment(Dtype::Float16, [0; 2], caps, config).filter(|_| fits && halves)
}

/// Keys of all heads, and of one, from which cooperative matrices are faster. Measured on an H200, 8B, 64
/// sequences, µs without and with: some 24 keys 12.5 and 14.9, 104 keys 22.4 and 21.0.
const MANY_KEYS: usize = 8192;
const FEW_KEYS: usize = 80;
/// Columns and rows of their fragments, and heads of a fragment.
const SIDE: u32 = 16;
const HEADS: usize = 8;
/// Threads of their workgroups, of which a multiprocessor has two: registers hold what is summed and what is
/// on its way.
const FRAGMENT_WORKGROUP: u32 = 128;
/// Threads of others at most, and of all of a multiprocessor that run at once.
const WIDE_WORKGROUP: u32 = 256;
const RESIDENT_THREADS: u32 = 512;
/// Threads of either where workgroups are many. Measured on an H200, 8B, cooperative matrices, µs with 128
/// and with 64 threads: 512 workgroups (64 sequences) over some 24 keys 19.2 and 14.9, 256 41.8 and 36.8,
/// 1,024 95.7 and 85.0, 4,096 303.8 and 283.1; 128 of them over 160 keys 12.9 and 16.3, 384 over 1,024 28.6
/// and 31.4.
const NARROW_WORKGROUP: u32 = 64;

/// Whether attention of one token goes to cooperative matrices; `fragment` is what products with keys and
/// values may use.
fn takes_fragments(sizes: &Sizes, fragment: Option<Fragment>, caps: &Capabilities) -> bool {
    let sharing = sizes.heads / sizes.kv_heads.max(1);
    fragment == Some(Fragment { m: SIDE, n: SIDE, k: SIDE })
        && caps.subgroup_size == 32
        && caps.subgroup_ops.ballot
        && caps.max_workgroup >= FRAGMENT_WORKGROUP
        && matches!(sizes.key_width, 64 | 128)
        && sharing <= HEADS
        && sizes.keys >= FEW_KEYS
        && sizes.batches * sizes.kv_heads * sizes.keys >= MANY_KEYS
        && fragment_words(sizes.key_width as u32, sharing as u32) * 4 <= caps.shared_memory
}

/// Words of shared memory of their workgroups: sums of every subgroup, queries, the new key and its value,
/// and what finds out where elements lie.
fn fragment_words(width: u32, heads: u32) -> u32 {
    let subgroups = FRAGMENT_WORKGROUP / 32;
    heads * (subgroups * (width + 2) + width) + 2 * width + NUMBERS / 4
}

/// Chooses the variant; `None` where `attention.comp` has to serve. `fragment` is what products with keys and
/// values may use.
pub(crate) fn decode(
    sizes: &Sizes,
    fragment: Option<Fragment>,
    caps: &Capabilities,
    config: &Config,
) -> Option<Decode> {
    if !fits_decode(sizes, caps) || closed_decode(sizes, caps, config).is_some() {
        return None;
    }
    let fragments = takes_fragments(sizes, fragment, caps);
    let splits = match config.sdpa_split_k {
        Some(fixed) => fixed as usize,
        None if caps.is_software() || sizes.keys <= SHARE => 1,
        // As many splits as fill the device, none of them shorter than what starting one costs.
        None => sizes.keys.div_ceil(SHARE).min(filling(sizes, caps)),
    };
    let splits = splits.clamp(1, most_splits(config)) as u32;
    Some(Decode { splits, fragments })
}

/// Splits that there may be.
fn most_splits(config: &Config) -> usize {
    config
        .sdpa_splitk_max_parts
        .map_or(MOST_SPLITS as usize, |m| m as usize)
        .clamp(1, MOST_SPLITS as usize)
}

/// Splits that fill the device.
fn filling(sizes: &Sizes, caps: &Capabilities) -> usize {
    (2 * caps.compute_units as usize).div_ceil(sizes.batches * sizes.kv_heads)
}

impl Decode {
    /// The same over a quantized cache that gets a new row. With several splits the last one has that alone,
    /// for it is quantized first; so there is one more, unless they fill the device and one is little of
    /// them.
    pub(crate) fn with_new_row(
        self,
        sizes: &Sizes,
        caps: &Capabilities,
        config: &Config,
    ) -> Decode {
        let most = most_splits(config) as u32;
        let filling = filling(sizes, caps) as u32;
        let more = self.splits > 1 && (self.splits < filling || self.splits < FEW_SPLITS);
        let free = config.sdpa_split_k.is_none();
        Decode { splits: (self.splits + u32::from(more && free)).min(most), ..self }
    }

    /// The same with splits short enough for the sums of fragments over fields, or without these.
    pub(crate) fn with_fields(self, sizes: &Sizes, config: &Config) -> Decode {
        let least = sizes.keys.div_ceil(FIELD_KEYS) as u32;
        let splits =
            if config.sdpa_split_k.is_none() { self.splits.max(least) } else { self.splits };
        let fragments = self.fragments && (least..=most_splits(config) as u32).contains(&splits);
        Decode { splits: if fragments { splits } else { self.splits }, fragments }
    }
}

/// The shape where cooperative matrices take `groups` times `group` heads, of which `group` share keys, that
/// are `dense` or quantized. Sums over fields are exact for so many keys of a subgroup ([`FIELD_KEYS`]).
pub(crate) fn fragment_shape(
    [groups, group]: [u32; 2],
    dense: bool,
    caps: &Capabilities,
) -> DecodeShape {
    let many = dense && groups > 2 * caps.compute_units;
    let workgroup = if many { NARROW_WORKGROUP } else { FRAGMENT_WORKGROUP };
    DecodeShape { subgroup: caps.subgroup_size, workgroup, heads: group }
}

/// Threads and heads of a workgroup for `groups` times `group` heads of `width`
/// features, of which `group` share keys.
pub(crate) fn decode_shape(
    width: u32,
    [groups, group]: [u32; 2],
    splits: u32,
    caps: &Capabilities,
) -> DecodeShape {
    let subgroup = caps.subgroup_size;
    // Registers hold a slice of every query and of its sums.
    let most = if width > 128 { 2 } else { 4 };
    // Heads of a workgroup come one after the other, which takes longer than reading keys again
    // as long as the device is not full (8 kv heads of 4 heads, few keys, on an H200: 14.7 µs
    // for four at a time, 7.1 for one). Keys that are few take little to read.
    let full = if splits == 1 { 4 } else { 2 } * caps.compute_units;
    let fills = |heads: u32| groups * group / heads * splits >= full;
    let heads = (1..=most)
        .rev()
        .find(|&n| group.is_multiple_of(n) && (caps.is_software() || fills(n)))
        .unwrap_or(1);
    // Shared memory holds the sums of every subgroup.
    let fits = |threads: u32| {
        let subgroups = threads / subgroup;
        let words = heads * width + 2 * width + heads * subgroups * (2 + width);
        words * 4 + 64 <= caps.shared_memory
    };
    // Many workgroups with few threads run at once (few keys, on an H200, µs with 256, 128 and 64 threads:
    // 8B with 64 sequences, two heads at a time, 14.2 with 128 and 12.4, one head 22.4, 15.8 and 13.0).
    let at_once = caps.compute_units * RESIDENT_THREADS;
    let share = (at_once / (groups * group / heads * splits).max(1)).max(1);
    let wanted = match caps.is_software() {
        true => subgroup,
        false => (1 << share.ilog2()).clamp(NARROW_WORKGROUP, WIDE_WORKGROUP),
    };
    let mut workgroup = wanted.min(caps.max_workgroup).max(subgroup);
    while workgroup > subgroup && !fits(workgroup) {
        workgroup /= 2;
    }
    DecodeShape { subgroup, workgroup, heads }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::{DeviceKind, Fragments};

    fn decode(keys: usize) -> Sizes {
        Sizes {
            batches: 1,
            heads: 16,
            kv_heads: 8,
            queries: 1,
            keys,
            key_width: 128,
            value_width: 128,
        }
    }

    #[test]
    fn decoding_splits_long_caches() {
        let (caps, config) = (Capabilities::default(), Config::default());
        let short = plan(&decode(32), &caps, &config).unwrap();
        assert_eq!((short.rows, short.splits), (2, 1));
        assert_eq!(plan(&decode(4096), &caps, &config).unwrap().splits, 16);
        let fixed = Config { sdpa_split_k: Some(3), ..Config::default() };
        assert_eq!(plan(&decode(4096), &caps, &fixed).unwrap().splits, 3);
        let prefill = Sizes { queries: 512, ..decode(512) };
        let found = plan(&prefill, &caps, &config).unwrap();
        assert_eq!((found.rows, found.splits), (16, 1));
    }

    #[test]
    fn wide_heads_take_fewer_rows_or_none() {
        let (caps, config) = (Capabilities::default(), Config::default());
        let wide = Sizes { queries: 64, key_width: 1024, value_width: 1024, ..decode(64) };
        assert!(plan(&wide, &caps, &config).unwrap().rows <= 4);
        assert_eq!(plan(&Sizes { key_width: 1 << 16, ..wide }, &caps, &config), None);
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..caps };
        let found = plan(&decode(4096), &cpu, &config).unwrap();
        assert_eq!((found.workgroup, found.parts, found.splits), (8, 1, 1));
    }

    #[test]
    fn one_token_is_shared_among_workgroups_when_there_are_many_keys() {
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        let config = Config::default();
        let sizes = |keys, width| Sizes {
            batches: 1,
            heads: 16,
            kv_heads: 8,
            queries: 1,
            keys,
            key_width: width,
            value_width: width,
        };
        let splits = |keys, width| {
            super::decode(&sizes(keys, width), None, &caps, &config).map(|d| d.splits)
        };
        assert_eq!(
            [128, 256, 257, 8192].map(|k| splits(k, 128)),
            [Some(1), Some(1), Some(2), Some(32)]
        );
        assert_eq!(splits(131_072, 128), Some(33), "as many as fill the device");
        assert_eq!(splits(128, 80), None);
        let off = Config { enable_sdpa_decode: false, ..Config::default() };
        assert_eq!(super::decode(&sizes(128, 128), None, &caps, &off), None);
        let limited = Config { sdpa_max_k_len_decode: 64, ..Config::default() };
        assert_eq!(super::decode(&sizes(65, 128), None, &caps, &limited), None);
        assert!(super::decode(&sizes(64, 128), None, &caps, &limited).is_some());
        let narrow = Config { enable_sdpa_decode_d128: false, ..Config::default() };
        assert_eq!(super::decode(&sizes(64, 128), None, &caps, &narrow), None);
        assert!(super::decode(&sizes(64, 64), None, &caps, &narrow).is_some());
        let reason = |config| closed_decode(&sizes(65, 128), &caps, &config);
        assert_eq!(reason(limited), Some("more keys than MLX_VK_SDPA_MAX_K_LEN_DECODE"));
        assert_eq!(reason(narrow), Some("MLX_VK_ENABLE_SDPA_DECODE_D128=0"));
        assert_eq!(reason(Config::default()), None);
    }

    #[test]
    fn long_caches_go_to_cooperative_matrices() {
        let shared_memory = 48 << 10;
        let caps = Capabilities {
            compute_units: 132,
            subgroup_size: 32,
            shared_memory,
            ..Capabilities::default()
        };
        let of = |sizes: &Sizes, n| {
            super::decode(sizes, Some(Fragment { m: 16, n, k: 16 }), &caps, &Config::default())
        };
        let fragments = |sizes: &Sizes| of(sizes, 16).unwrap().fragments;
        assert!(!fragments(&decode(1023)) && fragments(&decode(1024)));
        assert!(fragments(&Sizes { batches: 8, ..decode(128) }), "keys of all sequences");
        assert!(!fragments(&Sizes { key_width: 192, value_width: 192, ..decode(4096) }));
        assert!(!fragments(&Sizes { heads: 128, ..decode(4096) }), "sixteen heads for a key");
        assert!(!of(&decode(4096), 8).unwrap().fragments);
    }

    #[test]
    fn long_caches_of_whole_fields_go_there_too() {
        let side = Fragment { m: 16, n: 16, k: 16 };
        let fragments = Fragments { float16: Some(side), bfloat16: None };
        let caps = Capabilities { fragments, ..Capabilities::default() };
        let of = |keys, dtype, bits, group_size| {
            let affine = Affine { group_size, bits };
            fields_fragment(&decode(keys), dtype, affine, &caps, &Config::default()).is_some()
        };
        let brain = Dtype::Bfloat16;
        assert_eq!([4095, 4096].map(|keys| of(keys, brain, 8, 64)), [false, true]);
        assert_eq!([4, 6, 8].map(|bits| of(8192, Dtype::Float16, bits, 64)), [true, false, true]);
        assert!(!of(8192, brain, 8, 32) && !of(8192, Dtype::Float32, 8, 64));
    }

    #[test]
    fn a_new_row_has_a_split_of_its_own_where_there_is_room() {
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        let with = |splits, config: &Config| {
            let plan = Decode { splits, fragments: false };
            plan.with_new_row(&decode(8192), &caps, config).splits
        };
        let free = Config::default();
        assert_eq!([1, 2, 32, 33, 64].map(|splits| with(splits, &free)), [1, 3, 33, 33, 64]);
        let fixed = Config { sdpa_split_k: Some(3), ..Config::default() };
        let few = Config { sdpa_splitk_max_parts: Some(3), ..Config::default() };
        assert_eq!([with(3, &fixed), with(2, &few), with(3, &few)], [3, 3, 3]);
        let many = Sizes { batches: 20, ..decode(8192) };
        let plan = Decode { splits: 2, fragments: false };
        assert_eq!(plan.with_new_row(&many, &caps, &free).splits, 3, "two of them share the keys");
    }

    #[test]
    fn splits_over_fields_are_short() {
        let with = |splits, keys, config: &Config| {
            let plan = Decode { splits, fragments: true }.with_fields(&decode(keys), config);
            (plan.splits, plan.fragments)
        };
        let free = Config::default();
        assert_eq!(with(33, 32_768, &free), (33, true));
        assert_eq!(with(2, 32_768, &free), (16, true), "many sequences");
        assert_eq!([131_072, 131_073].map(|keys| with(33, keys, &free)), [(64, true), (33, false)]);
        let fixed = Config { sdpa_split_k: Some(2), ..Config::default() };
        assert_eq!([with(2, 4096, &fixed), with(2, 4097, &fixed)], [(2, true), (2, false)]);
    }

    #[test]
    fn many_workgroups_have_few_threads() {
        let gpu = Capabilities { compute_units: 132, subgroup_size: 32, ..Capabilities::default() };
        let threads = |groups| decode_shape(128, [groups, 4], 1, &gpu).workgroup;
        assert_eq!([8, 32, 64, 128, 256, 512].map(threads), [256, 256, 256, 128, 64, 64]);
        let fragments = |groups, dense| fragment_shape([groups, 4], dense, &gpu).workgroup;
        assert_eq!([128, 512].map(|groups| fragments(groups, true)), [128, 64]);
        assert_eq!(fragments(512, false), 128, "sums over fields are a subgroup's");
    }

    #[test]
    fn heads_share_keys_where_the_device_is_full_without() {
        let gpu = Capabilities { compute_units: 132, ..Capabilities::default() };
        let heads = |width, heads, splits| decode_shape(width, heads, splits, &gpu).heads;
        assert_eq!([1, 8, 17, 33].map(|splits| heads(128, [8, 4], splits)), [1, 1, 2, 4]);
        assert_eq!([heads(64, [8, 3], 33), heads(256, [8, 8], 33)], [3, 2]);
        assert_eq!([128, 256, 512].map(|groups| heads(128, [groups, 4], 1)), [1, 1, 2]);
        assert!(decode_shape(128, [8, 4], 1, &gpu).workgroup.is_multiple_of(gpu.subgroup_size));
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..gpu };
        assert_eq!(decode_shape(128, [8, 4], 1, &cpu).heads, 4, "threads of one core");
    }
}
