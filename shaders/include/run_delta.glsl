// A token's convolution with those before it, and its step of the gated delta rule (delta/delta.comp), in
// runs. Included by interpreter.comp.

// Waits for word i from `from` on, of which an early look is here; its value.
float arrived(uint64_t from, uint i, uint early) {
    uint spins = 0u;
    while (stale(early) && !gives_up(spins)) early = Tagged(from).v[i];
    return half_pair(DTYPE, early & 0xffffu).x;
}

void begin_step(uvec4 next_row) {
    barrier(); // all have finished the step before
    if (thread() < ROW_QUADS) rows[(row ^ ROW_QUADS) + thread()] = next_row;
}

void end_step() {
    if (lost) stopped = 1u;
    barrier();
}

// ---- the convolution ----

// Workgroups take neighbouring channels.
void convolve(uvec4 next_row) {
    uvec4 head = quad(HEAD), sources = quad(X_AND_BEFORE), weights = quad(WEIGHT_AND_BIAS);
    uint64_t x = first_address(sources), before = second_address(sources), weight = first_address(weights),
             bias = second_address(weights), result = first_address(quad(CONVOLVED)),
             marked_ = second_address(quad(CONVOLVED)), window = first_address(quad(WINDOW));
    uint channels = head.y, taps = head.z, silu = head.w;
    uint each = (channels + gl_NumWorkGroups.x - 1u) / gl_NumWorkGroups.x, first = gl_WorkGroupID.x * each;
    begin_step(next_row);
    for (uint i = first + thread(); i < min(first + each, channels); i += gl_WorkGroupSize.x) {
        uint early = Tagged(x).v[i];
        float sum = 0.0;
        for (uint tap = 0u; tap + 1u < taps; ++tap) {
            uint bits = uint(U16(before).v[tap * channels + i]);
            U16(window).v[tap * channels + i] = uint16_t(bits);
            sum = fma(half_pair(DTYPE, bits).x, fetch(DTYPE, weight + uint64_t(i * taps + tap) * 2ul), sum);
        }
        float last = fetch(DTYPE, weight + uint64_t(i * taps + taps - 1u) * 2ul),
              added = bias == 0ul ? 0.0 : fetch(DTYPE, bias + uint64_t(i) * 2ul), e = arrived(x, i, early);
        U16(window).v[(taps - 1u) * channels + i] = uint16_t(bits_of(e));
        float y = as_stored(DTYPE, fma(e, last, sum));
        if (bias != 0ul) y = as_stored(DTYPE, y + added);
        if (silu != 0u) y *= as_stored(DTYPE, m_sigmoid(y));
        uint bits = bits_of(y);
        Tagged(marked_).v[i] = tagged(bits);
        U16(result).v[i] = uint16_t(bits);
    }
    end_step();
}

// ---- the delta rule ----

// Lanes that share a row of a state, at most, and quads of it that a lane has. [host]
const uint DELTA_TEAM = 16, DELTA_QUADS = 4;
const uint STATE_TEAM = SUBGROUP < DELTA_TEAM ? SUBGROUP : DELTA_TEAM;
const uint STATE_QUADS = DELTA_KEYS / (4u * STATE_TEAM), STATE_ROWS = gl_WorkGroupSize.x / STATE_TEAM;
// Where queries, keys and gates lie in the memory of staged rows.
const uint STAGED_KEYS = DELTA_KEYS / 4u, STAGED_GATES = DELTA_KEYS / 2u;

float team_sum_of(float x) {
    [[unroll]] for (uint s = 1u; s < STATE_TEAM; s *= 2u) x += subgroupShuffleXor(x, s);
    return x;
}

vec4 stored4(vec4 x) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) x[e] = as_stored(DTYPE, x[e]);
    return x;
}

// RMS norm of the row that a team has quads of at `from` in shared memory, times a number, each rounded as if
// it were stored.
void take_normalized(uint from, uint lane, float eps, float scale_, out vec4 y[DELTA_QUADS]) {
    float squares = 0.0;
    [[unroll]] for (uint i = 0u; i < STATE_QUADS; ++i) {
        y[i] = uintBitsToFloat(staged[from + i * STATE_TEAM + lane]);
        squares += dot(y[i], y[i]);
    }
    float factor = norm_factor(team_sum_of(squares), DELTA_KEYS, eps);
    [[unroll]] for (uint i = 0u; i < STATE_QUADS; ++i) y[i] = stored4(stored4(y[i] * factor) * scale_);
}

