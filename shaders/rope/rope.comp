#version 460
// Rotary embedding. A thread rotates one pair of features of one position, for HEADS heads at a time, so that
// sine and cosine are found once; features past `dims` are copied.
// Constants: 1 dtype, 2 flags (bit 0: neighbouring pairs, bit 1: frequencies are given,
// as divisors), 3 heads at a time.
#include "common.glsl"
#include "floats.glsl"
#include "math.glsl"
#include "rotation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint HEADS = 4;
// Flags. [host]
const uint TRADITIONAL_FLAG = 1, DIVISORS_FLAG = 2;
const bool TRADITIONAL = (FLAGS & TRADITIONAL_FLAG) != 0u;
const bool DIVISORS = (FLAGS & DIVISORS_FLAG) != 0u;

layout(push_constant, scalar) uniform Push {
    // Frequencies: pairs (high, low) of the float64 ones, or divisors.
    uint64_t x, offset, frequencies, result;
    int64_t batch_stride, head_stride, row_stride, feature_stride, frequency_stride;
    uint batches, heads, rows, features, dims;
    uint offset_stride; // 0: one offset for all batches
    float scale;
};

void rotate(uint batch, uint head, uint row, uint pair) {
    vec2 position = m_two_prod(float(int(uint(I32(offset).v[batch * offset_stride]) + row)), scale);
    vec2 r = rotation(position, pair, frequencies, frequency_stride, DIVISORS);
    uint first = TRADITIONAL ? 2u * pair : pair, second = TRADITIONAL ? first + 1u : pair + dims / 2u;
    for (uint h = head; h < min(head + HEADS, heads); ++h) {
        int64_t from = int64_t(batch) * batch_stride + int64_t(h) * head_stride + int64_t(row) * row_stride;
        int64_t to = ((int64_t(batch) * int64_t(heads) + int64_t(h)) * int64_t(rows) + int64_t(row))
            * int64_t(features);
        float a = load_float(DTYPE, x, from + int64_t(first) * feature_stride);
        float b = load_float(DTYPE, x, from + int64_t(second) * feature_stride);
        store_float(DTYPE, result, to + int64_t(first), a * r.y - b * r.x);
        store_float(DTYPE, result, to + int64_t(second), a * r.x + b * r.y);
    }
}

void copy(uint batch, uint head, uint row, uint feature) {
    for (uint h = head; h < min(head + HEADS, heads); ++h) {
        int64_t from = int64_t(batch) * batch_stride + int64_t(h) * head_stride + int64_t(row) * row_stride;
        int64_t to = ((int64_t(batch) * int64_t(heads) + int64_t(h)) * int64_t(rows) + int64_t(row))
            * int64_t(features);
        store_float(DTYPE, result, to + int64_t(feature),
            load_float(DTYPE, x, from + int64_t(feature) * feature_stride));
    }
}

void main() {
    uint slots = dims / 2u + (features - dims); // pairs, then features to copy
    uint blocks = (heads + HEADS - 1u) / HEADS;
    uint64_t all = uint64_t(batches) * uint64_t(blocks) * uint64_t(rows) * uint64_t(slots);
    GRID_LOOP(i, all) {
        uint slot, row, block, batch;
        if (all <= 0xfffffffful) {
            uint left = uint(i);
            slot = left % slots; left /= slots;
            row = left % rows; left /= rows;
            block = left % blocks; batch = left / blocks;
        } else {
            slot = uint(i % uint64_t(slots));
            uint64_t left = i / uint64_t(slots);
            row = uint(left % uint64_t(rows)); left /= uint64_t(rows);
            block = uint(left % uint64_t(blocks)); batch = uint(left / uint64_t(blocks));
        }
        if (slot < dims / 2u) rotate(batch, block * HEADS, row, slot);
        else copy(batch, block * HEADS, row, slot + dims / 2u);
    }
}
