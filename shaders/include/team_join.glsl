// Joins results of a team in shared memory. Needs reduction.glsl, rows.glsl, WORKGROUP, and
//   JOINED  results of each thread that are joined beside each other
//   parts   an A for each of them: that of thread t and result j at j * WORKGROUP + t

// Joins what the threads of each team have in `parts` into what its first lane has.
void join_parts(uint thread, uint lane) {
    // Eight at a time: fewer barriers.
    [[dont_unroll]] for (uint left = TEAM; left > 1u;) {
        uint all = left;
        left = max(left / 8u, 1u);
        barrier();
        if (lane < left) [[unroll]] for (uint j = 0u; j < JOINED; ++j) {
            uint own = j * WORKGROUP + thread;
            A a = parts[own];
            [[dont_unroll]] for (uint i = left; i < all; i += left)
                a = combine(a, parts[own + i * LANE_STRIDE]);
            parts[own] = a;
        }
    }
}
