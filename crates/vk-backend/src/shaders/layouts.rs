//! What kernels take from the host: `cargo xtask shaders` writes this file from their compiled
//! modules. Never edit it.
//!
//! A source's module has its specialization constants (`Constants`), its push constants (`Push`,
//! shared with other sources whose block is the same), its kernels, structs that shaders read from
//! memory, and numbers that both sides name.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};

use super::{Kernel, KernelOf, SpecConstants};

/// `shaders/arange/arange.comp`.
pub(crate) mod arange {
    use super::*;
    pub(crate) const ARANGE_FLOAT: KernelOf<Constants, Push> = KernelOf::new(Kernel::arange_float);
    pub(crate) const ARANGE_LONG: KernelOf<Constants, LongPush> =
        KernelOf::new(Kernel::arange_long);
    pub(crate) const ARANGE_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::arange_complex);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.dtype]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) start: [f32; 2],
        pub(crate) step: [f32; 2],
    }
    const _: () = {
        assert!(offset_of!(Push, destination) == 0);
        assert!(offset_of!(Push, count) == 8);
        assert!(offset_of!(Push, start) == 16);
        assert!(offset_of!(Push, step) == 24);
        assert!(size_of::<Push>() == 32);
    };
    /// `LongPush` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct LongPush {
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) start: i64,
        pub(crate) step: i64,
    }
    const _: () = {
        assert!(offset_of!(LongPush, destination) == 0);
        assert!(offset_of!(LongPush, count) == 8);
        assert!(offset_of!(LongPush, start) == 16);
        assert!(offset_of!(LongPush, step) == 24);
        assert!(size_of::<LongPush>() == 32);
    };
}

/// `shaders/attention/attention.comp`.
pub(crate) mod attention {
    use super::*;
    pub(crate) const K_VECTOR_FLAG: u32 = 1;
    pub(crate) const V_VECTOR_FLAG: u32 = 2;
    pub(crate) const SPLIT_FLAG: u32 = 4;
    pub(crate) const CAUSAL: u32 = 1;
    pub(crate) const KEEP: u32 = 2;
    pub(crate) const ADDITIVE: u32 = 3;
    pub(crate) const ATTENTION_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_subgroup);
    pub(crate) const ATTENTION_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) rows: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) keys: u32,
        /// `constant_id = 6`.
        pub(crate) parts: u32,
        /// `constant_id = 7`.
        pub(crate) key_quads: u32,
        /// `constant_id = 8`.
        pub(crate) value_quads: u32,
        /// `constant_id = 9`.
        pub(crate) mask: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                flags: 0,
                rows: 1,
                subgroup: 32,
                keys: 32,
                parts: 4,
                key_quads: 16,
                value_quads: 16,
                mask: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 10];
        fn words(&self) -> [u32; 10] {
            [
                self.workgroup,
                self.dtype,
                self.flags,
                self.rows,
                self.subgroup,
                self.keys,
                self.parts,
                self.key_quads,
                self.value_quads,
                self.mask,
            ]
        }
    }
    /// `Strides` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Strides {
        pub(crate) q_batch: i64,
        pub(crate) q_head: i64,
        pub(crate) q_row: i64,
        pub(crate) k_batch: i64,
        pub(crate) k_head: i64,
        pub(crate) k_row: i64,
        pub(crate) v_batch: i64,
        pub(crate) v_head: i64,
        pub(crate) v_row: i64,
        pub(crate) mask_batch: i64,
        pub(crate) mask_head: i64,
        pub(crate) mask_row: i64,
        pub(crate) mask_key: i64,
        pub(crate) out_batch: i64,
        pub(crate) out_head: i64,
        pub(crate) out_row: i64,
    }
    const _: () = {
        assert!(offset_of!(Strides, q_batch) == 0);
        assert!(offset_of!(Strides, q_head) == 8);
        assert!(offset_of!(Strides, q_row) == 16);
        assert!(offset_of!(Strides, k_batch) == 24);
        assert!(offset_of!(Strides, k_head) == 32);
        assert!(offset_of!(Strides, k_row) == 40);
        assert!(offset_of!(Strides, v_batch) == 48);
        assert!(offset_of!(Strides, v_head) == 56);
        assert!(offset_of!(Strides, v_row) == 64);
        assert!(offset_of!(Strides, mask_batch) == 72);
        assert!(offset_of!(Strides, mask_head) == 80);
        assert!(offset_of!(Strides, mask_row) == 88);
        assert!(offset_of!(Strides, mask_key) == 96);
        assert!(offset_of!(Strides, out_batch) == 104);
        assert!(offset_of!(Strides, out_head) == 112);
        assert!(offset_of!(Strides, out_row) == 120);
        assert!(size_of::<Strides>() == 128);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) q: u64,
        pub(crate) k: u64,
        pub(crate) v: u64,
        pub(crate) mask: u64,
        pub(crate) result: u64,
        pub(crate) maxima: u64,
        pub(crate) strides: u64,
        pub(crate) sinks: u64,
        pub(crate) factors: u64,
        pub(crate) batches: u32,
        pub(crate) heads: u32,
        pub(crate) kv_heads: u32,
        pub(crate) queries: u32,
        pub(crate) keys: u32,
        pub(crate) key_width: u32,
        pub(crate) value_width: u32,
        pub(crate) splits: u32,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, q) == 0);
        assert!(offset_of!(Push, k) == 8);
        assert!(offset_of!(Push, v) == 16);
        assert!(offset_of!(Push, mask) == 24);
        assert!(offset_of!(Push, result) == 32);
        assert!(offset_of!(Push, maxima) == 40);
        assert!(offset_of!(Push, strides) == 48);
        assert!(offset_of!(Push, sinks) == 56);
        assert!(offset_of!(Push, factors) == 64);
        assert!(offset_of!(Push, batches) == 72);
        assert!(offset_of!(Push, heads) == 76);
        assert!(offset_of!(Push, kv_heads) == 80);
        assert!(offset_of!(Push, queries) == 84);
        assert!(offset_of!(Push, keys) == 88);
        assert!(offset_of!(Push, key_width) == 92);
        assert!(offset_of!(Push, value_width) == 96);
        assert!(offset_of!(Push, splits) == 100);
        assert!(offset_of!(Push, scale) == 104);
        assert!(size_of::<Push>() == 108);
    };
}

/// `shaders/attention/combine.comp`.
pub(crate) mod attention_combine {
    use super::*;
    pub(crate) const ATTENTION_COMBINE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_combine);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) splits: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, splits: 16 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.dtype, self.splits]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) parts: u64,
        pub(crate) maxima: u64,
        pub(crate) result: u64,
        pub(crate) sinks: u64,
        pub(crate) out_batch: i64,
        pub(crate) out_head: i64,
        pub(crate) out_row: i64,
        pub(crate) batches: u32,
        pub(crate) heads: u32,
        pub(crate) queries: u32,
        pub(crate) value_width: u32,
        pub(crate) splits: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, parts) == 0);
        assert!(offset_of!(Push, maxima) == 8);
        assert!(offset_of!(Push, result) == 16);
        assert!(offset_of!(Push, sinks) == 24);
        assert!(offset_of!(Push, out_batch) == 32);
        assert!(offset_of!(Push, out_head) == 40);
        assert!(offset_of!(Push, out_row) == 48);
        assert!(offset_of!(Push, batches) == 56);
        assert!(offset_of!(Push, heads) == 60);
        assert!(offset_of!(Push, queries) == 64);
        assert!(offset_of!(Push, value_width) == 68);
        assert!(offset_of!(Push, splits) == 72);
        assert!(size_of::<Push>() == 76);
    };
}

/// `shaders/attention/decode.comp`.
pub(crate) mod attention_decode {
    use super::*;
    pub(crate) const FUSED_FLAG: u32 = 1;
    pub(crate) const NORM_FLAG: u32 = 2;
    pub(crate) const TRADITIONAL_FLAG: u32 = 4;
    pub(crate) const DIVISORS_FLAG: u32 = 8;
    pub(crate) const SPLIT_FLAG: u32 = 16;
    pub(crate) const FRAGMENTS_FLAG: u32 = 32;
    pub(crate) const SINKS_FLAG: u32 = 64;
    pub(crate) const KEEP_FLAG: u32 = 128;
    pub(crate) const ADDITIVE_FLAG: u32 = 256;
    pub(crate) const POSITIONS_FLAG: u32 = 512;
    pub(crate) const MANY_ROUNDS_FLAG: u32 = 1024;
    pub(crate) const MARKED_FLAG: u32 = 2048;
    pub(crate) const MOST_SPLITS: u32 = 64;
    pub(crate) const ATTENTION_DECODE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_decode);
    pub(crate) const ATTENTION_DECODE_QUANTIZED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_decode_quantized);
    pub(crate) const ATTENTION_DECODE_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_decode_float16);
    pub(crate) const ATTENTION_DECODE_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_decode_bfloat16);
    pub(crate) const ATTENTION_DECODE_FIELDS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_decode_fields);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) width: u32,
        /// `constant_id = 3`.
        pub(crate) subgroup: u32,
        /// `constant_id = 4`.
        pub(crate) heads: u32,
        /// `constant_id = 5`.
        pub(crate) sharing: u32,
        /// `constant_id = 6`.
        pub(crate) flags: u32,
        /// `constant_id = 7`.
        pub(crate) eps: u32,
        /// `constant_id = 8`.
        pub(crate) position_scale: u32,
        /// `constant_id = 9`.
        pub(crate) bits: u32,
        /// `constant_id = 10`.
        pub(crate) group: u32,
        /// `constant_id = 11`.
        pub(crate) rotated: u32,
        /// `constant_id = 12`.
        pub(crate) query_head: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 10,
                width: 128,
                subgroup: 32,
                heads: 2,
                sharing: 2,
                flags: 0,
                eps: 0,
                position_scale: 1065353216,
                bits: 8,
                group: 64,
                rotated: 128,
                query_head: 128,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 13];
        fn words(&self) -> [u32; 13] {
            [
                self.workgroup,
                self.dtype,
                self.width,
                self.subgroup,
                self.heads,
                self.sharing,
                self.flags,
                self.eps,
                self.position_scale,
                self.bits,
                self.group,
                self.rotated,
                self.query_head,
            ]
        }
    }
    /// `More` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct More {
        pub(crate) key_scales: u64,
        pub(crate) key_biases: u64,
        pub(crate) value_scales: u64,
        pub(crate) value_biases: u64,
        pub(crate) factor: u64,
        pub(crate) sinks: u64,
        pub(crate) mask: u64,
        pub(crate) mask_sequence: i64,
        pub(crate) mask_head: i64,
        pub(crate) mask_key: i64,
        pub(crate) marked: u64,
        pub(crate) sinks_count: u32,
        pub(crate) sequence_heads: u32,
        pub(crate) tag: u32,
        pub(crate) unused: u32,
    }
    const _: () = {
        assert!(offset_of!(More, key_scales) == 0);
        assert!(offset_of!(More, key_biases) == 8);
        assert!(offset_of!(More, value_scales) == 16);
        assert!(offset_of!(More, value_biases) == 24);
        assert!(offset_of!(More, factor) == 32);
        assert!(offset_of!(More, sinks) == 40);
        assert!(offset_of!(More, mask) == 48);
        assert!(offset_of!(More, mask_sequence) == 56);
        assert!(offset_of!(More, mask_head) == 64);
        assert!(offset_of!(More, mask_key) == 72);
        assert!(offset_of!(More, marked) == 80);
        assert!(offset_of!(More, sinks_count) == 88);
        assert!(offset_of!(More, sequence_heads) == 92);
        assert!(offset_of!(More, tag) == 96);
        assert!(offset_of!(More, unused) == 100);
        assert!(size_of::<More>() == 104);
    };
    /// `Tagged4` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Tagged4 {
        pub(crate) v: [u32; 4],
    }
    const _: () = {
        assert!(offset_of!(Tagged4, v) == 0);
        assert!(size_of::<Tagged4>() == 16);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) q: u64,
        pub(crate) new_key: u64,
        pub(crate) new_value: u64,
        pub(crate) q_weight: u64,
        pub(crate) k_weight: u64,
        pub(crate) frequencies: u64,
        pub(crate) offset: u64,
        pub(crate) keys: u64,
        pub(crate) values: u64,
        pub(crate) result: u64,
        pub(crate) parts: u64,
        pub(crate) counters: u64,
        pub(crate) key_head: u32,
        pub(crate) key_row: u32,
        pub(crate) value_head: u32,
        pub(crate) value_row: u32,
        pub(crate) count: u32,
        pub(crate) score_scale: f32,
        pub(crate) more: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, q) == 0);
        assert!(offset_of!(Push, new_key) == 8);
        assert!(offset_of!(Push, new_value) == 16);
        assert!(offset_of!(Push, q_weight) == 24);
        assert!(offset_of!(Push, k_weight) == 32);
        assert!(offset_of!(Push, frequencies) == 40);
        assert!(offset_of!(Push, offset) == 48);
        assert!(offset_of!(Push, keys) == 56);
        assert!(offset_of!(Push, values) == 64);
        assert!(offset_of!(Push, result) == 72);
        assert!(offset_of!(Push, parts) == 80);
        assert!(offset_of!(Push, counters) == 88);
        assert!(offset_of!(Push, key_head) == 96);
        assert!(offset_of!(Push, key_row) == 100);
        assert!(offset_of!(Push, value_head) == 104);
        assert!(offset_of!(Push, value_row) == 108);
        assert!(offset_of!(Push, count) == 112);
        assert!(offset_of!(Push, score_scale) == 116);
        assert!(offset_of!(Push, more) == 120);
        assert!(size_of::<Push>() == 128);
    };
}

/// `shaders/include/attention_derivatives.glsl`.
pub(crate) mod attention_derivatives {
    use super::*;
    pub(crate) const ROWS_PASS: u32 = 0;
    pub(crate) const QUERIES_PASS: u32 = 1;
    pub(crate) const KEYS_PASS: u32 = 2;
    pub(crate) const CAUSAL: u32 = 1;
    pub(crate) const KEEP: u32 = 2;
    pub(crate) const ADDITIVE: u32 = 3;
}

/// `shaders/attention/heads.comp`.
pub(crate) mod attention_heads {
    use super::*;
    pub(crate) const NORM_FLAG: u32 = 1;
    pub(crate) const TRADITIONAL_FLAG: u32 = 2;
    pub(crate) const DIVISORS_FLAG: u32 = 4;
    pub(crate) const ATTENTION_HEADS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_heads);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) width: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) eps: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, width: 128, subgroup: 32, eps: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.dtype, self.flags, self.width, self.subgroup, self.eps]
        }
    }
    /// `Section` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Section {
        pub(crate) from: u64,
        pub(crate) weight: u64,
        pub(crate) to: u64,
        pub(crate) to_batch: u64,
        pub(crate) to_head: u64,
        pub(crate) to_token: u64,
        pub(crate) heads: u32,
        pub(crate) turned: u32,
    }
    const _: () = {
        assert!(offset_of!(Section, from) == 0);
        assert!(offset_of!(Section, weight) == 8);
        assert!(offset_of!(Section, to) == 16);
        assert!(offset_of!(Section, to_batch) == 24);
        assert!(offset_of!(Section, to_head) == 32);
        assert!(offset_of!(Section, to_token) == 40);
        assert!(offset_of!(Section, heads) == 48);
        assert!(offset_of!(Section, turned) == 52);
        assert!(size_of::<Section>() == 56);
    };
    /// `Sections` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Sections {
        pub(crate) all: [Section; 3],
    }
    const _: () = {
        assert!(offset_of!(Sections, all) == 0);
        assert!(size_of::<Sections>() == 168);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) sections: u64,
        pub(crate) offset: u64,
        pub(crate) frequencies: u64,
        pub(crate) count: u32,
        pub(crate) heads: u32,
        pub(crate) tokens: u32,
        pub(crate) batches: u32,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, sections) == 0);
        assert!(offset_of!(Push, offset) == 8);
        assert!(offset_of!(Push, frequencies) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, heads) == 28);
        assert!(offset_of!(Push, tokens) == 32);
        assert!(offset_of!(Push, batches) == 36);
        assert!(offset_of!(Push, scale) == 40);
        assert!(size_of::<Push>() == 44);
    };
}

/// `shaders/attention/latent.comp`.
pub(crate) mod attention_latent {
    use super::*;
    pub(crate) const TRADITIONAL_FLAG: u32 = 1;
    pub(crate) const DIVISORS_FLAG: u32 = 2;
    pub(crate) const SPLIT_FLAG: u32 = 4;
    pub(crate) const ATTENTION_LATENT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_latent);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) subgroup: u32,
        /// `constant_id = 3`.
        pub(crate) latent: u32,
        /// `constant_id = 4`.
        pub(crate) rotated: u32,
        /// `constant_id = 5`.
        pub(crate) heads: u32,
        /// `constant_id = 6`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 10,
                subgroup: 32,
                latent: 512,
                rotated: 64,
                heads: 2,
                flags: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [
                self.workgroup,
                self.dtype,
                self.subgroup,
                self.latent,
                self.rotated,
                self.heads,
                self.flags,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) latent_q: u64,
        pub(crate) rotated_q: u64,
        pub(crate) latent_key: u64,
        pub(crate) rotated_key: u64,
        pub(crate) weight: u64,
        pub(crate) frequencies: u64,
        pub(crate) offset: u64,
        pub(crate) latents: u64,
        pub(crate) keys: u64,
        pub(crate) result: u64,
        pub(crate) parts: u64,
        pub(crate) counters: u64,
        pub(crate) query_head: u32,
        pub(crate) count: u32,
        pub(crate) latent_scale: f32,
        pub(crate) rotated_scale: f32,
        pub(crate) eps: f32,
        pub(crate) position_scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, latent_q) == 0);
        assert!(offset_of!(Push, rotated_q) == 8);
        assert!(offset_of!(Push, latent_key) == 16);
        assert!(offset_of!(Push, rotated_key) == 24);
        assert!(offset_of!(Push, weight) == 32);
        assert!(offset_of!(Push, frequencies) == 40);
        assert!(offset_of!(Push, offset) == 48);
        assert!(offset_of!(Push, latents) == 56);
        assert!(offset_of!(Push, keys) == 64);
        assert!(offset_of!(Push, result) == 72);
        assert!(offset_of!(Push, parts) == 80);
        assert!(offset_of!(Push, counters) == 88);
        assert!(offset_of!(Push, query_head) == 96);
        assert!(offset_of!(Push, count) == 100);
        assert!(offset_of!(Push, latent_scale) == 104);
        assert!(offset_of!(Push, rotated_scale) == 108);
        assert!(offset_of!(Push, eps) == 112);
        assert!(offset_of!(Push, position_scale) == 116);
        assert!(size_of::<Push>() == 120);
    };
}

/// `shaders/attention/matrix.comp`.
pub(crate) mod attention_matrix {
    use super::*;
    pub(crate) const Q_SHARED_FLAG: u32 = 1;
    pub(crate) const REGISTERS_FLAG: u32 = 2;
    pub(crate) const SPLIT_FLAG: u32 = 4;
    pub(crate) const CAUSAL: u32 = 1;
    pub(crate) const KEEP: u32 = 2;
    pub(crate) const ADDITIVE: u32 = 3;
    pub(crate) const ATTENTION_MATRIX_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_matrix_float16);
    pub(crate) const ATTENTION_MATRIX_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_matrix_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) blocks: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) keys: u32,
        /// `constant_id = 6`.
        pub(crate) tile_splits: u32,
        /// `constant_id = 7`.
        pub(crate) key_width: u32,
        /// `constant_id = 8`.
        pub(crate) value_width: u32,
        /// `constant_id = 9`.
        pub(crate) mask: u32,
        /// `constant_id = 10`.
        pub(crate) fm: u32,
        /// `constant_id = 11`.
        pub(crate) fn_: u32,
        /// `constant_id = 12`.
        pub(crate) fk: u32,
        /// `constant_id = 13`.
        pub(crate) out_dtype: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 9,
                flags: 0,
                blocks: 4,
                subgroup: 32,
                keys: 64,
                tile_splits: 1,
                key_width: 128,
                value_width: 128,
                mask: 0,
                fm: 16,
                fn_: 16,
                fk: 16,
                out_dtype: 9,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 14];
        fn words(&self) -> [u32; 14] {
            [
                self.workgroup,
                self.dtype,
                self.flags,
                self.blocks,
                self.subgroup,
                self.keys,
                self.tile_splits,
                self.key_width,
                self.value_width,
                self.mask,
                self.fm,
                self.fn_,
                self.fk,
                self.out_dtype,
            ]
        }
    }
    pub(crate) use super::attention::Push;
    pub(crate) use super::attention::Strides;
}

