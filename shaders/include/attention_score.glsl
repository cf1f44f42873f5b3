// Scores under masks, in powers of two, for kernels of attention. Before it comes what it reads: OUT_DTYPE,
// MASK, `mask` with its `mask_stride` from key to key, and `scale`.

const float LOWEST = -3.402823466e38, LOG2E = 1.4426950408889634;

// A masked score. Of a key that is hidden it is the lowest number, so that a row that sees nothing averages,
// as in MLX; of one past the end, or one to which -inf is added, it is -inf.
float masked_score(float x, uint key, uint key1, int limit, int64_t mask_row) {
    if (key >= key1) return uintBitsToFloat(0xff800000u);
    if (MASK == CAUSAL) return int(key) > limit ? LOWEST : x * (scale * LOG2E);
    if (MASK < KEEP) return x * (scale * LOG2E);
    int64_t from = mask_row + int64_t(key) * mask_stride;
    if (MASK == KEEP) return uint(AT_U8(mask, from)) == 0u ? LOWEST : x * (scale * LOG2E);
    float y = fma(x, scale, fetch(OUT_DTYPE, at(OUT_DTYPE, mask, from)));
    // Numbers as low as the dtype has them must not become -inf.
    return y * LOG2E < LOWEST && y >= LOWEST ? LOWEST : y * LOG2E;
}
