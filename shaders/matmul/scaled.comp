#version 460
// Float32 matrices as float16 ones, with a scale for each row of a and each column of b (scaled.glsl). The
// product has to be multiplied by one factor of each, float32, which lie behind the elements: where rows are
// dense along k, an octet behind each row begins with its factor; else two rows behind the last one have
// those of all columns.
//
// The source is matrices of `rows` rows of `width` neighbours, `leading` apart. Rows of the result are
// octets. Along k a workgroup converts a row; across k it measures (MEASURE), and in another dispatch
// converts, COLUMNS octets of a chunk of rows. What lies beyond the source is zero. Constants: 1 flags.
#include "common.glsl"
#include "floats.glsl"
#include "scaled.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FLAGS = 0;
// Flags. [host]
const uint ALONG_K_FLAG = 1, VECTOR_FLAG = 2, MEASURE_FLAG = 4;
const bool ALONG_K = (FLAGS & ALONG_K_FLAG) != 0u;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u; // whole octets are aligned to 16 bytes
const bool MEASURE = (FLAGS & MEASURE_FLAG) != 0u;
// Octets of a row that a workgroup takes across k, and rows of zeros up to which k goes. [host]
const uint COLUMNS = 8, ROWS = 8;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination;
    uint64_t peaks; // across k: of each column in each chunk of a matrix, as bits
    uint64_t walk;  // axes of matrices
    int64_t leading;
    uint rows, width;
    uint octets, count; // of a row; matrices
    uint ndim;          // axes of matrices
    uint chunks, chunk; // of a matrix; rows of one, a multiple of ROWS
};

uint lane() { return gl_LocalInvocationID.x; }

// Where a matrix of the source begins.
uint64_t matrix_at(uint matrix) {
    return at(FLOAT32, source, ndim == 0u ? 0l : strided_offset(walk, ndim, 0u, uint64_t(matrix)));
}

void convert_rows() {
    for (uint line = gl_WorkGroupID.x; line < count * rows; line += gl_NumWorkGroups.x) {
        uint matrix = line / rows;
        uint64_t from = at(FLOAT32, matrix_at(matrix), int64_t(line - matrix * rows) * leading);
        uint64_t to = uint64_t(line) * uint64_t(octets + 1u);
        vec4 a, b;
        uint own = 0u;
        for (uint i = lane(); i < octets; i += gl_WorkGroupSize.x) {
            fetch_octet(VECTOR, from, i * 8u, width, a, b);
            own = max(own, largest(max(magnitudes(a), magnitudes(b))));
        }
        int exponent = scale_exponent(group_peak(own));
        float scale = power_of_two(exponent);
        for (uint i = lane(); i < octets; i += gl_WorkGroupSize.x) {
            fetch_octet(VECTOR, from, i * 8u, width, a, b);
            AT_V4(destination, to + uint64_t(i)) = pack_octet(a * scale, b * scale);
        }
        if (lane() == 0u)
            AT_V4(destination, to + uint64_t(octets)) =
                uvec4(floatBitsToUint(power_of_two(-exponent)), 0u, 0u, 0u);
    }
}

// Of each column of the workgroup.
shared uint peak[COLUMNS * 8u];

// Where the workgroup's columns begin, in octets; its matrix, and its first row and the one behind its last.
uint column0, matrix, row0, row1;

// This thread's octet, and the first of its rows.
uint own_column() { return column0 + lane() % COLUMNS; }
uint own_row() { return row0 + lane() / COLUMNS; }
const uint APART = gl_WorkGroupSize.x / COLUMNS;

void fetch_own(uint64_t from, uint row, out vec4 a, out vec4 b) {
    a = b = vec4(0.0);
    if (row < rows && own_column() < octets)
        fetch_octet(VECTOR, at(FLOAT32, from, int64_t(row) * leading), own_column() * 8u, width, a, b);
}

void clear_peaks() {
    barrier();
    for (uint i = lane(); i < COLUMNS * 8u; i += gl_WorkGroupSize.x) peak[i] = 0u;
    barrier();
}