/// `shaders/attention/vjp.comp`.
pub(crate) mod attention_vjp {
    use super::*;
    pub(crate) const VECTOR_FLAG: u32 = 1;
    pub(crate) const STEP: u32 = 16;
    pub(crate) const ATTENTION_VJP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_vjp);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) pass: u32,
        /// `constant_id = 4`.
        pub(crate) block: u32,
        /// `constant_id = 5`.
        pub(crate) columns: u32,
        /// `constant_id = 6`.
        pub(crate) mask: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, pass: 0, block: 32, columns: 1, mask: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [self.workgroup, self.dtype, self.flags, self.pass, self.block, self.columns, self.mask]
        }
    }
    /// `Strides` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Strides {
        pub(crate) q: [i64; 3],
        pub(crate) k: [i64; 3],
        pub(crate) v: [i64; 3],
        pub(crate) result: [i64; 3],
        pub(crate) cotangent: [i64; 3],
        pub(crate) by_q: [i64; 3],
        pub(crate) by_k: [i64; 3],
        pub(crate) by_v: [i64; 3],
        pub(crate) mask_batch: i64,
        pub(crate) mask_head: i64,
        pub(crate) mask_row: i64,
        pub(crate) mask_key: i64,
    }
    const _: () = {
        assert!(offset_of!(Strides, q) == 0);
        assert!(offset_of!(Strides, k) == 24);
        assert!(offset_of!(Strides, v) == 48);
        assert!(offset_of!(Strides, result) == 72);
        assert!(offset_of!(Strides, cotangent) == 96);
        assert!(offset_of!(Strides, by_q) == 120);
        assert!(offset_of!(Strides, by_k) == 144);
        assert!(offset_of!(Strides, by_v) == 168);
        assert!(offset_of!(Strides, mask_batch) == 192);
        assert!(offset_of!(Strides, mask_head) == 200);
        assert!(offset_of!(Strides, mask_row) == 208);
        assert!(offset_of!(Strides, mask_key) == 216);
        assert!(size_of::<Strides>() == 224);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) q: u64,
        pub(crate) k: u64,
        pub(crate) v: u64,
        pub(crate) mask: u64,
        pub(crate) result: u64,
        pub(crate) cotangent: u64,
        pub(crate) by_q: u64,
        pub(crate) by_k: u64,
        pub(crate) by_v: u64,
        pub(crate) rows: u64,
        pub(crate) strides: u64,
        pub(crate) factors: u64,
        pub(crate) batches: u32,
        pub(crate) heads: u32,
        pub(crate) kv_heads: u32,
        pub(crate) queries: u32,
        pub(crate) keys: u32,
        pub(crate) key_width: u32,
        pub(crate) value_width: u32,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, q) == 0);
        assert!(offset_of!(Push, k) == 8);
        assert!(offset_of!(Push, v) == 16);
        assert!(offset_of!(Push, mask) == 24);
        assert!(offset_of!(Push, result) == 32);
        assert!(offset_of!(Push, cotangent) == 40);
        assert!(offset_of!(Push, by_q) == 48);
        assert!(offset_of!(Push, by_k) == 56);
        assert!(offset_of!(Push, by_v) == 64);
        assert!(offset_of!(Push, rows) == 72);
        assert!(offset_of!(Push, strides) == 80);
        assert!(offset_of!(Push, factors) == 88);
        assert!(offset_of!(Push, batches) == 96);
        assert!(offset_of!(Push, heads) == 100);
        assert!(offset_of!(Push, kv_heads) == 104);
        assert!(offset_of!(Push, queries) == 108);
        assert!(offset_of!(Push, keys) == 112);
        assert!(offset_of!(Push, key_width) == 116);
        assert!(offset_of!(Push, value_width) == 120);
        assert!(offset_of!(Push, scale) == 124);
        assert!(size_of::<Push>() == 128);
    };
}

/// `shaders/attention/vjp_matrix.comp`.
pub(crate) mod attention_vjp_matrix {
    use super::*;
    pub(crate) const PREFETCH_FLAG: u32 = 1;
    pub(crate) const REGISTERS_FLAG: u32 = 2;
    pub(crate) const ATTENTION_VJP_MATRIX_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_vjp_matrix_float16);
    pub(crate) const ATTENTION_VJP_MATRIX_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::attention_vjp_matrix_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) pass: u32,
        /// `constant_id = 4`.
        pub(crate) blocks: u32,
        /// `constant_id = 5`.
        pub(crate) subgroup: u32,
        /// `constant_id = 6`.
        pub(crate) walked: u32,
        /// `constant_id = 7`.
        pub(crate) key_width: u32,
        /// `constant_id = 8`.
        pub(crate) value_width: u32,
        /// `constant_id = 9`.
        pub(crate) mask: u32,
        /// `constant_id = 10`.
        pub(crate) out_dtype: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 9,
                flags: 0,
                pass: 0,
                blocks: 4,
                subgroup: 32,
                walked: 32,
                key_width: 128,
                value_width: 128,
                mask: 0,
                out_dtype: 9,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 11];
        fn words(&self) -> [u32; 11] {
            [
                self.workgroup,
                self.dtype,
                self.flags,
                self.pass,
                self.blocks,
                self.subgroup,
                self.walked,
                self.key_width,
                self.value_width,
                self.mask,
                self.out_dtype,
            ]
        }
    }
    pub(crate) use super::attention_vjp::Push;
    pub(crate) use super::attention_vjp::Strides;
}

/// `shaders/binary/binary.comp`.
pub(crate) mod binary {
    use super::*;
    pub(crate) const BINARY_FLOAT: KernelOf<Constants, Push> = KernelOf::new(Kernel::binary_float);
    pub(crate) const BINARY_FLOAT_TRANSCENDENTAL: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::binary_float_transcendental);
    pub(crate) const COMPARE_FLOAT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::compare_float);
    pub(crate) const BINARY_INT: KernelOf<Constants, Push> = KernelOf::new(Kernel::binary_int);
    pub(crate) const COMPARE_INT: KernelOf<Constants, Push> = KernelOf::new(Kernel::compare_int);
    pub(crate) const BINARY_UINT: KernelOf<Constants, Push> = KernelOf::new(Kernel::binary_uint);
    pub(crate) const COMPARE_UINT: KernelOf<Constants, Push> = KernelOf::new(Kernel::compare_uint);
    pub(crate) const BINARY_LONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::binary_long);
    pub(crate) const COMPARE_LONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::compare_long);
    pub(crate) const BINARY_ULONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::binary_ulong);
    pub(crate) const COMPARE_ULONG: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::compare_ulong);
    pub(crate) const BINARY_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::binary_complex);
    pub(crate) const BINARY_COMPLEX_TRANSCENDENTAL: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::binary_complex_transcendental);
    pub(crate) const COMPARE_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::compare_complex);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) op: u32,
        /// `constant_id = 3`.
        pub(crate) lanes: u32,
        /// `constant_id = 4`.
        pub(crate) left: u32,
        /// `constant_id = 5`.
        pub(crate) right: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, op: 0, lanes: 1, left: 0, right: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.dtype, self.op, self.lanes, self.left, self.right]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) left: u64,
        pub(crate) right: u64,
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, left) == 0);
        assert!(offset_of!(Push, right) == 8);
        assert!(offset_of!(Push, destination) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, ndim) == 40);
        assert!(size_of::<Push>() == 44);
    };
}

/// `shaders/include/common.glsl`.
pub(crate) mod common {
    use super::*;
    pub(crate) const BOOL: u32 = 0;
    pub(crate) const UINT8: u32 = 1;
    pub(crate) const UINT16: u32 = 2;
    pub(crate) const UINT32: u32 = 3;
    pub(crate) const UINT64: u32 = 4;
    pub(crate) const INT8: u32 = 5;
    pub(crate) const INT16: u32 = 6;
    pub(crate) const INT32: u32 = 7;
    pub(crate) const INT64: u32 = 8;
    pub(crate) const FLOAT16: u32 = 9;
    pub(crate) const BFLOAT16: u32 = 10;
    pub(crate) const FLOAT32: u32 = 11;
    pub(crate) const FLOAT64: u32 = 12;
    pub(crate) const COMPLEX64: u32 = 13;
    pub(crate) const DEVICE_CONSTANT: u32 = 63;
    pub(crate) const WALK_SIZES: u32 = 0;
    pub(crate) const WALK_STRIDES: u32 = 1;
}

/// `shaders/convolution/direct.comp`.
pub(crate) mod convolution_direct {
    use super::*;
    pub(crate) const WINDOWS: u32 = 4;
    pub(crate) const CONVOLUTION_DIRECT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_direct);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) quad: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, quad: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.dtype, self.quad]
        }
    }
    /// `Geometry` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Geometry {
        pub(crate) batch_stride: i64,
        pub(crate) strides: [i64; 3],
        pub(crate) input: [u32; 3],
        pub(crate) kernel: [u32; 3],
        pub(crate) output: [u32; 3],
        pub(crate) stride: [u32; 3],
        pub(crate) padding: [u32; 3],
        pub(crate) kernel_dilation: [u32; 3],
        pub(crate) input_dilation: [u32; 3],
        pub(crate) channels: u32,
        pub(crate) outputs: u32,
        pub(crate) groups: u32,
        pub(crate) flip: u32,
    }
    const _: () = {
        assert!(offset_of!(Geometry, batch_stride) == 0);
        assert!(offset_of!(Geometry, strides) == 8);
        assert!(offset_of!(Geometry, input) == 32);
        assert!(offset_of!(Geometry, kernel) == 44);
        assert!(offset_of!(Geometry, output) == 56);
        assert!(offset_of!(Geometry, stride) == 68);
        assert!(offset_of!(Geometry, padding) == 80);
        assert!(offset_of!(Geometry, kernel_dilation) == 92);
        assert!(offset_of!(Geometry, input_dilation) == 104);
        assert!(offset_of!(Geometry, channels) == 116);
        assert!(offset_of!(Geometry, outputs) == 120);
        assert!(offset_of!(Geometry, groups) == 124);
        assert!(offset_of!(Geometry, flip) == 128);
        assert!(size_of::<Geometry>() == 132);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) weight: u64,
        pub(crate) result: u64,
        pub(crate) geometry: u64,
        pub(crate) count: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, result) == 16);
        assert!(offset_of!(Push, geometry) == 24);
        assert!(offset_of!(Push, count) == 32);
        assert!(size_of::<Push>() == 40);
    };
}

/// `shaders/convolution/tile.comp`.
pub(crate) mod convolution_tile {
    use super::*;
    pub(crate) const CONVOLUTION_TILE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_tile);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) tm: u32,
        /// `constant_id = 8`.
        pub(crate) tn: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 64,
                bn: 64,
                bk: 16,
                tm: 4,
                tn: 4,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 9];
        fn words(&self) -> [u32; 9] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.tm,
                self.tn,
            ]
        }
    }
    pub(crate) use super::convolution_direct::Geometry;
    /// `Picks` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Picks {
        pub(crate) lists: [u64; 2],
        pub(crate) strides: [i64; 2],
        pub(crate) counts: [u64; 2],
        pub(crate) tiles: u64,
    }
    const _: () = {
        assert!(offset_of!(Picks, lists) == 0);
        assert!(offset_of!(Picks, strides) == 16);
        assert!(offset_of!(Picks, counts) == 32);
        assert!(offset_of!(Picks, tiles) == 48);
        assert!(size_of::<Picks>() == 56);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) c: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) extra: u64,
        pub(crate) lda: i64,
        pub(crate) ldb: i64,
        pub(crate) c_row: i64,
        pub(crate) c_column: i64,
        pub(crate) m: u32,
        pub(crate) n: u32,
        pub(crate) k: u32,
        pub(crate) batches: u32,
        pub(crate) alpha: f32,
        pub(crate) beta: f32,
        pub(crate) ndim: u32,
        pub(crate) splits: u32,
        pub(crate) parts: u64,
        pub(crate) counters: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, a) == 0);
        assert!(offset_of!(Push, b) == 8);
        assert!(offset_of!(Push, c) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, extra) == 40);
        assert!(offset_of!(Push, lda) == 48);
        assert!(offset_of!(Push, ldb) == 56);
        assert!(offset_of!(Push, c_row) == 64);
        assert!(offset_of!(Push, c_column) == 72);
        assert!(offset_of!(Push, m) == 80);
        assert!(offset_of!(Push, n) == 84);
        assert!(offset_of!(Push, k) == 88);
        assert!(offset_of!(Push, batches) == 92);
        assert!(offset_of!(Push, alpha) == 96);
        assert!(offset_of!(Push, beta) == 100);
        assert!(offset_of!(Push, ndim) == 104);
        assert!(offset_of!(Push, splits) == 108);
        assert!(offset_of!(Push, parts) == 112);
        assert!(offset_of!(Push, counters) == 120);
        assert!(size_of::<Push>() == 128);
    };
}

/// `shaders/convolution/token.comp`.
pub(crate) mod convolution_token {
    use super::*;
    pub(crate) const BIAS_FLAG: u32 = 1;
    pub(crate) const SILU_FLAG: u32 = 2;
    pub(crate) const CONVOLUTION_TOKEN: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_token);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) taps: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, taps: 4, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.dtype, self.taps, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) before: u64,
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) bias: u64,
        pub(crate) result: u64,
        pub(crate) window: u64,
        pub(crate) sequences: u32,
        pub(crate) channels: u32,
        pub(crate) before_stride: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, before) == 0);
        assert!(offset_of!(Push, x) == 8);
        assert!(offset_of!(Push, weight) == 16);
        assert!(offset_of!(Push, bias) == 24);
        assert!(offset_of!(Push, result) == 32);
        assert!(offset_of!(Push, window) == 40);
        assert!(offset_of!(Push, sequences) == 48);
        assert!(offset_of!(Push, channels) == 52);
        assert!(offset_of!(Push, before_stride) == 56);
        assert!(size_of::<Push>() == 60);
    };
}

/// `shaders/convolution/unfold.comp`.
pub(crate) mod convolution_unfold {
    use super::*;
    pub(crate) const CONVOLUTION_UNFOLD: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_unfold);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 16 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.bytes]
        }
    }
    pub(crate) use super::convolution_direct::Geometry;
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) geometry: u64,
        pub(crate) count: u64,
        pub(crate) first: u32,
        pub(crate) elements: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, geometry) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, first) == 32);
        assert!(offset_of!(Push, elements) == 36);
        assert!(size_of::<Push>() == 40);
    };
}

/// `shaders/convolution/weight.comp`.
pub(crate) mod convolution_weight {
    use super::*;
    pub(crate) const REGULAR_FLAG: u32 = 512;
    pub(crate) const CONVOLUTION_WEIGHT_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_weight_float16);
    pub(crate) const CONVOLUTION_WEIGHT_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_weight_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) wm: u32,
        /// `constant_id = 8`.
        pub(crate) wn: u32,
        /// `constant_id = 9`.
        pub(crate) fm: u32,
        /// `constant_id = 10`.
        pub(crate) fn_: u32,
        /// `constant_id = 11`.
        pub(crate) fk: u32,
        /// `constant_id = 12`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 128,
                bn: 128,
                bk: 32,
                wm: 64,
                wn: 64,
                fm: 16,
                fn_: 16,
                fk: 16,
                subgroup: 32,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 13];
        fn words(&self) -> [u32; 13] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.wm,
                self.wn,
                self.fm,
                self.fn_,
                self.fk,
                self.subgroup,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    /// `Taps` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Taps {
        pub(crate) zeros: [u32; 4],
        pub(crate) channels: u32,
        pub(crate) columns: u32,
        pub(crate) tap_y: i32,
        pub(crate) tap_x: i32,
        pub(crate) first_y: i32,
        pub(crate) first_x: i32,
        pub(crate) line: u32,
        pub(crate) pixel: u32,
    }
    const _: () = {
        assert!(offset_of!(Taps, zeros) == 0);
        assert!(offset_of!(Taps, channels) == 16);
        assert!(offset_of!(Taps, columns) == 20);
        assert!(offset_of!(Taps, tap_y) == 24);
        assert!(offset_of!(Taps, tap_x) == 28);
        assert!(offset_of!(Taps, first_y) == 32);
        assert!(offset_of!(Taps, first_x) == 36);
        assert!(offset_of!(Taps, line) == 40);
        assert!(offset_of!(Taps, pixel) == 44);
        assert!(size_of::<Taps>() == 48);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) factors: u64,
        pub(crate) lda: i64,
        pub(crate) m: u32,
        pub(crate) n: u32,
        pub(crate) k: u32,
        pub(crate) batches: u32,
        pub(crate) splits: u32,
        pub(crate) image: u32,
        pub(crate) line: u32,
        pub(crate) by_image: [u32; 2],
        pub(crate) by_line: [u32; 2],
        pub(crate) step_y: u32,
        pub(crate) step_x: u32,
        pub(crate) height: u32,
        pub(crate) width: u32,
        pub(crate) image_stride: u32,
        pub(crate) window_y: u32,
        pub(crate) window_x: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, a) == 0);
        assert!(offset_of!(Push, b) == 8);
        assert!(offset_of!(Push, result) == 16);
        assert!(offset_of!(Push, walk) == 24);
        assert!(offset_of!(Push, factors) == 32);
        assert!(offset_of!(Push, lda) == 40);
        assert!(offset_of!(Push, m) == 48);
        assert!(offset_of!(Push, n) == 52);
        assert!(offset_of!(Push, k) == 56);
        assert!(offset_of!(Push, batches) == 60);
        assert!(offset_of!(Push, splits) == 64);
        assert!(offset_of!(Push, image) == 68);
        assert!(offset_of!(Push, line) == 72);
        assert!(offset_of!(Push, by_image) == 76);
        assert!(offset_of!(Push, by_line) == 84);
        assert!(offset_of!(Push, step_y) == 92);
        assert!(offset_of!(Push, step_x) == 96);
        assert!(offset_of!(Push, height) == 100);
        assert!(offset_of!(Push, width) == 104);
        assert!(offset_of!(Push, image_stride) == 108);
        assert!(offset_of!(Push, window_y) == 112);
        assert!(offset_of!(Push, window_x) == 116);
        assert!(size_of::<Push>() == 120);
    };
}

/// `shaders/convolution/windows.comp`.
pub(crate) mod convolution_windows {
    use super::*;
    pub(crate) const CLASSES_FLAG: u32 = 512;
    pub(crate) const WHOLE_FLAG: u32 = 1024;
    pub(crate) const CONVOLUTION_WINDOWS_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_windows_float16);
    pub(crate) const CONVOLUTION_WINDOWS_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::convolution_windows_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) wm: u32,
        /// `constant_id = 8`.
        pub(crate) wn: u32,
        /// `constant_id = 9`.
        pub(crate) fm: u32,
        /// `constant_id = 10`.
        pub(crate) fn_: u32,
        /// `constant_id = 11`.
        pub(crate) fk: u32,
        /// `constant_id = 12`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 128,
                bn: 128,
                bk: 32,
                wm: 64,
                wn: 64,
                fm: 16,
                fn_: 16,
                fk: 16,
                subgroup: 32,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 13];
        fn words(&self) -> [u32; 13] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.wm,
                self.wn,
                self.fm,
                self.fn_,
                self.fk,
                self.subgroup,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    /// `Windows` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Windows {
        pub(crate) zeros: [u32; 4],
        pub(crate) image: u32,
        pub(crate) line: u32,
        pub(crate) by_image: [u32; 2],
        pub(crate) by_line: [u32; 2],
        pub(crate) first_y: i32,
        pub(crate) first_x: i32,
        pub(crate) step_y: u32,
        pub(crate) step_x: u32,
        pub(crate) image_stride: u32,
        pub(crate) result_image: u32,
        pub(crate) result_y: u32,
        pub(crate) result_x: u32,
        pub(crate) result_first: u32,
    }
    const _: () = {
        assert!(offset_of!(Windows, zeros) == 0);
        assert!(offset_of!(Windows, image) == 16);
        assert!(offset_of!(Windows, line) == 20);
        assert!(offset_of!(Windows, by_image) == 24);
        assert!(offset_of!(Windows, by_line) == 32);
        assert!(offset_of!(Windows, first_y) == 40);
        assert!(offset_of!(Windows, first_x) == 44);
        assert!(offset_of!(Windows, step_y) == 48);
        assert!(offset_of!(Windows, step_x) == 52);
        assert!(offset_of!(Windows, image_stride) == 56);
        assert!(offset_of!(Windows, result_image) == 60);
        assert!(offset_of!(Windows, result_y) == 64);
        assert!(offset_of!(Windows, result_x) == 68);
        assert!(offset_of!(Windows, result_first) == 72);
        assert!(size_of::<Windows>() == 76);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) factors: u64,
        pub(crate) m: u32,
        pub(crate) n: u32,
        pub(crate) k: u32,
        pub(crate) batches: u32,
        pub(crate) splits: u32,
        pub(crate) channels: u32,
        pub(crate) columns: u32,
        pub(crate) by_channels: [u32; 2],
        pub(crate) by_columns: [u32; 2],
        pub(crate) tap_y: i32,
        pub(crate) tap_x: i32,
        pub(crate) height: u32,
        pub(crate) width: u32,
        pub(crate) line: u32,
        pub(crate) pixel: u32,
        pub(crate) weight_first: u32,
        pub(crate) weight_y: i32,
        pub(crate) weight_x: i32,
        pub(crate) weight_row: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, a) == 0);
        assert!(offset_of!(Push, b) == 8);
        assert!(offset_of!(Push, result) == 16);
        assert!(offset_of!(Push, walk) == 24);
        assert!(offset_of!(Push, factors) == 32);
        assert!(offset_of!(Push, m) == 40);
        assert!(offset_of!(Push, n) == 44);
        assert!(offset_of!(Push, k) == 48);
        assert!(offset_of!(Push, batches) == 52);
        assert!(offset_of!(Push, splits) == 56);
        assert!(offset_of!(Push, channels) == 60);
        assert!(offset_of!(Push, columns) == 64);
        assert!(offset_of!(Push, by_channels) == 68);
        assert!(offset_of!(Push, by_columns) == 76);
        assert!(offset_of!(Push, tap_y) == 84);
        assert!(offset_of!(Push, tap_x) == 88);
        assert!(offset_of!(Push, height) == 92);
        assert!(offset_of!(Push, width) == 96);
        assert!(offset_of!(Push, line) == 100);
        assert!(offset_of!(Push, pixel) == 104);
        assert!(offset_of!(Push, weight_first) == 108);
        assert!(offset_of!(Push, weight_y) == 112);
        assert!(offset_of!(Push, weight_x) == 116);
        assert!(offset_of!(Push, weight_row) == 120);
        assert!(size_of::<Push>() == 124);
    };
}

