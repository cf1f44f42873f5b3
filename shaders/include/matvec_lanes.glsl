// What lanes do with chunks of rows in shared memory and of a matrix: RESULTS results of ROWS rows at once.
// Needs common.glsl, floats.glsl, quant.glsl, subgroup shuffles, and before it: DTYPE, BITS, ROWS, RESULTS;
//   WIDE: whether a lane takes 64 elements at a time, which only int8 rows do;
//   DOTS: 1 where bytes are multiplied four at a time, which needs SPIR-V intrinsics;
//   SLOTS: chunks of the matrix that are held at a time, each with RESULTS rows' words, scales and biases;
//   PITCH, CHUNKS: octets and chunks from one row in shared memory to the next;
//   MOST_OCTETS, MOST_CHUNKS: of all rows;
//   FLOATS: defined where the matrices are of small floats;
//   HALF_ROWS: defined where these are multiplied with halves, two at a time.
#ifdef FLOATS
// No two formats agree in both.
#define FORMAT (BITS == 8u ? MXFP8 : GROUP == 16u ? NVFP4 : MXFP4)
#include "packed.glsl"
#endif

const bool DENSE = BITS >= 16u;
const uint CHUNK = DENSE ? 8u : WIDE ? 64u : 32u; // elements of a lane at a time
const uint WORDS = CHUNK * BITS / 32u; // words of a chunk
const uint QUADS_PER_OCTET = DTYPE == FLOAT32 ? 2u : 1u;
// Whether nobody asks for sums of the rows' elements: there are no biases that they would be multiplied with.
// Half rows have their chunks' units there.
#ifdef FLOATS
#ifdef HALF_ROWS
#define NO_SUMS false
#else
#define NO_SUMS true
#endif
const uint SCALE_BYTES = 1u;
#else
#define NO_SUMS DENSE
const uint SCALE_BYTES = DTYPE == FLOAT32 ? 4u : 2u;
#endif

shared uvec4 staged[MOST_OCTETS * QUADS_PER_OCTET];   // the rows
// Of every chunk's even and odd elements; with int8 rows the unit, and the sum; with half rows the unit.
shared vec2 staged_sums[NO_SUMS ? 1u : MOST_CHUNKS];
// Int8 rows: of a chunk, every element in units of its largest one's 1/32256, as two signed bytes, of which
// four are multiplied with four fields by one instruction, exactly. That is as good as float16 holds the
// largest element.
#if DOTS == 1
const bool INT8_ROWS = BITS < 16u && DTYPE != FLOAT32;
#else
const bool INT8_ROWS = false;
#endif
// 4-bit fields are read where they stand in a mantissa, without a conversion; a few bits of the sum are lost
// on the way, which the 16-bit dtypes do not see.
#ifdef FLOATS
const bool IN_PLACE = false;
#else
const bool IN_PLACE = BITS == 4u && DTYPE != FLOAT32 && !INT8_ROWS;
#endif

// The bits of 1.0 by way of shared memory: a register that no compiler knows. With it `(v & mask) | one` is
// one instruction, with a constant it is two on NVIDIA, and these decide how fast weights can be read.
shared uint staged_one;
uint one_;

uint words_of[SLOTS * RESULTS * WORDS];
uvec2 affine_of[SLOTS * RESULTS]; // bits of scale and bias; of small floats the codes of scales
float total[RESULTS * ROWS];

// Where an octet lies: lanes that read the same part of neighbouring chunks find it in different banks.
uint offset_of(uint row, uint octet) {
    return (row * PITCH + (octet ^ ((octet >> 3) & (WIDE ? 7u : 3u)))) * QUADS_PER_OCTET;
}

void load_staged(uint row, uint octet, out vec4 low, out vec4 high) {
    uint i = offset_of(row, octet);
    if (DTYPE == FLOAT32) {
        low = uintBitsToFloat(staged[i]);
        high = uintBitsToFloat(staged[i + QUADS_PER_OCTET - 1u]);
    } else {
        uvec4 p = staged[i];
        low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
        high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
    }
}

