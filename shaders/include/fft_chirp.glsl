// Bluestein's chirp. Needs common.glsl and fft_root.glsl.

// The upper half of a product.
uint64_t high_product(uint64_t a, uint64_t b) {
    uint64_t low = 0xfffffffful, al = a & low, ah = a >> 32, bl = b & low, bh = b >> 32;
    uint64_t middle = ah * bl + ((al * bl) >> 32);
    return ah * bh + (middle >> 32) + (((middle & low) + al * bh) >> 32);
}

// exp(-pi i j^2 / n), `part` being 2^64 / 2n.
vec2 chirp(uint j, uint n, uint64_t part) {
    uint64_t square = uint64_t(j) * uint64_t(j);
    // Whole turns: below three are left.
    if (n > 0xffffu) square -= high_product(square, part) * (2ul * uint64_t(n));
    return root(uint((square * part) >> 32));
}
