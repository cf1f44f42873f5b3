// The register type T of a CLASS, its four neighbouring elements T4, and how both are loaded and stored. A
// source with several classes includes this once for each, after `#define CLASS`. Needs common.glsl.
//
// CLASS: 0 float (float32, float16, bfloat16), 1 int, 2 uint and bool, 3 int64, 4 uint64, 5 complex.
#undef T
#undef T4
#undef LOAD4
#undef STORE4
#undef LOAD
#undef STORE
#undef IS_SIGNED

#define HAS_FOUR (CLASS <= 2)
#define IS_SIGNED (CLASS == 1 || CLASS == 3)

#if CLASS == 0
#define T float
#define T4 vec4
#define LOAD4 load_float4
#define STORE4 store_float4
#define LOAD(dtype, base, i) load_float(dtype, base, i)
#define STORE(dtype, base, i, x) store_float(dtype, base, i, x)
#elif CLASS == 1
#define T int
#define T4 ivec4
#define LOAD4 load_int4
#define STORE4 store_int4
#define LOAD(dtype, base, i) load_int(dtype, base, i)
#define STORE(dtype, base, i, x) store_int(dtype, base, i, x)
#elif CLASS == 2
#define T uint
#define T4 uvec4
#define LOAD4 load_uint4
#define STORE4 store_uint4
#define LOAD(dtype, base, i) load_uint(dtype, base, i)
#define STORE(dtype, base, i, x) store_uint(dtype, base, i, x)
#elif CLASS == 3
#define T int64_t
#define LOAD(dtype, base, i) AT_I64(base, i)
#define STORE(dtype, base, i, x) AT_I64(base, i) = x
#elif CLASS == 4
#define T uint64_t
#define LOAD(dtype, base, i) AT_U64(base, i)
#define STORE(dtype, base, i, x) AT_U64(base, i) = x
#else
#define T vec2
#define LOAD(dtype, base, i) AT_F2(base, i)
#define STORE(dtype, base, i, x) AT_F2(base, i) = x
#endif