// Stores an octet of a row; low and high become what was stored.
void keep(uint row, uint octet, inout vec4 low, inout vec4 high) {
    uint to = offset_of(row, octet);
    if (DTYPE == FLOAT32) {
        staged[to] = floatBitsToUint(low);
        staged[to + QUADS_PER_OCTET - 1u] = floatBitsToUint(high);
        return;
    }
    uvec4 p = uvec4(pack_halves(DTYPE, low.xy), pack_halves(DTYPE, low.zw), pack_halves(DTYPE, high.xy),
        pack_halves(DTYPE, high.zw));
    staged[to] = p;
    low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
    high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
}

// Stores the sums of a chunk's even and odd elements, of which `lanes` neighbours have a part each, and this
// one part `i` if it is `real`. Lanes beyond the row come here as well: shuffles in a branch take registers.
void keep_sums(uint row, uint i, uint lanes, bool real, vec2 sum) {
    if (NO_SUMS) return;
    [[unroll]] for (uint s = 1u; s < lanes; s *= 2u) sum += subgroupShuffleXor(sum, s);
    if (real && i % lanes == 0u) staged_sums[row * CHUNKS + i / lanes] = sum;
}

// The words of a chunk: 16 bytes at a time where a chunk is whole quads of words.
void load_words(uint64_t address, uint to) { // from word `to` on
    if (WORDS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 4u) {
            uvec4 p = V4(address).v[i / 4u];
            words_of[to + i] = p.x;
            words_of[to + i + 1u] = p.y;
            words_of[to + i + 2u] = p.z;
            words_of[to + i + 3u] = p.w;
        }
    } else if (WORDS % 2u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 2u) {
            uvec2 p = V2(address).v[i / 2u];
            words_of[to + i] = p.x;
            words_of[to + i + 1u] = p.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < WORDS; ++i) words_of[to + i] = U32(address).v[i];
    }
}

// Element e of a chunk of row o, the slots' rows counted through.
float element(uint o, uint e) {
    uint bit = e * BITS, word = o * WORDS + bit / 32u, shift = bit & 31u;
    if (BITS == 32u) return uintBitsToFloat(words_of[word]);
    if (BITS == 16u)
        return (e & 1u) == 0u ? half_pair(DTYPE, words_of[word]).x : half_pair(DTYPE, words_of[word]).y;
    uint v = words_of[word] >> shift;
    if (shift + BITS > 32u) v |= words_of[word + 1u] << (32u - shift);
    return uintBitsToFloat((v & FIELD) | one_) - 8388608.0; // an integer behind the bits of 2^23
}

// Sums of the even and of the odd fields' products: 1 + q / 256 and 1 + q / 16 times x.
// The ones are taken away later.
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

// ---- int8 rows ----

#if DOTS == 1
// OpSDot of two words of four bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_packed(uint a, uint b, spirv_literal int format);
int dot_bytes(uint a, uint b) { return dot_packed(a, b, 0); }
#else
int dot_bytes(uint a, uint b) { return 0; }
#endif

// The unit of a chunk whose largest element is `most`, and what makes units of elements.
const float UNITS = 32256.0;
float per_unit(float most) { return most > 1e-33 ? UNITS / most : 0.0; }

float largest(vec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }

// Of a chunk that `lanes` neighbours share, the largest element and the sum; each has those of its part.
void join_chunk(uint lanes, inout float most, inout float sum) {
    [[unroll]] for (uint s = 1u; s < lanes; s *= 2u) {
        most = max(most, subgroupShuffleXor(most, s));
        sum += subgroupShuffleXor(sum, s);
    }
}

// Stores unit and sum of the chunk of which this lane has part `i` of `lanes`.
void keep_unit(uint row, uint i, uint lanes, float most, float sum) {
    if (i % lanes == 0u) staged_sums[row * CHUNKS + i / lanes] = vec2(most / UNITS, sum);
}

// Two elements in units, 128 more each, as halves of a word.
uint units(vec2 x, float per) {
    uvec2 b = floatBitsToUint(fma(x, vec2(per), vec2(12583040.0)));
    return (b.x & 0xffffu) | (b.y << 16);
}

// High and low bytes of four elements, of which `even` has the first and the third one.
uvec2 split_units(uint even, uint odd) {
    return uvec2(((even >> 8) & 0x00ff00ffu) | (odd & 0xff00ff00u),
                 ((even & 0x00ff00ffu) | ((odd & 0x00ff00ffu) << 8)) ^ 0x80808080u);
}

