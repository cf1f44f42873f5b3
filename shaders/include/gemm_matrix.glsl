// The tiled product on cooperative matrices: a workgroup makes a BM x BN tile of the result from BK-deep
// slices of a and b in shared memory, a subgroup a WM x WN part of it in FM x FN fragments with float32 sums.
// The next slice is loaded into registers while the present one and the one after it are multiplied: memory
// takes longer than one of them.
//
// Slices lie in shared memory as in memory: along k where the operand is dense along k, else across it;
// the loads of fragments say which. Rows are a multiple of 16 bytes and 16 bytes longer than their
// contents, against bank conflicts.
//
// The kernel supplies b in the same way as a: b_begin, b_fetch into one of two sets of registers, b_store
// from there into `slices`, behind a. With OWN_A it supplies a, too.
//
// With SIBLINGS, b is a list of up to three matrices that lie along k, at `extra`, with a result each; `n`
// counts the columns of them all, and a tile has columns of at most two. With GATED, half of a fragment's
// columns are the first one's and half the second one's, and the result is silu(first) * second.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_ballot : require
#if HALF == 1
#extension GL_EXT_bfloat16 : require
#define half bfloat16_t
#else
#define half float16_t
#endif
layout(constant_id = 4) const uint BM = 128;
layout(constant_id = 5) const uint BN = 128;
layout(constant_id = 6) const uint BK = 32;
layout(constant_id = 7) const uint WM = 64;
layout(constant_id = 8) const uint WN = 64;
layout(constant_id = 9) const uint FM = 16; // of a fragment, as the device offers them
layout(constant_id = 10) const uint FN = 16;
layout(constant_id = 11) const uint FK = 16;
layout(constant_id = 12) const uint SUBGROUP = 32;

// Flags. [host]
const uint SIBLINGS_FLAG = 64, GATED_FLAG = 128;
const bool SIBLINGS = (FLAGS & SIBLINGS_FLAG) != 0u, GATED = (FLAGS & GATED_FLAG) != 0u;

