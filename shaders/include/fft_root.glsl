// Roots of unity, accurate for any order: the angle is reduced to an eighth of a turn in integers, and what is left is
// at most pi/4, for which the polynomials are those of Cephes' sinf and cosf (errors below one unit in the last place).

// exp(-2 pi i k / n) for k < n.
vec2 root(uint64_t k, uint64_t n) {
    uint octant;
    float x;
    if (n < 1ul << 29) {
        uint eighths = uint(k) * 8u, order = uint(n);
        octant = eighths / order;
        uint left = eighths - octant * order;
        x = float((octant & 1u) != 0u ? order - left : left) / float(order);
    } else {
        uint64_t eighths = k * 8ul;
        octant = uint(eighths / n);
        uint64_t left = eighths - uint64_t(octant) * n;
        x = float((octant & 1u) != 0u ? n - left : left) / float(n);
    }
    x *= 0.785398163397448310;
    float z = x * x;
    float s = fma(x * z, fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1), x);
    float c = fma(z * z, fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2), fma(-0.5, z, 1.0));
    if (((octant + 1u) & 2u) != 0u) { float t = s; s = c; c = t; }  // octants 1, 2, 5, 6
    if (octant >= 2u && octant <= 5u) c = -c;
    return vec2(c, octant >= 4u ? s : -s);
}

vec2 times(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 z) { return vec2(z.x, -z.y); }
