// What the kernels of softmax and its logarithm share. Needs common.glsl, math.glsl, rows.glsl, and the
// specialization constants FROM and QUADS (rows are neighbours in memory, and four elements an aligned word).
//
// A pair (m, s) stands for elements with the maximum m whose exponentials of the
// distance to it have the sum s.

#define MINUS_INF uintBitsToFloat(0xff800000u)
#define NOTHING vec2(MINUS_INF, 0.0)

// NaN if either is: a NaN replaces anything, and no comparison with it is true.
float max_nan(float a, float b) { return b > a || m_isnan(b) ? b : a; }

// exp(x) for x <= 0 or NaN, about 1 ULP: the two steps of ln 2 keep the rest exact enough, denormal results
// included. m_exp is half an ULP better and three times as long, which shows in kernels that otherwise wait
// for memory; so do conversions between floats and integers, which is why 1.5 * 2^23 rounds.
float exp_fast(float x) {
    precise float rounded = fma(x, M_LOG2E_H, 12582912.0);
    precise float n = rounded - 12582912.0;
    float r = fma(n, -M_LN2_L, fma(n, -M_LN2_H, x));
    float y = 1.0 + (r + m_exp_tail(r, 0.0));
    // 2^(n + 24), n being the lowest bits.
    float power = uintBitsToFloat((floatBitsToUint(rounded) + 151u) << 23);
    return x < -104.0 ? 0.0 : y * power * 5.9604644775390625e-8;
}

// exp(x - m); 1 where both are equal, also when they are infinite.
float factor(float x, float m) { return x == m ? 1.0 : m_exp(x - m); }

vec2 join(vec2 a, vec2 b) {
    float m = max_nan(a.x, b.x);
    return vec2(m, a.y * factor(a.x, m) + b.y * factor(b.x, m));
}

vec2 push_four(vec2 p, vec4 x) {
    float m = max_nan(max_nan(max_nan(p.x, x.x), max_nan(x.y, x.z)), x.w);
    float s = (factor(x.x, m) + factor(x.y, m)) + (factor(x.z, m) + factor(x.w, m));
    return vec2(m, p.y * factor(p.x, m) + s);
}

shared vec2 team_pairs[gl_WorkGroupSize.x];

// Joins the pairs of a team; all its lanes get the result. All threads of the workgroup must call it.
vec2 join_team(vec2 own, uint thread, uint lane) {
    if (TEAM == 1u) return own;
    team_pairs[thread] = own;
    [[dont_unroll]] for (uint left = TEAM / 2u; left > 0u; left /= 2u) {
        barrier();
        if (lane < left) team_pairs[thread] = join(team_pairs[thread], team_pairs[thread + left]);
    }
    barrier();
    vec2 result = team_pairs[thread - lane];
    barrier();
    return result;
}

// Calls of a lane for its part of the elements from..to of a row: four at a time
// where QUADS, then single ones.
#define ROW_LOOP(i, from, to, lane, four, one) \
    { \
        uint64_t whole_ = QUADS == 1u ? (from) + (((to) - (from)) & ~3ul) : (from); \
        for (uint64_t i = (from) + 4u * (lane); i < whole_; i += 4u * TEAM) { four; } \
        for (uint64_t i = whole_ + (lane); i < (to); i += TEAM) { one; } \
    }
