// The table itself: field, type, default, name, meaning. Included by config.rs.
options! {
    // Device and runtime.
    device: Option<String> = None, "MLX_VK_DEVICE",
        "device by index, part of its name, or vendor:device in hex";
    allow_software: bool = false, "MLX_VK_ALLOW_SOFTWARE",
        "allow software devices (CPU type) as the default device";
    force_discrete: bool = false, "MLX_VK_FORCE_DISCRETE",
        "treat a unified device as a discrete one: arrays are never mapped";
    serialize: bool = false, "MLX_VK_SERIALIZE", "a barrier after every dispatch";
    poison: bool = false, "MLX_VK_POISON", "fill memory with a pattern before it is reused";
    debug_guard: bool = false, "MLX_VK_DEBUG_GUARD",
        "guard bytes around every allocation: an operation that writes outside of its output is an error \
         that names it";
    debug_memory_limit_mb: Option<u64> = None, "MLX_VK_DEBUG_MEMORY_LIMIT_MB",
        "megabytes that the driver gives for a device before it reports that memory is out (to test what \
         happens then)";
    debug_lose_device_at: Option<u64> = None, "MLX_VK_DEBUG_LOSE_DEVICE_AT",
        "the submission to a device, counted from 1, from which on it reports that it is lost (to test what \
         happens then)";
    debug_refuse_kernel: Option<String> = None, "MLX_VK_DEBUG_REFUSE_KERNEL",
        "the kernel that the driver's compiler refuses (to test what happens then)";
    debug_resident_groups: Option<u64> = None, "MLX_VK_DEBUG_RESIDENT_GROUPS",
        "workgroups that are taken to run at the same time without trying (to test what happens when they \
         do not)";
    validation: bool = false, "MLX_VK_VALIDATION",
        "enable the Khronos validation layer with synchronization validation";
    pipeline_cache: Option<String> = None, "MLX_VK_PIPELINE_CACHE",
        "folder of the pipeline cache (default ~/.cache/mlx-vulkan); `off` keeps none";
    enable_software_unroll: bool = true, "MLX_VK_ENABLE_SOFTWARE_UNROLL",
        "write loops out on software devices, too, where kernels ask for it; without, a kernel compiles in a \
         fraction of the time and runs several times slower";
    enable_specialization: Option<bool> = None, "MLX_VK_ENABLE_SPECIALIZATION",
        "put constants into kernels, and take out what they rule out, before the driver gets them: its \
         compiler has less to read (default: for software devices)";
    max_ops_per_buffer: u64 = 100, "MLX_VK_MAX_OPS_PER_BUFFER",
        "dispatches and transfers per batch before it is handed over";
    max_mb_per_buffer: u64 = 50, "MLX_VK_MAX_MB_PER_BUFFER",
        "megabytes written per batch before it is handed over";
    max_inflight_sequences: u64 = 16, "MLX_VK_MAX_INFLIGHT_SEQUENCES",
        "submissions of a stream in flight before encoding waits for the oldest";

    // Statistics, profiles, debugging.
    profile: bool = false, "MLX_VK_PROFILE", "print GPU time per kernel at exit";
    trace: Option<String> = None, "MLX_VK_TRACE",
        "write a trace of the GPU's work to this file (chrome trace JSON)";
    stats: bool = false, "MLX_VK_STATS", "print the runtime's counters at exit";
    qmm_stats: bool = false, "MLX_VK_QMM_STATS", "print quantized matmul hits by kernel and shape at exit";
    sdpa_stats: bool = false, "MLX_VK_SDPA_STATS", "print attention hits by kernel and shape at exit";
    algo_stats: bool = false, "MLX_VK_ALGO_STATS", "print pipeline cache hits and misses at exit";
    debug_rope_reject: bool = false, "MLX_VK_DEBUG_ROPE_REJECT",
        "log why the native rope kernel was not used";
    debug_sdpa_reject: bool = false, "MLX_VK_DEBUG_SDPA_REJECT",
        "log why a native attention kernel was not used";
    debug_sdpa_splitk: bool = false, "MLX_VK_DEBUG_SDPA_SPLITK", "log the split-k plan of attention";
    debug_argreduce_reject: bool = false, "MLX_VK_DEBUG_ARGREDUCE_REJECT",
        "log why the native argreduce kernel was not used";
    debug_binary_fallback: bool = false, "MLX_VK_DEBUG_BINARY_FALLBACK",
        "log signatures of binary fallbacks, each once";
    debug_bitwise_fallback: bool = false, "MLX_VK_DEBUG_BITWISE_FALLBACK",
        "log signatures of bitwise fallbacks, each once";
    debug_fast_quantize_fallback: bool = false, "MLX_VK_DEBUG_FAST_QUANTIZE_FALLBACK",
        "log signatures of quantize fallbacks, each once";
    debug_gather_fallback: bool = false, "MLX_VK_DEBUG_GATHER_FALLBACK",
        "log signatures of gather fallbacks, each once";

    // Fusion gates.
    enable_fusion: bool = true, "MLX_VK_ENABLE_FUSION", "look for operations that one kernel can do together";
    enable_interpreter: Option<bool> = None, "MLX_VK_ENABLE_INTERPRETER",
        "do runs of products of one row and attentions of one token in one dispatch (unset: where that is \
         faster)";
    enable_commit_thread: bool = true, "MLX_VK_ENABLE_COMMIT_THREAD",
        "record and submit on a thread of its own while more is encoded";
    enable_fused_siblings: bool = true, "MLX_VK_ENABLE_FUSED_SIBLINGS",
        "one kernel for products of the same rows (q, k and v; gate and up)";
    enable_fused_norm: bool = true, "MLX_VK_ENABLE_FUSED_NORM",
        "RMS norm inside of the products that follow it";
    enable_fused_gate: bool = true, "MLX_VK_ENABLE_FUSED_GATE", "silu(gate) * up at the end of both products";
    enable_fused_residual: bool = true, "MLX_VK_ENABLE_FUSED_RESIDUAL",
        "a sum at the end of the product before it";
    enable_fused_bias: bool = true, "MLX_VK_ENABLE_FUSED_BIAS",
        "biases at the end of the products before them";
    enable_fused_tiles: bool = true, "MLX_VK_ENABLE_FUSED_TILES",
        "the same for products of many rows on cooperative matrices, but for norms";
    enable_fused_attention: bool = true, "MLX_VK_ENABLE_FUSED_ATTENTION",
        "norms, rotations and cache writes inside of the attention that follows them";
    enable_fused_heads: bool = true, "MLX_VK_ENABLE_FUSED_HEADS",
        "norms, rotations and cache writes of many tokens in one kernel";
    enable_fused_lookups: bool = true, "MLX_VK_ENABLE_FUSED_LOOKUPS",
        "rows of a quantized matrix picked and dequantized in one kernel";
    enable_fused_tokens: bool = true, "MLX_VK_ENABLE_FUSED_TOKENS",
        "a token's convolution with those before it, and a step of the gated delta rule, in one kernel each";
    enable_fused_mixtures: bool = true, "MLX_VK_ENABLE_FUSED_MIXTURES",
        "what routes tokens to experts in one kernel, and what the picked experts say in two or three";

    enable_programs: bool = true, "MLX_VK_ENABLE_PROGRAMS",
        "chains of elementwise operations as one kernel, linked while the program runs";
    enable_program_reductions: bool = true, "MLX_VK_ENABLE_PROGRAM_REDUCTIONS",
        "reductions at the end of these kernels";
    enable_recomputing: bool = true, "MLX_VK_ENABLE_RECOMPUTING",
        "compute what is cheap in each of these kernels that reads it, and do not store it";
    program_sightings: u64 = 16, "MLX_VK_PROGRAM_SIGHTINGS",
        "how often a chain of few elements is seen before its kernel is linked; 0 links it at once, and who \
         evaluates waits";

    // Kernel gates.
    enable_sdpa_decode: bool = true, "MLX_VK_ENABLE_SDPA_DECODE", "the attention kernel for one query token";
    enable_matvec: bool = true, "MLX_VK_ENABLE_MATVEC",
        "the kernel for products of few rows, which fusions are made of";
    enable_integer_dots: Option<bool> = None, "MLX_VK_ENABLE_INTEGER_DOTS",
        "multiply 4- and 8-bit fields four at a time with int8 rows (unset: where the device does \
         that in one instruction)";
    enable_half_rows: bool = true, "MLX_VK_ENABLE_HALF_ROWS",
        "multiply small floats in runs two at a time, as halves, where the device keeps subnormal ones";
    enable_sort_votes: bool = true, "MLX_VK_ENABLE_SORT_VOTES",
        "radix sort ranks elements by votes of subgroups instead of shared memory alone";
    enable_qmm_native: bool = true, "MLX_VK_ENABLE_QMM_NATIVE",
        "kernels for quantized products of few rows; otherwise those of many rows serve";
    enable_qmm_native_m1: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M1", "the same for one row alone";
    enable_qmm_native_m1_reduce: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE",
        "with one row, subgroups add up dot products; otherwise shared memory does";
    enable_qmm_native_m1_reduce_subgroup: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP",
        "the same";
    enable_qmm_native_m1_reduce_subgroup_g8_x2: bool = false,
        "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_G8_X2",
        "two words per thread for 8 groups per column";
    enable_qmm_native_m1_reduce_subgroup_x2: bool = false, "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_X2",
        "two words per workgroup for one row";
    enable_qmm_native_m2: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M2", "for 2 rows";
    enable_qmm_native_m4: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M4", "for 3 and 4 rows";
    enable_qmm_native_m8: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M8", "for 5 to 8 rows";
    enable_qmm_native_m16: bool = true, "MLX_VK_ENABLE_QMM_NATIVE_M16", "for 9 to 16 rows";
    enable_coopmat: bool = true, "MLX_VK_ENABLE_COOPMAT",
        "products of many 16-bit rows, and attention of many queries, on cooperative matrices";
    enable_tf32: bool = true, "MLX_ENABLE_TF32",
        "products, convolutions and attention of many float32 rows on cooperative matrices, as exact as \
         TF32; upstream's name";
    enable_coopmat_matvec: bool = true, "MLX_VK_ENABLE_COOPMAT_MATVEC",
        "products of few 16-bit rows with matrices of 4 bits on cooperative matrices";
    enable_coopmat_windows: bool = true, "MLX_VK_ENABLE_COOPMAT_WINDOWS",
        "convolutions on cooperative matrices that gather windows while they load";
    enable_known_fragments: bool = true, "MLX_VK_ENABLE_KNOWN_FRAGMENTS",
        "there, fragments are filled in registers where their elements are found to lie as expected";
    enable_tuned_tiles: bool = true, "MLX_VK_ENABLE_TUNED_TILES",
        "the costs of their tiles that `mlx-vulkan devices --tune` has measured on the device";
    enable_rmsnorm_native: bool = true, "MLX_VK_ENABLE_RMSNORM_NATIVE",
        "subgroups add up the squares of RMS norms; otherwise shared memory does";
    enable_rope_hs_transposed: bool = true, "MLX_VK_ENABLE_ROPE_HS_TRANSPOSED",
        "rotary embedding reads inputs of any strides in place; otherwise they are copied first";
    enable_sdpa_native: bool = true, "MLX_VK_ENABLE_SDPA_NATIVE",
        "kernels for attention of one token and of many queries; otherwise the general one serves, without \
         split-k";
    enable_sdpa_decode_d128: bool = true, "MLX_VK_ENABLE_SDPA_DECODE_D128",
        "the same for heads of 128 features";

    // Waiting.
    spin_us: u64 = 1000, "MLX_VK_SPIN_US",
        "microseconds that a thread polls for a result before it sleeps (at most 50 on software devices)";

    // Interpreter and mat-vec knobs.
    interpreter_min_steps: u64 = 4, "MLX_VK_INTERPRETER_MIN_STEPS",
        "steps from which a run is done in one dispatch";
    interpreter_max_rounds: Option<u64> = None, "MLX_VK_INTERPRETER_MAX_ROUNDS",
        "keys that lanes take one after the other in a run; with more, attention is a dispatch";
    matvec_split_k: Option<u64> = None, "MLX_VK_MATVEC_SPLIT_K",
        "subgroups that share a row of a product of few rows, a power of two up to 8";

    // Attention knobs; unset decode and prefill values take the global one.
    sdpa_split_k: Option<u64> = None, "MLX_VK_SDPA_SPLIT_K", "fixed number of split-k parts";
    sdpa_splitk_min_k_len: Option<u64> = None, "MLX_VK_SDPA_SPLITK_MIN_K_LEN", "fewest keys for split-k";
    sdpa_splitk_min_k_len_decode: Option<u64> = None, "MLX_VK_SDPA_SPLITK_MIN_K_LEN_DECODE",
        "fewest keys for split-k with one query";
    sdpa_splitk_min_k_len_prefill: Option<u64> = None, "MLX_VK_SDPA_SPLITK_MIN_K_LEN_PREFILL",
        "fewest keys for split-k with several queries";
    sdpa_splitk_target_chunk: Option<u64> = None, "MLX_VK_SDPA_SPLITK_TARGET_CHUNK", "keys per split-k part";
    sdpa_splitk_target_chunk_decode: u64 = 32, "MLX_VK_SDPA_SPLITK_TARGET_CHUNK_DECODE",
        "keys per split-k part with one query";
    sdpa_splitk_target_chunk_prefill: Option<u64> = None, "MLX_VK_SDPA_SPLITK_TARGET_CHUNK_PREFILL",
        "keys per split-k part with several queries";
    sdpa_splitk_max_parts: Option<u64> = None, "MLX_VK_SDPA_SPLITK_MAX_PARTS", "most split-k parts";
    sdpa_splitk_max_parts_decode: u64 = 16, "MLX_VK_SDPA_SPLITK_MAX_PARTS_DECODE",
        "most split-k parts with one query";
    sdpa_splitk_max_parts_prefill: Option<u64> = None, "MLX_VK_SDPA_SPLITK_MAX_PARTS_PREFILL",
        "most split-k parts with several queries";
    sdpa_splitk_target_wg_decode: u64 = 128, "MLX_VK_SDPA_SPLITK_TARGET_WG_DECODE",
        "workgroups that split-k aims at with one query";
    sdpa_max_k_len: u64 = 0, "MLX_VK_SDPA_MAX_K_LEN",
        "most keys of the attention kernels for one token and for many queries; 0 is no limit; with more \
         the general one serves";
    sdpa_max_k_len_decode: u64 = 0, "MLX_VK_SDPA_MAX_K_LEN_DECODE",
        "the same for one token alone; 0 is the limit for both";
    sdpa_max_k_len_prefill: Option<u64> = None, "MLX_VK_SDPA_MAX_K_LEN_PREFILL",
        "the same for many queries alone";
}

