#version 460
// Many rows times matrices of 4 bits on cooperative matrices that multiply fields as they are: what a group
// gives is scaled instead of each of its elements, which is more exact than MLX's dequantize, and a fraction
// of the instructions. FLOATS: fields are e2m1 numbers (mxfp4), else integers.
//
// The matrix is the left operand, rows of x are columns of the right one. A subgroup makes all BM rows of the
// result for as many rows of the matrix as it has lanes. Their words it reads where they are; the four lanes
// that share a row have a quarter of each group. Their scales come to shared memory by pages of several
// groups, as L1 takes a line a cycle, and each row has a line of its own. Slices of x lie in shared memory,
// two of them, in the order in which fields are pairs, beside the sums of their groups, which biases are
// multiplied with. While a slice is multiplied, the words of the next one are on their way.
//
// Constants: gemm.glsl, matrix_tile.glsl, and 13 group size, which divides BK, 14 fragments may be used, 15
// rows of matrices are whole pages, which are aligned. HALF: 0 float16, 1 bfloat16. k is a multiple of BK, x
// and words are aligned, the matrix lies along k, WM is BM, and WN is SUBGROUP.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#include "gemm.glsl"
#include "matrix_tile.glsl"
layout(constant_id = 13) const uint GROUP = 64;
layout(constant_id = 14) const uint FRAGMENTS = 1;
layout(constant_id = 15) const uint WHOLE_PAGES = 1;
#define KNOWN_COLUMNS FN
#include "fragments.glsl"
#include "fields.glsl"
#ifdef FLOATS
const uint BITS = 4;
#include "quant.glsl"
const uint FORMAT = 1; // MXFP4
#include "packed.glsl"
#endif

// Octets of a row of a slice, and from row to row; a slice.
const uint WIDTH = BK / 8u, PITCH = WIDTH + 1u, SLICE = BM * PITCH;
const uint SHARED = 2u * SLICE > OUT_ALL ? 2u * SLICE : OUT_ALL;
shared uvec4 slices[SHARED];

#include "matrix_result.glsl"

// Groups of a slice, a lane's words of a group, fragments along k of one.
const uint SPAN = BK / GROUP, WORDS = GROUP / 32u, STEPS = GROUP / FK;
// Fragments of a subgroup's rows and columns; rows of matrices of a lane, two of each of the latter.
const uint XF = WM / FM, WF = WN / FN, LINES = 2u * WF;
const uint EACH = BM * WIDTH / THREADS;

shared vec2 row_sums[SPAN * BM]; // of a slice's groups, for pairs of rows; two slices

float total[XF * WF * 8u]; // of this lane's elements of every accumulator, as in elements_are_known
bool known;

// What a tile is made of, for those who do without fragments.
struct Plain { uint row0, column0, k0, k1, row, column; } plain;
Batch batch_of_tile;

void begin_sums() {
    [[unroll]] for (uint i = 0u; i < XF * WF * 8u; ++i) total[i] = 0.0;
    plain = Plain(0u, 0u, 0u, 0u, 0u, 0u);
}

// ---- x ----

uvec4 asked_x[EACH];
uint offset_x[EACH];
uint64_t base_x;
uint octet_to, sum_to; // where this lane's first octet goes in slice 0, and the sum of its group

uint x_row(uint i) { return gl_LocalInvocationID.x / WIDTH + i * (THREADS / WIDTH); }
uint x_octet() { return gl_LocalInvocationID.x % WIDTH; }

// Where x has row i of the tile, from base_x on; rows that do not exist are the last one.
uint x_source(Batch at_, uint row0, uint i) {
    uint row = min(i, at_.m - 1u - row0);
    return GROUPED ? uint(row_of_a(row0 + row)) : row;
}

void begin_x(Batch at_, uint row0) {
    base_x = same(at(DTYPE, at_.a, GROUPED ? 0l : int64_t(row0) * lda));
    [[unroll]] for (uint i = 0u; i < EACH; ++i)
        offset_x[i] = x_source(at_, row0, x_row(i)) * uint(lda) * 2u + x_octet() * 16u;
    octet_to = x_row(0u) * PITCH + x_octet();
    sum_to = x_octet() / (GROUP / 8u) * BM + x_row(0u);
}

