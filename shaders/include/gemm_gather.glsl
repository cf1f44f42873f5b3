// gemm.glsl with the batches of a product by lists instead of strides. `walk` is the address of the lists.
// GATHER 1: indices of matrices (picks.glsl). GATHER 2: segments of k, uint32 pairs.
#define batch_at strided_batch
#define split_range whole_range
#include "gemm.glsl"
#undef batch_at
#undef split_range

uvec2 segment;

Batch batch_at(uint batch) {
    Batch at_;
#if GATHER == 2
    uvec2 ends = uvec2(AT_U32(walk, uint64_t(batch) * 2ul), AT_U32(walk, uint64_t(batch) * 2ul + 1ul));
    segment.y = min(ends.y, k);
    segment.x = min(ends.x, segment.y);
    at_.a = a;
    at_.b = 0ul;
#else
    segment = uvec2(0u, k);
    at_.a = at(DTYPE, a, picked(walk, 0u, batch));
    at_.b = uint64_t(picked(walk, 1u, batch));
#endif
    at_.c = 0ul;
    at_.result = at(OUT_DTYPE, result, int64_t(uint64_t(batch) * uint64_t(m) * uint64_t(n)));
    at_.m = m;
    at_.n = n;
    return at_;
}

uvec2 split_range(uint split, uint depth) { return segment; }
