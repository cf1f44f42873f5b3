// float32 elementwise mathematics for compute shaders.
//
// Vulkan leaves the built-in functions loose: sin and cos may be off by 2^-11, exp, log and pow
// by many ULP, division by 2.5 ULP, and contraction to fma is allowed wherever `precise` is
// absent. The functions here rely only on +, -, *, floor, integer operations and (as starting
// values that are then corrected) on /, sqrt and inversesqrt within their Vulkan error bounds.
//
// Conventions
//  * Special values are recognised and built with integer operations: drivers may assume that
//    floats are never NaN, may drop signed zeros and may flush denormals.
//  * `precise` marks every operation whose exact rounding matters. A precise statement never
//    holds an inexact product next to a sum, so the same text also checks out as C++.
//  * A vec2 named as a pair (h, l) is the unevaluated sum h + l with |l| at most an ulp of h.
//  * "max N ULP" is the largest error measured against a higher-precision reference, in units in
//    the last place of the correctly rounded float32 result.
//
// Error-free transforms: Dekker, "A floating-point technique for extending the available
// precision", Numer. Math. 18 (1971); Knuth, TAOCP vol. 2, 4.2.2. Argument reduction: Cody and
// Waite, "Software Manual for the Elementary Functions" (1980); Payne and Hanek, "Radian
// reduction for trigonometric functions", SIGNUM Newsletter 18 (1983). The polynomials are this
// project's own minimax fits with float32 coefficients.

#ifndef MATH_GLSL
#define MATH_GLSL

// Each file needs those before it.
#include "math/bits.glsl"
#include "math/pairs.glsl"
#include "math/division.glsl"
#include "math/remainder.glsl"
#include "math/exponential.glsl"
#include "math/logarithm.glsl"
#include "math/trigonometry.glsl"
#include "math/error_function.glsl"
#include "math/complex.glsl"

#endif
