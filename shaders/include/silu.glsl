// The gate of a feed-forward block.
float silu(float g) { return g / (1.0 + exp(-g)); }