// Brings a head's query and key, and its decay and rate, to shared memory.
void stage_delta(uint head, uint group) {
    uvec4 both = quad(QUERY_AND_KEY), gates = quad(DECAY_AND_SHIFT);
    uint64_t a = second_address(quad(VALUE_AND_A)), b = first_address(quad(B_AND_Z));
    for (uint i = thread(); i < 2u * DELTA_KEYS; i += gl_WorkGroupSize.x) {
        uint64_t from = i < DELTA_KEYS ? first_address(both) : second_address(both);
        uint at_ = head / group * DELTA_KEYS + i % DELTA_KEYS;
        staged[i / 4u][i % 4u] = floatBitsToUint(arrived(from, at_, Tagged(from).v[at_]));
    }
    if (thread() == gl_WorkGroupSize.x - 1u) {
        float decay = AT_F32(first_address(gates), head),
              shift = fetch(DTYPE, second_address(gates) + uint64_t(head) * 2ul);
        float x = as_stored(DTYPE, arrived(a, head, Tagged(a).v[head]) + shift);
        float softplus = as_stored(DTYPE, m_logaddexp(x, 0.0));
        float rate = as_stored(DTYPE, m_sigmoid(arrived(b, head, Tagged(b).v[head])));
        staged[STAGED_GATES].xy = floatBitsToUint(vec2(m_exp(decay * softplus), rate));
    }
}

// Some rows of a head's state, and their outputs.
void take_state(uint head, uint part) {
    uvec4 states = quad(STATES), scales = quad(OUTPUTS_AND_SCALES);
    uint lane = thread() % STATE_TEAM,
         value = head * DELTA_VALUES + part * STATE_ROWS + thread() / STATE_TEAM;
    uint64_t row_ = uint64_t(value) * (4ul * DELTA_KEYS), v = first_address(quad(VALUE_AND_A));
    // The state is on its way while the row is waited for.
    vec4 state[DELTA_QUADS], query[DELTA_QUADS], key_[DELTA_QUADS];
    [[unroll]] for (uint i = 0u; i < STATE_QUADS; ++i)
        state[i] = AT_F4(first_address(states) + row_, i * STATE_TEAM + lane);
    uint early = Tagged(v).v[value];
    stage_delta(head, quad(HEAD).z);
    float wanted = arrived(v, value, early);
    barrier();
    float eps = uintBitsToFloat(quad(DELTA_EPS).x);
    take_normalized(0u, lane, eps, uintBitsToFloat(scales.z), query);
    take_normalized(STAGED_KEYS, lane, eps, uintBitsToFloat(scales.w), key_);
    vec2 gates = uintBitsToFloat(staged[STAGED_GATES].xy);
    float held = 0.0, read = 0.0;
    [[unroll]] for (uint i = 0u; i < STATE_QUADS; ++i) {
        state[i] *= gates.x;
        held = dot_add(state[i], key_[i], held);
    }
    float change = (wanted - team_sum_of(held)) * gates.y;
    [[unroll]] for (uint i = 0u; i < STATE_QUADS; ++i) {
        state[i] += change * key_[i];
        read = dot_add(state[i], query[i], read);
        AT_F4(second_address(states) + row_, i * STATE_TEAM + lane) = state[i];
    }
    uint bits = bits_of(team_sum_of(read));
    if (lane == 0u) {
        Tagged(first_address(scales)).v[value] = tagged(bits);
        U16(second_address(quad(END_WEIGHT_AND_Y))).v[value] = uint16_t(bits);
    }
}

// Norm and gate of a head's outputs.
void finish_head(uint head) {
    uvec4 to = quad(GATED_RESULT);
    uint64_t outputs = first_address(quad(OUTPUTS_AND_SCALES)), z = second_address(quad(B_AND_Z)),
             weight = first_address(quad(END_WEIGHT_AND_Y));
    uint i = thread(), value = head * DELTA_VALUES + min(i, DELTA_VALUES - 1u);
    bool real = i < DELTA_VALUES;
    uint early_gate = Tagged(z).v[value], early = Tagged(outputs).v[value];
    float factor = fetch(DTYPE, weight + uint64_t(min(i, DELTA_VALUES - 1u)) * 2ul);
    float gate_ = arrived(z, value, early_gate), y = arrived(outputs, value, early);
    float squares = subgroupAdd(real ? y * y : 0.0);
    if (gl_SubgroupInvocationID == 0u) split_sums[gl_SubgroupID] = squares;
    barrier();
    squares = 0.0;
    [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s) squares += split_sums[s];
    if (real) {
        float x = as_stored(
            DTYPE, y * norm_factor(squares, DELTA_VALUES, uintBitsToFloat(quad(DELTA_EPS).y)) * factor);
        uint bits = bits_of(gate_ * m_sigmoid(gate_) * x);
        Tagged(second_address(to)).v[value] = tagged(bits);
        U16(first_address(to)).v[value] = uint16_t(bits);
    }
    barrier();
}

void step_delta(uvec4 next_row) {
    uint heads = quad(HEAD).y, parts_of_head = quad(HEAD).w;
    begin_step(next_row);
    for (uint item = gl_WorkGroupID.x; item < heads * parts_of_head; item += gl_NumWorkGroups.x) {
        take_state(item / parts_of_head, item % parts_of_head);
        barrier();
    }
    for (uint head = gl_WorkGroupID.x; head < heads; head += gl_NumWorkGroups.x) finish_head(head);
    end_step();
}
