// The picks of experts in the order of these, and their tiles of up to COLUMNS. Needs common.glsl, subgroup
// arithmetic, THREADS, SUBGROUPS, thread(), lane(), the constants SUBGROUP, COLUMNS, EXPERTS and MOST_PICKS,
// OCTETS of a row of x, and the push constants x, picks, rows, count, per_row and row_count.

const uint EACH = (EXPERTS + THREADS - 1u) / THREADS; // experts of a thread
const uint PICKS_EACH = (MOST_PICKS + THREADS - 1u) / THREADS;

shared uint16_t sorted[MOST_PICKS]; // picks in the order of their experts
shared uint starts[EXPERTS];        // the place of an expert's first pick
shared uint behind[EXPERTS];        // where the next pick of an expert goes; in the end, where they end
shared uint tiles[MOST_PICKS];      // an expert, and from bit 16 on the place of the tile's first pick
shared uint sums[32];               // of subgroups
uint tile_count;

uint expert_of(uint pick) { return min(AT_U32(picks, pick), EXPERTS - 1u); }

// What threads before this one have; all of them have `all`.
uint before(uint own, out uint all) {
    uint start = subgroupExclusiveAdd(own);
    if (lane() == SUBGROUP - 1u) sums[gl_SubgroupID] = start + own;
    barrier();
    all = 0u;
    [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s) {
        if (s == gl_SubgroupID) start += all;
        all += sums[s];
    }
    return start;
}

// Where a pick belongs among those of its expert, which lie there in any order.
uint place_of(uint pick) {
    uint expert = expert_of(pick), place = starts[expert];
    for (uint i = starts[expert]; i < behind[expert]; ++i) place += uint(sorted[i]) < pick ? 1u : 0u;
    return place;
}

// Picks in the order of their experts, and their tiles. All workgroups find the same order, as each makes
// some of a tile's outputs.
void sort_picks() {
    for (uint i = thread(); i < EXPERTS; i += THREADS) behind[i] = 0u;
    barrier();
    for (uint pick = thread(); pick < count; pick += THREADS) atomicAdd(behind[expert_of(pick)], 1u);
    barrier();
    // Tiles from bit 16 on.
    uint own = 0u, all;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint expert = thread() * EACH + e, found = expert < EXPERTS ? behind[expert] : 0u;
        own += found + ((found + COLUMNS - 1u) / COLUMNS << 16);
    }
    uint start = before(own, all), place = start & 0xffffu, tile = start >> 16;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint expert = thread() * EACH + e;
        if (expert >= EXPERTS) continue;
        uint found = behind[expert];
        for (uint i = 0u; i < found; i += COLUMNS) tiles[tile++] = expert | (place + i << 16);
        starts[expert] = behind[expert] = place;
        place += found;
    }
    tile_count = all >> 16;
    barrier();
    for (uint pick = thread(); pick < count; pick += THREADS)
        sorted[atomicAdd(behind[expert_of(pick)], 1u)] = uint16_t(pick);
    barrier();
    uint places[PICKS_EACH];
    [[unroll]] for (uint i = 0u; i < PICKS_EACH; ++i) {
        uint pick = thread() + i * THREADS;
        places[i] = pick < count ? place_of(pick) : 0u;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < PICKS_EACH; ++i) {
        uint pick = thread() + i * THREADS;
        if (pick < count) sorted[places[i]] = uint16_t(pick);
    }
    barrier();
}

// The pick of a column of a tile, where it has one.
bool pick_of(uint tile, uint column, out uint pick) {
    uint place = (tile >> 16) + column, end = behind[tile & 0xffffu];
    pick = uint(sorted[min(place, end - 1u)]);
    return place < end;
}

// The row of x of a pick.
uint64_t row_of(uint pick) {
    uint row = rows == 0ul ? pick / per_row : min(AT_U32(rows, pick), row_count - 1u);
    return x + uint64_t(row) * (OCTETS * 16u);
}