/// `shaders/copy/copy.comp`.
pub(crate) mod copy {
    use super::*;
    pub(crate) const DENSE: u32 = 0;
    pub(crate) const DENSE4: u32 = 1;
    pub(crate) const STRIDED: u32 = 2;
    pub(crate) const COPY_FLOAT: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_float);
    pub(crate) const COPY_INT: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_int);
    pub(crate) const COPY_UINT: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_uint);
    pub(crate) const COPY_LONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_long);
    pub(crate) const COPY_ULONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_ulong);
    pub(crate) const COPY_COMPLEX: KernelOf<Constants, Push> = KernelOf::new(Kernel::copy_complex);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) to: u32,
        /// `constant_id = 3`.
        pub(crate) mode: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, to: 11, mode: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.from, self.to, self.mode]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, count) == 16);
        assert!(offset_of!(Push, walk) == 24);
        assert!(offset_of!(Push, ndim) == 32);
        assert!(size_of::<Push>() == 36);
    };
}

/// `shaders/copy/join.comp`.
pub(crate) mod copy_join {
    use super::*;
    pub(crate) const JOIN_BYTES: KernelOf<Constants, Push> = KernelOf::new(Kernel::join_bytes);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.bytes]
        }
    }
    /// `Part` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Part {
        pub(crate) source: u64,
        pub(crate) first: u32,
        pub(crate) width: u32,
    }
    const _: () = {
        assert!(offset_of!(Part, source) == 0);
        assert!(offset_of!(Part, first) == 8);
        assert!(offset_of!(Part, width) == 12);
        assert!(size_of::<Part>() == 16);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) parts: u64,
        pub(crate) destination: u64,
        pub(crate) count: u32,
        pub(crate) row: u32,
        pub(crate) number: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, parts) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, count) == 16);
        assert!(offset_of!(Push, row) == 20);
        assert!(offset_of!(Push, number) == 24);
        assert!(size_of::<Push>() == 28);
    };
}

/// `shaders/copy/move.comp`.
pub(crate) mod copy_move {
    use super::*;
    pub(crate) const DENSE: u32 = 0;
    pub(crate) const STRIDED: u32 = 1;
    pub(crate) const FILL: u32 = 2;
    pub(crate) const MOVE_BYTES: KernelOf<Constants, Push> = KernelOf::new(Kernel::move_bytes);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) mode: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, mode: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.bytes, self.mode]
        }
    }
    pub(crate) use super::copy::Push;
}

/// `shaders/copy/transpose.comp`.
pub(crate) mod copy_transpose {
    use super::*;
    pub(crate) const TRANSPOSE_BYTES: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::transpose_bytes);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) wide: u32,
        /// `constant_id = 3`.
        pub(crate) high: u32,
        /// `constant_id = 4`.
        pub(crate) vectors: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, wide: 32, high: 32, vectors: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.bytes, self.wide, self.high, self.vectors]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) walk: u64,
        pub(crate) count: u64,
        pub(crate) source_stride: i64,
        pub(crate) destination_stride: i64,
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, walk) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, source_stride) == 32);
        assert!(offset_of!(Push, destination_stride) == 40);
        assert!(offset_of!(Push, a) == 48);
        assert!(offset_of!(Push, b) == 56);
        assert!(offset_of!(Push, ndim) == 64);
        assert!(size_of::<Push>() == 68);
    };
}

/// `shaders/delta/delta.comp`.
pub(crate) mod delta {
    use super::*;
    pub(crate) const VECTOR_FLAG: u32 = 1;
    pub(crate) const FEATURES_FLAG: u32 = 2;
    pub(crate) const DELTA_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::delta_subgroup);
    pub(crate) const DELTA_SINGLE: KernelOf<Constants, Push> = KernelOf::new(Kernel::delta_single);
    pub(crate) const DELTA_GATED: KernelOf<Constants, GatedPush> =
        KernelOf::new(Kernel::delta_gated);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) gamma_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) beta_dtype: u32,
        /// `constant_id = 4`.
        pub(crate) heads: u32,
        /// `constant_id = 5`.
        pub(crate) group: u32,
        /// `constant_id = 6`.
        pub(crate) values: u32,
        /// `constant_id = 7`.
        pub(crate) keys: u32,
        /// `constant_id = 8`.
        pub(crate) team: u32,
        /// `constant_id = 9`.
        pub(crate) flags: u32,
        /// `constant_id = 10`.
        pub(crate) part: u32,
        /// `constant_id = 11`.
        pub(crate) subgroup: u32,
        /// `constant_id = 12`.
        pub(crate) query_scale: u32,
        /// `constant_id = 13`.
        pub(crate) key_scale: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                gamma_dtype: 11,
                beta_dtype: 11,
                heads: 1,
                group: 1,
                values: 1,
                keys: 1,
                team: 1,
                flags: 0,
                part: 1,
                subgroup: 32,
                query_scale: 0,
                key_scale: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 14];
        fn words(&self) -> [u32; 14] {
            [
                self.workgroup,
                self.dtype,
                self.gamma_dtype,
                self.beta_dtype,
                self.heads,
                self.group,
                self.values,
                self.keys,
                self.team,
                self.flags,
                self.part,
                self.subgroup,
                self.query_scale,
                self.key_scale,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) q: u64,
        pub(crate) k: u64,
        pub(crate) v: u64,
        pub(crate) gamma: u64,
        pub(crate) beta: u64,
        pub(crate) state: u64,
        pub(crate) y: u64,
        pub(crate) next: u64,
        pub(crate) heads: u32,
        pub(crate) time: u32,
        pub(crate) query_stride: u32,
        pub(crate) key_stride: u32,
        pub(crate) value_stride: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, q) == 0);
        assert!(offset_of!(Push, k) == 8);
        assert!(offset_of!(Push, v) == 16);
        assert!(offset_of!(Push, gamma) == 24);
        assert!(offset_of!(Push, beta) == 32);
        assert!(offset_of!(Push, state) == 40);
        assert!(offset_of!(Push, y) == 48);
        assert!(offset_of!(Push, next) == 56);
        assert!(offset_of!(Push, heads) == 64);
        assert!(offset_of!(Push, time) == 68);
        assert!(offset_of!(Push, query_stride) == 72);
        assert!(offset_of!(Push, key_stride) == 76);
        assert!(offset_of!(Push, value_stride) == 80);
        assert!(size_of::<Push>() == 84);
    };
    /// `GatedPush` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct GatedPush {
        pub(crate) q: u64,
        pub(crate) k: u64,
        pub(crate) v: u64,
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) state: u64,
        pub(crate) y: u64,
        pub(crate) next: u64,
        pub(crate) decay: u64,
        pub(crate) shift: u64,
        pub(crate) z: u64,
        pub(crate) weight: u64,
        pub(crate) result: u64,
        pub(crate) heads: u32,
        pub(crate) query_stride: u32,
        pub(crate) key_stride: u32,
        pub(crate) value_stride: u32,
        pub(crate) eps: f32,
        pub(crate) end_eps: f32,
    }
    const _: () = {
        assert!(offset_of!(GatedPush, q) == 0);
        assert!(offset_of!(GatedPush, k) == 8);
        assert!(offset_of!(GatedPush, v) == 16);
        assert!(offset_of!(GatedPush, a) == 24);
        assert!(offset_of!(GatedPush, b) == 32);
        assert!(offset_of!(GatedPush, state) == 40);
        assert!(offset_of!(GatedPush, y) == 48);
        assert!(offset_of!(GatedPush, next) == 56);
        assert!(offset_of!(GatedPush, decay) == 64);
        assert!(offset_of!(GatedPush, shift) == 72);
        assert!(offset_of!(GatedPush, z) == 80);
        assert!(offset_of!(GatedPush, weight) == 88);
        assert!(offset_of!(GatedPush, result) == 96);
        assert!(offset_of!(GatedPush, heads) == 104);
        assert!(offset_of!(GatedPush, query_stride) == 108);
        assert!(offset_of!(GatedPush, key_stride) == 112);
        assert!(offset_of!(GatedPush, value_stride) == 116);
        assert!(offset_of!(GatedPush, eps) == 120);
        assert!(offset_of!(GatedPush, end_eps) == 124);
        assert!(size_of::<GatedPush>() == 128);
    };
}

/// `shaders/fft/chirp.comp`.
pub(crate) mod fft_chirp {
    use super::*;
    pub(crate) const FFT_CHIRP: KernelOf<Constants, Push> = KernelOf::new(Kernel::fft_chirp);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 1];
        fn words(&self) -> [u32; 1] {
            [self.workgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) destination: u64,
        pub(crate) m: u64,
        pub(crate) part: u64,
        pub(crate) n: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, destination) == 0);
        assert!(offset_of!(Push, m) == 8);
        assert!(offset_of!(Push, part) == 16);
        assert!(offset_of!(Push, n) == 24);
        assert!(size_of::<Push>() == 28);
    };
}

/// `shaders/fft/pass.comp`.
pub(crate) mod fft_pass {
    use super::*;
    pub(crate) const LINES_FIRST_IN_FLAG: u32 = 64;
    pub(crate) const LINES_FIRST_OUT_FLAG: u32 = 128;
    pub(crate) const CHIRP_IN_FLAG: u32 = 256;
    pub(crate) const SPECTRUM_IN_FLAG: u32 = 512;
    pub(crate) const CHIRP_OUT_FLAG: u32 = 1024;
    pub(crate) const FFT_PASS_TWOS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::fft_pass_twos);
    pub(crate) const FFT_PASS_MIXED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::fft_pass_mixed);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) size: u32,
        /// `constant_id = 2`.
        pub(crate) lines: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) radices: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, size: 64, lines: 1, flags: 0, radices: 136 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.size, self.lines, self.flags, self.radices]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) walk: u64,
        pub(crate) count: u64,
        pub(crate) size_part: u64,
        pub(crate) pass_part: u64,
        pub(crate) chirp_part: u64,
        pub(crate) spectrum: u64,
        pub(crate) in_unit: i64,
        pub(crate) out_unit: i64,
        pub(crate) rest: u32,
        pub(crate) out_stride: u32,
        pub(crate) total: u32,
        pub(crate) ndim: u32,
        pub(crate) scale: f32,
        pub(crate) in_sign: f32,
        pub(crate) out_sign: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, walk) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, size_part) == 32);
        assert!(offset_of!(Push, pass_part) == 40);
        assert!(offset_of!(Push, chirp_part) == 48);
        assert!(offset_of!(Push, spectrum) == 56);
        assert!(offset_of!(Push, in_unit) == 64);
        assert!(offset_of!(Push, out_unit) == 72);
        assert!(offset_of!(Push, rest) == 80);
        assert!(offset_of!(Push, out_stride) == 84);
        assert!(offset_of!(Push, total) == 88);
        assert!(offset_of!(Push, ndim) == 92);
        assert!(offset_of!(Push, scale) == 96);
        assert!(offset_of!(Push, in_sign) == 100);
        assert!(offset_of!(Push, out_sign) == 104);
        assert!(size_of::<Push>() == 108);
    };
}

/// `shaders/include/fft_side.glsl`.
pub(crate) mod fft_side {
    use super::*;
    pub(crate) const COMPLEX_END: u32 = 0;
    pub(crate) const REAL_END: u32 = 1;
    pub(crate) const HALF_END: u32 = 2;
    pub(crate) const IN_SHIFT: u32 = 0;
    pub(crate) const OUT_SHIFT: u32 = 2;
}

/// `shaders/include/functions/binary.glsl`.
pub(crate) mod functions_binary {
    use super::*;
    pub(crate) const ADD: u32 = 0;
    pub(crate) const ARCTAN2: u32 = 1;
    pub(crate) const BITWISE_AND: u32 = 2;
    pub(crate) const BITWISE_OR: u32 = 3;
    pub(crate) const BITWISE_XOR: u32 = 4;
    pub(crate) const DIVIDE: u32 = 5;
    pub(crate) const EQUAL: u32 = 6;
    pub(crate) const FLOOR_DIVIDE: u32 = 7;
    pub(crate) const GREATER: u32 = 8;
    pub(crate) const GREATER_EQUAL: u32 = 9;
    pub(crate) const LEFT_SHIFT: u32 = 10;
    pub(crate) const LESS: u32 = 11;
    pub(crate) const LESS_EQUAL: u32 = 12;
    pub(crate) const LOG_ADD_EXP: u32 = 13;
    pub(crate) const LOGICAL_AND: u32 = 14;
    pub(crate) const LOGICAL_OR: u32 = 15;
    pub(crate) const MAXIMUM: u32 = 16;
    pub(crate) const MINIMUM: u32 = 17;
    pub(crate) const MULTIPLY: u32 = 18;
    pub(crate) const NAN_EQUAL: u32 = 19;
    pub(crate) const NOT_EQUAL: u32 = 20;
    pub(crate) const POWER: u32 = 21;
    pub(crate) const REMAINDER: u32 = 22;
    pub(crate) const RIGHT_SHIFT: u32 = 23;
    pub(crate) const SUBTRACT: u32 = 24;
}

/// `shaders/include/functions/unary.glsl`.
pub(crate) mod functions_unary {
    use super::*;
    pub(crate) const ABS: u32 = 0;
    pub(crate) const ARCCOS: u32 = 1;
    pub(crate) const ARCCOSH: u32 = 2;
    pub(crate) const ARCSIN: u32 = 3;
    pub(crate) const ARCSINH: u32 = 4;
    pub(crate) const ARCTAN: u32 = 5;
    pub(crate) const ARCTANH: u32 = 6;
    pub(crate) const BITWISE_INVERT: u32 = 7;
    pub(crate) const CEIL: u32 = 8;
    pub(crate) const CONJUGATE: u32 = 9;
    pub(crate) const COS: u32 = 10;
    pub(crate) const COSH: u32 = 11;
    pub(crate) const ERF: u32 = 12;
    pub(crate) const ERFINV: u32 = 13;
    pub(crate) const EXP: u32 = 14;
    pub(crate) const EXPM1: u32 = 15;
    pub(crate) const FLOOR: u32 = 16;
    pub(crate) const IMAG: u32 = 17;
    pub(crate) const LOG: u32 = 18;
    pub(crate) const LOG10: u32 = 19;
    pub(crate) const LOG1P: u32 = 20;
    pub(crate) const LOG2: u32 = 21;
    pub(crate) const LOGICAL_NOT: u32 = 22;
    pub(crate) const NEGATIVE: u32 = 23;
    pub(crate) const REAL: u32 = 24;
    pub(crate) const ROUND: u32 = 25;
    pub(crate) const RSQRT: u32 = 26;
    pub(crate) const SIGMOID: u32 = 27;
    pub(crate) const SIGN: u32 = 28;
    pub(crate) const SIN: u32 = 29;
    pub(crate) const SINH: u32 = 30;
    pub(crate) const SQRT: u32 = 31;
    pub(crate) const SQUARE: u32 = 32;
    pub(crate) const TAN: u32 = 33;
    pub(crate) const TANH: u32 = 34;
}

/// `shaders/include/gemm.glsl`.
pub(crate) mod gemm {
    use super::*;
    pub(crate) const A_ALONG_K_FLAG: u32 = 1;
    pub(crate) const B_ALONG_K_FLAG: u32 = 2;
    pub(crate) const A_VECTOR_FLAG: u32 = 4;
    pub(crate) const B_VECTOR_FLAG: u32 = 8;
    pub(crate) const ADD_FLAG: u32 = 16;
    pub(crate) const C_VECTOR_FLAG: u32 = 32;
    pub(crate) const GROUPED_FLAG: u32 = 256;
    pub(crate) const SCALED_FLAG: u32 = 2048;
}

/// `shaders/hadamard/factor.comp`.
pub(crate) mod hadamard_factor {
    use super::*;
    pub(crate) const HADAMARD_FACTOR: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::hadamard_factor);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from_dtype: u32,
        /// `constant_id = 2`.
        pub(crate) to_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) order: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from_dtype: 11, to_dtype: 11, order: 12 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.from_dtype, self.to_dtype, self.order]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) signs: u64,
        pub(crate) count: u64,
        pub(crate) part: u64,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, signs) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, part) == 32);
        assert!(offset_of!(Push, scale) == 40);
        assert!(size_of::<Push>() == 44);
    };
}

/// `shaders/hadamard/power.comp`.
pub(crate) mod hadamard_power {
    use super::*;
    pub(crate) const HADAMARD_POWER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::hadamard_power);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from_dtype: u32,
        /// `constant_id = 2`.
        pub(crate) to_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) size: u32,
        /// `constant_id = 4`.
        pub(crate) lines: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from_dtype: 11, to_dtype: 11, size: 64, lines: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.from_dtype, self.to_dtype, self.size, self.lines]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) rest: u64,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, count) == 16);
        assert!(offset_of!(Push, rest) == 24);
        assert!(offset_of!(Push, scale) == 32);
        assert!(size_of::<Push>() == 36);
    };
}

/// `shaders/indexing/along.comp`.
pub(crate) mod indexing_along {
    use super::*;
    pub(crate) const TAKE_ALONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::take_along);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) index: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, index: 7 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.bytes, self.index]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) indices: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) size: i64,
        pub(crate) stride: i64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, indices) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, size) == 40);
        assert!(offset_of!(Push, stride) == 48);
        assert!(offset_of!(Push, ndim) == 56);
        assert!(size_of::<Push>() == 60);
    };
}

/// `shaders/indexing/gather.comp`.
pub(crate) mod indexing_gather {
    use super::*;
    pub(crate) const GATHER: KernelOf<Constants, Push> = KernelOf::new(Kernel::gather);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) index: u32,
        /// `constant_id = 3`.
        pub(crate) count: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, index: 7, count: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.bytes, self.index, self.count]
        }
    }
    /// `IndexArray` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct IndexArray {
        pub(crate) address: u64,
        pub(crate) size: i64,
        pub(crate) stride: i64,
        pub(crate) last: i64,
    }
    const _: () = {
        assert!(offset_of!(IndexArray, address) == 0);
        assert!(offset_of!(IndexArray, size) == 8);
        assert!(offset_of!(IndexArray, stride) == 16);
        assert!(offset_of!(IndexArray, last) == 24);
        assert!(size_of::<IndexArray>() == 32);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) table: u64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, count) == 16);
        assert!(offset_of!(Push, walk) == 24);
        assert!(offset_of!(Push, table) == 32);
        assert!(offset_of!(Push, ndim) == 40);
        assert!(size_of::<Push>() == 44);
    };
}

/// `shaders/indexing/take.comp`.
pub(crate) mod indexing_take {
    use super::*;
    pub(crate) const TAKE: KernelOf<Constants, Push> = KernelOf::new(Kernel::take);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) index: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, index: 7 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.bytes, self.index]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) indices: u64,
        pub(crate) words: u64,
        pub(crate) picks: u64,
        pub(crate) slice: u64,
        pub(crate) outer_walk: u64,
        pub(crate) pick_walk: u64,
        pub(crate) slice_walk: u64,
        pub(crate) size: i64,
        pub(crate) stride: i64,
        pub(crate) outer_ndim: u32,
        pub(crate) pick_ndim: u32,
        pub(crate) slice_ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, indices) == 16);
        assert!(offset_of!(Push, words) == 24);
        assert!(offset_of!(Push, picks) == 32);
        assert!(offset_of!(Push, slice) == 40);
        assert!(offset_of!(Push, outer_walk) == 48);
        assert!(offset_of!(Push, pick_walk) == 56);
        assert!(offset_of!(Push, slice_walk) == 64);
        assert!(offset_of!(Push, size) == 72);
        assert!(offset_of!(Push, stride) == 80);
        assert!(offset_of!(Push, outer_ndim) == 88);
        assert!(offset_of!(Push, pick_ndim) == 92);
        assert!(offset_of!(Push, slice_ndim) == 96);
        assert!(size_of::<Push>() == 100);
    };
}

