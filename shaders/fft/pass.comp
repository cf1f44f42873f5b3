#version 460
// Fourier transforms of SIZE elements each, LINES of them a workgroup: a whole transform, or one of the
// passes that a long one is split into. In pass i, whose factor is SIZE and whose later factors multiply
// to `rest`, a line is what stands `rest` apart; results are multiplied with the roots of order
// SIZE * rest. Elements stay in registers: the first stage loads them, the last one stores them, and
// between stages they are exchanged through shared memory, real parts before imaginary ones: half the
// memory, and twice as many workgroups at a time.
// Constants: 1 SIZE, 2 LINES (a power of two), 3 FLAGS, 4 RADICES of the stages
// (fields of four bits; 15 is 16).
// VARIANT 1: SIZE is a power of two of at most 4096.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 64;
layout(constant_id = 2) const uint LINES = 1;
layout(constant_id = 3) const uint FLAGS = 0;
layout(constant_id = 4) const uint RADICES = 0x88;
// Flags. [host]
const uint LINES_FIRST_IN_FLAG = 64, LINES_FIRST_OUT_FLAG = 128, CHIRP_IN_FLAG = 256,
           SPECTRUM_IN_FLAG = 512, CHIRP_OUT_FLAG = 1024;
// Neighbouring lines are nearer in memory than neighbours of a line.
const bool LINES_FIRST_IN = (FLAGS & LINES_FIRST_IN_FLAG) != 0u;
const bool LINES_FIRST_OUT = (FLAGS & LINES_FIRST_OUT_FLAG) != 0u;
// Ends of the transforms that a transform of another length n is made of (kernels/fft.rs): elements times the
// chirp, filled up with zeros; spectra times that of the chirp, conjugated so that a forward transform
// inverts it; results times the chirp.
const bool CHIRP_IN = (FLAGS & CHIRP_IN_FLAG) != 0u, SPECTRUM_IN = (FLAGS & SPECTRUM_IN_FLAG) != 0u,
           CHIRP_OUT = (FLAGS & CHIRP_OUT_FLAG) != 0u;

#include "fft_root.glsl"
#include "fft_side.glsl"
#include "fft_chirp.glsl"

// The walk goes over the lines divided by `rest`: element offsets of the source, first element's number
// there, and the same for the destination. Units are bytes; parts are 2^64 divided by SIZE, by SIZE * rest,
// and by 2 n. Outside of chirps `total` is the length of all passes, with them it is n.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, walk, count, size_part, pass_part, chirp_part, spectrum;
    int64_t in_unit, out_unit;
    uint rest, out_stride, total, ndim;
    float scale;
    float in_sign, out_sign; // -1 conjugates: an inverse transform is the conjugate of that of the conjugate
};

#define THREADS gl_WorkGroupSize.x
#define RADIX_OF(fields) (((fields) & 15u) == 15u ? 16u : (fields) & 15u)
const uint R0 = RADIX_OF(RADICES), R1 = RADIX_OF(RADICES >> 4), R2 = RADIX_OF(RADICES >> 8),
           R3 = RADIX_OF(RADICES >> 12);
const uint R4 = RADIX_OF(RADICES >> 16), R5 = RADIX_OF(RADICES >> 20), R6 = RADIX_OF(RADICES >> 24);
const uint LAST =
    R6 != 0u ? R6 : R5 != 0u ? R5 : R4 != 0u ? R4 : R3 != 0u ? R3 : R2 != 0u ? R2 : R1 != 0u ? R1 : R0;
const bool LAST_LINES_FIRST = R1 == 0u ? LINES_FIRST_IN : LINES_FIRST_OUT;

// The most elements of a thread in any stage.
#define ITEMS_OF(r) (r == 0u ? 0u : ((SIZE / (r == 0u ? 1u : r)) * LINES + THREADS - 1u) / THREADS * r)
#define LARGER(a, b) (a > b ? a : b)
const uint I0 = ITEMS_OF(R0), I1 = ITEMS_OF(R1), I2 = ITEMS_OF(R2), I3 = ITEMS_OF(R3), I4 = ITEMS_OF(R4);
const uint I5 = ITEMS_OF(R5), I6 = ITEMS_OF(R6);
const uint I01 = LARGER(I0, I1), I23 = LARGER(I2, I3), I45 = LARGER(I4, I5), I03 = LARGER(I01, I23),
           I46 = LARGER(I45, I6);
const uint ITEMS = LARGER(I03, I46);

