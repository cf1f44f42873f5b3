// Stages of Stockham's autosorting transform (decimation in frequency) with radix RADIX: elements q + s
// (p + m t) become q + s (RADIX p + u), times the root p u of order n = RADIX m. A thread has BUTTERFLIES of
// them in `x`. What is done to a stage is a function whose argument `tag` tells the radices apart.
#define BUTTERFLIES (((SIZE / RADIX) * LINES + THREADS - 1u) / THREADS)
#define EACH_BUTTERFLY(j) [[unroll]] for (uint j = 0u; j < BUTTERFLIES; ++j)
#define EACH_POINT(t) [[unroll]] for (uint t = 0u; t < RADIX; ++t)
// Constants decide for all but the last of a thread's butterflies.
#define IS_BUTTERFLY(j) ((j + 1u) * THREADS <= SIZE / RADIX * LINES \
    || j * THREADS + gl_LocalInvocationID.x < SIZE / RADIX * LINES)

#if RADIX != 1 && RADIX != 2 && RADIX != 4 && RADIX != 8 && RADIX != 16
void dft(inout vec2 v[RADIX]) {
#if RADIX == 3
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(-0.49999999999999978, -0.86602540378443871),
        vec2(-0.50000000000000044, 0.86602540378443837));
#elif RADIX == 5
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.30901699437494745, -0.95105651629515353),
        vec2(-0.80901699437494734, -0.58778525229247325), vec2(-0.80901699437494756, 0.58778525229247303),
        vec2(0.30901699437494723, 0.95105651629515364));
#elif RADIX == 7
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.62348980185873359, -0.7818314824680298),
        vec2(-0.22252093395631434, -0.97492791218182362), vec2(-0.90096886790241903, -0.43388373911755823),
        vec2(-0.90096886790241915, 0.43388373911755801), vec2(-0.22252093395631459, 0.97492791218182362),
        vec2(0.62348980185873337, 0.78183148246802991));
#elif RADIX == 11
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.84125353283118121, -0.54064081745559756),
        vec2(0.41541501300188644, -0.90963199535451833), vec2(-0.142314838273285, -0.9898214418809328),
        vec2(-0.65486073394528499, -0.75574957435425827), vec2(-0.95949297361449737, -0.28173255684142967),
        vec2(-0.95949297361449748, 0.28173255684142939), vec2(-0.65486073394528521, 0.75574957435425816),
        vec2(-0.14231483827328523, 0.98982144188093268), vec2(0.41541501300188605, 0.90963199535451855),
        vec2(0.84125353283118121, 0.54064081745559744));
#elif RADIX == 13
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.88545602565320991, -0.46472317204376851),
        vec2(0.56806474673115592, -0.82298386589365635), vec2(0.12053668025532301, -0.99270887409805397),
        vec2(-0.35460488704253545, -0.93501624268541483), vec2(-0.74851074817110119, -0.66312265824079519),
        vec2(-0.97094181742605201, -0.23931566428755768), vec2(-0.97094181742605212, 0.23931566428755743),
        vec2(-0.7485107481711013, 0.66312265824079497), vec2(-0.3546048870425359, 0.93501624268541472),
        vec2(0.1205366802553232, 0.99270887409805397), vec2(0.56806474673115481, 0.82298386589365702),
        vec2(0.88545602565321002, 0.4647231720437684));
#endif
    // Elements t and RADIX - t meet conjugate roots: sums take the real parts,
    // differences the imaginary ones.
    vec2 sum[RADIX / 2 + 1], difference[RADIX / 2 + 1], y[RADIX];
    y[0] = v[0];
    [[unroll]] for (uint t = 1u; t <= RADIX / 2; ++t) {
        sum[t] = v[t] + v[RADIX - t];
        difference[t] = times_minus_i(v[t] - v[RADIX - t]);
        y[0] += sum[t];
    }
    [[unroll]] for (uint u = 1u; u <= RADIX / 2; ++u) {
        vec2 even = v[0], odd = vec2(0.0);
        [[unroll]] for (uint t = 1u; t <= RADIX / 2; ++t) {
            even += sum[t] * w[u * t % RADIX].x;
            odd -= difference[t] * w[u * t % RADIX].y;
        }
        y[u] = even + odd;
        y[RADIX - u] = even - odd;
    }
    v = y;
}
#endif

