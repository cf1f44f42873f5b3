"""Kernels in Metal's language, as programs for MLX have them."""

import mlx.core as mx
import numpy as np
import pytest


def elementwise(name, source, x, **options):
    kernel = mx.fast.metal_kernel(name, ["x"], ["out"], source, **options)
    return kernel(
        inputs=[x],
        template=[("T", x.dtype)],
        grid=(x.size, 1, 1),
        threadgroup=(min(256, x.size), 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )[0]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_an_elementwise_kernel(dtype):
    x = mx.random.normal((5, 37)).astype(dtype)
    source = "uint i = thread_position_in_grid.x; T t = x[i]; out[i] = metal::exp(t);"
    got = elementwise("exponential", source, x)
    tolerance = 1e-5 if dtype == mx.float32 else 1e-2
    assert mx.allclose(got, mx.exp(x), rtol=tolerance, atol=tolerance)


def test_inputs_that_are_no_rows():
    x = mx.arange(120).astype(mx.float32).reshape(4, 5, 6).transpose(2, 0, 1)[1:, ::2]
    source = """
        uint i = thread_position_in_grid.x;
        auto at = elem_to_loc(i, x_shape, x_strides, x_ndim);
        out[i] = x[at] * x_shape[0] + x_ndim;
    """
    got = elementwise("strided", source, x, ensure_row_contiguous=False)
    assert got.tolist() == (x * 5 + 3).tolist()


HEADER = """
    // What lies between four pixels.
    inline float2 weights(float x) { float f = x - floor(x); return float2(1 - f, f); }
"""

SAMPLE = """
    uint i = thread_position_in_grid.x;
    int w = x_shape[0];
    float at = places[i] * w;
    int left = int(floor(at));
    float2 by = weights(at);
    float sum = 0;
    for (int k = 0; k < 2; ++k) {
        int p = left + k;
        if (p >= 0 && p < w) { sum += by[k] * x[p]; }
    }
    out[i] = sum;
"""

SAMPLE_GRAD = """
    uint i = thread_position_in_grid.x;
    int w = x_shape[0];
    float at = places[i] * w;
    int left = int(floor(at));
    float2 by = weights(at);
    for (int k = 0; k < 2; ++k) {
        int p = left + k;
        if (p >= 0 && p < w) {
            atomic_fetch_add_explicit(&grad[p], by[k] * cotangent[i], memory_order_relaxed);
        }
    }
"""


def sampler():
    forward = mx.fast.metal_kernel("sample", ["x", "places"], ["out"], SAMPLE, header=HEADER)
    backward = mx.fast.metal_kernel(
        "sample_grad",
        ["x", "places", "cotangent"],
        ["grad"],
        SAMPLE_GRAD,
        header=HEADER,
        atomic_outputs=True,
    )

    @mx.custom_function
    def sample(x, places):
        return forward(
            inputs=[x, places],
            grid=(places.size, 1, 1),
            threadgroup=(64, 1, 1),
            output_shapes=[places.shape],
            output_dtypes=[mx.float32],
        )[0]

    @sample.vjp
    def sample_vjp(primals, cotangent, _):
        x, places = primals
        grad = backward(
            inputs=[x, places, cotangent],
            grid=(places.size, 1, 1),
            threadgroup=(64, 1, 1),
            output_shapes=[x.shape],
            output_dtypes=[mx.float32],
            init_value=0,
        )[0]
        return grad, mx.zeros_like(places)

    return sample


def test_a_function_with_a_derivative_of_its_own():
    x = np.random.default_rng(1).normal(size=33).astype(np.float32)
    places = np.random.default_rng(2).uniform(-0.1, 1.1, size=100).astype(np.float32)
    at = places * np.float32(33)
    left = np.floor(at).astype(int)
    part = at - np.floor(at)
    want, grad = np.zeros(100), np.zeros(33)
    for k, by in enumerate((1 - part, part)):
        inside = (left + k >= 0) & (left + k < 33)
        want[inside] += by[inside] * x[left[inside] + k]
        np.add.at(grad, left[inside] + k, by[inside])
    sample = sampler()
    for function in (sample, mx.compile(sample)):
        assert np.allclose(function(mx.array(x), mx.array(places)), want, atol=1e-5)
    by_x = mx.grad(lambda a: sample(a, mx.array(places)).sum())
    assert np.allclose(by_x(mx.array(x)), grad, atol=1e-4)


def test_rows_are_normalized_by_groups():
    source = """
        uint row = threadgroup_position_in_grid.x;
        uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;
        uint t = thread_position_in_threadgroup.x;
        threadgroup float parts[32];
        auto in = x + row * N;
        float sum = 0;
        for (uint i = t; i < N; i += 128) { float v = in[i]; sum += v * v; }
        sum = simd_sum(sum);
        if (lane == 0) { parts[group] = sum; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum = simd_sum(lane < 4 ? parts[lane] : 0.0f);
        float by = metal::precise::rsqrt(sum / N + 1e-5f);
        for (uint i = t; i < N; i += 128) { out[row * N + i] = T(in[i] * by); }
    """
    kernel = mx.fast.metal_kernel("rows", ["x"], ["out"], source)
    x = mx.random.normal((6, 300))
    got = kernel(
        inputs=[x],
        template=[("T", mx.float32), ("N", 300)],
        grid=(6 * 128, 1, 1),
        threadgroup=(128, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )[0]
    assert mx.allclose(got, mx.fast.rms_norm(x, None, 1e-5), atol=1e-5)


def test_what_is_wrong_is_told_and_harms_nothing_else():
    x = mx.random.normal((4,))
    source = "uint i = thread_position_in_grid.x;\nout[i] = mising(x[i]);"
    with pytest.raises(RuntimeError, match="there is no function `mising`"):
        mx.eval(elementwise("wrong", source, x))
    mx.eval(x, mx.random.normal((4,)))


def test_a_stream_of_the_cpu_has_none():
    kernel = mx.fast.metal_kernel("none", ["x"], ["out"], "out[0] = x[0];")
    with pytest.raises(ValueError, match="Only supports the GPU"):
        kernel(
            inputs=[mx.ones(1)],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(1,)],
            output_dtypes=[mx.float32],
            stream=mx.cpu,
        )
