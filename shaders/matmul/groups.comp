#version 460
// Tiles of rows for groups.glsl: a tile begins where a row picks another matrix than the one before it, and
// every `height` rows from there. One workgroup, whose threads take neighbouring parts of the rows.
#include "common.glsl"
layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push {
    uint64_t picks; // uint32, one for each row
    uint64_t tiles; // how many, each one's first row, the number of rows
    uint rows, height;
};

shared uint values[gl_WorkGroupSize.x];

// The sum, or the largest, of what the threads before this one have, and of all for the one behind the last.
uint before(uint mine, bool largest, out uint all) {
    uint i = gl_LocalInvocationID.x;
    values[i] = mine;
    for (uint step_ = 1u; step_ < gl_WorkGroupSize.x; step_ *= 2u) {
        barrier();
        uint other = i >= step_ ? values[i - step_] : 0u;
        barrier();
        values[i] = largest ? max(values[i], other) : values[i] + other;
    }
    barrier();
    all = values[gl_WorkGroupSize.x - 1u];
    uint r = i == 0u ? 0u : values[i - 1u];
    barrier();
    return r;
}

bool begins_group(uint row) { return row == 0u || AT_U32(picks, row) != AT_U32(picks, row - 1u); }

void main() {
    uint each = (rows + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint first = min(gl_LocalInvocationID.x * each, rows), end = min(first + each, rows);
    uint group = 0u, count = 0u, all, unused;
    for (uint row = first; row < end; ++row)
        if (begins_group(row)) group = row;
    uint from = before(group, true, unused);
    group = from;
    for (uint row = first; row < end; ++row) {
        if (begins_group(row)) group = row;
        if ((row - group) % height == 0u) ++count;
    }
    uint to = 1u + before(count, false, all);
    group = from;
    for (uint row = first; row < end; ++row) {
        if (begins_group(row)) group = row;
        if ((row - group) % height == 0u) AT_U32(tiles, to++) = row;
    }
    if (gl_LocalInvocationID.x != 0u) return;
    AT_U32(tiles, 0ul) = all;
    AT_U32(tiles, uint64_t(all) + 1ul) = rows;
}
