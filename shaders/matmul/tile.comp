#version 460
// Matrix product of dense operands by shared-memory tiles; constants: gemm.glsl and gemm_tile.glsl.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#ifdef GATHER
#include "gemm_gather.glsl"
#else
#include "gemm.glsl"
#endif
#include "gemm_tile.glsl"
#include "gemm_tile_dense.glsl"
