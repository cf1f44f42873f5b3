// How rows are shared out among threads. Needs common.glsl and the specialization constants
//   TEAM    threads that share a row; a power of two that divides the workgroup size
//   ACROSS  1: neighbouring threads belong to neighbouring rows (rows lie side by side in memory);
//           0: neighbouring threads belong to one row.
// A row may be split into parts for several teams; a team's task is one part of one row.

#define TEAMS (gl_WorkGroupSize.x / TEAM)

uint team_of(uint thread) { return ACROSS == 1 ? thread % TEAMS : thread / TEAM; }
uint lane_of(uint thread) { return ACROSS == 1 ? thread / TEAMS : thread % TEAM; }
// Distance in the workgroup of neighbouring lanes of a team.
#define LANE_STRIDE (ACROSS == 1 ? TEAMS : 1u)

// Tasks of this workgroup, `first` being that of its first team: the same for all its threads, so
// that the body may have barriers.
#define TASK_LOOP(first, tasks) \
    for (uint64_t first = uint64_t(gl_WorkGroupID.x) * TEAMS; first < (tasks); \
         first += uint64_t(gl_NumWorkGroups.x) * TEAMS)

struct Task {
    uint64_t row, part;
};

// Where kernels number tasks so: parts first, or rows first where rows lie side by side, so that neighbours
// stay neighbours.
Task task_of(uint64_t task, uint64_t rows, uint64_t splits) {
    if (splits == 1ul) return Task(task, 0ul);
    if (ACROSS == 1) return Task(task % rows, task / rows);
    return Task(task / splits, task % splits);
}

// Row-major offset, or none for a walk without axes.
int64_t walk_offset(uint64_t walk, uint ndim, uint k, uint64_t i) {
    return ndim == 0u ? 0l : strided_offset(walk, ndim, k, i);
}
