// The gates of feed-forward blocks: silu, or gelu by tanh, whose 0.5 (1 + tanh u) is 1 / (1 + exp(-2 u)) with
// u = sqrt(2 / pi) (g + 0.044715 g^3).
#define GATE_OF(T) \
    T gate(T g, bool gelu) { \
        return g / (1.0 + exp(gelu ? g * (-1.5957691216 - 0.0713548163 * g * g) : -g)); \
    }
GATE_OF(float)
GATE_OF(vec4)
