// The end of attention/matrix.comp: subgroups that have the same rows join their sums, results go to memory.

float joined_top(uint r) {
    float top = row_top[block() * FM + r];
    [[unroll]] for (uint s = 1u; s < TILE_SPLITS; ++s)
        top = max(top, row_top[(s * BLOCKS + block()) * FM + r]);
    return top;
}

// The slot of another subgroup's sums.
uint join_at(uint s) { return ((s - 1u) * BLOCKS + block()) * OUT_SIZE; }

// The first of the subgroups that have the same rows adds the others' totals and sums to its own.
void join() {
    coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> x;
    for (uint r = lane(); r < FM; r += SUBGROUP)
        row_fix[gl_SubgroupID * FM + r] = exp2(row_top[gl_SubgroupID * FM + r] - joined_top(r));
    rescale();
    if (tile_split() > 0u)
        coopMatStore(total, tile, join_at(tile_split()), OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    [[unroll]] for (uint s = 1u; s < TILE_SPLITS; ++s) {
        coopMatLoad(x, tile, join_at(s), OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        total = total + x;
    }
    barrier();
    if (tile_split() > 0u) {
        [[unroll]] for (uint j = 0u; j < VALUES; ++j)
            coopMatStore(sums[j], tile, join_at(tile_split()) + j * FN / 4u, OUT_PITCH,
                gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    [[unroll]] for (uint j = 0u; j < VALUES; ++j) {
        [[unroll]] for (uint s = 1u; s < TILE_SPLITS; ++s) {
            coopMatLoad(x, tile, join_at(s) + j * FN / 4u, OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            sums[j] = sums[j] + x;
        }
    }
    barrier();
}

void store_vector(uint64_t to, vec4 a, vec4 b) {
    if (FLOATS) {
        F4(to).v[0] = a;
        F4(to).v[1] = b;
    } else {
        V4(to).v[0] = uvec4(pack_halves(DTYPE, a.xy), pack_halves(DTYPE, a.zw), pack_halves(DTYPE, b.xy),
            pack_halves(DTYPE, b.zw));
    }
}

vec4 result_quad(uint from) {
    vec4 x = uintBitsToFloat(tile[from]);
    return SCALED ? x * factor.z : x;
}

// Results of the subgroup go to memory through shared memory from `slot` on.
void store_results(uint slot) {
    [[unroll]] for (uint j = 0u; j < VALUES; ++j)
        coopMatStore(sums[j], tile, slot + j * FN / 4u, OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    subgroup_sync();
    for (uint i = lane(); i < FM * V_VECTORS; i += SUBGROUP) {
        uint r = i / V_VECTORS, vector = i % V_VECTORS, row = block() * FM + r,
             from = slot + r * OUT_PITCH + vector * 2u;
        if (row < count)
            store_vector(out_from + uint64_t(row * out_stride + vector * (FLOATS ? 32u : 16u)),
                result_quad(from), result_quad(from + 1u));
    }
    subgroup_sync();
}

// Maximum and sum of the subgroup's rows, the first of which is `row0` in the memory of all of them.
void store_maxima(uint slot, uint64_t row0) {
    coopMatStore(total, tile, slot, OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    subgroup_sync();
    for (uint r = lane(); r < FM; r += SUBGROUP) {
        if (block() * FM + r < count)
            AT_F2(maxima, row0 + uint64_t(block() * FM + r)) = vec2(
                (joined_top(r) - RAISE) / LOG2E, uintBitsToFloat(tile[slot + r * OUT_PITCH].x));
    }
    subgroup_sync();
}

// Adds the share of the head's sink to the totals.
void add_sink() {
    coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> x;
    for (uint r = lane(); r < FM; r += SUBGROUP)
        row_fix[gl_SubgroupID * FM + r] = exp2(sink - (joined_top(r) - RAISE));
    subgroup_sync();
    coopMatLoad(x, row_fix, gl_SubgroupID * FM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    total = total + x;
}

void finish(uint64_t row0, bool known) {
    if (known) keep_tops();
    barrier();
    if (TILE_SPLITS > 1u) join();
    if (!SPLIT) {
        if (sinks != 0ul) add_sink();
        total = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(1.0) / total;
        [[unroll]] for (uint j = 0u; j < VALUES; ++j) sums[j] = sums[j] * total;
    }
    for (uint round = 0u; round < ROUNDS; ++round) {
        uint slot = block() / ROUNDS * OUT_SIZE;
        if (tile_split() == 0u && block() % ROUNDS == round) {
            if (SPLIT) store_maxima(slot, row0);
            store_results(slot);
        }
        barrier();
    }
}
