// What elementwise kernels share: the register type T of a CLASS, its loads and stores.
#include "class.glsl"

T load_element(uint dtype, uint64_t base, int64_t i) { return LOAD(dtype, base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { STORE(dtype, base, i, x); }

// The elements behind the last whole quad, one per thread of the first workgroup.
#define TAIL_LOOP(i, quads, n)                                                                               \
    for (int64_t i = int64_t((quads) * 4ul + uint64_t(gl_GlobalInvocationID.x)); uint64_t(i) < (n);          \
        i += int64_t(n))