/// `shaders/interpreter/interpreter.comp`.
pub(crate) mod interpreter {
    use super::*;
    pub(crate) const NORM_FLAG: u32 = 1;
    pub(crate) const TRADITIONAL_FLAG: u32 = 2;
    pub(crate) const DIVISORS_FLAG: u32 = 4;
    pub(crate) const BIASES_FLAG: u32 = 8;
    pub(crate) const MIXTURES_FLAG: u32 = 16;
    pub(crate) const SUMS_FLAG: u32 = 32;
    pub(crate) const SHARED_FLAG: u32 = 64;
    pub(crate) const SCORES_FLAG: u32 = 128;
    pub(crate) const DELTAS_FLAG: u32 = 256;
    pub(crate) const RUN: u32 = 0;
    pub(crate) const REPEAT: u32 = 1;
    pub(crate) const TRIAL: u32 = 2;
    pub(crate) const INTERPRETER: KernelOf<Constants, Push> = KernelOf::new(Kernel::interpreter);
    pub(crate) const INTERPRETER_DOTS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::interpreter_dots);
    pub(crate) const INTERPRETER_FLOATS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::interpreter_floats);
    pub(crate) const INTERPRETER_HALVES: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::interpreter_halves);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) width: u32,
        /// `constant_id = 6`.
        pub(crate) sharing: u32,
        /// `constant_id = 7`.
        pub(crate) flags: u32,
        /// `constant_id = 8`.
        pub(crate) wide: bool,
        /// `constant_id = 9`.
        pub(crate) cache_bits: u32,
        /// `constant_id = 10`.
        pub(crate) cache_group: u32,
        /// `constant_id = 11`.
        pub(crate) rotated: u32,
        /// `constant_id = 12`.
        pub(crate) delta_keys: u32,
        /// `constant_id = 13`.
        pub(crate) delta_values: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 10,
                bits: 4,
                group: 64,
                subgroup: 32,
                width: 128,
                sharing: 2,
                flags: 0,
                wide: false,
                cache_bits: 16,
                cache_group: 64,
                rotated: 128,
                delta_keys: 0,
                delta_values: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 14];
        fn words(&self) -> [u32; 14] {
            [
                self.workgroup,
                self.dtype,
                self.bits,
                self.group,
                self.subgroup,
                self.width,
                self.sharing,
                self.flags,
                self.wide as u32,
                self.cache_bits,
                self.cache_group,
                self.rotated,
                self.delta_keys,
                self.delta_values,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) table: u64,
        pub(crate) control: u64,
        pub(crate) verdict: u64,
        pub(crate) steps: u32,
        pub(crate) tag: u32,
        pub(crate) mode: u32,
        pub(crate) patience: u32,
        pub(crate) one: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, table) == 0);
        assert!(offset_of!(Push, control) == 8);
        assert!(offset_of!(Push, verdict) == 16);
        assert!(offset_of!(Push, steps) == 24);
        assert!(offset_of!(Push, tag) == 28);
        assert!(offset_of!(Push, mode) == 32);
        assert!(offset_of!(Push, patience) == 36);
        assert!(offset_of!(Push, one) == 40);
        assert!(size_of::<Push>() == 44);
    };
}

/// `shaders/interpreter/rows.comp`.
pub(crate) mod interpreter_rows {
    use super::*;
    pub(crate) const INTERPRETER_ROWS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::interpreter_rows);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 1];
        fn words(&self) -> [u32; 1] {
            [self.workgroup]
        }
    }
    /// `AttentionRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct AttentionRow {
        pub(crate) kind: u32,
        pub(crate) count: u32,
        pub(crate) splits: u32,
        pub(crate) scale: f32,
        pub(crate) eps: f32,
        pub(crate) position_scale: f32,
        pub(crate) heads: u32,
        pub(crate) query_head: u32,
        pub(crate) q: u64,
        pub(crate) new_key: u64,
        pub(crate) new_value: u64,
        pub(crate) q_weight: u64,
        pub(crate) k_weight: u64,
        pub(crate) frequencies: u64,
        pub(crate) keys: u64,
        pub(crate) values: u64,
        pub(crate) result: u64,
        pub(crate) marked: u64,
        pub(crate) parts: u64,
        pub(crate) offset: u64,
        pub(crate) key_head: u32,
        pub(crate) key_row: u32,
        pub(crate) value_head: u32,
        pub(crate) value_row: u32,
        pub(crate) mask: u64,
        pub(crate) factor: u64,
        pub(crate) key_scales: u64,
        pub(crate) key_biases: u64,
        pub(crate) value_scales: u64,
        pub(crate) value_biases: u64,
        pub(crate) rest: [u32; 16],
    }
    const _: () = {
        assert!(offset_of!(AttentionRow, kind) == 0);
        assert!(offset_of!(AttentionRow, count) == 4);
        assert!(offset_of!(AttentionRow, splits) == 8);
        assert!(offset_of!(AttentionRow, scale) == 12);
        assert!(offset_of!(AttentionRow, eps) == 16);
        assert!(offset_of!(AttentionRow, position_scale) == 20);
        assert!(offset_of!(AttentionRow, heads) == 24);
        assert!(offset_of!(AttentionRow, query_head) == 28);
        assert!(offset_of!(AttentionRow, q) == 32);
        assert!(offset_of!(AttentionRow, new_key) == 40);
        assert!(offset_of!(AttentionRow, new_value) == 48);
        assert!(offset_of!(AttentionRow, q_weight) == 56);
        assert!(offset_of!(AttentionRow, k_weight) == 64);
        assert!(offset_of!(AttentionRow, frequencies) == 72);
        assert!(offset_of!(AttentionRow, keys) == 80);
        assert!(offset_of!(AttentionRow, values) == 88);
        assert!(offset_of!(AttentionRow, result) == 96);
        assert!(offset_of!(AttentionRow, marked) == 104);
        assert!(offset_of!(AttentionRow, parts) == 112);
        assert!(offset_of!(AttentionRow, offset) == 120);
        assert!(offset_of!(AttentionRow, key_head) == 128);
        assert!(offset_of!(AttentionRow, key_row) == 132);
        assert!(offset_of!(AttentionRow, value_head) == 136);
        assert!(offset_of!(AttentionRow, value_row) == 140);
        assert!(offset_of!(AttentionRow, mask) == 144);
        assert!(offset_of!(AttentionRow, factor) == 152);
        assert!(offset_of!(AttentionRow, key_scales) == 160);
        assert!(offset_of!(AttentionRow, key_biases) == 168);
        assert!(offset_of!(AttentionRow, value_scales) == 176);
        assert!(offset_of!(AttentionRow, value_biases) == 184);
        assert!(offset_of!(AttentionRow, rest) == 192);
        assert!(size_of::<AttentionRow>() == 256);
    };
    /// `ConvolutionRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct ConvolutionRow {
        pub(crate) kind: u32,
        pub(crate) channels: u32,
        pub(crate) taps: u32,
        pub(crate) silu: u32,
        pub(crate) x: u64,
        pub(crate) before: u64,
        pub(crate) weight: u64,
        pub(crate) bias: u64,
        pub(crate) result: u64,
        pub(crate) marked: u64,
        pub(crate) window: u64,
        pub(crate) rest: [u64; 23],
    }
    const _: () = {
        assert!(offset_of!(ConvolutionRow, kind) == 0);
        assert!(offset_of!(ConvolutionRow, channels) == 4);
        assert!(offset_of!(ConvolutionRow, taps) == 8);
        assert!(offset_of!(ConvolutionRow, silu) == 12);
        assert!(offset_of!(ConvolutionRow, x) == 16);
        assert!(offset_of!(ConvolutionRow, before) == 24);
        assert!(offset_of!(ConvolutionRow, weight) == 32);
        assert!(offset_of!(ConvolutionRow, bias) == 40);
        assert!(offset_of!(ConvolutionRow, result) == 48);
        assert!(offset_of!(ConvolutionRow, marked) == 56);
        assert!(offset_of!(ConvolutionRow, window) == 64);
        assert!(offset_of!(ConvolutionRow, rest) == 72);
        assert!(size_of::<ConvolutionRow>() == 256);
    };
    /// `DeltaRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct DeltaRow {
        pub(crate) kind: u32,
        pub(crate) heads: u32,
        pub(crate) group: u32,
        pub(crate) parts_of_head: u32,
        pub(crate) q: u64,
        pub(crate) k: u64,
        pub(crate) v: u64,
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) z: u64,
        pub(crate) decay: u64,
        pub(crate) shift: u64,
        pub(crate) state: u64,
        pub(crate) next: u64,
        pub(crate) weight: u64,
        pub(crate) y: u64,
        pub(crate) result: u64,
        pub(crate) marked: u64,
        pub(crate) parts: u64,
        pub(crate) query_scale: f32,
        pub(crate) key_scale: f32,
        pub(crate) eps: f32,
        pub(crate) end_eps: f32,
        pub(crate) rest: [u32; 26],
    }
    const _: () = {
        assert!(offset_of!(DeltaRow, kind) == 0);
        assert!(offset_of!(DeltaRow, heads) == 4);
        assert!(offset_of!(DeltaRow, group) == 8);
        assert!(offset_of!(DeltaRow, parts_of_head) == 12);
        assert!(offset_of!(DeltaRow, q) == 16);
        assert!(offset_of!(DeltaRow, k) == 24);
        assert!(offset_of!(DeltaRow, v) == 32);
        assert!(offset_of!(DeltaRow, a) == 40);
        assert!(offset_of!(DeltaRow, b) == 48);
        assert!(offset_of!(DeltaRow, z) == 56);
        assert!(offset_of!(DeltaRow, decay) == 64);
        assert!(offset_of!(DeltaRow, shift) == 72);
        assert!(offset_of!(DeltaRow, state) == 80);
        assert!(offset_of!(DeltaRow, next) == 88);
        assert!(offset_of!(DeltaRow, weight) == 96);
        assert!(offset_of!(DeltaRow, y) == 104);
        assert!(offset_of!(DeltaRow, result) == 112);
        assert!(offset_of!(DeltaRow, marked) == 120);
        assert!(offset_of!(DeltaRow, parts) == 128);
        assert!(offset_of!(DeltaRow, query_scale) == 136);
        assert!(offset_of!(DeltaRow, key_scale) == 140);
        assert!(offset_of!(DeltaRow, eps) == 144);
        assert!(offset_of!(DeltaRow, end_eps) == 148);
        assert!(offset_of!(DeltaRow, rest) == 152);
        assert!(size_of::<DeltaRow>() == 256);
    };
    /// `RowMatrix` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct RowMatrix {
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
    }
    const _: () = {
        assert!(offset_of!(RowMatrix, words) == 0);
        assert!(offset_of!(RowMatrix, scales) == 8);
        assert!(offset_of!(RowMatrix, biases) == 16);
        assert!(offset_of!(RowMatrix, result) == 24);
        assert!(size_of::<RowMatrix>() == 32);
    };
    /// `PickedRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct PickedRow {
        pub(crate) kind: u32,
        pub(crate) inner: u32,
        pub(crate) eps: f32,
        pub(crate) blocks: u32,
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) residual: u64,
        pub(crate) marked: u64,
        pub(crate) matrix: RowMatrix,
        pub(crate) expert_words: u64,
        pub(crate) expert_scales: u64,
        pub(crate) logits: u64,
        pub(crate) experts: u32,
        pub(crate) count: u32,
        pub(crate) each: u32,
        pub(crate) per_each: f32,
        pub(crate) quads: u32,
        pub(crate) per_quads: f32,
        pub(crate) shared_kind: u32,
        pub(crate) scoring: u32,
        pub(crate) share_eps: f32,
        pub(crate) share_factor: f32,
        pub(crate) ends: [u32; 2],
        pub(crate) strides: [u32; 2],
        pub(crate) second: [u64; 3],
        pub(crate) chunks: u32,
        pub(crate) rounds: u32,
        pub(crate) shared_matrix: [u64; 3],
        pub(crate) score_bias: u64,
        pub(crate) shared_second: [u64; 4],
    }
    const _: () = {
        assert!(offset_of!(PickedRow, kind) == 0);
        assert!(offset_of!(PickedRow, inner) == 4);
        assert!(offset_of!(PickedRow, eps) == 8);
        assert!(offset_of!(PickedRow, blocks) == 12);
        assert!(offset_of!(PickedRow, x) == 16);
        assert!(offset_of!(PickedRow, weight) == 24);
        assert!(offset_of!(PickedRow, residual) == 32);
        assert!(offset_of!(PickedRow, marked) == 40);
        assert!(offset_of!(PickedRow, matrix) == 48);
        assert!(offset_of!(PickedRow, expert_words) == 80);
        assert!(offset_of!(PickedRow, expert_scales) == 88);
        assert!(offset_of!(PickedRow, logits) == 96);
        assert!(offset_of!(PickedRow, experts) == 104);
        assert!(offset_of!(PickedRow, count) == 108);
        assert!(offset_of!(PickedRow, each) == 112);
        assert!(offset_of!(PickedRow, per_each) == 116);
        assert!(offset_of!(PickedRow, quads) == 120);
        assert!(offset_of!(PickedRow, per_quads) == 124);
        assert!(offset_of!(PickedRow, shared_kind) == 128);
        assert!(offset_of!(PickedRow, scoring) == 132);
        assert!(offset_of!(PickedRow, share_eps) == 136);
        assert!(offset_of!(PickedRow, share_factor) == 140);
        assert!(offset_of!(PickedRow, ends) == 144);
        assert!(offset_of!(PickedRow, strides) == 152);
        assert!(offset_of!(PickedRow, second) == 160);
        assert!(offset_of!(PickedRow, chunks) == 184);
        assert!(offset_of!(PickedRow, rounds) == 188);
        assert!(offset_of!(PickedRow, shared_matrix) == 192);
        assert!(offset_of!(PickedRow, score_bias) == 216);
        assert!(offset_of!(PickedRow, shared_second) == 224);
        assert!(size_of::<PickedRow>() == 256);
    };
    /// `ProductRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct ProductRow {
        pub(crate) kind: u32,
        pub(crate) inner: u32,
        pub(crate) eps: f32,
        pub(crate) blocks: u32,
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) residual: u64,
        pub(crate) marked: u64,
        pub(crate) matrices: [RowMatrix; 3],
        pub(crate) ends: [u32; 2],
        pub(crate) strides: [u32; 2],
        pub(crate) second: [u64; 3],
        pub(crate) chunks: u32,
        pub(crate) rounds: u32,
        pub(crate) added: [u64; 3],
        pub(crate) sum_weight: u64,
        pub(crate) sum_residual: u64,
        pub(crate) sum_marked: u64,
        pub(crate) sum_result: u64,
        pub(crate) sum_eps: f32,
        pub(crate) unused: u32,
    }
    const _: () = {
        assert!(offset_of!(ProductRow, kind) == 0);
        assert!(offset_of!(ProductRow, inner) == 4);
        assert!(offset_of!(ProductRow, eps) == 8);
        assert!(offset_of!(ProductRow, blocks) == 12);
        assert!(offset_of!(ProductRow, x) == 16);
        assert!(offset_of!(ProductRow, weight) == 24);
        assert!(offset_of!(ProductRow, residual) == 32);
        assert!(offset_of!(ProductRow, marked) == 40);
        assert!(offset_of!(ProductRow, matrices) == 48);
        assert!(offset_of!(ProductRow, ends) == 144);
        assert!(offset_of!(ProductRow, strides) == 152);
        assert!(offset_of!(ProductRow, second) == 160);
        assert!(offset_of!(ProductRow, chunks) == 184);
        assert!(offset_of!(ProductRow, rounds) == 188);
        assert!(offset_of!(ProductRow, added) == 192);
        assert!(offset_of!(ProductRow, sum_weight) == 216);
        assert!(offset_of!(ProductRow, sum_residual) == 224);
        assert!(offset_of!(ProductRow, sum_marked) == 232);
        assert!(offset_of!(ProductRow, sum_result) == 240);
        assert!(offset_of!(ProductRow, sum_eps) == 248);
        assert!(offset_of!(ProductRow, unused) == 252);
        assert!(size_of::<ProductRow>() == 256);
    };
    /// `RouterRow` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct RouterRow {
        pub(crate) kind: u32,
        pub(crate) inner: u32,
        pub(crate) eps: f32,
        pub(crate) experts: u32,
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) marked: u64,
        pub(crate) bits: u32,
        pub(crate) group_log: u32,
        pub(crate) logits: u32,
        pub(crate) unused: u32,
        pub(crate) shared_words: u64,
        pub(crate) shared_scales: u64,
        pub(crate) shared_biases: u64,
        pub(crate) rest: [u64; 19],
    }
    const _: () = {
        assert!(offset_of!(RouterRow, kind) == 0);
        assert!(offset_of!(RouterRow, inner) == 4);
        assert!(offset_of!(RouterRow, eps) == 8);
        assert!(offset_of!(RouterRow, experts) == 12);
        assert!(offset_of!(RouterRow, x) == 16);
        assert!(offset_of!(RouterRow, weight) == 24);
        assert!(offset_of!(RouterRow, words) == 32);
        assert!(offset_of!(RouterRow, scales) == 40);
        assert!(offset_of!(RouterRow, biases) == 48);
        assert!(offset_of!(RouterRow, marked) == 56);
        assert!(offset_of!(RouterRow, bits) == 64);
        assert!(offset_of!(RouterRow, group_log) == 68);
        assert!(offset_of!(RouterRow, logits) == 72);
        assert!(offset_of!(RouterRow, unused) == 76);
        assert!(offset_of!(RouterRow, shared_words) == 80);
        assert!(offset_of!(RouterRow, shared_scales) == 88);
        assert!(offset_of!(RouterRow, shared_biases) == 96);
        assert!(offset_of!(RouterRow, rest) == 104);
        assert!(size_of::<RouterRow>() == 256);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) table: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, table) == 0);
        assert!(size_of::<Push>() == 8);
    };
}

/// `shaders/matmul/complex.comp`.
pub(crate) mod matmul_complex {
    use super::*;
    pub(crate) const ADD_FLAG: u32 = 1;
    pub(crate) const MATMUL_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_complex);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) a: u64,
        pub(crate) b: u64,
        pub(crate) c: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) count: u64,
        pub(crate) a_stride: i64,
        pub(crate) b_stride: i64,
        pub(crate) alpha: f32,
        pub(crate) beta: f32,
        pub(crate) ndim: u32,
        pub(crate) k: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, a) == 0);
        assert!(offset_of!(Push, b) == 8);
        assert!(offset_of!(Push, c) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, count) == 40);
        assert!(offset_of!(Push, a_stride) == 48);
        assert!(offset_of!(Push, b_stride) == 56);
        assert!(offset_of!(Push, alpha) == 64);
        assert!(offset_of!(Push, beta) == 68);
        assert!(offset_of!(Push, ndim) == 72);
        assert!(offset_of!(Push, k) == 76);
        assert!(size_of::<Push>() == 80);
    };
}

/// `shaders/matmul/groups.comp`.
pub(crate) mod matmul_groups {
    use super::*;
    pub(crate) const MATMUL_GROUPS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_groups);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 1];
        fn words(&self) -> [u32; 1] {
            [self.workgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) picks: u64,
        pub(crate) tiles: u64,
        pub(crate) rows: u32,
        pub(crate) height: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, picks) == 0);
        assert!(offset_of!(Push, tiles) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, height) == 20);
        assert!(size_of::<Push>() == 24);
    };
}

/// `shaders/matmul/lanes.comp`.
pub(crate) mod matmul_lanes {
    use super::*;
    pub(crate) const MATMUL_LANES: KernelOf<Constants, Push> = KernelOf::new(Kernel::matmul_lanes);
    pub(crate) const MATMUL_LANES_GATHER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_lanes_gather);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) tm: u32,
        /// `constant_id = 6`.
        pub(crate) tn: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                subgroup: 8,
                tm: 4,
                tn: 8,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.subgroup,
                self.tm,
                self.tn,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
}

/// `shaders/matmul/matrix.comp`.
pub(crate) mod matmul_matrix {
    use super::*;
    pub(crate) const MATMUL_MATRIX_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_matrix_float16);
    pub(crate) const MATMUL_MATRIX_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_matrix_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) wm: u32,
        /// `constant_id = 8`.
        pub(crate) wn: u32,
        /// `constant_id = 9`.
        pub(crate) fm: u32,
        /// `constant_id = 10`.
        pub(crate) fn_: u32,
        /// `constant_id = 11`.
        pub(crate) fk: u32,
        /// `constant_id = 12`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 128,
                bn: 128,
                bk: 32,
                wm: 64,
                wn: 64,
                fm: 16,
                fn_: 16,
                fk: 16,
                subgroup: 32,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 13];
        fn words(&self) -> [u32; 13] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.wm,
                self.wn,
                self.fm,
                self.fn_,
                self.fk,
                self.subgroup,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    /// `Sibling` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Sibling {
        pub(crate) b: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
        pub(crate) n: u32,
        pub(crate) end: u32,
    }
    const _: () = {
        assert!(offset_of!(Sibling, b) == 0);
        assert!(offset_of!(Sibling, scales) == 8);
        assert!(offset_of!(Sibling, biases) == 16);
        assert!(offset_of!(Sibling, result) == 24);
        assert!(offset_of!(Sibling, n) == 32);
        assert!(offset_of!(Sibling, end) == 36);
        assert!(size_of::<Sibling>() == 40);
    };
    /// `Siblings` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Siblings {
        pub(crate) all: [Sibling; 3],
    }
    const _: () = {
        assert!(offset_of!(Siblings, all) == 0);
        assert!(size_of::<Siblings>() == 120);
    };
    pub(crate) use super::convolution_tile::Push;
}

/// `shaders/matmul/scaled.comp`.
pub(crate) mod matmul_scaled {
    use super::*;
    pub(crate) const ALONG_K_FLAG: u32 = 1;
    pub(crate) const VECTOR_FLAG: u32 = 2;
    pub(crate) const MEASURE_FLAG: u32 = 4;
    pub(crate) const COLUMNS: u32 = 8;
    pub(crate) const ROWS: u32 = 8;
    pub(crate) const MATMUL_SCALED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_scaled);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) peaks: u64,
        pub(crate) walk: u64,
        pub(crate) leading: i64,
        pub(crate) rows: u32,
        pub(crate) width: u32,
        pub(crate) octets: u32,
        pub(crate) count: u32,
        pub(crate) ndim: u32,
        pub(crate) chunks: u32,
        pub(crate) chunk: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, peaks) == 16);
        assert!(offset_of!(Push, walk) == 24);
        assert!(offset_of!(Push, leading) == 32);
        assert!(offset_of!(Push, rows) == 40);
        assert!(offset_of!(Push, width) == 44);
        assert!(offset_of!(Push, octets) == 48);
        assert!(offset_of!(Push, count) == 52);
        assert!(offset_of!(Push, ndim) == 56);
        assert!(offset_of!(Push, chunks) == 60);
        assert!(offset_of!(Push, chunk) == 64);
        assert!(size_of::<Push>() == 68);
    };
}

