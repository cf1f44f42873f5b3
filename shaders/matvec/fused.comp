#version 460
// A few rows times the transposes of one to three matrices that share their input, quantized or not, with what comes
// before and after: out[i][o] = f(sum over j of g(x[i])[j] * w[o][j]).
//   before: nothing, or RMS norm;
//   after:  nothing, a residual added, or silu(first matrix's result) * (second's).
// A workgroup keeps the rows in shared memory. A team (a subgroup, or several that share the inner axis) makes OUTPUTS
// results of every row at once; a lane takes CHUNK elements at a time and asks for the next ones before it multiplies. All
// sums are float32.
// Constants: 1 dtype, 2 bits (16 or 32: not quantized), 3 group size, 4 subgroup size, 5 rows, 6 outputs, 7 before, 8 after,
// 9 inner size, 10 the bits of eps, 11 subgroups of a team.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint OUTPUTS = 4;
layout(constant_id = 7) const uint BEFORE = 0;
layout(constant_id = 8) const uint AFTER = 0;
layout(constant_id = 9) const uint INNER = 1024;
layout(constant_id = 10) const uint EPS = 0;
layout(constant_id = 11) const uint SPLITS = 1;
const bool NORM = BEFORE == 1u, RESIDUAL = AFTER == 1u, GATED = AFTER == 2u;

#include "quant.glsl"
#define VARIANT 1
#include "team.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

#include "matvec.glsl"

const bool DENSE = BITS >= 16u;
const uint CHUNK = DENSE ? 8u : 32u, CHUNKS = INNER / CHUNK; // elements of a lane at a time; how many such in a row
const uint WORDS = CHUNK * BITS / 32u;                       // words of a chunk
const uint SETS = GATED ? 2u : 1u, RESULTS = SETS * OUTPUTS; // matrices and results that a team works on at once
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP, TEAMS = SUBGROUPS / SPLITS, LANES = SPLITS * SUBGROUP; // lanes of a team
const uint EIGHTS = INNER / 8u, QUADS_PER_EIGHT = DTYPE == FLOAT32 ? 2u : 1u;
const uint PITCH = (EIGHTS + 3u) / 4u * 4u; // places are exchanged within runs of four
// 4-bit fields are read where they stand in a mantissa, without a conversion; a few bits of the sum are lost on the way,
// which the 16-bit dtypes do not see.
const bool IN_PLACE = BITS == 4u && DTYPE != FLOAT32;

shared uvec4 staged[ROWS * PITCH * QUADS_PER_EIGHT]; // the rows, normalized
shared vec2 staged_sums[DENSE ? 1u : ROWS * CHUNKS];  // of every chunk's even and odd elements
shared float partial[ROWS * SUBGROUPS];
shared float shares[SPLITS > 1u ? SUBGROUPS * RESULTS * ROWS : 1u]; // of a team's results
// The bits of 1.0 by way of shared memory: a register that no compiler knows. With it `(v & mask) | one` is one
// instruction, with a constant it is two on NVIDIA, and these decide how fast weights can be read.
shared uint staged_one;
uint one_;

uint words_of[RESULTS * WORDS], next_words[RESULTS * WORDS];
uvec2 affine_of[RESULTS], next_affine[RESULTS]; // bits of scale and bias
float total[RESULTS * ROWS];

uint team_lane() { return gl_SubgroupID % SPLITS * SUBGROUP + gl_SubgroupInvocationID; }

// Where an eighth lies: lanes that read the same part of neighbouring chunks find it in different banks.
uint place(uint row, uint eight) {
    return (row * PITCH + (eight ^ ((eight >> 3) & 3u))) * QUADS_PER_EIGHT;
}

void load_staged(uint row, uint eight, out vec4 low, out vec4 high) {
    uint i = place(row, eight);
    if (DTYPE == FLOAT32) {
        low = uintBitsToFloat(staged[i]);
        high = uintBitsToFloat(staged[i + QUADS_PER_EIGHT - 1u]);
    } else {
        uvec4 p = staged[i];
        low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
        high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
    }
}

uint packed(vec2 y) {
    if (DTYPE == BFLOAT16) return f32_to_bf16(y.x) | (f32_to_bf16(y.y) << 16);
    return f32_to_f16(y.x) | (f32_to_f16(y.y) << 16);
}

void load_row(uint64_t base, uint eight, out vec4 low, out vec4 high) {
    fetch8(DTYPE, true, base + (uint64_t(eight * 8u) << float_shift(DTYPE)), low, high);
}

