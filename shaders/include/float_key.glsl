// Unsigned numbers whose order is that of floats. NaN is the largest, all ones; zeros of both signs are one
// key.

// The key of a float of which `sign` is the sign bit and `inf` the bits of infinity.
uint float_key(uint raw, uint sign, uint inf) {
    uint magnitude = raw & (sign - 1u);
    if (magnitude > inf) return sign | (sign - 1u);
    if (magnitude == 0u) return sign;
    return (raw & sign) != 0u ? (sign - 1u) - magnitude : sign | magnitude;
}