/// `shaders/matmul/scaled_whole.comp`.
pub(crate) mod matmul_scaled_whole {
    use super::*;
    pub(crate) const MEASURE_FLAG: u32 = 1;
    pub(crate) const VECTOR_FLAG: u32 = 2;
    pub(crate) const MATMUL_SCALED_WHOLE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_scaled_whole);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) peaks: u64,
        pub(crate) factor: u64,
        pub(crate) walk: u64,
        pub(crate) leading: i64,
        pub(crate) rows: u32,
        pub(crate) width: u32,
        pub(crate) octets: u32,
        pub(crate) count: u32,
        pub(crate) ndim: u32,
        pub(crate) groups: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, peaks) == 16);
        assert!(offset_of!(Push, factor) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, leading) == 40);
        assert!(offset_of!(Push, rows) == 48);
        assert!(offset_of!(Push, width) == 52);
        assert!(offset_of!(Push, octets) == 56);
        assert!(offset_of!(Push, count) == 60);
        assert!(offset_of!(Push, ndim) == 64);
        assert!(offset_of!(Push, groups) == 68);
        assert!(size_of::<Push>() == 72);
    };
}

/// `shaders/matmul/split_sum.comp`.
pub(crate) mod matmul_split_sum {
    use super::*;
    pub(crate) const ADD_FLAG: u32 = 1;
    pub(crate) const MATMUL_SPLIT_SUM: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_split_sum);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.dtype, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) parts: u64,
        pub(crate) c: u64,
        pub(crate) result: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) alpha: f32,
        pub(crate) beta: f32,
        pub(crate) ndim: u32,
        pub(crate) splits: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, parts) == 0);
        assert!(offset_of!(Push, c) == 8);
        assert!(offset_of!(Push, result) == 16);
        assert!(offset_of!(Push, count) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, alpha) == 40);
        assert!(offset_of!(Push, beta) == 44);
        assert!(offset_of!(Push, ndim) == 48);
        assert!(offset_of!(Push, splits) == 52);
        assert!(size_of::<Push>() == 56);
    };
}

/// `shaders/matmul/tile.comp`.
pub(crate) mod matmul_tile {
    use super::*;
    pub(crate) const MATMUL_TILE: KernelOf<Constants, Push> = KernelOf::new(Kernel::matmul_tile);
    pub(crate) const MATMUL_TILE_GATHER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_tile_gather);
    pub(crate) const MATMUL_TILE_SEGMENTS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matmul_tile_segments);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) tm: u32,
        /// `constant_id = 8`.
        pub(crate) tn: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 64,
                bn: 64,
                bk: 16,
                tm: 4,
                tn: 4,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 9];
        fn words(&self) -> [u32; 9] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.tm,
                self.tn,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
}

/// `shaders/include/matrix_tile.glsl`.
pub(crate) mod matrix_tile {
    use super::*;
    pub(crate) const SIBLINGS_FLAG: u32 = 64;
    pub(crate) const GATED_FLAG: u32 = 128;
    pub(crate) const GELU_FLAG: u32 = 4096;
}

/// `shaders/include/matvec.glsl`.
pub(crate) mod matvec {
    use super::*;
    pub(crate) const AFTER_RESIDUAL: u32 = 1;
    pub(crate) const AFTER_GATE: u32 = 2;
    pub(crate) const AFTER_BIASES: u32 = 4;
    pub(crate) const AFTER_GELU: u32 = 8;
}

/// `shaders/matvec/fused.comp`.
pub(crate) mod matvec_fused {
    use super::*;
    pub(crate) const MATVEC_FUSED: KernelOf<Constants, Push> = KernelOf::new(Kernel::matvec_fused);
    pub(crate) const MATVEC_FUSED_DOTS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_fused_dots);
    pub(crate) const MATVEC_FUSED_FLOATS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_fused_floats);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) rows: u32,
        /// `constant_id = 6`.
        pub(crate) outputs: u32,
        /// `constant_id = 7`.
        pub(crate) norm: bool,
        /// `constant_id = 8`.
        pub(crate) after: u32,
        /// `constant_id = 9`.
        pub(crate) inner: u32,
        /// `constant_id = 10`.
        pub(crate) eps: u32,
        /// `constant_id = 11`.
        pub(crate) splits: u32,
        /// `constant_id = 12`.
        pub(crate) summed: bool,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                bits: 4,
                group: 64,
                subgroup: 32,
                rows: 1,
                outputs: 4,
                norm: false,
                after: 0,
                inner: 1024,
                eps: 0,
                splits: 1,
                summed: false,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 13];
        fn words(&self) -> [u32; 13] {
            [
                self.workgroup,
                self.dtype,
                self.bits,
                self.group,
                self.subgroup,
                self.rows,
                self.outputs,
                self.norm as u32,
                self.after,
                self.inner,
                self.eps,
                self.splits,
                self.summed as u32,
            ]
        }
    }
    /// `RowSum` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct RowSum {
        pub(crate) weight: u64,
        pub(crate) residual: u64,
        pub(crate) result: u64,
        pub(crate) eps: f32,
        pub(crate) unused: u32,
    }
    const _: () = {
        assert!(offset_of!(RowSum, weight) == 0);
        assert!(offset_of!(RowSum, residual) == 8);
        assert!(offset_of!(RowSum, result) == 16);
        assert!(offset_of!(RowSum, eps) == 24);
        assert!(offset_of!(RowSum, unused) == 28);
        assert!(size_of::<RowSum>() == 32);
    };
    /// `Target` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Target {
        pub(crate) result: u64,
        pub(crate) bias: u64,
        pub(crate) at_once: u32,
        pub(crate) unused: u32,
    }
    const _: () = {
        assert!(offset_of!(Target, result) == 0);
        assert!(offset_of!(Target, bias) == 8);
        assert!(offset_of!(Target, at_once) == 16);
        assert!(offset_of!(Target, unused) == 20);
        assert!(size_of::<Target>() == 24);
    };
    /// `Targets` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Targets {
        pub(crate) all: [Target; 3],
        pub(crate) sum: RowSum,
    }
    const _: () = {
        assert!(offset_of!(Targets, all) == 0);
        assert!(offset_of!(Targets, sum) == 72);
        assert!(size_of::<Targets>() == 104);
    };
    /// `Matrix` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Matrix {
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
    }
    const _: () = {
        assert!(offset_of!(Matrix, words) == 0);
        assert!(offset_of!(Matrix, scales) == 8);
        assert!(offset_of!(Matrix, biases) == 16);
        assert!(offset_of!(Matrix, result) == 24);
        assert!(size_of::<Matrix>() == 32);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) matrices: [Matrix; 3],
        pub(crate) ends: [u32; 3],
        pub(crate) one: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, matrices) == 16);
        assert!(offset_of!(Push, ends) == 112);
        assert!(offset_of!(Push, one) == 124);
        assert!(size_of::<Push>() == 128);
    };
}

/// `shaders/matvec/matrix.comp`.
pub(crate) mod matvec_matrix {
    use super::*;
    pub(crate) const MATVEC_MATRIX_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_matrix_float16);
    pub(crate) const MATVEC_MATRIX_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_matrix_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) group: u32,
        /// `constant_id = 2`.
        pub(crate) rows: u32,
        /// `constant_id = 3`.
        pub(crate) splits: u32,
        /// `constant_id = 4`.
        pub(crate) norm: bool,
        /// `constant_id = 5`.
        pub(crate) after: u32,
        /// `constant_id = 6`.
        pub(crate) inner: u32,
        /// `constant_id = 7`.
        pub(crate) eps: u32,
        /// `constant_id = 8`.
        pub(crate) fn_: u32,
        /// `constant_id = 9`.
        pub(crate) depth: u32,
        /// `constant_id = 10`.
        pub(crate) fragments: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                group: 64,
                rows: 1,
                splits: 8,
                norm: false,
                after: 0,
                inner: 1024,
                eps: 0,
                fn_: 16,
                depth: 1,
                fragments: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 11];
        fn words(&self) -> [u32; 11] {
            [
                self.workgroup,
                self.group,
                self.rows,
                self.splits,
                self.norm as u32,
                self.after,
                self.inner,
                self.eps,
                self.fn_,
                self.depth,
                self.fragments,
            ]
        }
    }
    pub(crate) use super::matvec_fused::Matrix;
    pub(crate) use super::matvec_fused::Push;
    pub(crate) use super::matvec_fused::RowSum;
    pub(crate) use super::matvec_fused::Target;
    pub(crate) use super::matvec_fused::Targets;
}

/// `shaders/matvec/rows.comp`.
pub(crate) mod matvec_rows {
    use super::*;
    pub(crate) const MATVEC_ROWS_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_float16);
    pub(crate) const MATVEC_ROWS_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_bfloat16);
    pub(crate) const MATVEC_ROWS_BYTES_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_bytes_float16);
    pub(crate) const MATVEC_ROWS_BYTES_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_bytes_bfloat16);
    pub(crate) const MATVEC_ROWS_DENSE_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_dense_float16);
    pub(crate) const MATVEC_ROWS_DENSE_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_dense_bfloat16);
    pub(crate) const MATVEC_ROWS_MXFP4: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_rows_mxfp4);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) group: u32,
        /// `constant_id = 2`.
        pub(crate) rows: u32,
        /// `constant_id = 3`.
        pub(crate) splits: u32,
        /// `constant_id = 4`.
        pub(crate) after: u32,
        /// `constant_id = 5`.
        pub(crate) inner: u32,
        /// `constant_id = 6`.
        pub(crate) fragments: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                group: 64,
                rows: 4,
                splits: 8,
                after: 0,
                inner: 1024,
                fragments: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [
                self.workgroup,
                self.group,
                self.rows,
                self.splits,
                self.after,
                self.inner,
                self.fragments,
            ]
        }
    }
    pub(crate) use super::matvec_fused::Matrix;
    pub(crate) use super::matvec_fused::Push;
    pub(crate) use super::matvec_fused::RowSum;
    pub(crate) use super::matvec_fused::Target;
    pub(crate) use super::matvec_fused::Targets;
}

/// `shaders/matvec/slices.comp`.
pub(crate) mod matvec_slices {
    use super::*;
    pub(crate) const MATVEC_SLICES_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_slices_float16);
    pub(crate) const MATVEC_SLICES_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_slices_bfloat16);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) group: u32,
        /// `constant_id = 2`.
        pub(crate) rows: u32,
        /// `constant_id = 3`.
        pub(crate) splits: u32,
        /// `constant_id = 4`.
        pub(crate) after: u32,
        /// `constant_id = 5`.
        pub(crate) inner: u32,
        /// `constant_id = 6`.
        pub(crate) fragments: u32,
        /// `constant_id = 7`.
        pub(crate) buffers: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                group: 64,
                rows: 4,
                splits: 16,
                after: 0,
                inner: 4096,
                fragments: 1,
                buffers: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 8];
        fn words(&self) -> [u32; 8] {
            [
                self.workgroup,
                self.group,
                self.rows,
                self.splits,
                self.after,
                self.inner,
                self.fragments,
                self.buffers,
            ]
        }
    }
    pub(crate) use super::matvec_fused::Matrix;
    pub(crate) use super::matvec_fused::Push;
    pub(crate) use super::matvec_fused::RowSum;
    pub(crate) use super::matvec_fused::Target;
    pub(crate) use super::matvec_fused::Targets;
}

/// `shaders/matvec/strided.comp`.
pub(crate) mod matvec_strided {
    use super::*;
    pub(crate) const M_VECTOR_FLAG: u32 = 1;
    pub(crate) const X_VECTOR_FLAG: u32 = 2;
    pub(crate) const ADD_FLAG: u32 = 4;
    pub(crate) const MATVEC_GATHER_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_gather_subgroup);
    pub(crate) const MATVEC_GATHER_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_gather_shared);
    pub(crate) const MATVEC_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_subgroup);
    pub(crate) const MATVEC_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::matvec_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) vectors: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) outputs: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, vectors: 1, subgroup: 32, outputs: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.dtype, self.flags, self.vectors, self.subgroup, self.outputs]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) matrix: u64,
        pub(crate) x: u64,
        pub(crate) c: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) row_stride: i64,
        pub(crate) x_row: i64,
        pub(crate) x_stride: i64,
        pub(crate) c_row: i64,
        pub(crate) c_vector: i64,
        pub(crate) rows: u32,
        pub(crate) vectors: u32,
        pub(crate) k: u32,
        pub(crate) batches: u32,
        pub(crate) alpha: f32,
        pub(crate) beta: f32,
        pub(crate) ndim: u32,
        pub(crate) transposed: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, matrix) == 0);
        assert!(offset_of!(Push, x) == 8);
        assert!(offset_of!(Push, c) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, walk) == 32);
        assert!(offset_of!(Push, row_stride) == 40);
        assert!(offset_of!(Push, x_row) == 48);
        assert!(offset_of!(Push, x_stride) == 56);
        assert!(offset_of!(Push, c_row) == 64);
        assert!(offset_of!(Push, c_vector) == 72);
        assert!(offset_of!(Push, rows) == 80);
        assert!(offset_of!(Push, vectors) == 84);
        assert!(offset_of!(Push, k) == 88);
        assert!(offset_of!(Push, batches) == 92);
        assert!(offset_of!(Push, alpha) == 96);
        assert!(offset_of!(Push, beta) == 100);
        assert!(offset_of!(Push, ndim) == 104);
        assert!(offset_of!(Push, transposed) == 108);
        assert!(size_of::<Push>() == 112);
    };
}

/// `shaders/matvec/vecmat.comp`.
pub(crate) mod matvec_vecmat {
    use super::*;
    pub(crate) const M_VECTOR_FLAG: u32 = 1;
    pub(crate) const ADD_FLAG: u32 = 4;
    pub(crate) const QUANTIZED_VECMAT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::quantized_vecmat);
    pub(crate) const VECMAT: KernelOf<Constants, Push> = KernelOf::new(Kernel::vecmat);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) vectors: u32,
        /// `constant_id = 4`.
        pub(crate) across: u32,
        /// `constant_id = 5`.
        pub(crate) bits: u32,
        /// `constant_id = 6`.
        pub(crate) group: u32,
        /// `constant_id = 7`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                flags: 0,
                vectors: 1,
                across: 8,
                bits: 4,
                group: 64,
                format: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 8];
        fn words(&self) -> [u32; 8] {
            [
                self.workgroup,
                self.dtype,
                self.flags,
                self.vectors,
                self.across,
                self.bits,
                self.group,
                self.format,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) matrix: u64,
        pub(crate) x: u64,
        pub(crate) c: u64,
        pub(crate) extra: u64,
        pub(crate) result: u64,
        pub(crate) walk: u64,
        pub(crate) row_stride: i64,
        pub(crate) x_row: i64,
        pub(crate) x_stride: i64,
        pub(crate) c_column: i64,
        pub(crate) c_vector: i64,
        pub(crate) columns: u32,
        pub(crate) vectors: u32,
        pub(crate) k: u32,
        pub(crate) batches: u32,
        pub(crate) alpha: f32,
        pub(crate) beta: f32,
        pub(crate) ndim: u32,
        pub(crate) transposed: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, matrix) == 0);
        assert!(offset_of!(Push, x) == 8);
        assert!(offset_of!(Push, c) == 16);
        assert!(offset_of!(Push, extra) == 24);
        assert!(offset_of!(Push, result) == 32);
        assert!(offset_of!(Push, walk) == 40);
        assert!(offset_of!(Push, row_stride) == 48);
        assert!(offset_of!(Push, x_row) == 56);
        assert!(offset_of!(Push, x_stride) == 64);
        assert!(offset_of!(Push, c_column) == 72);
        assert!(offset_of!(Push, c_vector) == 80);
        assert!(offset_of!(Push, columns) == 88);
        assert!(offset_of!(Push, vectors) == 92);
        assert!(offset_of!(Push, k) == 96);
        assert!(offset_of!(Push, batches) == 100);
        assert!(offset_of!(Push, alpha) == 104);
        assert!(offset_of!(Push, beta) == 108);
        assert!(offset_of!(Push, ndim) == 112);
        assert!(offset_of!(Push, transposed) == 116);
        assert!(size_of::<Push>() == 120);
    };
}

/// `shaders/mixture/experts.comp`.
pub(crate) mod mixture_experts {
    use super::*;
    pub(crate) const STORE: u32 = 0;
    pub(crate) const GATE: u32 = 1;
    pub(crate) const SUM: u32 = 2;
    pub(crate) const MIXTURE_EXPERTS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::mixture_experts);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) rows: u32,
        /// `constant_id = 6`.
        pub(crate) outputs: u32,
        /// `constant_id = 7`.
        pub(crate) aligned: u32,
        /// `constant_id = 8`.
        pub(crate) format: u32,
        /// `constant_id = 9`.
        pub(crate) after: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                bits: 4,
                group: 64,
                subgroup: 32,
                rows: 1,
                outputs: 1,
                aligned: 0,
                format: 0,
                after: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 10];
        fn words(&self) -> [u32; 10] {
            [
                self.workgroup,
                self.dtype,
                self.bits,
                self.group,
                self.subgroup,
                self.rows,
                self.outputs,
                self.aligned,
                self.format,
                self.after,
            ]
        }
    }
    /// `Others` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Others {
        pub(crate) added: [u64; 2],
        pub(crate) words: [u64; 2],
        pub(crate) scales: [u64; 2],
        pub(crate) biases: [u64; 2],
    }
    const _: () = {
        assert!(offset_of!(Others, added) == 0);
        assert!(offset_of!(Others, words) == 16);
        assert!(offset_of!(Others, scales) == 32);
        assert!(offset_of!(Others, biases) == 48);
        assert!(size_of::<Others>() == 64);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) result: u64,
        pub(crate) picks: u64,
        pub(crate) shares: u64,
        pub(crate) other: u64,
        pub(crate) words: [u64; 2],
        pub(crate) scales: [u64; 2],
        pub(crate) biases: [u64; 2],
        pub(crate) others: u64,
        pub(crate) tokens: u32,
        pub(crate) per_token: u32,
        pub(crate) outputs: u32,
        pub(crate) inner: u32,
        pub(crate) experts: u32,
        pub(crate) share_dtype: u32,
        pub(crate) shared_experts: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, result) == 8);
        assert!(offset_of!(Push, picks) == 16);
        assert!(offset_of!(Push, shares) == 24);
        assert!(offset_of!(Push, other) == 32);
        assert!(offset_of!(Push, words) == 40);
        assert!(offset_of!(Push, scales) == 56);
        assert!(offset_of!(Push, biases) == 72);
        assert!(offset_of!(Push, others) == 88);
        assert!(offset_of!(Push, tokens) == 96);
        assert!(offset_of!(Push, per_token) == 100);
        assert!(offset_of!(Push, outputs) == 104);
        assert!(offset_of!(Push, inner) == 108);
        assert!(offset_of!(Push, experts) == 112);
        assert!(offset_of!(Push, share_dtype) == 116);
        assert!(offset_of!(Push, shared_experts) == 120);
        assert!(size_of::<Push>() == 124);
    };
}

/// `shaders/mixture/route.comp`.
pub(crate) mod mixture_route {
    use super::*;
    pub(crate) const MIXTURE_ROUTE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::mixture_route);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) subgroup: u32,
        /// `constant_id = 3`.
        pub(crate) each: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, subgroup: 32, each: 4 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.dtype, self.subgroup, self.each]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) logits: u64,
        pub(crate) picks: u64,
        pub(crate) shares: u64,
        pub(crate) tokens: u32,
        pub(crate) experts: u32,
        pub(crate) count: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, logits) == 0);
        assert!(offset_of!(Push, picks) == 8);
        assert!(offset_of!(Push, shares) == 16);
        assert!(offset_of!(Push, tokens) == 24);
        assert!(offset_of!(Push, experts) == 28);
        assert!(offset_of!(Push, count) == 32);
        assert!(size_of::<Push>() == 36);
    };
}