// One word in 17 is left out, and lines begin in different banks: threads that are a radix apart, or whose
// lines are neighbours, do not meet in one bank.
#define PAD(i) ((i) + ((i) >> 4))
const uint PITCH = (PAD(SIZE) + 31u) / 32u * 32u + (LINES < 32u ? 32u / LINES : 1u);
shared float part[R1 == 0u ? 1u : LINES * PITCH];
shared int64_t line_offset[4u * LINES]; // by what the walk has
shared uint line_rest[LINES];

vec2 x[ITEMS];
uint lines;

// Element j of a line that begins at an address, as the transform takes it.
vec2 load_number(uint64_t line, uint j) {
    if (CHIRP_IN && j >= total) return vec2(0.0);
    vec2 z = vec2(1.0, in_sign) * load_element(line, in_unit, j, total);
    if (CHIRP_IN) z = times(z, chirp(j, total, chirp_part));
    if (SPECTRUM_IN) z = conjugate(times(z, AT_F2(spectrum, j)));
    return z;
}

void store_number(uint64_t line, uint k, vec2 z) {
    if (CHIRP_OUT && k >= total) return;
    if (CHIRP_OUT) z = times(conjugate(z), chirp(k, total, chirp_part));
    store_element(line, out_unit, k, total, vec2(z.x, z.y * out_sign));
}

// The line of a thread's butterfly j of a stage, and the butterfly's number in it.
struct Butterfly { uint line, at; };

Butterfly butterfly_of(uint radix, uint j, bool lines_first) {
    uint b = j * THREADS + gl_LocalInvocationID.x, each = SIZE / radix;
    return lines_first ? Butterfly(b % LINES, b / LINES) : Butterfly(b / each, b % each);
}

// Numbers in a line by s, of which only powers of two are constants: through floats,
// which are exact for up to 4096.
uint quotient(uint at, uint s) {
#if VARIANT == 1
    return at / s;
#else
    return uint((float(at) + 0.5) * (1.0 / float(s)));
#endif
}

// Where the word i + offset lies in shared memory, offsets being multiples of `stride`; where constants
// allow, padding goes into the base of all offsets. In the first stage (a radix, and strides of one) words
// come in aligned groups of radix words.
uint padded(uint i, uint offset, uint stride, uint radix) {
#if VARIANT == 1
    if (stride % 16u == 0u) return PAD(i) + PAD(offset);
    if (stride == 1u && radix != 0u) return PAD(i) + offset;
#endif
    return PAD(i + offset);
}

// Powers 1, 2, 4 and 8 of a root; every second one is computed.
struct Powers { vec2 one, two, four, eight; };

Powers powers_of(uint first, uint radix) {
    Powers p;
    p.one = root(first);
    p.two = times(p.one, p.one);
    p.four = radix > 4u ? root(first * 4u) : p.two;
    p.eight = times(p.four, p.four);
    return p;
}

// The power whose exponent is the lowest bit of u.
vec2 lowest_power(Powers p, uint u) {
    return (u & 1u) != 0u ? p.one : (u & 2u) != 0u ? p.two : (u & 4u) != 0u ? p.four : p.eight;
}

vec2 times_minus_i(vec2 z) { return vec2(z.y, -z.x); }

void dft(inout vec2 v[1]) {}

void dft(inout vec2 v[2]) {
    vec2 d = v[0] - v[1];
    v[0] += v[1];
    v[1] = d;
}

void dft(inout vec2 v[4]) {
    vec2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_minus_i(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
}

void dft(inout vec2 v[8]) {
    const float h = 0.70710678118654752;
    vec2 even[4] = vec2[](v[0], v[2], v[4], v[6]), odd[4] = vec2[](v[1], v[3], v[5], v[7]);
    dft(even);
    dft(odd);
    odd[1] = h * vec2(odd[1].x + odd[1].y, odd[1].y - odd[1].x);
    odd[2] = times_minus_i(odd[2]);
    odd[3] = h * vec2(odd[3].y - odd[3].x, -odd[3].x - odd[3].y);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        v[i] = even[i] + odd[i];
        v[i + 4u] = even[i] - odd[i];
    }
}