void ask_for_x(uint k0) {
    [[unroll]] for (uint i = 0u; i < EACH; ++i)
        asked_x[i] = V4(base_x + uint64_t(k0) * 2ul + uint64_t(offset_x[i])).v[0];
}

// Stores octet i of what was asked for as one of slice 0 or 1, with the sums of its groups.
void keep_octet(uint slice, uint i) {
    uvec4 p = asked_x[i];
    uint to = slice * SLICE + octet_to + i * (THREADS / WIDTH) * PITCH;
#ifdef FLOATS
    slices[to] = paired(scaled_x(p));
#else
    slices[to] = paired(p);
    vec2 sums = (half_pair(DTYPE, p.x) + half_pair(DTYPE, p.y))
        + (half_pair(DTYPE, p.z) + half_pair(DTYPE, p.w));
    float sum = sums.x + sums.y;
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    if (GROUP >= 64u) sum += subgroupShuffleXor(sum, 4u);
    if (GROUP >= 128u) sum += subgroupShuffleXor(sum, 8u);
    uint at_ = slice * SPAN * BM + sum_to + i * (THREADS / WIDTH);
    if (x_octet() % (GROUP / 8u) == 0u) row_sums[at_ / 2u][at_ % 2u] = sum;
#endif
}

void keep_x(uint slice) {
#define KEEP(i) keep_octet(slice, i)
    WRITTEN_OUT(EACH, KEEP)
}

// ---- the matrices ----

struct Bases { uint64_t words, scales, biases; } base_own, base_second;
uint words_of[LINES * SPAN * WORDS];
uint offset_words[LINES]; // of this lane's words, from the first row that the tile has of their matrix

// Groups of a page. [host]
const uint PAGE = 8;
shared uint pages[PAGE * BN]; // scale and bias, or scale alone, of the tile's rows of the matrices
uint asked[PAGE]; // this lane's row of the next page
uint64_t page_scales, page_biases; // where that row's are

// Line i of this lane, of the subgroup's at `column` of the tile.
uint line_at(uint column, uint i) { return column + i / 2u * FN + i % 2u * 8u + row_in_half(); }

#ifdef FLOATS
const uint SCALE_BYTES = 1u;
#else
const uint SCALE_BYTES = 2u;
#endif

Bases bases_of(Sibling s, uint64_t row) {
    uint64_t affine = row * uint64_t(k / GROUP * SCALE_BYTES);
    return Bases(same(s.b + row * uint64_t(k / 2u)), same(s.scales + affine), same(s.biases + affine));
}

void begin_matrices(Batch at_, uint column0, uint column) {
    base_own = bases_of(own, at_.b + uint64_t(column0));
    if (SIBLINGS) base_second = bases_of(second, uint64_t(b_first(true, column0)));
    [[unroll]] for (uint i = 0u; i < LINES; ++i)
        offset_words[i] = b_source(line_at(column, i), column0) * (k / 2u) + quarter() * WORDS * 4u;
}

Bases bases_at(uint line) {
    Bases base = base_own;
    if (b_second(line)) base = base_second;
    return base;
}

// Where line i's matrix has the words of the tile's first row. The compiler does not see whose turn it is.
uint64_t line_words(uint column, uint i) {
    if (GATED) return i % 2u == 0u ? base_own.words : base_second.words;
    return bases_at(line_at(column, i)).words;
}

// Asks for this lane's words of the slice from k0 on.
void ask_for_words(uint k0, uint column) {
    [[unroll]] for (uint i = 0u; i < LINES; ++i) {
        uint64_t words = line_words(column, i) + uint64_t(k0 / 2u) + uint64_t(offset_words[i]);
        [[unroll]] for (uint g = 0u; g < SPAN; ++g) {
            uint64_t from = words + uint64_t(g * (GROUP / 2u));
            uint to = (i * SPAN + g) * WORDS;
            if (WORDS == 4u) {
                uvec4 p = V4(from).v[0];
                [[unroll]] for (uint w = 0u; w < WORDS; ++w) words_of[to + w] = p[w];
            } else if (WORDS == 2u) {
                uvec2 p = V2(from).v[0];
                [[unroll]] for (uint w = 0u; w < WORDS; ++w) words_of[to + w] = p[w];
            } else {
                words_of[to] = U32(from).v[0];
            }
        }
    }
}