/// `shaders/mixture/router.comp`.
pub(crate) mod mixture_router {
    use super::*;
    pub(crate) const MIXTURE_ROUTER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::mixture_router);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) subgroup: u32,
        /// `constant_id = 3`.
        pub(crate) each: u32,
        /// `constant_id = 4`.
        pub(crate) bits: u32,
        /// `constant_id = 5`.
        pub(crate) group_log: u32,
        /// `constant_id = 6`.
        pub(crate) by_subgroups: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 10,
                subgroup: 32,
                each: 4,
                bits: 8,
                group_log: 6,
                by_subgroups: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [
                self.workgroup,
                self.dtype,
                self.subgroup,
                self.each,
                self.bits,
                self.group_log,
                self.by_subgroups,
            ]
        }
    }
    /// `More` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct More {
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) score_bias: u64,
        pub(crate) shared_experts: u32,
        pub(crate) scoring: u32,
        pub(crate) share_eps: f32,
        pub(crate) share_factor: f32,
        pub(crate) share_dtype: u32,
        pub(crate) unused: u32,
    }
    const _: () = {
        assert!(offset_of!(More, words) == 0);
        assert!(offset_of!(More, scales) == 8);
        assert!(offset_of!(More, biases) == 16);
        assert!(offset_of!(More, score_bias) == 24);
        assert!(offset_of!(More, shared_experts) == 32);
        assert!(offset_of!(More, scoring) == 36);
        assert!(offset_of!(More, share_eps) == 40);
        assert!(offset_of!(More, share_factor) == 44);
        assert!(offset_of!(More, share_dtype) == 48);
        assert!(offset_of!(More, unused) == 52);
        assert!(size_of::<More>() == 56);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) normal: u64,
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) bias: u64,
        pub(crate) logits: u64,
        pub(crate) picks: u64,
        pub(crate) shares: u64,
        pub(crate) counters: u64,
        pub(crate) more: u64,
        pub(crate) inner: u32,
        pub(crate) experts: u32,
        pub(crate) count: u32,
        pub(crate) at_once: u32,
        pub(crate) eps: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, normal) == 16);
        assert!(offset_of!(Push, words) == 24);
        assert!(offset_of!(Push, scales) == 32);
        assert!(offset_of!(Push, biases) == 40);
        assert!(offset_of!(Push, bias) == 48);
        assert!(offset_of!(Push, logits) == 56);
        assert!(offset_of!(Push, picks) == 64);
        assert!(offset_of!(Push, shares) == 72);
        assert!(offset_of!(Push, counters) == 80);
        assert!(offset_of!(Push, more) == 88);
        assert!(offset_of!(Push, inner) == 96);
        assert!(offset_of!(Push, experts) == 100);
        assert!(offset_of!(Push, count) == 104);
        assert!(offset_of!(Push, at_once) == 108);
        assert!(offset_of!(Push, eps) == 112);
        assert!(size_of::<Push>() == 116);
    };
}

/// `shaders/mixture/sum.comp`.
pub(crate) mod mixture_sum {
    use super::*;
    pub(crate) const MIXTURE_SUM: KernelOf<Constants, Push> = KernelOf::new(Kernel::mixture_sum);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.dtype]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) said: u64,
        pub(crate) result: u64,
        pub(crate) shares: u64,
        pub(crate) other: u64,
        pub(crate) tokens: u32,
        pub(crate) per_token: u32,
        pub(crate) outputs: u32,
        pub(crate) share_dtype: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, said) == 0);
        assert!(offset_of!(Push, result) == 8);
        assert!(offset_of!(Push, shares) == 16);
        assert!(offset_of!(Push, other) == 24);
        assert!(offset_of!(Push, tokens) == 32);
        assert!(offset_of!(Push, per_token) == 36);
        assert!(offset_of!(Push, outputs) == 40);
        assert!(offset_of!(Push, share_dtype) == 44);
        assert!(size_of::<Push>() == 48);
    };
}

/// `shaders/norm/norm.comp`.
pub(crate) mod norm {
    use super::*;
    pub(crate) const VECTOR_FLAG: u32 = 1;
    pub(crate) const SCALAR_WEIGHT_FLAG: u32 = 2;
    pub(crate) const SCALAR_BIAS_FLAG: u32 = 4;
    pub(crate) const RMS_NORM_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::rms_norm_subgroup);
    pub(crate) const RMS_NORM_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::rms_norm_shared);
    pub(crate) const LAYER_NORM_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::layer_norm_subgroup);
    pub(crate) const LAYER_NORM_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::layer_norm_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, subgroup: 32 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.dtype, self.flags, 0, self.subgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) bias: u64,
        pub(crate) result: u64,
        pub(crate) rows: u64,
        pub(crate) width: u32,
        pub(crate) eps: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, bias) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, rows) == 32);
        assert!(offset_of!(Push, width) == 40);
        assert!(offset_of!(Push, eps) == 44);
        assert!(size_of::<Push>() == 48);
    };
}

/// `shaders/norm/group.comp`.
pub(crate) mod norm_group {
    use super::*;
    pub(crate) const APPLY_FLAG: u32 = 1;
    pub(crate) const AFFINE_FLAG: u32 = 2;
    pub(crate) const SILU_FLAG: u32 = 4;
    pub(crate) const MOST_GROUPS: u32 = 128;
    pub(crate) const NORM_GROUP: KernelOf<Constants, Push> = KernelOf::new(Kernel::norm_group);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.dtype, self.flags]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) bias: u64,
        pub(crate) result: u64,
        pub(crate) parts: u64,
        pub(crate) positions: u32,
        pub(crate) channels: u32,
        pub(crate) groups: u32,
        pub(crate) splits: u32,
        pub(crate) chunk: u32,
        pub(crate) chunks: u32,
        pub(crate) eps: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, bias) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, parts) == 32);
        assert!(offset_of!(Push, positions) == 40);
        assert!(offset_of!(Push, channels) == 44);
        assert!(offset_of!(Push, groups) == 48);
        assert!(offset_of!(Push, splits) == 52);
        assert!(offset_of!(Push, chunk) == 56);
        assert!(offset_of!(Push, chunks) == 60);
        assert!(offset_of!(Push, eps) == 64);
        assert!(size_of::<Push>() == 68);
    };
}

/// `shaders/norm/vjp.comp`.
pub(crate) mod norm_vjp {
    use super::*;
    pub(crate) const VECTOR_FLAG: u32 = 1;
    pub(crate) const CENTRED_FLAG: u32 = 2;
    pub(crate) const PARAMETERS_FLAG: u32 = 4;
    pub(crate) const NARROW_FLAG: u32 = 8;
    pub(crate) const LONG_FLAG: u32 = 16;
    pub(crate) const SCALAR_WEIGHT_FLAG: u32 = 32;
    pub(crate) const NORM_VJP_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::norm_vjp_subgroup);
    pub(crate) const NORM_VJP_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::norm_vjp_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) kept: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, kept: 1, subgroup: 32 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.dtype, self.flags, self.kept, self.subgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) weight: u64,
        pub(crate) cotangent: u64,
        pub(crate) result: u64,
        pub(crate) sums: u64,
        pub(crate) rows: u64,
        pub(crate) width: u32,
        pub(crate) eps: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, weight) == 8);
        assert!(offset_of!(Push, cotangent) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, sums) == 32);
        assert!(offset_of!(Push, rows) == 40);
        assert!(offset_of!(Push, width) == 48);
        assert!(offset_of!(Push, eps) == 52);
        assert!(size_of::<Push>() == 56);
    };
}

/// `shaders/include/operands.glsl`.
pub(crate) mod operands {
    use super::*;
    pub(crate) const IN_ORDER: u32 = 0;
    pub(crate) const ONE: u32 = 1;
    pub(crate) const WALKED: u32 = 2;
}

/// `shaders/include/packed.glsl`.
pub(crate) mod packed {
    use super::*;
    pub(crate) const AFFINE: u32 = 0;
    pub(crate) const MXFP4: u32 = 1;
    pub(crate) const NVFP4: u32 = 2;
    pub(crate) const MXFP8: u32 = 3;
}

/// `shaders/program/program.comp`.
pub(crate) mod program {
    use super::*;
    pub(crate) const ONE: u32 = 0;
    pub(crate) const LISTED: u32 = 1;
    pub(crate) const REDUCING: u32 = 2;
    pub(crate) const INLINE: u32 = 11;
    pub(crate) const PROGRAM: KernelOf<Constants, Push> = KernelOf::new(Kernel::program);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) lanes: u32,
        /// `constant_id = 2`.
        pub(crate) mode: u32,
        /// `constant_id = 3`.
        pub(crate) op: u32,
        /// `constant_id = 4`.
        pub(crate) team: u32,
        /// `constant_id = 5`.
        pub(crate) across: u32,
        /// `constant_id = 6`.
        pub(crate) reduced: u32,
        /// `constant_id = 7`.
        pub(crate) to: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                lanes: 4,
                mode: 0,
                op: 5,
                team: 64,
                across: 0,
                reduced: 1,
                to: 11,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 8];
        fn words(&self) -> [u32; 8] {
            [
                self.workgroup,
                self.lanes,
                self.mode,
                self.op,
                self.team,
                self.across,
                self.reduced,
                self.to,
            ]
        }
    }
    /// `Part` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Part {
        pub(crate) v: u32,
    }
    const _: () = {
        assert!(offset_of!(Part, v) == 0);
        assert!(size_of::<Part>() == 4);
    };
    /// `Reduction` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Reduction {
        pub(crate) rows: u64,
        pub(crate) columns: u64,
        pub(crate) steps: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) further: u64,
        pub(crate) parts: u64,
        pub(crate) counters: u64,
    }
    const _: () = {
        assert!(offset_of!(Reduction, rows) == 0);
        assert!(offset_of!(Reduction, columns) == 8);
        assert!(offset_of!(Reduction, steps) == 16);
        assert!(offset_of!(Reduction, splits) == 24);
        assert!(offset_of!(Reduction, chunk) == 32);
        assert!(offset_of!(Reduction, further) == 40);
        assert!(offset_of!(Reduction, parts) == 48);
        assert!(offset_of!(Reduction, counters) == 56);
        assert!(size_of::<Reduction>() == 64);
    };
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) further: u64,
        pub(crate) operands: [u64; 11],
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, count) == 0);
        assert!(offset_of!(Push, walk) == 8);
        assert!(offset_of!(Push, further) == 16);
        assert!(offset_of!(Push, operands) == 24);
        assert!(offset_of!(Push, ndim) == 112);
        assert!(size_of::<Push>() == 116);
    };
}

/// `shaders/quantized/dequantize.comp`.
pub(crate) mod quantized_dequantize {
    use super::*;
    pub(crate) const DEQUANTIZE: KernelOf<Constants, Push> = KernelOf::new(Kernel::dequantize);
    pub(crate) const DEQUANTIZE_GATHER: KernelOf<Constants, GatherPush> =
        KernelOf::new(Kernel::dequantize_gather);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
        /// `constant_id = 4`.
        pub(crate) index: u32,
        /// `constant_id = 5`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, bits: 4, group: 64, index: 3, format: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.dtype, self.bits, self.group, self.index, self.format]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
        pub(crate) count: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, words) == 0);
        assert!(offset_of!(Push, scales) == 8);
        assert!(offset_of!(Push, biases) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, count) == 32);
        assert!(size_of::<Push>() == 40);
    };
    /// `GatherPush` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct GatherPush {
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
        pub(crate) count: u64,
        pub(crate) indices: u64,
        pub(crate) size: i64,
        pub(crate) row: u32,
    }
    const _: () = {
        assert!(offset_of!(GatherPush, words) == 0);
        assert!(offset_of!(GatherPush, scales) == 8);
        assert!(offset_of!(GatherPush, biases) == 16);
        assert!(offset_of!(GatherPush, result) == 24);
        assert!(offset_of!(GatherPush, count) == 32);
        assert!(offset_of!(GatherPush, indices) == 40);
        assert!(offset_of!(GatherPush, size) == 48);
        assert!(offset_of!(GatherPush, row) == 56);
        assert!(size_of::<GatherPush>() == 60);
    };
}

/// `shaders/quantized/gather_rows.comp`.
pub(crate) mod quantized_gather_rows {
    use super::*;
    pub(crate) const ROUNDED: u32 = 0;
    pub(crate) const GATE: u32 = 1;
    pub(crate) const SUMMED: u32 = 2;
    pub(crate) const STORE: u32 = 3;
    pub(crate) const QMM_GATHER_ROWS_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_gather_rows_float16);
    pub(crate) const QMM_GATHER_ROWS_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_gather_rows_bfloat16);
    pub(crate) const QMM_GATHER_SLICES_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_gather_slices_float16);
    pub(crate) const QMM_GATHER_SLICES_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_gather_slices_bfloat16);
    pub(crate) const QMM_GATHER_ROWS_MXFP4: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_gather_rows_mxfp4);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) group: u32,
        /// `constant_id = 2`.
        pub(crate) columns: u32,
        /// `constant_id = 3`.
        pub(crate) splits: u32,
        /// `constant_id = 4`.
        pub(crate) after: u32,
        /// `constant_id = 5`.
        pub(crate) inner: u32,
        /// `constant_id = 6`.
        pub(crate) fragments: u32,
        /// `constant_id = 7`.
        pub(crate) experts: u32,
        /// `constant_id = 8`.
        pub(crate) most_picks: u32,
        /// `constant_id = 9`.
        pub(crate) rows_scaled: u32,
        /// `constant_id = 10`.
        pub(crate) buffers: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                group: 64,
                columns: 8,
                splits: 4,
                after: 0,
                inner: 1024,
                fragments: 1,
                experts: 128,
                most_picks: 128,
                rows_scaled: 0,
                buffers: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 11];
        fn words(&self) -> [u32; 11] {
            [
                self.workgroup,
                self.group,
                self.columns,
                self.splits,
                self.after,
                self.inner,
                self.fragments,
                self.experts,
                self.most_picks,
                self.rows_scaled,
                self.buffers,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) result: u64,
        pub(crate) picks: u64,
        pub(crate) rows: u64,
        pub(crate) words: [u64; 2],
        pub(crate) scales: [u64; 2],
        pub(crate) biases: [u64; 2],
        pub(crate) added: [u64; 2],
        pub(crate) other: u64,
        pub(crate) count: u32,
        pub(crate) per_row: u32,
        pub(crate) row_count: u32,
        pub(crate) outputs: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, result) == 8);
        assert!(offset_of!(Push, picks) == 16);
        assert!(offset_of!(Push, rows) == 24);
        assert!(offset_of!(Push, words) == 32);
        assert!(offset_of!(Push, scales) == 48);
        assert!(offset_of!(Push, biases) == 64);
        assert!(offset_of!(Push, added) == 80);
        assert!(offset_of!(Push, other) == 96);
        assert!(offset_of!(Push, count) == 104);
        assert!(offset_of!(Push, per_row) == 108);
        assert!(offset_of!(Push, row_count) == 112);
        assert!(offset_of!(Push, outputs) == 116);
        assert!(size_of::<Push>() == 120);
    };
}

/// `shaders/quantized/qmm_fields.comp`.
pub(crate) mod quantized_qmm_fields {
    use super::*;
    pub(crate) const PAGE: u32 = 8;
    pub(crate) const QMM_FIELDS_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_fields_float16);
    pub(crate) const QMM_FIELDS_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_fields_bfloat16);
    pub(crate) const QMM_FIELDS_MXFP4: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_fields_mxfp4);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) wm: u32,
        /// `constant_id = 8`.
        pub(crate) wn: u32,
        /// `constant_id = 9`.
        pub(crate) fm: u32,
        /// `constant_id = 10`.
        pub(crate) fn_: u32,
        /// `constant_id = 11`.
        pub(crate) fk: u32,
        /// `constant_id = 12`.
        pub(crate) subgroup: u32,
        /// `constant_id = 13`.
        pub(crate) group: u32,
        /// `constant_id = 14`.
        pub(crate) fragments: u32,
        /// `constant_id = 15`.
        pub(crate) whole_pages: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 128,
                bn: 128,
                bk: 32,
                wm: 64,
                wn: 64,
                fm: 16,
                fn_: 16,
                fk: 16,
                subgroup: 32,
                group: 64,
                fragments: 1,
                whole_pages: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 16];
        fn words(&self) -> [u32; 16] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.wm,
                self.wn,
                self.fm,
                self.fn_,
                self.fk,
                self.subgroup,
                self.group,
                self.fragments,
                self.whole_pages,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
    pub(crate) use super::matmul_matrix::Sibling;
    pub(crate) use super::matmul_matrix::Siblings;
}

/// `shaders/quantized/qmm_lanes.comp`.
pub(crate) mod quantized_qmm_lanes {
    use super::*;
    pub(crate) const QMM_LANES: KernelOf<Constants, Push> = KernelOf::new(Kernel::qmm_lanes);
    pub(crate) const QMM_LANES_GATHER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_lanes_gather);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) tm: u32,
        /// `constant_id = 6`.
        pub(crate) tn: u32,
        /// `constant_id = 9`.
        pub(crate) bits: u32,
        /// `constant_id = 10`.
        pub(crate) group: u32,
        /// `constant_id = 11`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                subgroup: 8,
                tm: 4,
                tn: 8,
                bits: 4,
                group: 64,
                format: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 12];
        fn words(&self) -> [u32; 12] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.subgroup,
                self.tm,
                self.tn,
                0,
                0,
                self.bits,
                self.group,
                self.format,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
}

/// `shaders/quantized/qmm_matrix.comp`.
pub(crate) mod quantized_qmm_matrix {
    use super::*;
    pub(crate) const QMM_MATRIX_FLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_matrix_float16);
    pub(crate) const QMM_MATRIX_BFLOAT16: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_matrix_bfloat16);
    pub(crate) const QMM_MATRIX_FLOATS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_matrix_floats);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) wm: u32,
        /// `constant_id = 8`.
        pub(crate) wn: u32,
        /// `constant_id = 9`.
        pub(crate) fm: u32,
        /// `constant_id = 10`.
        pub(crate) fn_: u32,
        /// `constant_id = 11`.
        pub(crate) fk: u32,
        /// `constant_id = 12`.
        pub(crate) subgroup: u32,
        /// `constant_id = 13`.
        pub(crate) bits: u32,
        /// `constant_id = 14`.
        pub(crate) group: u32,
        /// `constant_id = 15`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 128,
                bn: 128,
                bk: 32,
                wm: 64,
                wn: 64,
                fm: 16,
                fn_: 16,
                fk: 16,
                subgroup: 32,
                bits: 4,
                group: 64,
                format: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 16];
        fn words(&self) -> [u32; 16] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.wm,
                self.wn,
                self.fm,
                self.fn_,
                self.fk,
                self.subgroup,
                self.bits,
                self.group,
                self.format,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
    pub(crate) use super::matmul_matrix::Sibling;
    pub(crate) use super::matmul_matrix::Siblings;
}

/// `shaders/quantized/qmm_tile.comp`.
pub(crate) mod quantized_qmm_tile {
    use super::*;
    pub(crate) const QMM_TILE: KernelOf<Constants, Push> = KernelOf::new(Kernel::qmm_tile);
    pub(crate) const QMM_TILE_GATHER: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmm_tile_gather);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) out_dtype: u32,
        /// `constant_id = 3`.
        pub(crate) flags: u32,
        /// `constant_id = 4`.
        pub(crate) bm: u32,
        /// `constant_id = 5`.
        pub(crate) bn: u32,
        /// `constant_id = 6`.
        pub(crate) bk: u32,
        /// `constant_id = 7`.
        pub(crate) tm: u32,
        /// `constant_id = 8`.
        pub(crate) tn: u32,
        /// `constant_id = 9`.
        pub(crate) bits: u32,
        /// `constant_id = 10`.
        pub(crate) group: u32,
        /// `constant_id = 11`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                out_dtype: 11,
                flags: 0,
                bm: 64,
                bn: 64,
                bk: 16,
                tm: 4,
                tn: 4,
                bits: 4,
                group: 64,
                format: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 12];
        fn words(&self) -> [u32; 12] {
            [
                self.workgroup,
                self.dtype,
                self.out_dtype,
                self.flags,
                self.bm,
                self.bn,
                self.bk,
                self.tm,
                self.tn,
                self.bits,
                self.group,
                self.format,
            ]
        }
    }
    pub(crate) use super::convolution_tile::Picks;
    pub(crate) use super::convolution_tile::Push;
}

/// `shaders/quantized/qmv.comp`.
pub(crate) mod quantized_qmv {
    use super::*;
    pub(crate) const QMV_SUBGROUP: KernelOf<Constants, Push> = KernelOf::new(Kernel::qmv_subgroup);
    pub(crate) const QMV_SHARED: KernelOf<Constants, Push> = KernelOf::new(Kernel::qmv_shared);
    pub(crate) const QMV_GATHER_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmv_gather_subgroup);
    pub(crate) const QMV_GATHER_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::qmv_gather_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
        /// `constant_id = 5`.
        pub(crate) rows: u32,
        /// `constant_id = 6`.
        pub(crate) outputs: u32,
        /// `constant_id = 7`.
        pub(crate) aligned: u32,
        /// `constant_id = 8`.
        pub(crate) format: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                dtype: 11,
                bits: 4,
                group: 64,
                subgroup: 32,
                rows: 1,
                outputs: 1,
                aligned: 0,
                format: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 9];
        fn words(&self) -> [u32; 9] {
            [
                self.workgroup,
                self.dtype,
                self.bits,
                self.group,
                self.subgroup,
                self.rows,
                self.outputs,
                self.aligned,
                self.format,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) result: u64,
        pub(crate) picks: u64,
        pub(crate) rows: u32,
        pub(crate) outputs: u32,
        pub(crate) inner: u32,
        pub(crate) batches: u32,
        pub(crate) stride: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, words) == 8);
        assert!(offset_of!(Push, scales) == 16);
        assert!(offset_of!(Push, biases) == 24);
        assert!(offset_of!(Push, result) == 32);
        assert!(offset_of!(Push, picks) == 40);
        assert!(offset_of!(Push, rows) == 48);
        assert!(offset_of!(Push, outputs) == 52);
        assert!(offset_of!(Push, inner) == 56);
        assert!(offset_of!(Push, batches) == 60);
        assert!(offset_of!(Push, stride) == 64);
        assert!(size_of::<Push>() == 68);
    };
    pub(crate) use super::convolution_tile::Picks;
}

