// One stage of Stockham's autosorting transform (decimation in frequency) with radix RADIX, over all lines in shared
// memory: elements q + s (p + m t) become q + s (RADIX p + u), times the root p u of order n = RADIX m.
#if RADIX != 2 && RADIX != 4 && RADIX != 8
void dft(inout vec2 x[RADIX]) {
#if RADIX == 3
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(-0.49999999999999978, -0.86602540378443871), vec2(-0.50000000000000044, 0.86602540378443837));
#elif RADIX == 5
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.30901699437494745, -0.95105651629515353), vec2(-0.80901699437494734, -0.58778525229247325), vec2(-0.80901699437494756, 0.58778525229247303), vec2(0.30901699437494723, 0.95105651629515364));
#elif RADIX == 7
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.62348980185873359, -0.7818314824680298), vec2(-0.22252093395631434, -0.97492791218182362), vec2(-0.90096886790241903, -0.43388373911755823), vec2(-0.90096886790241915, 0.43388373911755801), vec2(-0.22252093395631459, 0.97492791218182362), vec2(0.62348980185873337, 0.78183148246802991));
#elif RADIX == 11
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.84125353283118121, -0.54064081745559756), vec2(0.41541501300188644, -0.90963199535451833), vec2(-0.142314838273285, -0.9898214418809328), vec2(-0.65486073394528499, -0.75574957435425827), vec2(-0.95949297361449737, -0.28173255684142967), vec2(-0.95949297361449748, 0.28173255684142939), vec2(-0.65486073394528521, 0.75574957435425816), vec2(-0.14231483827328523, 0.98982144188093268), vec2(0.41541501300188605, 0.90963199535451855), vec2(0.84125353283118121, 0.54064081745559744));
#elif RADIX == 13
    const vec2 w[RADIX] = vec2[](vec2(1, -0), vec2(0.88545602565320991, -0.46472317204376851), vec2(0.56806474673115592, -0.82298386589365635), vec2(0.12053668025532301, -0.99270887409805397), vec2(-0.35460488704253545, -0.93501624268541483), vec2(-0.74851074817110119, -0.66312265824079519), vec2(-0.97094181742605201, -0.23931566428755768), vec2(-0.97094181742605212, 0.23931566428755743), vec2(-0.7485107481711013, 0.66312265824079497), vec2(-0.3546048870425359, 0.93501624268541472), vec2(0.1205366802553232, 0.99270887409805397), vec2(0.56806474673115481, 0.82298386589365702), vec2(0.88545602565321002, 0.4647231720437684));
#endif
    vec2 y[RADIX];
    [[unroll]] for (uint u = 0u; u < RADIX; ++u) {
        y[u] = x[0];
        [[unroll]] for (uint t = 1u; t < RADIX; ++t) y[u] += times(x[t], w[u * t % RADIX]);
    }
    x = y;
}
#endif

void stage(vec2 x[RADIX], uint from, uint n, uint s) {
    uint m = n / RADIX, each = SIZE / RADIX;
    for (uint i = gl_LocalInvocationID.x; i < each * LINES; i += gl_WorkGroupSize.x) {
        uint line = i / each, butterfly = i - line * each, p = butterfly / s, q = butterfly - p * s;
        uint base = line * SIZE + q;
        [[unroll]] for (uint t = 0u; t < RADIX; ++t) x[t] = data[from + base + s * (p + m * t)];
        dft(x);
        vec2 w[RADIX];
        w[1] = root(uint64_t(p), uint64_t(n));
        [[unroll]] for (uint u = 2u; u < RADIX; ++u) w[u] = times(w[u / 2u], w[u - u / 2u]);
        uint to = (ELEMENTS - from) + base + s * RADIX * p;
        data[to] = x[0];
        [[unroll]] for (uint u = 1u; u < RADIX; ++u) data[to + s * u] = times(x[u], w[u]);
    }
}