// ---- scales and biases ----

void begin_pages(uint column0, uint column) {
    Bases base = bases_at(column + lane());
    uint64_t row = uint64_t(b_source(column + lane(), column0)) * uint64_t(k / GROUP * SCALE_BYTES);
    page_scales = base.scales + row;
    page_biases = base.biases + row;
}

// Asks for the page that begins with a group; of groups behind a row's last one, for that one.
void ask_for_page(uint first) {
    uint64_t scales = page_scales + uint64_t(first * SCALE_BYTES),
             biases = page_biases + uint64_t(first * SCALE_BYTES);
    if (WHOLE_PAGES == 0u) {
        [[unroll]] for (uint g = 0u; g < PAGE; ++g) {
            uint64_t to = uint64_t(min(g, k / GROUP - 1u - first) * SCALE_BYTES);
#ifdef FLOATS
            asked[g] = uint(U8(scales + to).v[0]);
#else
            asked[g] = uint(U16(scales + to).v[0]) | uint(U16(biases + to).v[0]) << 16;
#endif
        }
        return;
    }
#ifdef FLOATS
    uvec2 codes = V2(scales).v[0];
    [[unroll]] for (uint g = 0u; g < PAGE; ++g) asked[g] = codes[g / 4u] >> (g % 4u * 8u) & 0xffu;
#else
    uvec4 s = V4(scales).v[0], b = V4(biases).v[0];
    [[unroll]] for (uint g = 0u; g < PAGE; g += 2u) {
        asked[g] = s[g / 2u] & 0xffffu | b[g / 2u] << 16;
        asked[g + 1u] = s[g / 2u] >> 16 | b[g / 2u] & 0xffff0000u;
    }
#endif
}

void keep_page(uint column) {
    [[unroll]] for (uint g = 0u; g < PAGE; ++g) pages[g * BN + column + lane()] = asked[g];
}

uint first_line; // of this lane, in the tile

// What line i's group is multiplied with, and added to it for each of x.
vec2 line_affine(uint i, uint group) {
    uint bits = pages[group % PAGE * BN + first_line + (i / 2u * FN + i % 2u * 8u)];
#ifdef FLOATS
    return vec2(scale_of(bits), 0.0);
#else
    vec2 affine = half_pair(DTYPE, bits);
    return vec2(affine.x, fma(-OFFSET, affine.x, affine.y));
#endif
}

// ---- products ----

coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> fields_of[SPAN * WF * STEPS];

// Makes a slice's words fragments.
void unpack_words() {
    [[unroll]] for (uint f = 0u; f < SPAN * WF * STEPS; ++f) {
        uint g = f / (WF * STEPS), t = f / STEPS % WF, s = f % STEPS;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint word = words_of[((2u * t + i / 2u) * SPAN + g) * WORDS + s / 2u];
            half2 pair = pair_of_word(word, 2u * (s % 2u) + i % 2u);
            fields_of[f][2u * i] = pair.x;
            fields_of[f][2u * i + 1u] = pair.y;
        }
    }
}

uint first_octet, first_sum; // of this lane, in slice 0: of x, and of the sums of its groups

