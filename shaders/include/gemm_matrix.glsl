// The tiled product on cooperative matrices by slices of a and b in shared memory. The next slice is loaded
// into registers while the present one and the one after it are multiplied: memory takes longer than one of
// them.
//
// Slices lie in shared memory as in memory: along k where the operand is dense along k, else across it;
// the loads of fragments say which. Rows are a multiple of 16 bytes and 16 bytes longer than their
// contents, against bank conflicts.
//
// The kernel supplies b in the same way as a: b_begin, b_fetch into one of two sets of registers, b_store
// from there into `slices`, behind a. With OWN_A it supplies a, too. FACTORS is where two factors are that
// all sums are multiplied by where operands were float32, if these have one each.
#include "matrix_tile.glsl"

// Octets of halves: rows of a slice and their distance, for both ways to lie.
const uint A_ROWS = A_ALONG_K ? BM : BK, A_WIDTH = (A_ALONG_K ? BK : BM) / 8u, A_PITCH = A_WIDTH + 1u;
const uint B_ROWS = B_ALONG_K ? BN : BK, B_WIDTH = (B_ALONG_K ? BK : BN) / 8u, B_PITCH = B_WIDTH + 1u;
const uint A_SIZE = A_ROWS * A_PITCH, B_SIZE = B_ROWS * B_PITCH;
const uint A_EACH = A_ROWS * A_WIDTH / THREADS;
const uint SHARED = A_SIZE + B_SIZE > OUT_ALL ? A_SIZE + B_SIZE : OUT_ALL;

shared uvec4 slices[SHARED];

#include "matrix_result.glsl"

// Nothing that fetches branches: a branch per load would wait for every load by itself. Rows and columns of
// the result that do not exist are not stored, so their operands do not matter: they are read from the
// nearest element inside. The same holds for what lies behind the end of k, which is then made zero on the
// way into shared memory; only the last slice has such a tail. Addresses are a base that is the same for the
// workgroup and a 32-bit offset in bytes per vector.

// THREADS is a multiple of the vectors of a row, so a thread's vectors are one below the other.
uvec4 next_a[2u * A_EACH];
uint offset_a[A_EACH];
uint64_t base_a;

void b_begin(Batch at_, uint column0);
void b_fetch(uint set, uint k0, uint k1, bool tail);
void b_mask(uint set, uint k0, uint k1);
void b_store(uint set);
void b_move(); // the first set to the second

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

void finish_tile(Batch at_, uint row0, uint column0, uint column) { store_parts(at_, row0, column0, column); }

void begin_sums() {
    [[unroll]] for (uint i = 0u; i < (WM / FM) * (WN / FN); ++i)
        sums[i] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);
}

void keep_sums(uint i, uint mine) {
    [[unroll]] for (uint j = 0u; j < WN / FN; ++j)
        coopMatStore(sums[i * (WN / FN) + j], slices, mine + j * FN / 4u, OUT_PITCH,
            gl_CooperativeMatrixLayoutRowMajor);
}

// The smaller factor first: their product, or that with the larger one, may be no float.
void scale_sums() {
#ifdef FACTORS
    if (!SCALED) return;
    vec2 factors = F2(FACTORS).v[0];
    float less = min(factors.x, factors.y), more = max(factors.x, factors.y);
    [[unroll]] for (uint i = 0u; i < (WM / FM) * (WN / FN); ++i) sums[i] = sums[i] * less * more;
#endif
}

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
void multiply_slices(Batch at_, uint row0, uint column0, uint k0, uint k1, uint row, uint column) {
    a_begin(at_, row0);
    b_begin(at_, column0);
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

void make_tile(uint batch, uint split, uint row_tile, uint column0, uint64_t number) {
    Place place = place_of(batch, row_tile, column0);
    if (OUT_DTYPE == FLOAT32)
        place.at_.result += uint64_t(split) * uint64_t(batches) * uint64_t(m) * uint64_t(n) * 4ul;
    uvec2 range = split_range(split, BK);
    begin_sums();
    multiply_tile(place, range.x, range.y);
    scale_sums();
    barrier();
    store_tile(place);
    barrier();
}

void main() { make_tiles(); }