// What RMS norm multiplies a row with.
float norm_factor(uint row, uint thread) {
    float squares = 0.0;
    for (uint eight = thread; eight < EIGHTS; eight += gl_WorkGroupSize.x) {
        vec4 low, high;
        load_row(x + (uint64_t(row * INNER) << float_shift(DTYPE)), eight, low, high);
        squares = dot_add(high, high, dot_add(low, low, squares));
    }
    squares = subgroupAdd(squares);
    if (SUBGROUPS > 1u) {
        if (gl_SubgroupInvocationID == 0u) partial[row * SUBGROUPS + gl_SubgroupID] = squares;
        barrier();
        squares = 0.0;
        for (uint s = 0u; s < SUBGROUPS; ++s) squares += partial[row * SUBGROUPS + s];
    }
    return 1.0 / sqrt(squares / float(INNER) + uintBitsToFloat(EPS));
}

// Stores an eighth of a row; low and high become what was stored.
void keep(uint row, uint eight, inout vec4 low, inout vec4 high) {
    uint to = place(row, eight);
    if (DTYPE == FLOAT32) {
        staged[to] = floatBitsToUint(low);
        staged[to + QUADS_PER_EIGHT - 1u] = floatBitsToUint(high);
        return;
    }
    uvec4 p = uvec4(packed(low.xy), packed(low.zw), packed(high.xy), packed(high.zw));
    staged[to] = p;
    low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
    high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
}

// Brings the rows to shared memory, normalized, with the sums of every chunk.
void stage() {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    if (thread == 0u) staged_one = IN_PLACE ? one : one + 0x0b800000u; // 1.0 or 2^23
    [[dont_unroll]] for (uint row = 0u; row < ROWS; ++row) {
        float factor = NORM ? norm_factor(row, thread) : 1.0;
        // All lanes go round equally often: they exchange sums.
        for (uint first = 0u; first < EIGHTS; first += gl_WorkGroupSize.x) {
            uint eight = first + thread;
            vec4 low = vec4(0.0), high = vec4(0.0);
            if (eight < EIGHTS) {
                load_row(x + (uint64_t(row * INNER) << float_shift(DTYPE)), eight, low, high);
                if (NORM) {
                    vec4 w_low, w_high;
                    load_row(weight, eight, w_low, w_high);
                    low *= factor * w_low;
                    high *= factor * w_high;
                }
                keep(row, eight, low, high);
            }
            if (DENSE) continue;
            // A chunk is the eighths of four neighbouring lanes.
            vec2 sum = (low.xy + low.zw) + (high.xy + high.zw);
            sum += subgroupShuffleXor(sum, 1u);
            sum += subgroupShuffleXor(sum, 2u);
            if (eight < EIGHTS && eight % 4u == 0u) staged_sums[row * CHUNKS + eight / 4u] = sum;
        }
    }
    barrier();
    one_ = staged_one;
}

// The words of a chunk: 16 bytes at a time where a chunk is whole quads of words.
void load_words(uint64_t address, uint to) {
    if (WORDS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 4u) {
            uvec4 p = V4(address).v[i / 4u];
            next_words[to + i] = p.x;
            next_words[to + i + 1u] = p.y;
            next_words[to + i + 2u] = p.z;
            next_words[to + i + 3u] = p.w;
        }
    } else if (WORDS % 2u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 2u) {
            uvec2 p = V2(address).v[i / 2u];
            next_words[to + i] = p.x;
            next_words[to + i + 1u] = p.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < WORDS; ++i) next_words[to + i] = U32(address).v[i];
    }
}

uint bits_at(uint64_t address) { return DTYPE == FLOAT32 ? U32(address).v[0] : uint(U16(address).v[0]); }
float of_bits(uint b) { return DTYPE == FLOAT32 ? uintBitsToFloat(b) : half_pair(DTYPE, b).x; }

// Asks for everything of the weights that a chunk needs.
void load_weights(uint set, uint first, uint chunk) {
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        uint64_t words = matrices[set + s].words + uint64_t(first * CHUNKS + chunk) * (WORDS * 4u);
        uint64_t group = uint64_t(first * (INNER / GROUP) + chunk * 32u / GROUP) << float_shift(DTYPE);
        uint64_t scales = matrices[set + s].scales + group, biases = matrices[set + s].biases + group;
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            uint o = s * OUTPUTS + r;
            load_words(words + uint64_t(r * CHUNKS * WORDS * 4u), o * WORDS);
            if (DENSE) continue;
            uint64_t step_ = uint64_t((r * (INNER / GROUP)) << float_shift(DTYPE));
            next_affine[o] = uvec2(bits_at(scales + step_), bits_at(biases + step_));
        }
    }
}

// Element e of a chunk.
float element(uint o, uint e) {
    uint bit = e * BITS, word = o * WORDS + bit / 32u, shift = bit & 31u;
    if (BITS == 32u) return uintBitsToFloat(words_of[word]);
    if (BITS == 16u) return (e & 1u) == 0u ? half_pair(DTYPE, words_of[word]).x : half_pair(DTYPE, words_of[word]).y;
    uint v = words_of[word] >> shift;
    if (shift + BITS > 32u) v |= words_of[word + 1u] << (32u - shift);
    return uintBitsToFloat((v & FIELD) | one_) - 8388608.0; // an integer behind the bits of 2^23
}

