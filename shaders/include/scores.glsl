// How the logits of experts become scores, of which those with the largest are picked, and scores shares.
// Needs common.glsl, floats.glsl, bias.glsl, math.glsl and the constant DTYPE, that of the logits.

// Scores are sigmoids of logits, to which a number of each expert is added while experts are picked, and
// shares the picked ones', times a factor; without this bit scores are logits, and shares softmax over the
// picked ones alone. [host]
const uint SIGMOIDS = 1;
// Scores have the logits' dtype, else float32; shares are divided by their sum, before the factor. [host]
const uint ROUNDED_SCORES = 2, DIVIDED_SHARES = 4;

float score_of(uint scoring, float logit) {
    float score = m_sigmoid(logit);
    return (scoring & ROUNDED_SCORES) != 0u ? as_stored(DTYPE, score) : score;
}

// The number of an expert that is added to its score while experts are picked; `from` may be 0.
float preference(uint64_t from, uint expert) { return from == 0ul ? 0.0 : F32(from).v[expert]; }

// What a score, whose like have a sum, is a share of.
float share_of_score(uint scoring, float score, float sum, float eps, float factor) {
    return ((scoring & DIVIDED_SHARES) != 0u ? score / (sum + eps) : score) * factor;
}