// Adds to the peaks of eight columns.
void raise_peaks(uint first, uvec4 a, uvec4 b) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        atomicMax(peak[first + e], a[e]);
        atomicMax(peak[first + 4u + e], b[e]);
    }
}

uint64_t peaks_at(uint chunk_) {
    return (uint64_t(matrix) * uint64_t(chunks) + uint64_t(chunk_)) * uint64_t(octets * 8u);
}

void measure_columns(uint chunk_) {
    uint64_t from = matrix_at(matrix);
    uvec4 of_a = uvec4(0u), of_b = uvec4(0u);
    for (uint row = own_row(); row < row1; row += APART) {
        vec4 a, b;
        fetch_own(from, row, a, b);
        of_a = max(of_a, magnitudes(a));
        of_b = max(of_b, magnitudes(b));
    }
    clear_peaks();
    raise_peaks(lane() % COLUMNS * 8u, of_a, of_b);
    barrier();
    for (uint i = lane(); i < COLUMNS * 8u; i += gl_WorkGroupSize.x) {
        uint column = column0 * 8u + i;
        if (column < octets * 8u) AT_U32(peaks, peaks_at(chunk_) + uint64_t(column)) = peak[i];
    }
}

void join_peaks() {
    const uint EACH = COLUMNS * 8u;
    clear_peaks();
    for (uint i = lane(); i < max(EACH, gl_WorkGroupSize.x / EACH * EACH); i += gl_WorkGroupSize.x) {
        uint column = column0 * 8u + i % EACH, own = 0u;
        // Loads that nothing stands between are on their way together.
        if (column < octets * 8u)
            for (uint c = i / EACH; c < chunks; c += max(gl_WorkGroupSize.x / EACH, 1u))
                own = max(own, AT_U32(peaks, peaks_at(c) + uint64_t(column)));
        atomicMax(peak[i % EACH], own);
    }
    barrier();
}

vec4 scales(uint first) {
    return vec4(power_of_two(scale_exponent(peak[first])), power_of_two(scale_exponent(peak[first + 1u])),
        power_of_two(scale_exponent(peak[first + 2u])), power_of_two(scale_exponent(peak[first + 3u])));
}

void convert_columns(uint chunk_) {
    join_peaks();
    uint64_t from = matrix_at(matrix);
    uint all_rows = (rows + ROWS - 1u) / ROWS * ROWS;
    uint64_t to = uint64_t(matrix) * uint64_t(all_rows + 2u) * uint64_t(octets);
    if (own_column() < octets) {
        uint first = lane() % COLUMNS * 8u;
        vec4 scale_a = scales(first), scale_b = scales(first + 4u);
        for (uint row = own_row(); row < min(row1, all_rows); row += APART) {
            vec4 a, b;
            fetch_own(from, row, a, b);
            AT_V4(destination, to + uint64_t(row) * uint64_t(octets) + uint64_t(own_column())) =
                pack_octet(a * scale_a, b * scale_b);
        }
    }
    if (chunk_ != 0u) return;
    uint64_t factors = destination + (to + uint64_t(all_rows) * uint64_t(octets)) * 16ul;
    for (uint i = lane(); i < COLUMNS * 8u; i += gl_WorkGroupSize.x)
        if (column0 * 8u + i < octets * 8u)
            AT_F32(factors, uint64_t(column0 * 8u + i)) = power_of_two(-scale_exponent(peak[i]));
}

void all_columns() {
    uint blocks = (octets + COLUMNS - 1u) / COLUMNS;
    for (uint t = gl_WorkGroupID.x; t < count * chunks * blocks; t += gl_NumWorkGroups.x) {
        uint part = t / blocks, chunk_ = part % chunks;
        matrix = part / chunks;
        column0 = (t - part * blocks) * COLUMNS;
        row0 = chunk_ * chunk;
        row1 = row0 + chunk;
        if (MEASURE) measure_columns(chunk_);
        else convert_columns(chunk_);
    }
}

void main() {
    if (ALONG_K) convert_rows();
    else all_columns();
}