// Sums of the even and of the odd fields' products: 1 + q / 256 and 1 + q / 16 times x. The ones are taken away later.
void add_pair(uint v, vec2 y, inout vec2 sum) {
    sum.x = fma(uintBitsToFloat((v & 0x78000u) | one_), y.x, sum.x);
    sum.y = fma(uintBitsToFloat((v & 0x780000u) | one_), y.y, sum.y);
}

void add_in_place(uint w, vec4 low, vec4 high, inout vec2 sum) {
    add_pair(w << 15, low.xy, sum);
    add_pair(w << 7, low.zw, sum);
    add_pair(w >> 1, high.xy, sum);
    add_pair(w >> 9, high.zw, sum);
}

void add_chunk(uint chunk) {
    vec2 parts[RESULTS * ROWS];
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) parts[i] = vec2(0.0);
    [[unroll]] for (uint e = 0u; e < CHUNK; e += 8u) {
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            vec4 low, high;
            load_staged(i, (chunk * CHUNK + e) / 8u, low, high);
            [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
                if (IN_PLACE) {
                    add_in_place(words_of[o * WORDS + e / 8u], low, high, parts[o * ROWS + i]);
                    continue;
                }
                vec4 q = vec4(element(o, e), element(o, e + 1u), element(o, e + 2u), element(o, e + 3u));
                vec4 p = vec4(element(o, e + 4u), element(o, e + 5u), element(o, e + 6u), element(o, e + 7u));
                vec2 t = parts[o * ROWS + i];
                parts[o * ROWS + i] = vec2(dot_add(q, low, t.x), dot_add(p, high, t.y));
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        vec2 sums = DENSE ? vec2(0.0) : staged_sums[i * CHUNKS + chunk];
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
            vec2 t = parts[o * ROWS + i];
            if (IN_PLACE) t = (t - sums) * vec2(256.0, 16.0);
            float product = t.x + t.y, sum = sums.x + sums.y;
            total[o * ROWS + i] = DENSE ? total[o * ROWS + i] + product
                                        : fma(of_bits(affine_of[o].x), product, fma(of_bits(affine_of[o].y), sum, total[o * ROWS + i]));
        }
    }
}

// Sums of the team's results; the first chunk's weights are on their way.
void sum_up(uint set, uint first) {
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) total[i] = 0.0;
    for (uint chunk = team_lane(); chunk < CHUNKS; chunk += LANES) {
        [[unroll]] for (uint i = 0u; i < RESULTS * WORDS; ++i) words_of[i] = next_words[i];
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) affine_of[i] = next_affine[i];
        if (chunk + LANES < CHUNKS) load_weights(set, first, chunk + LANES);
        add_chunk(chunk);
    }
}

// Adds up what the lanes of a team have; its first subgroup has the sums then. With several, all of the workgroup's come
// here together.
void join() {
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) total[i] = team_sum(total[i]);
    if (SPLITS == 1u) return;
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i)
        if (gl_SubgroupInvocationID == i % SUBGROUP) shares[gl_SubgroupID * RESULTS * ROWS + i] = total[i];
    barrier();
    if (gl_SubgroupID % SPLITS == 0u) {
        [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i)
            [[unroll]] for (uint s = 1u; s < SPLITS; ++s) total[i] += shares[(gl_SubgroupID + s) * RESULTS * ROWS + i];
    }
    barrier();
}

// Stores results first.. of the set of matrices that starts with `set`, of `outputs` each.
void finish(uint set, uint first, uint outputs) {
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            float y = total[r * ROWS + i];
            if (GATED) y = silu(y) * total[(OUTPUTS + r) * ROWS + i];
            if (gl_SubgroupInvocationID != (r * ROWS + i) % SUBGROUP) continue;
            int64_t to = int64_t(uint64_t(i) * uint64_t(outputs) + uint64_t(first + r));
            if (RESIDUAL) y += fetch(DTYPE, at(DTYPE, matrices[1].words, to));
            store_float(DTYPE, matrices[set].result, to, y);
        }
    }
}

void ask_for(uint block) {
    if (block >= ends[2] || team_lane() >= CHUNKS) return;
    uint set = set_of(block);
    load_weights(set, (block - start_of(set)) * OUTPUTS, team_lane());
}

void main() {
    uint base = gl_WorkGroupID.x * TEAMS, team = gl_SubgroupID / SPLITS, step_ = gl_NumWorkGroups.x * TEAMS;
    ask_for(base + team);
    stage();
    for (; base < ends[2]; base += step_) {
        uint block = base + team, set = set_of(block), start = start_of(set);
        if (block < ends[2]) sum_up(set, (block - start) * OUTPUTS);
        ask_for(block + step_);
        join();
        if (block < ends[2] && gl_SubgroupID % SPLITS == 0u) finish(set, (block - start) * OUTPUTS, (ends[set] - start) * OUTPUTS);
    }
}