struct Sibling {
    uint64_t b, scales, biases, result; // scales and biases of a quantized one
    uint n, end;                        // its columns, and the first one of all that is behind them
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Siblings { Sibling all[3]; };

const uint THREADS = (BM / WM) * (BN / WN) * SUBGROUP;
const uint ACROSS = BN / WN; // subgroups along n
// Octets of halves: rows of a slice and their distance, for both ways to lie.
const uint A_ROWS = A_ALONG_K ? BM : BK, A_WIDTH = (A_ALONG_K ? BK : BM) / 8u, A_PITCH = A_WIDTH + 1u;
const uint B_ROWS = B_ALONG_K ? BN : BK, B_WIDTH = (B_ALONG_K ? BK : BN) / 8u, B_PITCH = B_WIDTH + 1u;
const uint A_SIZE = A_ROWS * A_PITCH, B_SIZE = B_ROWS * B_PITCH;
const uint A_EACH = A_ROWS * A_WIDTH / THREADS;
// The result passes through shared memory, FM rows of every subgroup at a time.
const uint OUT_PITCH = WN / 4u + 1u, OUT_SIZE = FM * OUT_PITCH, OUT_ALL = OUT_SIZE * (THREADS / SUBGROUP);
const uint SHARED = A_SIZE + B_SIZE > OUT_ALL ? A_SIZE + B_SIZE : OUT_ALL;

shared uvec4 slices[SHARED];

// Nothing that fetches branches: a branch per load would wait for every load by itself. Rows and columns of
// the result that do not exist are not stored, so their operands do not matter: they are read from the
// nearest element inside. The same holds for what lies behind the end of k, which is then made zero on the
// way into shared memory; only the last slice has such a tail. Addresses are a base that is the same for the
// workgroup and a 32-bit offset in bytes per vector.

// THREADS is a multiple of the vectors of a row, so a thread's vectors are one below the other.
uvec4 next_a[2u * A_EACH];
uint offset_a[A_EACH];
uint64_t base_a;

// The tile's matrices: with GATED they take turns, else the second one's columns begin at `border`.
Sibling own, second;
uint border;

// Whether b's row or column i in the tile is the second's; its distance from the first one that the
// tile has of its matrix, but not behind the last; and where in its matrix that first one is, if it
// is column0 of the first matrix.
const uint TURN = FN / 2u;
bool b_second(uint i) { return GATED ? (i / TURN & 1u) != 0u : SIBLINGS && i >= border; }
uint b_first(bool second_, uint column0) { return second_ && !GATED ? 0u : column0; }
uint b_source(uint i, uint column0) {
    bool second_ = b_second(i);
    uint from = GATED ? i / (2u * TURN) * TURN + i % TURN : second_ ? i - border : i;
    return min(from, (second_ ? second.n : own.n) - 1u - b_first(second_, column0));
}

void b_begin(Batch at_, uint column0);
void b_fetch(uint set, uint k0, uint k1, bool tail);
void b_mask(uint set, uint k0, uint k1);
void b_store(uint set);
void b_move(); // the first set to the second

// A value that is the same for the whole subgroup, told to the compiler.
uint64_t same(uint64_t x) {
    uvec2 words = unpackUint2x32(x);
    return packUint2x32(uvec2(subgroupBroadcastFirst(words.x), subgroupBroadcastFirst(words.y)));
}

// An octet of halves from `address` on. Of those, only the ones before element `end` exist, and
// eight before it are safe to read.
uvec4 fetch_halves(bool vector, bool clamped, uint64_t address, int end) {
    if (vector) return V4(clamped ? address - uint64_t(max(8 - end, 0)) * 2ul : address).v[0];
    uvec4 r;
    [[unroll]] for (int e = 0; e < 8; e += 2) {
        uint64_t low = address + uint64_t(e) * 2ul, high = low + 2ul;
        if (clamped) {
            low -= uint64_t(max(e + 1 - end, 0)) * 2ul;
            high -= uint64_t(max(e + 2 - end, 0)) * 2ul;
        }
        r[e / 2] = uint(U16(low).v[0]) | uint(U16(high).v[0]) << 16;
    }
    return r;
}

// The first `count` halves of an octet, then zeros.
uvec4 keep_halves(uvec4 x, int count) {
    [[unroll]] for (int w = 0; w < 4; ++w)
        x[w] &= count >= 2 * w + 2 ? 0xffffffffu : count == 2 * w + 1 ? 0xffffu : 0u;
    return x;
}

uint a_row(uint i) { return gl_LocalInvocationID.x / A_WIDTH + i * (THREADS / A_WIDTH); }
uint a_column() { return gl_LocalInvocationID.x % A_WIDTH * 8u; }

#ifdef OWN_A
void a_begin(Batch at_, uint row0);
void a_fetch(uint set, uint row0, uint k0, uint k1, bool tail);
void a_mask(uint set, uint k0, uint k1);
#else
void a_begin(Batch at_, uint row0) {
    base_a = same(at(DTYPE, at_.a, GROUPED ? 0l : A_ALONG_K ? int64_t(row0) * lda : int64_t(row0)));
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i) {
        uint row = A_ALONG_K ? min(a_row(i), at_.m - 1u - row0) : a_row(i);
        if (GROUPED) row = uint(row_of_a(row0 + row));
        offset_a[i] = (row * uint(lda) + a_column()) * 2u;
    }
}

void a_fetch(uint set, uint row0, uint k0, uint k1, bool tail) {
    uint64_t base = base_a + uint64_t(A_ALONG_K ? int64_t(k0) : int64_t(k0) * lda) * 2ul;
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i) {
        if (A_ALONG_K) {
            next_a[set * A_EACH + i] = fetch_halves(
                A_VECTOR, tail, base + uint64_t(offset_a[i]), int(k) - int(k0 + a_column()));
        } else {
            uint beyond = tail ? max(k0 + a_row(i) + 1u, k1) - k1 : 0u;
            next_a[set * A_EACH + i] = fetch_halves(A_VECTOR, true,
                base + uint64_t(offset_a[i] - beyond * uint(lda) * 2u), int(m) - int(row0 + a_column()));
        }
    }
}

// Makes what lies behind the end of k zero.
void a_mask(uint set, uint k0, uint k1) {
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i)
        next_a[set * A_EACH + i] = keep_halves(next_a[set * A_EACH + i],
            A_ALONG_K ? int(k1) - int(k0 + a_column()) : k0 + a_row(i) < k1 ? 8 : 0);
}
#endif