// Adds group g of slice 0 or 1, which is a group of the rows.
void multiply_group(uint slice, uint g, uint group) {
    vec2 affine[LINES];
    [[unroll]] for (uint i = 0u; i < LINES; ++i) affine[i] = line_affine(i, group);
    uint from = slice * SLICE + first_octet + g * (GROUP / 8u);
    uint sums = (slice * SPAN + g) * (BM / 2u) + first_sum;
    [[unroll]] for (uint x = 0u; x < XF; ++x) {
        coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> columns[STEPS];
        [[unroll]] for (uint w = 0u; w < WORDS; ++w) {
            uvec4 octets[2] = { slices[from + x * FM * PITCH + w], slices[from + (x * FM + 8u) * PITCH + w] };
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                half2 pair = halves(octets[i / 2u % 2u][i / 4u * 2u + i % 2u]);
                columns[2u * w + i / 4u][i % 4u * 2u] = pair.x;
                columns[2u * w + i / 4u][i % 4u * 2u + 1u] = pair.y;
            }
        }
#ifndef FLOATS
        vec4 of_x = vec4(row_sums[sums + x * FM / 2u], row_sums[sums + x * FM / 2u + 4u]);
#endif
        [[unroll]] for (uint t = 0u; t < WF; ++t) {
            coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum;
            sum = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint s = 0u; s < STEPS; ++s)
                sum = coopMatMulAdd(fields_of[(g * WF + t) * STEPS + s], columns[s], sum);
            [[unroll]] for (uint e = 0u; e < 8u; ++e) {
                uint to = (x * WF + t) * 8u + e;
                vec2 line = affine[2u * t + e / 4u];
#ifndef FLOATS
                total[to] = fma(line.y, of_x[e % 4u], total[to]);
#endif
                total[to] = fma(line.x, sum[e], total[to]);
            }
        }
    }
}

// Numbers of a lane that every slice needs, by way of shared memory: the compiler cannot find them again in
// the loop then. It prefers that to registers, and takes an eighth more instructions.
const uint KEPT = 5u + EACH + LINES, KEPT_QUADS = (KEPT + 3u) / 4u;

void keep_numbers() {
    uint of_lane[KEPT_QUADS * 4u];
    [[unroll]] for (uint i = 0u; i < KEPT_QUADS * 4u; ++i) of_lane[i] = 0u;
    of_lane[0] = first_line;
    of_lane[1] = first_octet;
    of_lane[2] = first_sum;
    of_lane[3] = octet_to;
    of_lane[4] = sum_to;
    [[unroll]] for (uint i = 0u; i < EACH; ++i) of_lane[5u + i] = offset_x[i];
    [[unroll]] for (uint i = 0u; i < LINES; ++i) of_lane[5u + EACH + i] = offset_words[i];
    [[unroll]] for (uint q = 0u; q < KEPT_QUADS; ++q) slices[q * THREADS + thread()] =
        uvec4(of_lane[4u * q], of_lane[4u * q + 1u], of_lane[4u * q + 2u], of_lane[4u * q + 3u]);
    barrier();
    [[unroll]] for (uint i = 0u; i < KEPT; ++i) of_lane[i] = slices[i / 4u * THREADS + thread()][i % 4u];
    barrier();
    first_line = of_lane[0];
    first_octet = of_lane[1];
    first_sum = of_lane[2];
    octet_to = of_lane[3];
    sum_to = of_lane[4];
    [[unroll]] for (uint i = 0u; i < EACH; ++i) offset_x[i] = of_lane[5u + i];
    [[unroll]] for (uint i = 0u; i < LINES; ++i) offset_words[i] = of_lane[5u + EACH + i];
}

void multiply_fragments(uint k0, uint k1, uint row, uint column) {
    first_line = line_at(column, 0u);
    first_octet = (row + row_in_half()) * PITCH + quarter() * WORDS;
    first_sum = row / 2u + quarter();
    // Experts' tiles have too few slices.
    if (!GROUPED) keep_numbers();
    uint last = k1 - BK, slice = 0u;
    ask_for_words(k0, column);
    ask_for_page(k0 / GROUP / PAGE * PAGE);
    ask_for_x(k0);
    keep_x(0u);
    keep_page(column);
    barrier();
    for (; k0 < k1; k0 += BK) {
        uint next = min(k0 + BK, last);
        unpack_words();
        ask_for_words(next, column);
        [[unroll]] for (uint g = 0u; g < SPAN; ++g)
            multiply_group(slice, g, k0 / GROUP + g);
        slice = 1u - slice;
        ask_for_x(next);
        keep_x(slice);
        // Waiting for the page here takes less than a branch in the middle, across which the compiler moves
        // nothing.
        if (next / GROUP % PAGE == 0u) {
            ask_for_page(next / GROUP);
            subgroup_barrier();
            keep_page(column);
        }
        barrier();
    }
}

