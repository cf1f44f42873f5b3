// What programs call for elements of a CLASS besides its functions: loads and stores, conversions, and the
// rounding of a result to its dtype. Needs the files beside this one.
//
// A value of a program is a T that may be more exact than its dtype. `rounded` makes it what it would be
// behind a store and a load; stores round by themselves, but for values that they are told to be rounded.

// What is loaded is of the type of `like`.
T load_one(const T like, const uint dtype, const uint64_t base, const int64_t at) {
    return LOAD(dtype, base, at);
}
void store_one(const uint dtype, const uint64_t base, const int64_t at, const T x) {
    STORE(dtype, base, at, x);
}

#if HAS_FOUR
// Four elements from element `at` on, a multiple of four, at an address that is aligned to as many.
T4 load_four(const T like, const uint dtype, const uint64_t base, const int64_t at) {
    return LOAD4(dtype, base, uint64_t(at) >> 2);
}
void store_four(const uint dtype, const uint64_t base, const int64_t at, const T4 x) {
    STORE4(dtype, base, uint64_t(at) >> 2, x);
}
#endif

#if CLASS == 0

// The bits of bfloat16, without branches.
uvec4 bf16_bits(const vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    uvec4 near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return mix(near, (bits >> 16) | 0x40u, greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

// Zero, which compilers do not know, so that they keep a word that is packed and unpacked.
uint nothing() { return uint(count >> 60); }

float rounded(const uint dtype, const float x) {
    if (dtype == FLOAT32) return x;
    if (dtype == FLOAT16) return f16_to_f32(stored_f16(x) ^ nothing());
    uint bits = floatBitsToUint(x);
    uint near = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    return uintBitsToFloat((bits & 0x7fffffffu) > 0x7f800000u ? (bits & 0xffff0000u) | 0x400000u : near);
}

// Whether a result may be wrong, because a number was none that the functions below take.
bool doubtful;

// Rounded to bfloat16, to nearest even, by floats, which take a fifth of the time that bits take (Veltkamp's
// split). What is larger than 2^111, infinity included, may become NaN, which `doubt` has to see in what
// comes of it. It is for results of arithmetic: denormals, which devices flush there, are flushed here.
vec4 rounded_near(const vec4 x) {
    precise vec4 far = x * 65537.0;
    precise vec4 rest = far - x;
    precise vec4 near = far - rest;
    return near;
}

// The same for sums, among which masks make large numbers: those stay what they are if they are of bfloat16.
vec4 rounded_sum(const vec4 x) {
    vec4 near = rounded_near(x);
    bvec4 large = not(lessThan(abs(x), vec4(2e33)));
    if (any(large)) {
        bvec4 more = notEqual(floatBitsToUint(x) & 0xffffu, uvec4(0u));
        doubtful = doubtful || (large.x && more.x) || (large.y && more.y) || (large.z && more.z)
            || (large.w && more.w);
        near = mix(near, x, large);
    }
    return near;
}

void trust() { doubtful = false; }
void doubt(const vec4 x) { doubtful = doubtful || any(isnan(x)); }
bool is_doubtful() { return doubtful; }

// Functions whose results are rounded so: what is rare is doubtful, and not behind a branch.
float unary_near(const uint op, const float x) {
    uint bits = floatBitsToUint(x);
    switch (op) {
    case ERF:
        doubtful = doubtful || isnan(x);
        return m_erf_near(x);
    case EXP: // results may be denormal
        doubtful = doubtful || (x < -87.0 && x > -104.0);
        return m_exp_bfloat16(x);
    case SIGMOID:
        doubtful = doubtful || (x < -87.0 && x > -104.0);
        return m_sigmoid_bfloat16(x);
    case TANH: // denormals stay what they are
        doubtful = doubtful || (bits << 1) - 1u < 0x00ffffffu;
        return m_tanh_bfloat16(x);
    default: // the square root, of zero and of numbers that m_sqrt_16 takes
        doubtful = doubtful || (bits - 0x00800000u >= 0x7F000000u && (bits << 1) != 0u);
        return x * inversesqrt(max(x, uintBitsToFloat(0x00800000u)));
    }
}
float binary_near(const uint op, const float a, const float b) {
    switch (op) {
    case DIVIDE:
        doubtful = doubtful || !(m_is_middling(a) || m_iszero(a)) || !m_is_middling(b);
        return a / b;
    case MAXIMUM:
        doubtful = doubtful || isnan(a) || isnan(b);
        return b < a ? a : b;
    default: // the minimum
        doubtful = doubtful || isnan(a) || isnan(b);
        return a < b ? a : b;
    }
}

// Rounded to float16.
vec4 rounded_halves(const vec4 x) {
    return vec4(unpackHalf2x16(stored_f16_pair(x.xy) ^ nothing()),
        unpackHalf2x16(stored_f16_pair(x.zw) ^ nothing()));
}

// The words of four 16-bit floats. Those that are `exact` already are only packed, if they are bfloat16.
uvec2 packed(const uint dtype, const uint exact, const vec4 x) {
    if (dtype == FLOAT16) return uvec2(stored_f16_pair(x.xy), stored_f16_pair(x.zw));
    uvec4 h = exact != 0u ? floatBitsToUint(x) >> 16 : bf16_bits(x);
    return h.xz | (h.yw << 16);
}

void store_floats(const uint dtype, const uint exact, const uint64_t base, const int64_t at, const vec4 x) {
    if (dtype == FLOAT32) AT_F4(base, at >> 2) = x;
    else AT_V2(base, at >> 2) = packed(dtype, exact, x);
}

// Eight 16-bit floats, aligned to as many.
mat2x4 load_eight(const uint dtype, const uint64_t base, const int64_t at) {
    uvec4 w = AT_V4(base, at >> 3);
    if (dtype == FLOAT16)
        return mat2x4(unpackHalf2x16(w.x), unpackHalf2x16(w.y), unpackHalf2x16(w.z), unpackHalf2x16(w.w));
    uvec4 low = w << 16, high = w & 0xffff0000u;
    return mat2x4(uintBitsToFloat(uvec4(low.x, high.x, low.y, high.y)),
        uintBitsToFloat(uvec4(low.z, high.z, low.w, high.w)));
}
void store_eight(const uint dtype, const uint exact, const uint64_t base, const int64_t at, const vec4 x,
    const vec4 y) {
    AT_V4(base, at >> 3) = uvec4(packed(dtype, exact, x), packed(dtype, exact, y));
}

#elif CLASS == 1
int rounded(const uint dtype, const int x) {
    return dtype == INT32 ? x : bitfieldExtract(x, 0, dtype == INT16 ? 16 : 8);
}
#elif CLASS == 2
uint rounded(const uint dtype, const uint x) {
    return dtype == UINT32 ? x : dtype == UINT16 ? x & 0xffffu : dtype == UINT8 ? x & 0xffu : uint(x != 0u);
}
#endif

T choose(const uint condition, const T a, const T b) { return condition != 0u ? a : b; }

float to_float(const T x) { return as_float(x); }
int to_int(const T x) { return AS_INT(x); }
uint to_uint(const T x) { return AS_UINT(x); }
uint to_bool(const T x) { return uint(truth(x)); }
int64_t to_long(const T x) { return int64_t(REAL_PART(x)); }
uint64_t to_ulong(const T x) { return AS_ULONG(x); }
vec2 to_complex(const T x) {
#if CLASS == 5
    return x;
#else
    return vec2(as_float(x), 0.0);
#endif
}

// Calls all of them: the compiler leaves out what nobody calls.
void mention(const T tag, const uint k, const uint64_t base, const int64_t at) {
    T x = load_one(tag, k, base, at);
    x = unary(k, k, x);
    x = binary(k, k, x, x);
    store_one(k, base, at, choose(uint(compare(k, x, x)), x, x));
    AT_F32(base, at) = to_float(x);
    AT_I32(base, at) = to_int(x);
    AT_U32(base, at) = to_uint(x) + to_bool(x);
    AT_I64(base, at) = to_long(x);
    AT_U64(base, at) = to_ulong(x);
    AT_F2(base, at) = to_complex(x);
#if HAS_FOUR
    store_one(k, base, at, rounded(k, x));
    store_four(k, base, at, load_four(x, k, base, at));
#endif
#if CLASS == 0
    mat2x4 all = load_eight(k, base, at);
    store_eight(k, k, base, at, all[0], all[1]);
    trust();
    vec4 four = rounded_halves(rounded_near(rounded_sum(all[1])));
    store_floats(k, k, base, at, four * binary_near(k, x, unary_near(k, x)));
    doubt(all[0]);
    AT_U32(base, at) = uint(is_doubtful());
#elif CLASS == 5
    AT_F32(base, at) = unary_real(k, x);
#endif
}
