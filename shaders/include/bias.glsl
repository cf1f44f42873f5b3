// Biases of products: what is added to each row of a result. Needs common.glsl and floats.glsl.

// A float as it is in memory.
float as_stored(uint dtype, float x) {
    if (dtype == FLOAT32) return x;
    return of_bits(dtype, dtype == FLOAT16 ? f32_to_f16(x) : f32_to_bf16(x));
}

// The sum of a product and a bias, of which the bits are here, as two operations would store it, or one.
float with_bias(uint dtype, float y, uint bias, bool at_once) {
    if (!at_once) y = as_stored(dtype, y);
    return as_stored(dtype, y + of_bits(dtype, bias));
}