// Those of four elements in the order of the fields that they are multiplied with.
uvec2 split_quad(vec4 x, float per) { return split_units(units(x.xz, per), units(x.yw, per)); }

// Fields of 2 and 3 bits become bytes by slices. A quarter of UNIT elements takes QUARTER bytes, 1 or 3, so
// that byte i of the first quarter and those of the others lie in different bytes of their words: a slice has
// all four where they are. One rotation then brings a field of each quarter to the end of a byte; quarters 1
// and 3 are exchanged if QUARTER is 3. Rows are staged in the same order. (5 and 6 bits could go so, too, but
// are slower.)
const bool SLICED = INT8_ROWS && BITS < 4u;
const uint QUARTER = BITS % 2u == 1u ? BITS : BITS / 2u, FIELDS = QUARTER * 8u / BITS, UNIT = 4u * FIELDS;

// The bits of a where the mask has ones, those of b elsewhere, as the one instruction that it is.
uint choose(uint mask, uint a, uint b) { return ((a ^ b) & mask) ^ b; }
uvec2 choose(uint mask, uvec2 a, uvec2 b) { return ((a ^ b) & mask) ^ b; }

uint rotated_right(uint v, uint bits) { return v >> (bits & 31u) | v << (32u - bits & 31u); }

// Byte i of each quarter of the elements that begin with a word.
uint slice(uint word, uint i) {
    uint v = words_of[word + i / 4u];
    [[unroll]] for (uint byte = i + QUARTER; byte < 4u * QUARTER; byte += QUARTER)
        v = choose(0xffu << byte % 4u * 8u, words_of[word + byte / 4u], v);
    return v;
}

// Field `e` of each quarter as a byte. It may reach into the next slice.
uint sliced_field(uint word, uint e) {
    uint bit = e * BITS, left = 8u - bit % 8u, v = slice(word, bit / 8u);
    if (BITS > left) {
        uint here = ((1u << left) - 1u) * 0x01010101u;
        v = choose(rotated_right(here, 32u - bit % 32u), v, slice(word, bit / 8u + 1u));
    }
    return rotated_right(v, bit) & FIELD * 0x01010101u;
}

// The same bytes of two words with one another, and the same halves: what transposes bytes in two steps.
uvec2 joined_bytes(uvec2 v, uvec2 other, bool second) {
    return second ? choose(0x00ff00ffu, other >> 8, v) : choose(0x00ff00ffu, v, other << 8);
}
uvec2 joined_halves(uvec2 v, uvec2 other, bool second) {
    return second ? choose(0xffffu, other >> 16, v) : choose(0xffffu, v, other << 16);
}

// Of transposed bytes, those of quarters 1 and 3 where fields have theirs.
uvec2 as_sliced(uvec2 v) {
    return QUARTER % 4u == 3u ? choose(0x00ff00ffu, v, v >> 16 | v << 16) : v;
}

// The four fields of a chunk of row o that begin with element e, as bytes in their order: two pairs, and then
// the fields of each, move apart.
uint four_bytes(uint o, uint e) {
    const uint PAIR = (1u << (2u * BITS & 31u)) - 1u;
    uint bit = e * BITS, word = o * WORDS + bit / 32u, shift = bit & 31u;
    uint v = words_of[word] >> shift;
    if (shift + 4u * BITS > 32u) v |= words_of[word + 1u] << (32u - shift);
    v = (v & PAIR) | (v << (16u - 2u * BITS) & PAIR << 16);
    return (v & FIELD * 0x00010001u) | (v << (8u - BITS) & FIELD * 0x01000100u);
}

// Fields of the octet from element e of a chunk of row o on, as signed bytes: the even and the odd ones of 4
// bits, 128 less than those of 8, two fields of each quarter in slices, and others in their order.
uvec2 bytes_of(uint o, uint e) {
    uint word = o * WORDS + e * BITS / 32u;
    if (BITS == 4u) return uvec2(words_of[word], words_of[word] >> 4) & 0x0f0f0f0fu;
    if (BITS == 8u) return uvec2(words_of[word], words_of[word + 1u]) ^ 0x80808080u;
    if (!SLICED) return uvec2(four_bytes(o, e), four_bytes(o, e + 4u));
    uint first = e % UNIT / 8u * (8u / FIELDS), unit = o * WORDS + e / UNIT * (UNIT * BITS / 32u);
    return uvec2(sliced_field(unit, first), sliced_field(unit, first + (FIELDS == 8u ? 4u : 1u)));
}