/// `shaders/quantized/quantize.comp`.
pub(crate) mod quantized_quantize {
    use super::*;
    pub(crate) const QUANTIZE: KernelOf<Constants, Push> = KernelOf::new(Kernel::quantize);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) bits: u32,
        /// `constant_id = 3`.
        pub(crate) group: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, bits: 4, group: 64 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.dtype, self.bits, self.group]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) w: u64,
        pub(crate) words: u64,
        pub(crate) scales: u64,
        pub(crate) biases: u64,
        pub(crate) count: u64,
    }
    const _: () = {
        assert!(offset_of!(Push, w) == 0);
        assert!(offset_of!(Push, words) == 8);
        assert!(offset_of!(Push, scales) == 16);
        assert!(offset_of!(Push, biases) == 24);
        assert!(offset_of!(Push, count) == 32);
        assert!(size_of::<Push>() == 40);
    };
}

/// `shaders/quantized/scale_rows.comp`.
pub(crate) mod quantized_scale_rows {
    use super::*;
    pub(crate) const SCALE_ROWS: KernelOf<Constants, Push> = KernelOf::new(Kernel::scale_rows);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 1];
        fn words(&self) -> [u32; 1] {
            [self.workgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) result: u64,
        pub(crate) octets: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, result) == 8);
        assert!(offset_of!(Push, octets) == 16);
        assert!(size_of::<Push>() == 20);
    };
}

/// `shaders/random/bits.comp`.
pub(crate) mod random_bits {
    use super::*;
    pub(crate) const RANDOM_BITS: KernelOf<Constants, Push> = KernelOf::new(Kernel::random_bits);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 1];
        fn words(&self) -> [u32; 1] {
            [self.workgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) key: u64,
        pub(crate) destination: u64,
        pub(crate) bytes: u64,
        pub(crate) key_stride: i64,
    }
    const _: () = {
        assert!(offset_of!(Push, key) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, bytes) == 16);
        assert!(offset_of!(Push, key_stride) == 24);
        assert!(size_of::<Push>() == 32);
    };
}

/// `shaders/reduce/reduce.comp`.
pub(crate) mod reduce {
    use super::*;
    pub(crate) const CONTIGUOUS: u32 = 0;
    pub(crate) const ONE_STRIDE: u32 = 1;
    pub(crate) const WALK: u32 = 2;
    pub(crate) const REDUCE_FLOAT: KernelOf<Constants, Push> = KernelOf::new(Kernel::reduce_float);
    pub(crate) const REDUCE_FLOAT_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::reduce_float_logaddexp);
    pub(crate) const REDUCE_INT: KernelOf<Constants, Push> = KernelOf::new(Kernel::reduce_int);
    pub(crate) const REDUCE_UINT: KernelOf<Constants, Push> = KernelOf::new(Kernel::reduce_uint);
    pub(crate) const REDUCE_LONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::reduce_long);
    pub(crate) const REDUCE_ULONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::reduce_ulong);
    pub(crate) const REDUCE_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::reduce_complex);
    pub(crate) const REDUCE_COMPLEX_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::reduce_complex_logaddexp);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) to: u32,
        /// `constant_id = 3`.
        pub(crate) op: u32,
        /// `constant_id = 4`.
        pub(crate) team: u32,
        /// `constant_id = 5`.
        pub(crate) mode: u32,
        /// `constant_id = 6`.
        pub(crate) across: u32,
        /// `constant_id = 7`.
        pub(crate) columns: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                from: 11,
                to: 11,
                op: 5,
                team: 64,
                mode: 0,
                across: 0,
                columns: 1,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 8];
        fn words(&self) -> [u32; 8] {
            [
                self.workgroup,
                self.from,
                self.to,
                self.op,
                self.team,
                self.mode,
                self.across,
                self.columns,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) row_walk: u64,
        pub(crate) walk: u64,
        pub(crate) stride: i64,
        pub(crate) row_ndim: u32,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, length) == 24);
        assert!(offset_of!(Push, splits) == 32);
        assert!(offset_of!(Push, chunk) == 40);
        assert!(offset_of!(Push, row_walk) == 48);
        assert!(offset_of!(Push, walk) == 56);
        assert!(offset_of!(Push, stride) == 64);
        assert!(offset_of!(Push, row_ndim) == 72);
        assert!(offset_of!(Push, ndim) == 76);
        assert!(size_of::<Push>() == 80);
    };
}

/// `shaders/reduce/arg.comp`.
pub(crate) mod reduce_arg {
    use super::*;
    pub(crate) const WHOLE: u32 = 0;
    pub(crate) const PARTS: u32 = 1;
    pub(crate) const JOIN: u32 = 2;
    pub(crate) const ARG_NARROW: KernelOf<Constants, Push> = KernelOf::new(Kernel::arg_narrow);
    pub(crate) const ARG_WIDE: KernelOf<Constants, Push> = KernelOf::new(Kernel::arg_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) op: u32,
        /// `constant_id = 3`.
        pub(crate) team: u32,
        /// `constant_id = 4`.
        pub(crate) across: u32,
        /// `constant_id = 5`.
        pub(crate) stage: u32,
        /// `constant_id = 6`.
        pub(crate) contiguous: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants {
                workgroup: 1,
                from: 11,
                op: 0,
                team: 64,
                across: 0,
                stage: 0,
                contiguous: 0,
            }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 7];
        fn words(&self) -> [u32; 7] {
            [
                self.workgroup,
                self.from,
                self.op,
                self.team,
                self.across,
                self.stage,
                self.contiguous,
            ]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) row_walk: u64,
        pub(crate) keys: u64,
        pub(crate) indices: u64,
        pub(crate) stride: i64,
        pub(crate) row_ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, length) == 24);
        assert!(offset_of!(Push, splits) == 32);
        assert!(offset_of!(Push, chunk) == 40);
        assert!(offset_of!(Push, row_walk) == 48);
        assert!(offset_of!(Push, keys) == 56);
        assert!(offset_of!(Push, indices) == 64);
        assert!(offset_of!(Push, stride) == 72);
        assert!(offset_of!(Push, row_ndim) == 80);
        assert!(size_of::<Push>() == 84);
    };
}

/// `shaders/include/reduction.glsl`.
pub(crate) mod reduction {
    use super::*;
    pub(crate) const ALL: u32 = 0;
    pub(crate) const ANY: u32 = 1;
    pub(crate) const MAX: u32 = 2;
    pub(crate) const MIN: u32 = 3;
    pub(crate) const PROD: u32 = 4;
    pub(crate) const SUM: u32 = 5;
}

/// `shaders/rope/rope.comp`.
pub(crate) mod rope {
    use super::*;
    pub(crate) const TRADITIONAL_FLAG: u32 = 1;
    pub(crate) const DIVISORS_FLAG: u32 = 2;
    pub(crate) const ROPE: KernelOf<Constants, Push> = KernelOf::new(Kernel::rope);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) flags: u32,
        /// `constant_id = 3`.
        pub(crate) heads: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, flags: 0, heads: 4 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.dtype, self.flags, self.heads]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) x: u64,
        pub(crate) offset: u64,
        pub(crate) frequencies: u64,
        pub(crate) result: u64,
        pub(crate) batch_stride: i64,
        pub(crate) head_stride: i64,
        pub(crate) row_stride: i64,
        pub(crate) feature_stride: i64,
        pub(crate) frequency_stride: i64,
        pub(crate) batches: u32,
        pub(crate) heads: u32,
        pub(crate) rows: u32,
        pub(crate) features: u32,
        pub(crate) dims: u32,
        pub(crate) offset_stride: u32,
        pub(crate) scale: f32,
    }
    const _: () = {
        assert!(offset_of!(Push, x) == 0);
        assert!(offset_of!(Push, offset) == 8);
        assert!(offset_of!(Push, frequencies) == 16);
        assert!(offset_of!(Push, result) == 24);
        assert!(offset_of!(Push, batch_stride) == 32);
        assert!(offset_of!(Push, head_stride) == 40);
        assert!(offset_of!(Push, row_stride) == 48);
        assert!(offset_of!(Push, feature_stride) == 56);
        assert!(offset_of!(Push, frequency_stride) == 64);
        assert!(offset_of!(Push, batches) == 72);
        assert!(offset_of!(Push, heads) == 76);
        assert!(offset_of!(Push, rows) == 80);
        assert!(offset_of!(Push, features) == 84);
        assert!(offset_of!(Push, dims) == 88);
        assert!(offset_of!(Push, offset_stride) == 92);
        assert!(offset_of!(Push, scale) == 96);
        assert!(size_of::<Push>() == 100);
    };
}

/// `shaders/include/run_delta.glsl`.
pub(crate) mod run_delta {
    use super::*;
    pub(crate) const DELTA_TEAM: u32 = 16;
    pub(crate) const DELTA_QUADS: u32 = 4;
}

/// `shaders/include/run_mixture.glsl`.
pub(crate) mod run_mixture {
    use super::*;
    pub(crate) const MOST_PICKS: u32 = 16;
    pub(crate) const MOST_EXPERTS: u32 = 512;
}

/// `shaders/include/run_rows.glsl`.
pub(crate) mod run_rows {
    use super::*;
    pub(crate) const ATTENTION: u32 = 1;
    pub(crate) const NORMALIZED: u32 = 2;
    pub(crate) const RESIDUAL: u32 = 4;
    pub(crate) const GATED: u32 = 8;
    pub(crate) const FLAGGED: u32 = 16;
    pub(crate) const FLAGGED_RESIDUAL: u32 = 32;
    pub(crate) const SPLITS_SHIFT: u32 = 24;
    pub(crate) const BIASED: u32 = 64;
    pub(crate) const AT_ONCE: u32 = 512;
    pub(crate) const ROUTER: u32 = 4096;
    pub(crate) const PICKED: u32 = 8192;
    pub(crate) const WEIGHED: u32 = 16384;
    pub(crate) const LED: u32 = 32768;
    pub(crate) const GELU: u32 = 65536;
    pub(crate) const SUMMED: u32 = 131072;
    pub(crate) const FLAGGED_ADDEND: u32 = 262144;
    pub(crate) const CONVOLUTION: u32 = 524288;
    pub(crate) const DELTA: u32 = 1048576;
    pub(crate) const ROW_WORDS: u32 = 64;
    pub(crate) const HEAD: u32 = 0;
    pub(crate) const SOURCE: u32 = 1;
    pub(crate) const TARGET: u32 = 2;
    pub(crate) const MATRIX: u32 = 3;
    pub(crate) const ENDS_AND_STRIDES: u32 = 9;
    pub(crate) const SECOND: u32 = 10;
    pub(crate) const COUNTS: u32 = 11;
    pub(crate) const ADDED: u32 = 12;
    pub(crate) const SUM_WEIGHT: u32 = 13;
    pub(crate) const SUM_RESIDUAL: u32 = 14;
    pub(crate) const SUM_RESULT: u32 = 15;
    pub(crate) const ROUTER_MATRIX: u32 = 2;
    pub(crate) const ROUTER_BIASES: u32 = 3;
    pub(crate) const ROUTER_FORMAT: u32 = 4;
    pub(crate) const ROUTER_SHARED: u32 = 5;
    pub(crate) const EXPERT_STRIDES: u32 = 5;
    pub(crate) const PICKS: u32 = 6;
    pub(crate) const PARTS: u32 = 7;
    pub(crate) const SHARED_AND_SCORING: u32 = 8;
    pub(crate) const SHARED_MATRIX: u32 = 12;
    pub(crate) const SHARED_SECOND: u32 = 14;
    pub(crate) const SHARE_ONE: u32 = 1;
    pub(crate) const SHARE_SIGMOID: u32 = 2;
    pub(crate) const COUNT_AND_SCALE: u32 = 0;
    pub(crate) const EPS_AND_HEADS: u32 = 1;
    pub(crate) const Q_AND_KEY: u32 = 2;
    pub(crate) const VALUE_AND_Q_WEIGHT: u32 = 3;
    pub(crate) const K_WEIGHT_AND_FREQUENCIES: u32 = 4;
    pub(crate) const CACHES: u32 = 5;
    pub(crate) const RESULT_AND_MARKED: u32 = 6;
    pub(crate) const PARTS_AND_OFFSET: u32 = 7;
    pub(crate) const STRIDES: u32 = 8;
    pub(crate) const MASK_AND_FACTOR: u32 = 9;
    pub(crate) const KEY_AFFINE: u32 = 10;
    pub(crate) const VALUE_AFFINE: u32 = 11;
    pub(crate) const X_AND_BEFORE: u32 = 1;
    pub(crate) const WEIGHT_AND_BIAS: u32 = 2;
    pub(crate) const CONVOLVED: u32 = 3;
    pub(crate) const WINDOW: u32 = 4;
    pub(crate) const QUERY_AND_KEY: u32 = 1;
    pub(crate) const VALUE_AND_A: u32 = 2;
    pub(crate) const B_AND_Z: u32 = 3;
    pub(crate) const DECAY_AND_SHIFT: u32 = 4;
    pub(crate) const STATES: u32 = 5;
    pub(crate) const END_WEIGHT_AND_Y: u32 = 6;
    pub(crate) const GATED_RESULT: u32 = 7;
    pub(crate) const OUTPUTS_AND_SCALES: u32 = 8;
    pub(crate) const DELTA_EPS: u32 = 9;
}

/// `shaders/scan/block.comp`.
pub(crate) mod scan_block {
    use super::*;
    pub(crate) const SCAN_BLOCK_FLOAT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_float);
    pub(crate) const SCAN_BLOCK_FLOAT_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_float_logaddexp);
    pub(crate) const SCAN_BLOCK_INT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_int);
    pub(crate) const SCAN_BLOCK_UINT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_uint);
    pub(crate) const SCAN_BLOCK_LONG: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_long);
    pub(crate) const SCAN_BLOCK_ULONG: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_ulong);
    pub(crate) const SCAN_BLOCK_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_complex);
    pub(crate) const SCAN_BLOCK_COMPLEX_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_block_complex_logaddexp);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) to: u32,
        /// `constant_id = 3`.
        pub(crate) op: u32,
        /// `constant_id = 4`.
        pub(crate) team: u32,
        /// `constant_id = 5`.
        pub(crate) words: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, to: 11, op: 5, team: 64, words: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.from, self.to, self.op, self.team, self.words]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) carries: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) row_walk: u64,
        pub(crate) stride: i64,
        pub(crate) out_stride: i64,
        pub(crate) row_ndim: u32,
        pub(crate) inclusive: u32,
        pub(crate) has_carries: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, carries) == 16);
        assert!(offset_of!(Push, rows) == 24);
        assert!(offset_of!(Push, length) == 32);
        assert!(offset_of!(Push, splits) == 40);
        assert!(offset_of!(Push, chunk) == 48);
        assert!(offset_of!(Push, row_walk) == 56);
        assert!(offset_of!(Push, stride) == 64);
        assert!(offset_of!(Push, out_stride) == 72);
        assert!(offset_of!(Push, row_ndim) == 80);
        assert!(offset_of!(Push, inclusive) == 84);
        assert!(offset_of!(Push, has_carries) == 88);
        assert!(size_of::<Push>() == 92);
    };
}

/// `shaders/scan/serial.comp`.
pub(crate) mod scan_serial {
    use super::*;
    pub(crate) const SCAN_SERIAL_FLOAT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_float);
    pub(crate) const SCAN_SERIAL_FLOAT_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_float_logaddexp);
    pub(crate) const SCAN_SERIAL_INT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_int);
    pub(crate) const SCAN_SERIAL_UINT: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_uint);
    pub(crate) const SCAN_SERIAL_LONG: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_long);
    pub(crate) const SCAN_SERIAL_ULONG: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_ulong);
    pub(crate) const SCAN_SERIAL_COMPLEX: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_complex);
    pub(crate) const SCAN_SERIAL_COMPLEX_LOGADDEXP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scan_serial_complex_logaddexp);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) to: u32,
        /// `constant_id = 3`.
        pub(crate) op: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, to: 11, op: 5 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.from, self.to, self.op]
        }
    }
    pub(crate) use super::scan_block::Push;
}

/// `shaders/scatter/assign.comp`.
pub(crate) mod scatter_assign {
    use super::*;
    pub(crate) const SCATTER_ASSIGN: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scatter_assign);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) bytes: u32,
        /// `constant_id = 2`.
        pub(crate) index: u32,
        /// `constant_id = 3`.
        pub(crate) count: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, bytes: 4, index: 7, count: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.bytes, self.index, self.count]
        }
    }
    pub(crate) use super::indexing_gather::IndexArray;
    pub(crate) use super::indexing_gather::Push;
}

/// `shaders/scatter/fold.comp`.
pub(crate) mod scatter_fold {
    use super::*;
    pub(crate) const SUM: u32 = 1;
    pub(crate) const PROD: u32 = 2;
    pub(crate) const MAX: u32 = 3;
    pub(crate) const MIN: u32 = 4;
    pub(crate) const SCATTER_FOLD: KernelOf<Constants, Push> = KernelOf::new(Kernel::scatter_fold);
    pub(crate) const SCATTER_FOLD_FLOATS: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scatter_fold_floats);
    pub(crate) const SCATTER_FOLD_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::scatter_fold_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) index: u32,
        /// `constant_id = 3`.
        pub(crate) count: u32,
        /// `constant_id = 4`.
        pub(crate) op: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, index: 7, count: 1, op: 1 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.dtype, self.index, self.count, self.op]
        }
    }
    pub(crate) use super::indexing_gather::IndexArray;
    pub(crate) use super::indexing_gather::Push;
}

/// `shaders/include/scores.glsl`.
pub(crate) mod scores {
    use super::*;
    pub(crate) const SIGMOIDS: u32 = 1;
    pub(crate) const ROUNDED_SCORES: u32 = 2;
    pub(crate) const DIVIDED_SHARES: u32 = 4;
}

/// `shaders/softmax/fold.comp`.
pub(crate) mod softmax_fold {
    use super::*;
    pub(crate) const WHOLE: u32 = 0;
    pub(crate) const PARTS: u32 = 1;
    pub(crate) const JOIN: u32 = 2;
    pub(crate) const SOFTMAX_FOLD: KernelOf<Constants, Push> = KernelOf::new(Kernel::softmax_fold);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) team: u32,
        /// `constant_id = 3`.
        pub(crate) stage: u32,
        /// `constant_id = 4`.
        pub(crate) quads: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, team: 64, stage: 0, quads: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.from, self.team, self.stage, self.quads]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) pairs: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) row_walk: u64,
        pub(crate) stride: i64,
        pub(crate) row_ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, pairs) == 16);
        assert!(offset_of!(Push, rows) == 24);
        assert!(offset_of!(Push, length) == 32);
        assert!(offset_of!(Push, splits) == 40);
        assert!(offset_of!(Push, chunk) == 48);
        assert!(offset_of!(Push, row_walk) == 56);
        assert!(offset_of!(Push, stride) == 64);
        assert!(offset_of!(Push, row_ndim) == 72);
        assert!(size_of::<Push>() == 76);
    };
}

/// `shaders/softmax/rows.comp`.
pub(crate) mod softmax_rows {
    use super::*;
    pub(crate) const SOFTMAX_ROWS_SUBGROUP: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::softmax_rows_subgroup);
    pub(crate) const SOFTMAX_ROWS_SHARED: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::softmax_rows_shared);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) team: u32,
        /// `constant_id = 3`.
        pub(crate) items: u32,
        /// `constant_id = 4`.
        pub(crate) quads: u32,
        /// `constant_id = 5`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, team: 64, items: 4, quads: 0, subgroup: 32 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 6];
        fn words(&self) -> [u32; 6] {
            [self.workgroup, self.from, self.team, self.items, self.quads, self.subgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) rows: u64,
        pub(crate) row_walk: u64,
        pub(crate) stride: i64,
        pub(crate) length: u32,
        pub(crate) row_ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, row_walk) == 24);
        assert!(offset_of!(Push, stride) == 32);
        assert!(offset_of!(Push, length) == 40);
        assert!(offset_of!(Push, row_ndim) == 44);
        assert!(size_of::<Push>() == 48);
    };
}

/// `shaders/softmax/scale.comp`.
pub(crate) mod softmax_scale {
    use super::*;
    pub(crate) const SOFTMAX_SCALE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::softmax_scale);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) team: u32,
        /// `constant_id = 3`.
        pub(crate) quads: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, team: 64, quads: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.from, self.team, self.quads]
        }
    }
    pub(crate) use super::softmax_fold::Push;
}

/// `shaders/sort/block.comp`.
pub(crate) mod sort_block {
    use super::*;
    pub(crate) const SORT_BLOCK_NARROW: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_block_narrow);
    pub(crate) const SORT_BLOCK_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_block_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) row: u32,
        /// `constant_id = 3`.
        pub(crate) capacity: u32,
        /// `constant_id = 4`.
        pub(crate) indices: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, row: 64, capacity: 64, indices: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.from, self.row, self.capacity, self.indices]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) rows: u64,
        pub(crate) row_walk: u64,
        pub(crate) stride: i64,
        pub(crate) out_stride: i64,
        pub(crate) length: u32,
        pub(crate) row_ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, row_walk) == 24);
        assert!(offset_of!(Push, stride) == 32);
        assert!(offset_of!(Push, out_stride) == 40);
        assert!(offset_of!(Push, length) == 48);
        assert!(offset_of!(Push, row_ndim) == 52);
        assert!(size_of::<Push>() == 56);
    };
}

/// `shaders/sort/count.comp`.
pub(crate) mod sort_count {
    use super::*;
    pub(crate) const SORT_COUNT_NARROW: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_count_narrow);
    pub(crate) const SORT_COUNT_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_count_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 2];
        fn words(&self) -> [u32; 2] {
            [self.workgroup, self.from]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) counts: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) shift: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, counts) == 8);
        assert!(offset_of!(Push, rows) == 16);
        assert!(offset_of!(Push, length) == 24);
        assert!(offset_of!(Push, splits) == 32);
        assert!(offset_of!(Push, chunk) == 40);
        assert!(offset_of!(Push, shift) == 48);
        assert!(size_of::<Push>() == 52);
    };
}

