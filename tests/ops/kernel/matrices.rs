//! Matrices of simdgroups: 8 by 8 numbers that 32 threads have together.

use mlx::{Array, Dtype};
use mlx_tests::{filled, noise, values};

use super::{Call, on_gpu};

/// Small whole numbers, which sums of products keep exactly in every dtype.
fn whole(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    filled(shape, dtype, |i| noise(seed, -4.0, 4.0)(i).round())
}

/// The product of matrices that lie in rows.
fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let element = |r: usize, c: usize| (0..k).map(|i| a[r * k + i] * b[i * n + c]).sum();
    (0..m * n).map(|i| element(i / n, i % n)).collect()
}

#[test]
fn threads_have_two_elements_of_a_row() {
    on_gpu(|| {
        let x = whole(&[8, 8], Dtype::Float32, 1);
        let source = "
            uint lane = thread_index_in_simdgroup, quad = lane / 4;
            uint row = (quad & 4) + (lane / 2) % 4, column = (quad & 2) * 2 + (lane % 2) * 2;
            simdgroup_matrix<float, 8, 8> m;
            simdgroup_load(m, x);
            reinterpret_cast<thread float2&>(m.thread_elements()) += float2(row, 10 * column);
            out[row * 8 + column] = m.thread_elements()[0];
            out[row * 8 + column + 1] = m.thread_elements()[1];";
        let outputs: &[_] = &[("out", [8usize, 8].as_slice(), Dtype::Float32)];
        let inputs: &[_] = &[("x", &x)];
        let (grid, threadgroup) = ([32, 1, 1], [32, 1, 1]);
        let out = Call { source, inputs, outputs, grid, threadgroup, ..Call::default() }.one();
        let added = |i: usize| if i.is_multiple_of(2) { i / 8 } else { 10 * (i % 8 - 1) };
        let want: Vec<f64> = (0..).zip(values(&x)).map(|(i, x)| x + added(i) as f64).collect();
        assert_eq!(values(&out), want);
    });
}

/// Several simdgroups multiply tiles, from memory of the device and of the group.
#[test]
fn tiles_are_multiplied() {
    on_gpu(|| {
        let header = "
            template <typename T>
            void accumulate(thread simdgroup_matrix<float, 8, 8>& sum, simdgroup_matrix<T, 8, 8> a,
                            simdgroup_matrix<T, 8, 8> b) {
                simdgroup_multiply_accumulate(sum, a, b, sum);
            }";
        let source = "
            uint group = simdgroup_index_in_threadgroup, tile_row = group / 3, tile_column = group % 3;
            threadgroup T rows[16 * 40];
            for (uint i = thread_index_in_threadgroup; i < 16 * 40; i += 192) { rows[i] = a[i]; }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            simdgroup_float8x8 sum = simdgroup_float8x8(0);
            for (uint k = 0; k < 40; k += 8) {
                simdgroup_matrix<T, 8, 8> x, y;
                simdgroup_load(x, rows + tile_row * 8 * 40 + k, 40);
                simdgroup_load(y, b, 24, ulong2(tile_column * 8, k));
                accumulate(sum, x, y);
            }
            simdgroup_store(sum, out, 24, ulong2(tile_column * 8, tile_row * 8));";
        for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
            let (a, b) = (whole(&[16, 40], dtype, 2), whole(&[40, 24], dtype, 3));
            let call = Call {
                header,
                source,
                inputs: &[("a", &a), ("b", &b)],
                template: &[("T", mlx::fast::TemplateArg::Dtype(dtype))],
                outputs: &[("out", &[16, 24], Dtype::Float32)],
                grid: [192, 1, 1],
                threadgroup: [192, 1, 1],
                ..Call::default()
            };
            assert_eq!(values(&call.one()), product(&values(&a), &values(&b), [16, 40, 24]));
        }
    });
}

#[test]
fn matrices_are_turned_filled_and_diagonal() {
    on_gpu(|| {
        let (a, b) = (whole(&[8, 8], Dtype::Float16, 4), whole(&[8, 8], Dtype::Float16, 5));
        let source = "
            simdgroup_half8x8 x, y, z;
            simdgroup_load(x, a, 8, ulong2(0, 0), true);
            simdgroup_load(y, b);
            simdgroup_multiply(z, x, y);
            simdgroup_store(z, out);
            simdgroup_store(z, out + 64, 8, ulong2(0, 0), true);
            simdgroup_multiply_accumulate(
                z, make_diagonal_simdgroup_matrix<half, 8, 8>(2.0h), y,
                make_filled_simdgroup_matrix<float, 8, 8>(1.0f));
            simdgroup_store(z, out + 128);
            constexpr uint N = 8;
            simdgroup_matrix<half, N, N> one{1.0h};
            simdgroup_store(one, out + 192);
            simdgroup_half8x8 two[2] = {simdgroup_half8x8(1.0h), {}};
            simdgroup_multiply(two[0], two[0], one);
            simdgroup_store(two[0], out + 320);
            two[1] = make_filled_simdgroup_matrix<half, N>(0.5h);
            for (uint i = 0; i < 2; ++i) { simdgroup_multiply(two[i], two[i], x); }
            simdgroup_store(two[1], out + 256, 8, 0);";
        let call = Call {
            source,
            inputs: &[("a", &a), ("b", &b)],
            outputs: &[("out", &[6, 8, 8], Dtype::Float32)],
            grid: [32, 1, 1],
            threadgroup: [32, 1, 1],
            ..Call::default()
        };
        let turned = |x: &[f64]| (0..64).map(|i| x[i % 8 * 8 + i / 8]).collect::<Vec<f64>>();
        let (a, b) = (values(&a), values(&b));
        let z = product(&turned(&a), &b, [8, 8, 8]);
        let doubled = b.iter().map(|b| 2.0 * b + 1.0).collect();
        let one: Vec<f64> = (0..64).map(|i| f64::from(u8::from(i % 9 == 0))).collect();
        let halves = product(&[0.5; 64], &turned(&a), [8, 8, 8]);
        assert_eq!(
            values(&call.one()),
            [z.clone(), turned(&z), doubled, one.clone(), halves, one].concat()
        );
    });
}

#[test]
fn what_matrices_do_not_know_is_refused() {
    on_gpu(|| {
        for (source, said) in [
            ("simdgroup_float8x8 a(1.0f), b(1.0f); a = a * b;", "have no operation"),
            ("simdgroup_matrix<float, 4, 4> m;\nsimdgroup_store(m, out);", "line 4: no function"),
            ("float2 v = float2(1, 2, simd_sum(1.0f));", "line 3: `float2` of 3 numbers"),
            ("simdgroup_float8x8 m = {1.0f, 2.0f};", "has no such parts"),
            ("out[0] = as_type<uint4>(float3(1)).x;", "have other bits"),
            ("float f = 1; uint n = reinterpret_cast<thread uint&>(f);", "cannot be referred to"),
            ("float2 v; v.thread_elements()[0] = 1;", "`thread_elements` names no numbers of 2"),
            ("int n; reinterpret_cast<thread float&>(n) = 1;", "cannot be referred to as `float`"),
        ] {
            let outputs: &[_] = &[("out", [1usize].as_slice(), Dtype::Float32)];
            let error = Call { source, outputs, ..Call::default() }.error();
            assert!(error.contains(said), "{source}: {error}");
        }
    });
}
