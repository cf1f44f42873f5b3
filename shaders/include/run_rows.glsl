// The rows of the interpreter's table, of one size: a product, also with the matrices of picked experts, the
// router that these are picked by, or an attention. The host has the same structs from the module of
// interpreter/rows.comp; the kernel takes a row as words of 16 bytes, by their numbers, which the host
// compares with the offsets of the fields.

// What a row is. [host]
const uint ATTENTION = 1, NORMALIZED = 2, RESIDUAL = 4, GATED = 8, FLAGGED = 16, FLAGGED_RESIDUAL = 32,
           SPLITS_SHIFT = 24;
// Bits of the first matrix, the next ones' are beside them: it has a bias; the bias is added to the product
// that is not rounded before. [host]
const uint BIASED = 64, AT_ONCE = 512;
// A router; a product with an expert's matrix for each pick; one whose x has a part for each pick, which is
// weighed by the pick's share. [host]
const uint ROUTER = 4096, PICKED = 8192, WEIGHED = 16384;
// A product whose x a dispatch before the run leaves with the run's tag. [host]
const uint LED = 32768;
// A product whose gate is gelu instead of silu; whose x is normalized, times a weight, and added to a
// residual before anything else, which has tags if FLAGGED_ADDEND. [host]
const uint GELU = 65536, SUMMED = 131072, FLAGGED_ADDEND = 262144;
// A token's convolution with those before it, and its step of the gated delta rule. [host]
const uint CONVOLUTION = 524288, DELTA = 1048576;
// Words of four bytes in a row. [host]
const uint ROW_WORDS = 64;
const uint ROW_QUADS = ROW_WORDS / 4u;

// Addresses of words, scales, biases and results of a matrix, as if block 0 were its first.
struct RowMatrix {
    uint64_t words, scales, biases, result;
};

struct ProductRow {
    uint kind, inner; // inner: elements of a row
    float eps;
    uint blocks; // of results
    uint64_t x, weight; // weight: of the norm
    uint64_t residual, marked; // marked: the results with tags
    RowMatrix matrices[3];
    uint ends[2];  // blocks up to the end of the first two matrices
    uint strides[2]; // bytes from block to block, of words and of scales
    uint64_t second[3]; // from a block's first half to its second one: of words, scales, biases
    uint chunks, rounds; // chunks of a row, and of those a lane's
    uint64_t added[3];   // biases of the matrices, as if block 0 were the first of each; or 0
    // Of x that is summed: the norm's weight, the residual, and where the sum goes, with tags and without.
    uint64_t sum_weight, sum_residual, sum_marked, sum_result;
    float sum_eps;
    uint unused;
};

// The quads of a product. [host]
const uint HEAD = 0, SOURCE = 1, TARGET = 2, MATRIX = 3, ENDS_AND_STRIDES = 9, SECOND = 10, COUNTS = 11,
           ADDED = 12, SUM_WEIGHT = 13, SUM_RESIDUAL = 14, SUM_RESULT = 15;

struct RouterRow {
    uint kind, inner; // inner: elements of a row
    float eps;
    uint experts;
    uint64_t x, weight; // weight: of the norm
    uint64_t words, scales, biases; // of a matrix (experts, inner)
    uint64_t marked;                // the logits with tags
    uint bits, group_log;           // of the matrix; 16: not quantized
    uint logits, unused; // logits: one more than experts where the shared expert has one, of the row below
    uint64_t shared_words, shared_scales, shared_biases;
    uint64_t rest[19];
};

// The other quads of a router. [host]
const uint ROUTER_MATRIX = 2, ROUTER_BIASES = 3, ROUTER_FORMAT = 4, ROUTER_SHARED = 5;