void a_store(uint set) {
    uint to = a_row(0u) * A_PITCH + a_column() / 8u;
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i)
        slices[to + i * (THREADS / A_WIDTH * A_PITCH)] = next_a[set * A_EACH + i];
}

coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> sums[(WM / FM) * (WN / FN)];

void multiply(uint row, uint column) {
    [[unroll]] for (uint kk = 0u; kk < BK; kk += FK) {
        coopmat<half, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> x[WM / FM];
        [[unroll]] for (uint i = 0u; i < WM / FM; ++i) {
            if (A_ALONG_K)
                coopMatLoad(x[i], slices, (row + i * FM) * A_PITCH + kk / 8u, A_PITCH,
                    gl_CooperativeMatrixLayoutRowMajor);
            else
                coopMatLoad(x[i], slices, kk * A_PITCH + (row + i * FM) / 8u, A_PITCH,
                    gl_CooperativeMatrixLayoutColumnMajor);
        }
        [[unroll]] for (uint j = 0u; j < WN / FN; ++j) {
            coopmat<half, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB> y;
            if (B_ALONG_K)
                coopMatLoad(y, slices, A_SIZE + (column + j * FN) * B_PITCH + kk / 8u, B_PITCH,
                    gl_CooperativeMatrixLayoutColumnMajor);
            else
                coopMatLoad(y, slices, A_SIZE + kk * B_PITCH + (column + j * FN) / 8u, B_PITCH,
                    gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0u; i < WM / FM; ++i)
                sums[i * (WN / FN) + j] = coopMatMulAdd(x[i], y, sums[i * (WN / FN) + j]);
        }
    }
}

// Sets the tile's matrices; returns its first column in the first one.
uint pick_matrices(inout Batch at_, uint column0) {
#ifdef OWN_PUSH
    own = Sibling(b, 0ul, 0ul, at_.result, n, n);
    border = BN;
    return column0;
#else
    own = Sibling(b, c, extra, at_.result, n, n);
    border = BN;
    if (!SIBLINGS) return column0;
    Siblings list = Siblings(extra);
    uint s = 0u;
    while (!GATED && column0 >= list.all[s].end) ++s; // the last one ends at n
    own = list.all[s];
    at_.result = own.result;
    at_.n = own.n;
    if (GATED) {
        second = list.all[1];
        return column0 / 2u;
    }
    bool alone = column0 + BN <= own.end || own.end == n;
    second = list.all[alone ? s : s + 1u];
    if (!alone) border = own.end - column0;
    return column0 - (own.end - own.n);
#endif
}

// Four neighbours of the result, from the subgroup's slot in shared memory.
vec4 result_quad(uint mine, uint row, uint quad) {
    uint at_ = mine + row * OUT_PITCH;
    if (!GATED) return uintBitsToFloat(slices[at_ + quad]);
    at_ += quad / (TURN / 4u) * (TURN / 2u) + quad % (TURN / 4u);
    vec4 g = uintBitsToFloat(slices[at_]);
    return g / (1.0 + exp(-g)) * uintBitsToFloat(slices[at_ + TURN / 4u]);
}