// ---- the sums ----

void multiply_slices(Batch at_, uint row0, uint column0, uint k0, uint k1, uint row, uint column) {
    begin_x(at_, row0);
    begin_matrices(at_, column0, column);
    begin_pages(column0, column);
    if (known) {
        multiply_fragments(k0, k1, row, column);
    } else {
        plain = Plain(row0, column0, k0, k1, row, column);
        batch_of_tile = at_;
    }
}

// Row i of the tile times a row of the matrices, by words.
float dot_plainly(uint i, uint line) {
    uint source_ = b_source(line, plain.column0);
    uint64_t from = base_x + uint64_t(x_source(batch_of_tile, plain.row0, i) * uint(lda)) * 2ul;
    Bases base = bases_at(line);
    float sum = 0.0;
    for (uint w = plain.k0 / 8u; w < plain.k1 / 8u; ++w) {
        uint v = AT_U32(base.words, source_ * (k / 8u) + w);
        uvec4 p = V4(from).v[w];
        uint64_t group = uint64_t((source_ * (k / GROUP) + w / (GROUP / 8u)) * SCALE_BYTES);
#ifdef FLOATS
        vec4 low, high;
        elements8(uvec2(v, 0u), low, high);
        float product = dot_add(vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)), low, 0.0);
        product = dot_add(vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w)), high, product);
        sum = fma(scale_of(uint(U8(base.scales + group).v[0])), product, sum);
#else
        float product = 0.0, of_x = 0.0;
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
            vec2 y = half_pair(DTYPE, p[e]), q = vec2((v >> (8u * e)) & 15u, (v >> (8u * e + 4u)) & 15u);
            product += dot(q, y);
            of_x += y.x + y.y;
        }
        sum = fma(fetch(DTYPE, base.scales + group), product,
            fma(fetch(DTYPE, base.biases + group), of_x, sum));
#endif
    }
    return sum;
}

void keep_sum(uint mine, uint row, uint line, float sum) {
    slices[mine + row * OUT_PITCH + line / 4u][line % 4u] = floatBitsToUint(sum);
}

void keep_sums(uint i, uint mine) {
    [[unroll]] for (uint e = 0u; e < WF * 8u; ++e) {
        float sum = total[i * WF * 8u + e];
#ifdef FLOATS
        sum *= SUM_FACTOR;
#endif
        keep_sum(mine, shared_axis(e % 4u), line_at(0u, e / 4u), sum);
    }
}

void store_plainly(Batch at_, uint row0, uint column0, uint column) {
    uint mine = gl_SubgroupID * OUT_SIZE;
    [[dont_unroll]] for (uint i = 0u; i < WM; i += FM) {
        vec4 added[EACH_QUADS];
        ask_addends(at_, row0 + i, column0 + column, added);
        for (uint e = lane(); e < FM * WN; e += SUBGROUP)
            keep_sum(mine, e / WN, e % WN, dot_plainly(plain.row + i + e / WN, plain.column + e % WN));
        subgroup_barrier();
        store_rows(at_, row0 + i, column0, column, mine, added);
        subgroup_barrier();
    }
}

void finish_tile(Batch at_, uint row0, uint column0, uint column) {
    if (known) store_parts(at_, row0, column0, column);
    else store_plainly(at_, row0, column0, column);
}

// ---- splits of a tile ----

// Where a split of a tile has its sums.
uint64_t part_at(uint64_t number, uint split) {
    return parts + (number * uint64_t(splits) + uint64_t(split)) * uint64_t(THREADS * XF * WF * 8u * 4u);
}

void keep_part(uint64_t to) {
    [[unroll]] for (uint i = 0u; i < XF * WF * 2u; ++i)
        F4C(to).v[i * THREADS + thread()] =
            vec4(total[4u * i], total[4u * i + 1u], total[4u * i + 2u], total[4u * i + 3u]);
}

