// What elementwise kernels share: the register type T of a CLASS, its loads and
// stores, and the modes of a walk.
//
// CLASS: 0 float (float32, float16, bfloat16), 1 int, 2 uint and bool, 3 int64, 4 uint64, 5 complex.

// Dense by elements; dense by four elements; strided. [host]
const uint DENSE = 0, DENSE4 = 1, STRIDED = 2;

#define HAS_FOUR (CLASS <= 2)

#if CLASS == 0
#define T float
#define T4 vec4
#define LOAD4 load_float4
#define STORE4 store_float4
T load_element(uint dtype, uint64_t base, int64_t i) { return load_float(dtype, base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { store_float(dtype, base, i, x); }
#elif CLASS == 1
#define T int
#define T4 ivec4
#define LOAD4 load_int4
#define STORE4 store_int4
T load_element(uint dtype, uint64_t base, int64_t i) { return load_int(dtype, base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { store_int(dtype, base, i, x); }
#elif CLASS == 2
#define T uint
#define T4 uvec4
#define LOAD4 load_uint4
#define STORE4 store_uint4
T load_element(uint dtype, uint64_t base, int64_t i) { return load_uint(dtype, base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { store_uint(dtype, base, i, x); }
#elif CLASS == 3
#define T int64_t
T load_element(uint dtype, uint64_t base, int64_t i) { return AT_I64(base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { AT_I64(base, i) = x; }
#elif CLASS == 4
#define T uint64_t
T load_element(uint dtype, uint64_t base, int64_t i) { return AT_U64(base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { AT_U64(base, i) = x; }
#else
#define T vec2
T load_element(uint dtype, uint64_t base, int64_t i) { return AT_F2(base, i); }
void store_element(uint dtype, uint64_t base, int64_t i, T x) { AT_F2(base, i) = x; }
#endif

// The elements behind the last whole quad, one per thread of the first workgroup.
#define TAIL_LOOP(i, quads, n)                                                                               \
    for (int64_t i = int64_t((quads) * 4ul + uint64_t(gl_GlobalInvocationID.x)); uint64_t(i) < (n);          \
        i += int64_t(n))