// Adds the products of a slot with chunk `chunk` of the rows, in int8.
void add_int8(uint slot, uint chunk) {
    ivec2 parts[RESULTS * ROWS];
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) parts[i] = ivec2(0);
    [[unroll]] for (uint e = 0u; e < CHUNK; e += 8u) {
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            uvec4 d = staged[offset_of(i, (chunk * CHUNK + e) / 8u)];
            [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
                uvec2 q = bytes_of(slot * RESULTS + o, e);
                parts[o * ROWS + i] += ivec2(dot_bytes(q.x, d.x), dot_bytes(q.x, d.y));
                parts[o * ROWS + i] += ivec2(dot_bytes(q.y, d.z), dot_bytes(q.y, d.w));
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        vec2 unit_sum = staged_sums[i * CHUNKS + chunk];
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
            ivec2 part = parts[o * ROWS + i];
            float product = float(part.x * 256 + part.y) * unit_sum.x;
            float scale = of_bits(DTYPE, affine_of[slot * RESULTS + o].x),
                  bias = of_bits(DTYPE, affine_of[slot * RESULTS + o].y);
            if (BITS == 8u) bias = fma(scale, 128.0, bias);
            total[o * ROWS + i] = fma(scale, product, fma(bias, unit_sum.y, total[o * ROWS + i]));
        }
    }
}

#ifdef FLOATS

// ---- small floats ----

const uint GROUPS = CHUNK / GROUP; // of a chunk

// The codes of the scales of a chunk's groups, of which there are one or two.
uvec2 scale_codes(uint64_t address) {
    return uvec2(uint(U8(address).v[0]), GROUPS > 1u ? uint(U8(address).v[1]) : 0u);
}

// The words of elements e.. of a chunk of row o, the slots' rows counted through.
uvec2 octet_of(uint o, uint e) {
    uint word = o * WORDS + e * BITS / 32u;
    return uvec2(words_of[word], BITS == 8u ? words_of[word + 1u] : 0u);
}

// The octet of elements e.. of a chunk of row o in units.
void floats(uint o, uint e, out vec4 low, out vec4 high, inout uint not_numbers) {
    uvec2 p = octet_of(o, e);
    units8(p, low, high);
    not_numbers |= not_numbers_of(p);
}

#ifdef HALF_ROWS

// Half rows: of a chunk, every element in units of a power of two, as a half, beside the one that the same
// instruction multiplies. What is more than the 2^25th of the largest element has all bits of a half.

// The unit of a chunk whose largest element is `most`: none has twice 2^MOST_UNITS of it. With the unit of
// small floats that is a factor which no finite element makes infinite.
const uint MOST_UNITS = FORMAT == MXFP8 ? 11u : 14u;
float half_unit(float most) {
    uint exponent = max(floatBitsToUint(most) & 0x7f800000u, (MOST_UNITS + 1u) << 23);
    return uintBitsToFloat(exponent - (MOST_UNITS << 23));
}
float per_half_unit(float unit) { return uintBitsToFloat((254u << 23) - floatBitsToUint(unit)); }

// Elements of which each half of a word adds up every other product: eight of 8 bits stay finite, sixteen of
// four bits with bfloat16 lose less than the result's rounding.
const uint SPAN = FORMAT == MXFP4 && DTYPE == BFLOAT16 ? 32u : 16u;

// Adds an octet's products.
void add_octet(uvec2 p, uvec4 x, inout f16vec2 sum) {
    f16vec2 q[4];
    pairs8(p, q);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) sum = fma(q[i], unpackFloat2x16(x[i]), sum);
}