// A tile's splits are added up in shares, FM rows of x each, by those of its workgroups that are there when
// the last split is done: one alone would wait for one share after the other. Who has waited long leaves, and
// the last one takes what is left, so that none depends on another. A tile has two counters: of the splits
// that are done with, above SHARE, the shares that are taken; and of the workgroups that have left.
const uint SHARE = 1u << 16, MOST_LOOKS = 64;
shared uint taken;

uint take_share(uint64_t counter) { return atomicAdd(U32(counter).v[0], SHARE) / SHARE; }

// Counts a split. Returns the first share that its workgroup takes; XF or more is none.
uint first_share(uint64_t counter) {
    uint done = atomicAdd(U32(counter).v[0], 1u) % SHARE + 1u;
    for (uint i = 0u; done < splits && i < MOST_LOOKS; ++i) done = atomicAdd(U32(counter).v[0], 0u) % SHARE;
    return done == splits ? take_share(counter) : XF;
}

// The last workgroup of a tile leaves zeros for the next product.
void leave(uint64_t counter) {
    if (atomicAdd(U32(counter).v[1], 1u) + 1u < splits) return;
    U32(counter).v[0] = 0u;
    U32(counter).v[1] = 0u;
}

// Adds a share up, two splits at a time, in the place of the first one.
void add_up(uint64_t number, uint share) {
    const uint QUADS_OF_SHARE = WF * 2u;
    [[unroll]] for (uint i = 0u; i < WF * 8u; ++i) total[i] = 0.0;
    for (uint s = 0u; s < splits; s += 2u) {
        vec4 asked_sums[2u * QUADS_OF_SHARE];
        [[unroll]] for (uint i = 0u; i < 2u * QUADS_OF_SHARE; ++i) {
            uint quad = share * QUADS_OF_SHARE + i % QUADS_OF_SHARE;
            uint64_t from = part_at(number, min(s + i / QUADS_OF_SHARE, splits - 1u));
            asked_sums[i] = F4C(from).v[quad * THREADS + thread()];
        }
        [[unroll]] for (uint i = 0u; i < WF * 8u; ++i) total[i] += asked_sums[i / 4u][i % 4u];
        if (s + 1u == splits) break;
        [[unroll]] for (uint i = 0u; i < WF * 8u; ++i)
            total[i] += asked_sums[QUADS_OF_SHARE + i / 4u][i % 4u];
    }
}

void store_share(Place place, uint share) {
    uint column = GATED ? own_column() / 2u : own_column(), mine = gl_SubgroupID * OUT_SIZE;
    uint row0 = place.row0 + share * FM;
    vec4 added[EACH_QUADS];
    ask_addends(place.at_, row0, place.column0 + column, added);
    keep_sums(0u, mine);
    subgroup_barrier();
    store_rows(place.at_, row0, place.column0, column, mine, added);
    subgroup_barrier();
}

// Keeps a split's sums, and adds up and stores shares of its tile.
void join_splits(Place place, uint64_t number, uint split) {
    uint64_t counter = counters + number * 8ul;
    keep_part(part_at(number, split));
    memoryBarrierBuffer();
    barrier();
    if (thread() == 0u) taken = first_share(counter);
    barrier();
    memoryBarrierBuffer();
    for (uint share = taken; share < XF; share = taken) {
        barrier(); // everyone has read it
        if (thread() == 0u) taken = take_share(counter);
        add_up(number, share);
        store_share(place, share);
        barrier();
    }
    if (thread() == 0u) leave(counter);
}

void make_tile(uint batch, uint split, uint row_tile, uint column0, uint64_t number) {
    Place place = place_of(batch, row_tile, column0);
    uvec2 range = split_range(split, BK);
    // Without fragments nothing is summed up here: the first split's workgroup makes all.
    if (!known) range = uvec2(0u, split == 0u ? k : 0u);
    begin_sums();
    multiply_tile(place, range.x, range.y);
    barrier();
    if (known && splits > 1u) join_splits(place, number, split);
    else if (split == 0u) store_tile(place);
    barrier();
}

void main() {
    write_numbers();
    if (thread() == 0u) staged_offset = k == 0u ? 0u : OFFSET_BITS;
    barrier();
    offset_ = staged_offset;
    known = FRAGMENTS == 1u && elements_are_known();
    make_tiles();
}