// The first stage's elements, from memory.
void load(float tag[RADIX]) {
    EACH_BUTTERFLY(j) {
        Butterfly own = butterfly_of(RADIX, j, LINES_FIRST_IN);
        if (!IS_BUTTERFLY(j) || own.line >= lines) continue;
        uint64_t line = source + line_offset[own.line] * IN_BYTES;
        uint number = uint(line_offset[LINES + own.line]) + line_rest[own.line] + own.at * rest;
        EACH_POINT(t) x[j * RADIX + t] = load_number(line, number + SIZE / RADIX * t * rest);
    }
}

// The last stage's elements, to memory. Those of a pass that is not the last are multiplied with
// roots: a power of the first one is the product of powers whose exponents are powers of two, so
// that their errors do not add up.
void store(float tag[RADIX]) {
    EACH_BUTTERFLY(j) {
        Butterfly own = butterfly_of(RADIX, j, LAST_LINES_FIRST);
        if (!IS_BUTTERFLY(j) || own.line >= lines) continue;
        uint within = line_rest[own.line];
        uint64_t line = destination + line_offset[2u * LINES + own.line] * OUT_BYTES;
        uint number = uint(line_offset[3u * LINES + own.line]) + within + own.at * out_stride;
        vec2 w[RADIX];
        if (rest > 1u) {
            w[0] = root(turn(within * own.at, pass_part));
            Powers powers = powers_of(turn(within * (SIZE / RADIX), pass_part), RADIX);
            [[unroll]] for (uint u = 1u; u < RADIX; ++u)
                w[u] = times(w[u & (u - 1u)], lowest_power(powers, u));
        }
        EACH_POINT(u) {
            vec2 z = x[j * RADIX + u] * scale;
            if (rest > 1u) z = times(z, w[u]);
            store_number(line, number + SIZE / RADIX * u * out_stride, z);
        }
    }
}

// The transforms of a stage, and its roots if it is not the last one.
void transform(float tag[RADIX], uint s, bool lines_first) {
    EACH_BUTTERFLY(j) {
        vec2 v[RADIX];
        EACH_POINT(t) v[t] = x[j * RADIX + t];
        dft(v);
        if (s * RADIX != SIZE) {
            // Roots of order n are every s-th of order SIZE.
            Powers powers = powers_of(
                turn(quotient(butterfly_of(RADIX, j, lines_first).at, s) * s, size_part), RADIX);
            vec2 w[RADIX];
            w[0] = vec2(1.0, 0.0);
            [[unroll]] for (uint u = 1u; u < RADIX; ++u) {
                vec2 lowest = lowest_power(powers, u);
                w[u] = (u & (u - 1u)) == 0u ? lowest : times(w[u & (u - 1u)], lowest);
                v[u] = times(v[u], w[u]);
            }
        }
        EACH_POINT(t) x[j * RADIX + t] = v[t];
    }
}

// A stage's results to shared memory, real or imaginary parts.
void put(float tag[RADIX], uint s, bool lines_first, bool imaginary) {
    EACH_BUTTERFLY(j) {
        Butterfly own = butterfly_of(RADIX, j, lines_first);
        if (!IS_BUTTERFLY(j)) continue;
        uint first = own.at + quotient(own.at, s) * s * (RADIX - 1u);
        EACH_POINT(u)
            part[own.line * PITCH + padded(first, s * u, s, RADIX)] =
                imaginary ? x[j * RADIX + u].y : x[j * RADIX + u].x;
    }
}

// The next stage's elements from shared memory.
void get(float tag[RADIX], bool lines_first, bool imaginary) {
    const uint apart = SIZE / RADIX;
    EACH_BUTTERFLY(j) {
        Butterfly own = butterfly_of(RADIX, j, lines_first);
        if (!IS_BUTTERFLY(j)) continue;
        EACH_POINT(t) {
            float value = part[own.line * PITCH + padded(own.at, apart * t, apart, 0u)];
            if (imaginary) x[j * RADIX + t].y = value;
            else x[j * RADIX + t].x = value;
        }
    }
}
#undef BUTTERFLIES
#undef EACH_BUTTERFLY
#undef EACH_POINT
#undef IS_BUTTERFLY
