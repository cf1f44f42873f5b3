// Threads that work together on one result. Needs common.glsl and, before it:
//   VARIANT 1: subgroup arithmetic; a team is a subgroup. VARIANT 0: shared memory; a team is the workgroup.
//   a specialization constant SUBGROUP: the subgroup size that the pipeline requires (1 with VARIANT 0).
//   TEAM_VALUE: what is summed, if it is no float.
#ifndef TEAM_VALUE
#define TEAM_VALUE float
#endif
#if VARIANT == 1
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define TEAM_LANE gl_SubgroupInvocationID
#define TEAM_SIZE SUBGROUP
#define TEAM_ID (gl_WorkGroupID.x * (gl_WorkGroupSize.x / SUBGROUP) + gl_SubgroupID)
#define TEAM_COUNT (gl_NumWorkGroups.x * (gl_WorkGroupSize.x / SUBGROUP))
shared TEAM_VALUE team_parts[gl_WorkGroupSize.x / SUBGROUP];

TEAM_VALUE team_sum(TEAM_VALUE x) { return subgroupAdd(x); }

// Sum over the workgroup, the same for all of it.
TEAM_VALUE group_sum(TEAM_VALUE x) {
    x = subgroupAdd(x);
    if (gl_WorkGroupSize.x <= SUBGROUP) return x;
    if (gl_SubgroupInvocationID == 0u) team_parts[gl_SubgroupID] = x;
    barrier();
    TEAM_VALUE sum = TEAM_VALUE(0.0);
    for (uint i = 0u; i < gl_WorkGroupSize.x / SUBGROUP; ++i) sum += team_parts[i];
    barrier();
    return sum;
}
#else
#define TEAM_LANE gl_LocalInvocationID.x
#define TEAM_SIZE gl_WorkGroupSize.x
#define TEAM_ID gl_WorkGroupID.x
#define TEAM_COUNT gl_NumWorkGroups.x
shared TEAM_VALUE team_parts[gl_WorkGroupSize.x];

TEAM_VALUE group_sum(TEAM_VALUE x) {
    uint lane = gl_LocalInvocationID.x;
    team_parts[lane] = x;
    barrier();
    for (uint left = gl_WorkGroupSize.x; left > 1u;) {
        uint half_ = (left + 1u) / 2u;
        if (lane + half_ < left) team_parts[lane] += team_parts[lane + half_];
        left = half_;
        barrier();
    }
    TEAM_VALUE sum = team_parts[0];
    barrier();
    return sum;
}

TEAM_VALUE team_sum(TEAM_VALUE x) { return group_sum(x); }
#endif