void dft(inout vec2 v[16]) {
    const float c = 0.92387953251128674, s = 0.38268343236508977;
    vec2 even[8] = vec2[](v[0], v[2], v[4], v[6], v[8], v[10], v[12], v[14]);
    vec2 odd[8] = vec2[](v[1], v[3], v[5], v[7], v[9], v[11], v[13], v[15]);
    dft(even);
    dft(odd);
    const float h = 0.70710678118654752;
    odd[1] = times(odd[1], vec2(c, -s));
    odd[2] = h * vec2(odd[2].x + odd[2].y, odd[2].y - odd[2].x);
    odd[3] = times(odd[3], vec2(s, -c));
    odd[4] = times_minus_i(odd[4]);
    odd[5] = times(odd[5], vec2(-s, -c));
    odd[6] = h * vec2(odd[6].y - odd[6].x, -odd[6].x - odd[6].y);
    odd[7] = times(odd[7], vec2(-c, -s));
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        v[i] = even[i] + odd[i];
        v[i + 8u] = even[i] - odd[i];
    }
}

#if VARIANT == 1
#define RADIX 1
#include "fft_radix.glsl"
#undef RADIX
#endif
#define RADIX 2
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 4
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 8
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 16
#include "fft_radix.glsl"
#undef RADIX
#if VARIANT == 0
#define RADIX 3
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 5
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 7
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 11
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 13
#include "fft_radix.glsl"
#undef RADIX
#endif

// A call for the radix r, with `tag` to choose the function by; only those radices that occur are compiled.
#define HAS(r) (R0 == r || R1 == r || R2 == r || R3 == r || R4 == r || R5 == r || R6 == r)
#define CALL_IF(n, r, call) if (HAS(n) && r == n) { float tag[n]; call; }
#define CALL_TWOS(r, call) \
    CALL_IF(2u, r, call) else CALL_IF(4u, r, call) else CALL_IF(8u, r, call) else CALL_IF(16u, r, call)
#if VARIANT == 1
#define CALL(r, call) CALL_IF(1u, r, call) else CALL_TWOS(r, call)
#else
#define CALL(r, call) \
    CALL_TWOS(r, call) else CALL_IF(3u, r, call) else CALL_IF(5u, r, call) else CALL_IF(7u, r, call) \
    else CALL_IF(11u, r, call) else CALL_IF(13u, r, call)
#endif

// From the results of a stage of radix r to the elements of the next one.
void exchange(uint r, uint s, bool lines_first, uint next) {
    barrier();
    CALL(r, put(tag, s, lines_first, false))
    barrier();
    CALL(next, get(tag, LINES_FIRST_OUT, false))
    barrier();
    CALL(r, put(tag, s, lines_first, true))
    barrier();
    CALL(next, get(tag, LINES_FIRST_OUT, true))
}

#if VARIANT == 1
// Three stages are enough for all powers of two, so that nothing of their addresses is left to run time.
void stages() {
    CALL(R0, transform(tag, 1u, LINES_FIRST_IN))
    if (R1 == 0u) return;
    exchange(R0, 1u, LINES_FIRST_IN, R1);
    CALL(R1, transform(tag, R0, LINES_FIRST_OUT))
    if (R2 == 0u) return;
    exchange(R1, R0, LINES_FIRST_OUT, R2);
    CALL(R2, transform(tag, R0 * R1, LINES_FIRST_OUT))
}
#else
void stages() {
    uint s = 1u, r = R0;
    [[dont_unroll]] for (uint fields = RADICES >> 4;; fields >>= 4) {
        bool lines_first = s == 1u ? LINES_FIRST_IN : LINES_FIRST_OUT;
        CALL(r, transform(tag, s, lines_first))
        uint next = RADIX_OF(fields);
        if (next == 0u) break;
        exchange(r, s, lines_first, next);
        s *= r;
        r = next;
    }
}
#endif

void find_lines(uint64_t first) {
    for (uint i = gl_LocalInvocationID.x; i < LINES; i += THREADS) {
        uint64_t line = min(first + uint64_t(i), count - 1ul);
        uint64_t outer = count <= 0xfffffffful ? uint64_t(uint(line) / rest) : line / uint64_t(rest);
        uint within = uint(line - outer * uint64_t(rest));
        [[dont_unroll]] for (uint k = 0u; k < 4u; ++k)
            line_offset[k * LINES + i] = strided_offset(walk, ndim, k, outer);
        line_rest[i] = within;
    }
}

void main() {
    uint64_t blocks = (count + uint64_t(LINES) - 1ul) / uint64_t(LINES);
    for (uint64_t block = uint64_t(gl_WorkGroupID.x); block < blocks; block += uint64_t(gl_NumWorkGroups.x)) {
        uint64_t first = block * uint64_t(LINES);
        lines = uint(min(uint64_t(LINES), count - first));
        find_lines(first);
        barrier();
        CALL(R0, load(tag))
        stages();
        CALL(LAST, store(tag))
        barrier();
    }
}