// Stores the subgroup's part, FM rows at a time, by its own slot of the shared memory. `column`
// is where its part of the tile begins. A call in here that the driver does not inline would
// keep the sums in memory all along.
void store(Batch at_, uint row0, uint column0, uint column) {
    const uint QUADS = GATED ? WN / 8u : WN / 4u, EACH = (FM * QUADS + SUBGROUP - 1u) / SUBGROUP;
    uint mine = gl_SubgroupID * OUT_SIZE;
    [[unroll]] for (uint i = 0u; i < WM / FM; ++i) {
        // All at once, because no load goes before a store.
        vec4 added[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uint q = e * SUBGROUP + gl_SubgroupInvocationID;
            added[e] = addend(at_, row0 + i * FM + q / QUADS, column0 + column + q % QUADS * 4u);
        }
        [[unroll]] for (uint j = 0u; j < WN / FN; ++j)
            coopMatStore(sums[i * (WN / FN) + j], slices, mine + j * FN / 4u, OUT_PITCH,
                gl_CooperativeMatrixLayoutRowMajor);
        controlBarrier(
            gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uint q = e * SUBGROUP + gl_SubgroupInvocationID, row = q / QUADS, quad = q % QUADS;
            if (FM * QUADS % SUBGROUP != 0u && q >= FM * QUADS) continue;
            uint in_tile = column + quad * 4u;
            bool second_ = SIBLINGS && !GATED && in_tile >= border;
            Batch to = at_;
            if (second_) to.result = second.result;
            if (second_) to.n = second.n;
            store_sum(to, row0 + i * FM + row, second_ ? in_tile - border : column0 + in_tile,
                result_quad(mine, row, quad), added[e]);
        }
        controlBarrier(
            gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
}

void fetch_slices(uint set, uint row0, uint k0, uint k1, bool tail) {
    a_fetch(set, row0, k0, k1, tail);
    b_fetch(set, k0, k1, tail);
}

void store_slices(uint set) {
    a_store(set);
    b_store(set);
    barrier();
}

// Stores a slice that may be the last.
void store_last(uint set, uint k0, uint k1) {
    a_mask(set, k0, k1);
    b_mask(set, k0, k1);
    store_slices(set);
}

// Multiplies the slice in shared memory while the one two further is asked for, then stores the next one.
void next_slices(uint set, uint row0, uint k0, uint k1, uint row, uint column) {
    fetch_slices(set, row0, k0 + 2u * BK, k1, false);
    multiply(row, column);
    barrier();
    store_slices(1u - set);
}

// All slices k0..k1 of a tile. What is asked for is always stored, and nothing is asked for in a branch: else
// the compiler would move loads to where they are used.
void multiply_slices(uint row0, uint k0, uint k1, uint row, uint column) {
    uint last = (k1 - 1u) / BK * BK;
    fetch_slices(0u, row0, k0, k1, true);
    fetch_slices(1u, row0, min(k0 + BK, last), k1, true);
    store_last(0u, k0, k1);
    for (; k0 + 4u * BK <= k1; k0 += 2u * BK) {
        next_slices(0u, row0, k0, k1, row, column);
        next_slices(1u, row0, k0 + BK, k1, row, column);
    }
    // At most four are left: the first in shared memory, the next in the second set.
    for (; k0 < last; k0 += BK) {
        fetch_slices(0u, row0, min(k0 + 2u * BK, last), k1, true);
        multiply(row, column);
        barrier();
        store_last(1u, k0 + BK, k1);
        [[unroll]] for (uint i = 0u; i < A_EACH; ++i) next_a[A_EACH + i] = next_a[i];
        b_move();
    }
    multiply(row, column);
}

void tile(uint batch, uint split, uint row_tile, uint column0) {
    uvec2 rows = tile_rows(row_tile, BM);
    uint row0 = rows.x;
    Batch at_ = batch_at(batch);
    if (GROUPED) at_ = group_at(rows);
    column0 = pick_matrices(at_, column0);
    if (OUT_DTYPE == FLOAT32)
        at_.result += uint64_t(split) * uint64_t(batches) * uint64_t(m) * uint64_t(n) * 4ul;
    uint row = gl_SubgroupID / ACROSS * WM, column = gl_SubgroupID % ACROSS * WN;
    uvec2 range = split_range(split, BK);
    [[unroll]] for (uint i = 0u; i < (WM / FM) * (WN / FN); ++i)
        sums[i] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);
    if (range.x < range.y) {
        a_begin(at_, row0);
        b_begin(at_, column0);
        multiply_slices(row0, range.x, range.y, row, column);
    }
    barrier();
    store(at_, row0 + row, column0, GATED ? column / 2u : column);
    barrier();
}

// Tiles in bands of rows, so that those that run at once share slices of a and b in the cache.
const uint BAND = 8;

void main() {
    uint rows = row_tiles(BM), columns = (n + BN - 1u) / BN;
    uint64_t each = uint64_t(rows) * uint64_t(columns), all = each * uint64_t(batches) * uint64_t(splits);
    for (uint64_t t = uint64_t(gl_WorkGroupID.x); t < all; t += uint64_t(gl_NumWorkGroups.x)) {
        uint z = uint(t / each), i = uint(t - uint64_t(z) * each);
        uint band = i / (BAND * columns), high = min(BAND, rows - band * BAND),
             in_band = i - band * BAND * columns;
        tile(z / splits, z % splits, band * BAND + in_band % high, in_band / high * BN);
    }
}