// A product with matrices of experts.
struct PickedRow {
    uint kind, inner;
    float eps;
    uint blocks;
    uint64_t x, weight;
    uint64_t residual, marked;
    RowMatrix matrix; // of expert 0
    uint64_t expert_words, expert_scales; // bytes from expert to expert
    uint64_t logits;                      // with tags
    uint experts, count;                  // count: of picks
    uint each;                            // blocks of an expert, or chunks of a row of one
    float per_each;                       // 1 / each
    uint quads;                           // of a pick's part of x
    float per_quads;
    uint shared_kind; // whether all tokens have an expert, behind the picks, and its share; below
    uint scoring;     // scores.glsl
    float share_eps, share_factor;
    uint ends[2], strides[2];
    uint64_t second[3];
    uint chunks, rounds;
    // Of the shared expert words, scales and biases, and from a block's first half to its second one.
    uint64_t shared_matrix[3];
    uint64_t score_bias; // float32 (experts), or 0
    uint64_t shared_second[4];
};

// The other quads of such a product. [host]
const uint EXPERT_STRIDES = 5, PICKS = 6, PARTS = 7, SHARED_AND_SCORING = 8, SHARED_MATRIX = 12,
           SHARED_SECOND = 14;
// The share of the shared expert: 1, or the sigmoid of the logit behind the experts'. [host]
const uint SHARE_ONE = 1, SHARE_SIGMOID = 2;

struct AttentionRow {
    uint kind, count, splits; // keys, and splits of them
    float scale, eps, position_scale;
    uint heads, query_head; // query_head: elements from a query head to the next one
    uint64_t q, new_key, new_value, q_weight, k_weight, frequencies, keys, values;
    uint64_t result, marked; // marked: with tags
    uint64_t parts, offset;
    uint key_head, key_row, value_head, value_row; // strides in elements
    uint64_t mask; // bools that say which keys all heads see, or 0
    // Of quantized caches: another factor of scores, or 0; scales and biases.
    uint64_t factor, key_scales, key_biases, value_scales, value_biases;
    uint rest[16];
};

// The quads of an attention. [host]
const uint COUNT_AND_SCALE = 0, EPS_AND_HEADS = 1, Q_AND_KEY = 2, VALUE_AND_Q_WEIGHT = 3,
           K_WEIGHT_AND_FREQUENCIES = 4, CACHES = 5, RESULT_AND_MARKED = 6, PARTS_AND_OFFSET = 7, STRIDES = 8,
           MASK_AND_FACTOR = 9, KEY_AFFINE = 10, VALUE_AFFINE = 11;

struct ConvolutionRow {
    uint kind, channels, taps, silu; // silu: whether the result is y sigmoid(y)
    uint64_t x, before;              // x: with tags; before: rows of the tokens before
    uint64_t weight, bias;           // (channels, taps), (channels) or 0
    uint64_t result, marked;         // marked: with tags
    uint64_t window;                 // all rows that meet the weight
    uint64_t rest[23];
};

// The quads of a convolution. [host]
const uint X_AND_BEFORE = 1, WEIGHT_AND_BIAS = 2, CONVOLVED = 3, WINDOW = 4;

struct DeltaRow {
    uint kind, heads, group; // group: of value heads that share a key head
    uint parts_of_head;
    uint64_t q, k, v, a, b, z;           // with tags
    uint64_t decay, shift, state, next;  // next: the new state
    uint64_t weight, y;                  // of the norm of outputs; outputs before it
    uint64_t result, marked;             // marked: with tags
    uint64_t parts;                      // outputs with tags
    float query_scale, key_scale;
    float eps, end_eps; // of the norms of queries and keys, and of outputs
    uint rest[26];
};

// The quads of a step of the delta rule. [host]
const uint QUERY_AND_KEY = 1, VALUE_AND_A = 2, B_AND_Z = 3, DECAY_AND_SHIFT = 4, STATES = 5,
           END_WEIGHT_AND_Y = 6, GATED_RESULT = 7, OUTPUTS_AND_SCALES = 8, DELTA_EPS = 9;
