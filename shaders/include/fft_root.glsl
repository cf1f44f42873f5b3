// Roots of unity by fractions of a turn in 2^-32: the fraction wraps around as the angle does, and k n-ths of
// a turn are k times 2^64 / n without its lower half, so that no order needs a division. What is left of an
// eighth of a turn is at most pi/4, for which the polynomials are those of Cephes' sinf and cosf (errors
// below one unit in the last place).

// exp(-2 pi i turn)
vec2 root(uint turn) {
    uint octant = turn >> 29, left = turn & 0x1fffffffu;
    float x = float((octant & 1u) != 0u ? 0x20000000u - left : left) * (0.785398163397448310 / 536870912.0);
    float z = x * x;
    float s = fma(x * z, fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1), x);
    float c = fma(z * z, fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2),
        fma(-0.5, z, 1.0));
    if (((octant + 1u) & 2u) != 0u) { float t = s; s = c; c = t; }  // octants 1, 2, 5, 6
    if (octant >= 2u && octant <= 5u) c = -c;
    return vec2(c, octant >= 4u ? s : -s);
}

// k n-ths of a turn, `part` being 2^64 / n (0 for n = 1) and k less than 2^32.
uint turn(uint k, uint64_t part) { return uint((uint64_t(k) * part) >> 32); }

vec2 times(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 z) { return vec2(z.x, -z.y); }