/// `shaders/sort/scatter.comp`.
pub(crate) mod sort_scatter {
    use super::*;
    pub(crate) const SORT_SCATTER_NARROW: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_scatter_narrow);
    pub(crate) const SORT_SCATTER_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_scatter_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) items: u32,
        /// `constant_id = 3`.
        pub(crate) indexed: u32,
        /// `constant_id = 4`.
        pub(crate) subgroup: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, items: 8, indexed: 0, subgroup: 32 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.from, self.items, self.indexed, self.subgroup]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) source: u64,
        pub(crate) destination: u64,
        pub(crate) indices: u64,
        pub(crate) out_indices: u64,
        pub(crate) offsets: u64,
        pub(crate) rows: u64,
        pub(crate) length: u64,
        pub(crate) splits: u64,
        pub(crate) chunk: u64,
        pub(crate) shift: u32,
        pub(crate) reads_indices: u32,
        pub(crate) writes_elements: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, source) == 0);
        assert!(offset_of!(Push, destination) == 8);
        assert!(offset_of!(Push, indices) == 16);
        assert!(offset_of!(Push, out_indices) == 24);
        assert!(offset_of!(Push, offsets) == 32);
        assert!(offset_of!(Push, rows) == 40);
        assert!(offset_of!(Push, length) == 48);
        assert!(offset_of!(Push, splits) == 56);
        assert!(offset_of!(Push, chunk) == 64);
        assert!(offset_of!(Push, shift) == 72);
        assert!(offset_of!(Push, reads_indices) == 76);
        assert!(offset_of!(Push, writes_elements) == 80);
        assert!(size_of::<Push>() == 84);
    };
}

/// `shaders/sort/scatter_shared.comp`.
pub(crate) mod sort_scatter_shared {
    use super::*;
    pub(crate) const SORT_SCATTER_SHARED_NARROW: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_scatter_shared_narrow);
    pub(crate) const SORT_SCATTER_SHARED_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_scatter_shared_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) items: u32,
        /// `constant_id = 3`.
        pub(crate) indexed: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, items: 8, indexed: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 4];
        fn words(&self) -> [u32; 4] {
            [self.workgroup, self.from, self.items, self.indexed]
        }
    }
    pub(crate) use super::sort_scatter::Push;
}

/// `shaders/sort/search.comp`.
pub(crate) mod sort_search {
    use super::*;
    pub(crate) const SORT_SEARCH_NARROW: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_search_narrow);
    pub(crate) const SORT_SEARCH_WIDE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::sort_search_wide);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) from: u32,
        /// `constant_id = 2`.
        pub(crate) right: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, from: 11, right: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.from, self.right]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) sorted: u64,
        pub(crate) values: u64,
        pub(crate) destination: u64,
        pub(crate) length: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) stride: i64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, sorted) == 0);
        assert!(offset_of!(Push, values) == 8);
        assert!(offset_of!(Push, destination) == 16);
        assert!(offset_of!(Push, length) == 24);
        assert!(offset_of!(Push, count) == 32);
        assert!(offset_of!(Push, walk) == 40);
        assert!(offset_of!(Push, stride) == 48);
        assert!(offset_of!(Push, ndim) == 56);
        assert!(size_of::<Push>() == 60);
    };
}

/// `shaders/ternary/select.comp`.
pub(crate) mod ternary_select {
    use super::*;
    pub(crate) const DENSE: u32 = 0;
    pub(crate) const STRIDED: u32 = 1;
    pub(crate) const STRIDED4: u32 = 2;
    pub(crate) const SELECT: KernelOf<Constants, Push> = KernelOf::new(Kernel::select);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) size: u32,
        /// `constant_id = 2`.
        pub(crate) mode: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, size: 4, mode: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 3];
        fn words(&self) -> [u32; 3] {
            [self.workgroup, self.size, self.mode]
        }
    }
    /// `Push` of the shader.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
    #[repr(C, packed(4))]
    pub(crate) struct Push {
        pub(crate) condition: u64,
        pub(crate) left: u64,
        pub(crate) right: u64,
        pub(crate) destination: u64,
        pub(crate) count: u64,
        pub(crate) walk: u64,
        pub(crate) ndim: u32,
    }
    const _: () = {
        assert!(offset_of!(Push, condition) == 0);
        assert!(offset_of!(Push, left) == 8);
        assert!(offset_of!(Push, right) == 16);
        assert!(offset_of!(Push, destination) == 24);
        assert!(offset_of!(Push, count) == 32);
        assert!(offset_of!(Push, walk) == 40);
        assert!(offset_of!(Push, ndim) == 48);
        assert!(size_of::<Push>() == 52);
    };
}

/// `shaders/unary/unary.comp`.
pub(crate) mod unary {
    use super::*;
    pub(crate) const UNARY_FLOAT_ALGEBRAIC: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_float_algebraic);
    pub(crate) const UNARY_FLOAT_EXPONENTIAL: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_float_exponential);
    pub(crate) const UNARY_FLOAT_LOGARITHMIC: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_float_logarithmic);
    pub(crate) const UNARY_FLOAT_CIRCULAR: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_float_circular);
    pub(crate) const UNARY_FLOAT_INVERSE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_float_inverse);
    pub(crate) const UNARY_COMPLEX_ALGEBRAIC: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_complex_algebraic);
    pub(crate) const UNARY_COMPLEX_EXPONENTIAL: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_complex_exponential);
    pub(crate) const UNARY_COMPLEX_LOGARITHMIC: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_complex_logarithmic);
    pub(crate) const UNARY_COMPLEX_CIRCULAR: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_complex_circular);
    pub(crate) const UNARY_COMPLEX_INVERSE: KernelOf<Constants, Push> =
        KernelOf::new(Kernel::unary_complex_inverse);
    pub(crate) const UNARY_INT: KernelOf<Constants, Push> = KernelOf::new(Kernel::unary_int);
    pub(crate) const UNARY_UINT: KernelOf<Constants, Push> = KernelOf::new(Kernel::unary_uint);
    pub(crate) const UNARY_LONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::unary_long);
    pub(crate) const UNARY_ULONG: KernelOf<Constants, Push> = KernelOf::new(Kernel::unary_ulong);
    /// Specialization constants; the defaults are the shader's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) struct Constants {
        /// `constant_id = 0`.
        pub(crate) workgroup: u32,
        /// `constant_id = 1`.
        pub(crate) dtype: u32,
        /// `constant_id = 2`.
        pub(crate) op: u32,
        /// `constant_id = 3`.
        pub(crate) lanes: u32,
        /// `constant_id = 4`.
        pub(crate) source: u32,
    }
    impl Default for Constants {
        fn default() -> Self {
            Constants { workgroup: 1, dtype: 11, op: 0, lanes: 1, source: 0 }
        }
    }
    impl SpecConstants for Constants {
        type Words = [u32; 5];
        fn words(&self) -> [u32; 5] {
            [self.workgroup, self.dtype, self.op, self.lanes, self.source]
        }
    }
    pub(crate) use super::copy::Push;
}

/// Bytes of a kernel's push constants.
#[cfg(test)]
pub(super) const fn push_bytes(kernel: Kernel) -> usize {
    match kernel {
        Kernel::arange_float => size_of::<arange::Push>(),
        Kernel::arange_long => size_of::<arange::LongPush>(),
        Kernel::arange_complex => size_of::<arange::Push>(),
        Kernel::attention_subgroup => size_of::<attention::Push>(),
        Kernel::attention_shared => size_of::<attention::Push>(),
        Kernel::attention_combine => size_of::<attention_combine::Push>(),
        Kernel::attention_decode => size_of::<attention_decode::Push>(),
        Kernel::attention_decode_quantized => size_of::<attention_decode::Push>(),
        Kernel::attention_decode_float16 => size_of::<attention_decode::Push>(),
        Kernel::attention_decode_bfloat16 => size_of::<attention_decode::Push>(),
        Kernel::attention_decode_fields => size_of::<attention_decode::Push>(),
        Kernel::attention_heads => size_of::<attention_heads::Push>(),
        Kernel::attention_latent => size_of::<attention_latent::Push>(),
        Kernel::attention_matrix_float16 => size_of::<attention_matrix::Push>(),
        Kernel::attention_matrix_bfloat16 => size_of::<attention_matrix::Push>(),
        Kernel::attention_vjp => size_of::<attention_vjp::Push>(),
        Kernel::attention_vjp_matrix_float16 => size_of::<attention_vjp_matrix::Push>(),
        Kernel::attention_vjp_matrix_bfloat16 => size_of::<attention_vjp_matrix::Push>(),
        Kernel::binary_float => size_of::<binary::Push>(),
        Kernel::binary_float_transcendental => size_of::<binary::Push>(),
        Kernel::compare_float => size_of::<binary::Push>(),
        Kernel::binary_int => size_of::<binary::Push>(),
        Kernel::compare_int => size_of::<binary::Push>(),
        Kernel::binary_uint => size_of::<binary::Push>(),
        Kernel::compare_uint => size_of::<binary::Push>(),
        Kernel::binary_long => size_of::<binary::Push>(),
        Kernel::compare_long => size_of::<binary::Push>(),
        Kernel::binary_ulong => size_of::<binary::Push>(),
        Kernel::compare_ulong => size_of::<binary::Push>(),
        Kernel::binary_complex => size_of::<binary::Push>(),
        Kernel::binary_complex_transcendental => size_of::<binary::Push>(),
        Kernel::compare_complex => size_of::<binary::Push>(),
        Kernel::convolution_direct => size_of::<convolution_direct::Push>(),
        Kernel::convolution_tile => size_of::<convolution_tile::Push>(),
        Kernel::convolution_token => size_of::<convolution_token::Push>(),
        Kernel::convolution_unfold => size_of::<convolution_unfold::Push>(),
        Kernel::convolution_weight_float16 => size_of::<convolution_weight::Push>(),
        Kernel::convolution_weight_bfloat16 => size_of::<convolution_weight::Push>(),
        Kernel::convolution_windows_float16 => size_of::<convolution_windows::Push>(),
        Kernel::convolution_windows_bfloat16 => size_of::<convolution_windows::Push>(),
        Kernel::copy_float => size_of::<copy::Push>(),
        Kernel::copy_int => size_of::<copy::Push>(),
        Kernel::copy_uint => size_of::<copy::Push>(),
        Kernel::copy_long => size_of::<copy::Push>(),
        Kernel::copy_ulong => size_of::<copy::Push>(),
        Kernel::copy_complex => size_of::<copy::Push>(),
        Kernel::join_bytes => size_of::<copy_join::Push>(),
        Kernel::move_bytes => size_of::<copy_move::Push>(),
        Kernel::transpose_bytes => size_of::<copy_transpose::Push>(),
        Kernel::delta_subgroup => size_of::<delta::Push>(),
        Kernel::delta_single => size_of::<delta::Push>(),
        Kernel::delta_gated => size_of::<delta::GatedPush>(),
        Kernel::fft_chirp => size_of::<fft_chirp::Push>(),
        Kernel::fft_pass_twos => size_of::<fft_pass::Push>(),
        Kernel::fft_pass_mixed => size_of::<fft_pass::Push>(),
        Kernel::hadamard_factor => size_of::<hadamard_factor::Push>(),
        Kernel::hadamard_power => size_of::<hadamard_power::Push>(),
        Kernel::take_along => size_of::<indexing_along::Push>(),
        Kernel::gather => size_of::<indexing_gather::Push>(),
        Kernel::take => size_of::<indexing_take::Push>(),
        Kernel::interpreter => size_of::<interpreter::Push>(),
        Kernel::interpreter_dots => size_of::<interpreter::Push>(),
        Kernel::interpreter_floats => size_of::<interpreter::Push>(),
        Kernel::interpreter_halves => size_of::<interpreter::Push>(),
        Kernel::interpreter_rows => size_of::<interpreter_rows::Push>(),
        Kernel::matmul_complex => size_of::<matmul_complex::Push>(),
        Kernel::matmul_groups => size_of::<matmul_groups::Push>(),
        Kernel::matmul_lanes => size_of::<matmul_lanes::Push>(),
        Kernel::matmul_lanes_gather => size_of::<matmul_lanes::Push>(),
        Kernel::matmul_matrix_float16 => size_of::<matmul_matrix::Push>(),
        Kernel::matmul_matrix_bfloat16 => size_of::<matmul_matrix::Push>(),
        Kernel::matmul_scaled => size_of::<matmul_scaled::Push>(),
        Kernel::matmul_scaled_whole => size_of::<matmul_scaled_whole::Push>(),
        Kernel::matmul_split_sum => size_of::<matmul_split_sum::Push>(),
        Kernel::matmul_tile => size_of::<matmul_tile::Push>(),
        Kernel::matmul_tile_gather => size_of::<matmul_tile::Push>(),
        Kernel::matmul_tile_segments => size_of::<matmul_tile::Push>(),
        Kernel::matvec_fused => size_of::<matvec_fused::Push>(),
        Kernel::matvec_fused_dots => size_of::<matvec_fused::Push>(),
        Kernel::matvec_fused_floats => size_of::<matvec_fused::Push>(),
        Kernel::matvec_matrix_float16 => size_of::<matvec_matrix::Push>(),
        Kernel::matvec_matrix_bfloat16 => size_of::<matvec_matrix::Push>(),
        Kernel::matvec_rows_float16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_bfloat16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_bytes_float16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_bytes_bfloat16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_dense_float16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_dense_bfloat16 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_rows_mxfp4 => size_of::<matvec_rows::Push>(),
        Kernel::matvec_slices_float16 => size_of::<matvec_slices::Push>(),
        Kernel::matvec_slices_bfloat16 => size_of::<matvec_slices::Push>(),
        Kernel::matvec_gather_subgroup => size_of::<matvec_strided::Push>(),
        Kernel::matvec_gather_shared => size_of::<matvec_strided::Push>(),
        Kernel::matvec_subgroup => size_of::<matvec_strided::Push>(),
        Kernel::matvec_shared => size_of::<matvec_strided::Push>(),
        Kernel::quantized_vecmat => size_of::<matvec_vecmat::Push>(),
        Kernel::vecmat => size_of::<matvec_vecmat::Push>(),
        Kernel::mixture_experts => size_of::<mixture_experts::Push>(),
        Kernel::mixture_route => size_of::<mixture_route::Push>(),
        Kernel::mixture_router => size_of::<mixture_router::Push>(),
        Kernel::mixture_sum => size_of::<mixture_sum::Push>(),
        Kernel::rms_norm_subgroup => size_of::<norm::Push>(),
        Kernel::rms_norm_shared => size_of::<norm::Push>(),
        Kernel::layer_norm_subgroup => size_of::<norm::Push>(),
        Kernel::layer_norm_shared => size_of::<norm::Push>(),
        Kernel::norm_group => size_of::<norm_group::Push>(),
        Kernel::norm_vjp_subgroup => size_of::<norm_vjp::Push>(),
        Kernel::norm_vjp_shared => size_of::<norm_vjp::Push>(),
        Kernel::program => size_of::<program::Push>(),
        Kernel::dequantize => size_of::<quantized_dequantize::Push>(),
        Kernel::dequantize_gather => size_of::<quantized_dequantize::GatherPush>(),
        Kernel::qmm_gather_rows_float16 => size_of::<quantized_gather_rows::Push>(),
        Kernel::qmm_gather_rows_bfloat16 => size_of::<quantized_gather_rows::Push>(),
        Kernel::qmm_gather_slices_float16 => size_of::<quantized_gather_rows::Push>(),
        Kernel::qmm_gather_slices_bfloat16 => size_of::<quantized_gather_rows::Push>(),
        Kernel::qmm_gather_rows_mxfp4 => size_of::<quantized_gather_rows::Push>(),
        Kernel::qmm_fields_float16 => size_of::<quantized_qmm_fields::Push>(),
        Kernel::qmm_fields_bfloat16 => size_of::<quantized_qmm_fields::Push>(),
        Kernel::qmm_fields_mxfp4 => size_of::<quantized_qmm_fields::Push>(),
        Kernel::qmm_lanes => size_of::<quantized_qmm_lanes::Push>(),
        Kernel::qmm_lanes_gather => size_of::<quantized_qmm_lanes::Push>(),
        Kernel::qmm_matrix_float16 => size_of::<quantized_qmm_matrix::Push>(),
        Kernel::qmm_matrix_bfloat16 => size_of::<quantized_qmm_matrix::Push>(),
        Kernel::qmm_matrix_floats => size_of::<quantized_qmm_matrix::Push>(),
        Kernel::qmm_tile => size_of::<quantized_qmm_tile::Push>(),
        Kernel::qmm_tile_gather => size_of::<quantized_qmm_tile::Push>(),
        Kernel::qmv_subgroup => size_of::<quantized_qmv::Push>(),
        Kernel::qmv_shared => size_of::<quantized_qmv::Push>(),
        Kernel::qmv_gather_subgroup => size_of::<quantized_qmv::Push>(),
        Kernel::qmv_gather_shared => size_of::<quantized_qmv::Push>(),
        Kernel::quantize => size_of::<quantized_quantize::Push>(),
        Kernel::scale_rows => size_of::<quantized_scale_rows::Push>(),
        Kernel::random_bits => size_of::<random_bits::Push>(),
        Kernel::reduce_float => size_of::<reduce::Push>(),
        Kernel::reduce_float_logaddexp => size_of::<reduce::Push>(),
        Kernel::reduce_int => size_of::<reduce::Push>(),
        Kernel::reduce_uint => size_of::<reduce::Push>(),
        Kernel::reduce_long => size_of::<reduce::Push>(),
        Kernel::reduce_ulong => size_of::<reduce::Push>(),
        Kernel::reduce_complex => size_of::<reduce::Push>(),
        Kernel::reduce_complex_logaddexp => size_of::<reduce::Push>(),
        Kernel::arg_narrow => size_of::<reduce_arg::Push>(),
        Kernel::arg_wide => size_of::<reduce_arg::Push>(),
        Kernel::rope => size_of::<rope::Push>(),
        Kernel::scan_block_float => size_of::<scan_block::Push>(),
        Kernel::scan_block_float_logaddexp => size_of::<scan_block::Push>(),
        Kernel::scan_block_int => size_of::<scan_block::Push>(),
        Kernel::scan_block_uint => size_of::<scan_block::Push>(),
        Kernel::scan_block_long => size_of::<scan_block::Push>(),
        Kernel::scan_block_ulong => size_of::<scan_block::Push>(),
        Kernel::scan_block_complex => size_of::<scan_block::Push>(),
        Kernel::scan_block_complex_logaddexp => size_of::<scan_block::Push>(),
        Kernel::scan_serial_float => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_float_logaddexp => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_int => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_uint => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_long => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_ulong => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_complex => size_of::<scan_serial::Push>(),
        Kernel::scan_serial_complex_logaddexp => size_of::<scan_serial::Push>(),
        Kernel::scatter_assign => size_of::<scatter_assign::Push>(),
        Kernel::scatter_fold => size_of::<scatter_fold::Push>(),
        Kernel::scatter_fold_floats => size_of::<scatter_fold::Push>(),
        Kernel::scatter_fold_wide => size_of::<scatter_fold::Push>(),
        Kernel::softmax_fold => size_of::<softmax_fold::Push>(),
        Kernel::softmax_rows_subgroup => size_of::<softmax_rows::Push>(),
        Kernel::softmax_rows_shared => size_of::<softmax_rows::Push>(),
        Kernel::softmax_scale => size_of::<softmax_scale::Push>(),
        Kernel::sort_block_narrow => size_of::<sort_block::Push>(),
        Kernel::sort_block_wide => size_of::<sort_block::Push>(),
        Kernel::sort_count_narrow => size_of::<sort_count::Push>(),
        Kernel::sort_count_wide => size_of::<sort_count::Push>(),
        Kernel::sort_scatter_narrow => size_of::<sort_scatter::Push>(),
        Kernel::sort_scatter_wide => size_of::<sort_scatter::Push>(),
        Kernel::sort_scatter_shared_narrow => size_of::<sort_scatter_shared::Push>(),
        Kernel::sort_scatter_shared_wide => size_of::<sort_scatter_shared::Push>(),
        Kernel::sort_search_narrow => size_of::<sort_search::Push>(),
        Kernel::sort_search_wide => size_of::<sort_search::Push>(),
        Kernel::select => size_of::<ternary_select::Push>(),
        Kernel::unary_float_algebraic => size_of::<unary::Push>(),
        Kernel::unary_float_exponential => size_of::<unary::Push>(),
        Kernel::unary_float_logarithmic => size_of::<unary::Push>(),
        Kernel::unary_float_circular => size_of::<unary::Push>(),
        Kernel::unary_float_inverse => size_of::<unary::Push>(),
        Kernel::unary_complex_algebraic => size_of::<unary::Push>(),
        Kernel::unary_complex_exponential => size_of::<unary::Push>(),
        Kernel::unary_complex_logarithmic => size_of::<unary::Push>(),
        Kernel::unary_complex_circular => size_of::<unary::Push>(),
        Kernel::unary_complex_inverse => size_of::<unary::Push>(),
        Kernel::unary_int => size_of::<unary::Push>(),
        Kernel::unary_uint => size_of::<unary::Push>(),
        Kernel::unary_long => size_of::<unary::Push>(),
        Kernel::unary_ulong => size_of::<unary::Push>(),
    }
}