// Adds the products of a slot with chunk `chunk` of the rows.
void add_chunk(uint slot, uint chunk) {
    float parts[GROUPS * RESULTS * ROWS];
    uint not_numbers[RESULTS];
    [[unroll]] for (uint i = 0u; i < GROUPS * RESULTS * ROWS; ++i) parts[i] = 0.0;
    [[unroll]] for (uint o = 0u; o < RESULTS; ++o) not_numbers[o] = 0u;
    [[unroll]] for (uint e = 0u; e < CHUNK; e += SPAN) {
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            uvec4 x[SPAN / 8u];
            [[unroll]] for (uint j = 0u; j < SPAN / 8u; ++j)
                x[j] = staged[offset_of(i, (chunk * CHUNK + e) / 8u + j)];
            [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
                f16vec2 sum = f16vec2(0.0hf);
                [[unroll]] for (uint j = 0u; j < SPAN / 8u; ++j) {
                    uvec2 p = octet_of(slot * RESULTS + o, e + j * 8u);
                    if (i == 0u) not_numbers[o] |= not_numbers_of(p);
                    add_octet(p, x[j], sum);
                }
                parts[(e / GROUP * RESULTS + o) * ROWS + i] += float(sum.x) + float(sum.y);
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        float unit = staged_sums[i * CHUNKS + chunk].x;
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
            vec2 scales = scales_of_sums(affine_of[slot * RESULTS + o], not_numbers[o]) * unit;
            [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
                float part = parts[(g * RESULTS + o) * ROWS + i];
                total[o * ROWS + i] = fma(scales[g], part, total[o * ROWS + i]);
            }
        }
    }
}
#else

// Adds the products of a slot with chunk `chunk` of the rows. Elements cost more to unpack than rows to load.
void add_chunk(uint slot, uint chunk) {
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
        vec2 parts[RESULTS * ROWS];
        uint not_numbers[RESULTS];
        [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) parts[i] = vec2(0.0);
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) not_numbers[o] = 0u;
        [[unroll]] for (uint e = g * GROUP; e < (g + 1u) * GROUP; e += 8u) {
            vec4 low[ROWS], high[ROWS];
            [[unroll]] for (uint i = 0u; i < ROWS; ++i)
                load_staged(i, (chunk * CHUNK + e) / 8u, low[i], high[i]);
            [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
                vec4 q, p;
                floats(slot * RESULTS + o, e, q, p, not_numbers[o]);
                [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
                    vec2 t = parts[o * ROWS + i];
                    parts[o * ROWS + i] = vec2(dot_add(q, low[i], t.x), dot_add(p, high[i], t.y));
                }
            }
        }
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
            float scale = scale_of_sum(affine_of[slot * RESULTS + o][g], not_numbers[o]);
            [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
                vec2 t = parts[o * ROWS + i];
                total[o * ROWS + i] = fma(scale, (t.x + t.y) * ELEMENT_UNIT, total[o * ROWS + i]);
            }
        }
    }
}
#endif
#else

// Adds the products of a slot with chunk `chunk` of the rows.
void add_chunk(uint slot, uint chunk) {
    if (INT8_ROWS) { add_int8(slot, chunk); return; }
    vec2 parts[RESULTS * ROWS];
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) parts[i] = vec2(0.0);
    [[unroll]] for (uint e = 0u; e < CHUNK; e += 8u) {
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            vec4 low, high;
            load_staged(i, (chunk * CHUNK + e) / 8u, low, high);
            [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
                if (IN_PLACE) {
                    add_in_place(
                        words_of[(slot * RESULTS + o) * WORDS + e / 8u], low, high, parts[o * ROWS + i]);
                    continue;
                }
                vec4 q = vec4(element(slot * RESULTS + o, e), element(slot * RESULTS + o, e + 1u),
                    element(slot * RESULTS + o, e + 2u), element(slot * RESULTS + o, e + 3u));
                vec4 p = vec4(element(slot * RESULTS + o, e + 4u), element(slot * RESULTS + o, e + 5u),
                    element(slot * RESULTS + o, e + 6u), element(slot * RESULTS + o, e + 7u));
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
            total[o * ROWS + i] = DENSE
                ? total[o * ROWS + i] + product
                : fma(of_bits(DTYPE, affine_of[slot * RESULTS + o].x), product,
                      fma(of_bits(DTYPE, affine_of[slot * RESULTS + o].y), sum, total[o * ROWS + i]));
        }
    }
}
#endif
