#version 460
// The convolution of one token with those before it, of channels that do not mix: a thread has a channel of a
// sequence. It stores the window, of which the last rows are the next token's `before`.
// Constants: 1 dtype, 2 taps of a window, 3 flags.
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint TAPS = 4;
layout(constant_id = 3) const uint FLAGS = 0;
// Flags: a bias is added; the result is x sigmoid(x). Both round as if each were stored. [host]
const uint BIAS_FLAG = 1, SILU_FLAG = 2;
const bool BIAS = (FLAGS & BIAS_FLAG) != 0u;
const bool SILU = (FLAGS & SILU_FLAG) != 0u;

layout(push_constant, scalar) uniform Push {
    uint64_t before, x, weight, bias, result, window;
    uint sequences, channels;
    uint before_stride; // elements from a sequence's earlier tokens to the next one's
};

void main() {
    GRID_LOOP(i, uint64_t(sequences) * channels) {
        uint sequence = uint(i / channels), channel = uint(i % channels);
        uint64_t row = uint64_t(sequence) * before_stride + channel;
        uint64_t to = uint64_t(sequence) * (TAPS * channels) + channel;
        float sum = 0.0;
        [[unroll]] for (uint tap = 0u; tap < TAPS; ++tap) {
            float e = tap + 1u < TAPS ? load_float(DTYPE, before, int64_t(row + uint64_t(tap) * channels))
                                      : load_float(DTYPE, x, int64_t(i));
            store_float(DTYPE, window, int64_t(to + uint64_t(tap) * channels), e);
            sum = fma(e, load_float(DTYPE, weight, int64_t(uint64_t(channel) * TAPS + tap)), sum);
        }
        float y = as_stored(DTYPE, sum);
        if (BIAS) y = as_stored(DTYPE, y + load_float(DTYPE, bias, int64_t(channel)));
        if (SILU) y *= as_stored(DTYPE, m_sigmoid(y));
        store_float(DTYPE, result, int64_t(i), y);
    }
}