// Names of the code that this began from, which change nothing here, and why.
no_effect! {
    "MLX_VK_FALLBACK", "no operation falls back to the CPU: what Vulkan does not run is an error";
    "MLX_VK_PROFILE_COMPILED_DETAIL",
        "the profile lists every kernel, those of compiled functions, too";
    "MLX_VK_DEBUG_COMPILED_DETAIL", "compiled functions are chains of operations like others";
    "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_G8", "one kernel serves any number of groups per column";
    "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_G16", "one kernel serves any number of groups per column";
    "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_G24", "one kernel serves any number of groups per column";
    "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP_G32", "one kernel serves any number of groups per column";
    "MLX_VK_ENABLE_ADD_RMSNORM_NATIVE", "a sum and the norm after it are two kernels";
    "MLX_VK_ENABLE_ROPE_NATIVE", "rotary embeddings have one kernel and nothing to fall back to";
    "MLX_VK_ENABLE_SDPA_DECODE_D128_K32", "one kernel serves any number of keys";
    "MLX_VK_ENABLE_SDPA_DECODE_D128_K64", "one kernel serves any number of keys";
    "MLX_VK_ENABLE_SDPA_DECODE_D128_K128", "one kernel serves any number of keys";
    "MLX_VK_ENABLE_SDPA_DECODE_SPLITK_REDUCE_L32", "the workgroup that is done last combines the parts";
    "MLX_VK_ENABLE_SDPA_DECODE_SPLITK_REDUCE_SUBGROUP", "the workgroup that is done last combines the parts";
    "MLX_VK_ENABLE_ARGREDUCE_ARGMAX_LASTDIM", "one kernel serves every axis and both extremes";
    "MLX_VK_ENABLE_COMPILED_SIGMOID_MUL_MUL_BF16",
        "a chain does it; MLX_VK_ENABLE_FUSED_GATE is for silu(gate) * up";
    "MLX_VK_ENABLE_ADD_BF16", "one kernel serves every dtype, and there is nothing to fall back to";
    "MLX_VK_ENABLE_MUL_BF16", "one kernel serves every dtype, and there is nothing to fall back to";
    "MLX_VK_ENABLE_BITWISE_SHIFT_U32", "one kernel serves every dtype";
    "MLX_VK_ENABLE_FAST_QUANTIZE_DEQ_AFFINE_B4", "one kernel serves every number of bits";
    "MLX_VK_ENABLE_GATHER_ROWS_WORDS", "rows are gathered by words wherever they are whole words";
    "MLX_VK_ENABLE_ALGO_CACHE", "pipelines are always cached, by what they are made of";
    "MLX_VK_ENABLE_ALGO_CACHE_AUTO_DISABLE", "pipelines are always cached";
    "MLX_VK_ALGO_CACHE_ZERO_HIT_DISABLE_THRESHOLD", "pipelines are always cached";
}
