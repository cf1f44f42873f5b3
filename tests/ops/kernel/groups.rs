//! What threads do together: positions, memory of a group, simdgroups, atomic numbers.

use mlx::{Array, Dtype};
use mlx_tests::{filled, noise, values};

use super::{Call, on_gpu};

#[test]
fn threads_know_where_they_are() {
    on_gpu(|| {
        let source = "
            uint3 p = thread_position_in_grid;
            uint i = p.x + grid_size.x * (p.y + grid_size.y * p.z);
            uint3 g = threadgroup_position_in_grid, t = thread_position_in_threadgroup;
            uint3 n = threads_per_threadgroup, most = dispatch_threads_per_threadgroup;
            bool is_right = all(g * most + t == p) && all(n == min(most, grid_size - g * most))
                && all(grid_size == threads_per_grid)
                && thread_index_in_threadgroup == t.x + n.x * (t.y + n.y * t.z)
                && simdgroup_index_in_threadgroup == thread_index_in_threadgroup / 32
                && thread_index_in_simdgroup == thread_index_in_threadgroup % 32
                && threads_per_simdgroup == 32
                && simdgroups_per_threadgroup == (n.x * n.y * n.z + 31) / 32
                && all(threadgroups_per_grid == (grid_size + most - 1) / most);
            out[i] = is_right ? int(i) : -1;";
        let shapes = [
            ([8, 6, 4], [4, 3, 2]),
            ([70, 1, 1], [35, 1, 1]),
            ([9, 7, 5], [4, 4, 2]),
            ([3, 2, 1], [64, 1, 1]),
        ];
        for (grid, threadgroup) in shapes {
            let count: i32 = grid.iter().product();
            let outputs: &[_] = &[("out", &[count as usize][..], Dtype::Int32)];
            let call = Call {
                source,
                outputs,
                grid,
                threadgroup,
                init_value: Some(-2.0),
                ..Call::default()
            };
            let want: Vec<i32> = (0..count).collect();
            assert_eq!(call.one().to_vec::<i32>().unwrap(), want, "{grid:?} by {threadgroup:?}");
        }
    });
}

/// Rows are summed by groups of different sizes, through memory that they share.
#[test]
fn groups_share_memory() {
    on_gpu(|| {
        let x = filled(&[5, 333], Dtype::Float32, |i| noise(1, -9.0, 9.0)(i).round());
        let header =
            "template <int N> float total(float v, threadgroup float* all, uint lane, uint group) {
              v = simd_sum(v);
              if (N <= 32) { return v; }
              if (lane == 0) { all[group] = v; }
              threadgroup_barrier(mem_flags::mem_threadgroup);
              v = simd_sum(lane < (N + 31) / 32 ? all[lane] : 0.0f);
              threadgroup_barrier(mem_flags::mem_threadgroup);
              return v;
            }";
        for threads in [1, 7, 32, 48, 64, 96, 256] {
            let source = format!(
                "constexpr int N = {threads};
                 threadgroup float all[2][32];
                 uint row = threadgroup_position_in_grid.x, t = thread_position_in_threadgroup.x;
                 float v = 0;
                 for (int i = t; i < x_shape[1]; i += N) v += x[row * x_shape[1] + i];
                 float sum = total<N>(v, all[1], thread_index_in_simdgroup, simdgroup_index_in_threadgroup);
                 if (t == 0) {{ out[row] = sum; }}"
            );
            let out = Call {
                header,
                source: &source,
                inputs: &[("x", &x)],
                outputs: &[("out", &[5], Dtype::Float32)],
                grid: [5 * threads, 1, 1],
                threadgroup: [threads, 1, 1],
                ..Call::default()
            }
            .one();
            let want: Vec<f64> = values(&x).chunks(333).map(|row| row.iter().sum()).collect();
            assert_eq!(values(&out), want, "{threads} threads");
        }
    });
}

/// A function of a simdgroup, and what lane `i` of those values gets.
type Function = (&'static str, fn(&[i32], usize) -> i32);

const FUNCTIONS: [Function; 19] = [
    ("simd_sum(x)", |all, _| all.iter().sum()),
    ("simd_max(x)", |all, _| *all.iter().max().unwrap()),
    ("simd_min(x)", |all, _| *all.iter().min().unwrap()),
    ("simd_and(x)", |all, _| all.iter().fold(-1, |a, b| a & b)),
    ("simd_or(x)", |all, _| all.iter().fold(0, |a, b| a | b)),
    ("simd_xor(x)", |all, _| all.iter().fold(0, |a, b| a ^ b)),
    ("simd_prefix_inclusive_sum(x)", |all, i| all[..=i].iter().sum()),
    ("simd_prefix_exclusive_sum(x)", |all, i| all[..i].iter().sum()),
    ("simd_broadcast(x, 5)", |all, _| all[5]),
    ("simd_broadcast_first(x)", |all, _| all[0]),
    ("simd_shuffle(x, (lane * 7 + 3) % 32)", |all, i| all[(i * 7 + 3) % 32]),
    ("simd_shuffle_xor(x, 9)", |all, i| all[i ^ 9]),
    ("simd_shuffle_up(x, 3)", |all, i| all[if i < 3 { i } else { i - 3 }]),
    ("simd_shuffle_down(x, 4)", |all, i| all[if i + 4 < 32 { i + 4 } else { i }]),
    ("quad_sum(x)", |all, i| all[i / 4 * 4..][..4].iter().sum()),
    ("quad_max(x)", |all, i| *all[i / 4 * 4..][..4].iter().max().unwrap()),
    ("quad_broadcast(x, 2)", |all, i| all[i / 4 * 4 + 2]),
    ("quad_shuffle_xor(x, 3)", |all, i| all[i ^ 3]),
    ("simd_any(x > 90) + 2 * simd_all(x > -200)", |all, _| {
        i32::from(all.iter().any(|&x| x > 90)) + 2
    }),
];

#[test]
fn simdgroups_exchange_values() {
    on_gpu(|| {
        let x: Vec<i32> = (0..96).map(|i| (i * 73 + 11) % 199 - 99).collect();
        let given = Array::from_slice(&x, &[96]).unwrap();
        for (text, want) in FUNCTIONS {
            for of in ["int", "float", "long"] {
                let is_shuffle = text.contains("shuffle") || text.contains("broadcast");
                if of != "int" && (text.contains("or(") || text.contains("and("))
                    || of == "long" && !is_shuffle
                {
                    continue;
                }
                let source = format!(
                    "uint i = thread_position_in_grid.x, lane = thread_index_in_simdgroup;
                     {of} x = in[i]; out[i] = int({text});"
                );
                let out = Call {
                    source: &source,
                    inputs: &[("in", &given)],
                    outputs: &[("out", &[96], Dtype::Int32)],
                    grid: [96, 1, 1],
                    threadgroup: [96, 1, 1],
                    ..Call::default()
                }
                .one();
                let simdgroups = x.chunks(32).flat_map(|all| (0..32).map(|i| want(all, i)));
                assert_eq!(
                    out.to_vec::<i32>().unwrap(),
                    simdgroups.collect::<Vec<_>>(),
                    "{text} of {of}"
                );
            }
        }
    });
}

/// The last group of a grid has as many threads as are left, and they alone are in its simdgroups.
#[test]
fn the_last_group_may_be_smaller() {
    on_gpu(|| {
        let source =
            "uint i = thread_position_in_grid.x; out[i] = simd_sum(1) * 1000 + simd_sum(int(i));";
        let outputs: &[_] = &[("out", [75usize].as_slice(), Dtype::Int32)];
        let (grid, threadgroup) = ([75, 1, 1], [64, 1, 1]);
        let out = Call { source, outputs, grid, threadgroup, ..Call::default() }.one();
        let want = [(0, 32), (32, 64), (64, 75)].into_iter().flat_map(|(from, to)| {
            let sum = 1000 * (to - from) + (from..to).sum::<i32>();
            vec![sum; (to - from) as usize]
        });
        assert_eq!(out.to_vec::<i32>().unwrap(), want.collect::<Vec<_>>());
        // So they may differ where all threads have the same value.
        let source =
            "uint i = thread_position_in_grid.x; uint n = simd_sum(1u); out[i] = n == 32 ? 1 : 2;";
        let (grid, threadgroup) = ([48, 1, 1], [48, 1, 1]);
        let outputs: &[_] = &[("out", [48usize].as_slice(), Dtype::Int32)];
        let out = Call { source, outputs, grid, threadgroup, ..Call::default() }.one();
        let want: Vec<i32> = (0..48).map(|i| if i < 32 { 1 } else { 2 }).collect();
        assert_eq!(out.to_vec::<i32>().unwrap(), want);
    });
}

/// Threads that have left do not count, however deep in code that is not for all the others stand.
#[test]
fn threads_that_left_do_not_count() {
    on_gpu(|| {
        let outputs: &[_] = &[("out", [64usize].as_slice(), Dtype::Int32)];
        let (grid, threadgroup) = ([64, 1, 1], [64, 1, 1]);
        for leave in [
            "if (t > 50) { out[t] = -1; return; }",
            "if (t > 40) { if (t > 50) { out[t] = -1; return; } }",
            "if (t > 40) { switch (t > 50) { case 1: out[t] = -1; return; default: break; } }",
            "if (t > 40) { for (uint k = 0; k < 3; k++) { if (t > 50) { out[t] = -1; return; } } }",
        ] {
            let source =
                format!("uint t = thread_position_in_grid.x; {leave} out[t] = simd_sum(int(t));");
            let call = Call { source: &source, outputs, grid, threadgroup, ..Call::default() };
            if has_simdgroups() {
                let want = (0..64)
                    .map(|t| [496, (32..=50).sum(), -1][(t > 31) as usize + (t > 50) as usize]);
                assert_eq!(
                    call.one().to_vec::<i32>().unwrap(),
                    want.collect::<Vec<i32>>(),
                    "{leave}"
                );
            } else {
                let error = call.error();
                assert!(
                    error.contains("wants a device whose subgroups have 32 threads"),
                    "{leave}: {error}"
                );
            }
        }
        // All threads of a group are at the same place along an axis of one.
        let source = "uint t = thread_position_in_grid.x; int s = 0;
            if (thread_position_in_grid.y < 1) s = simd_sum(int(t)); out[t] = s;";
        let out = Call { source, outputs, grid, threadgroup, ..Call::default() }.one();
        assert_eq!(out.to_vec::<i32>().unwrap()[40], (32..64).sum::<i32>());
    });
}

/// Whether the device's subgroups can be simdgroups.
fn has_simdgroups() -> bool {
    let [least, most] = mlx::vulkan::capabilities(0).unwrap().subgroup_sizes;
    (least..=most).contains(&32)
}

/// Where subgroups have another size, threads exchange values through memory: for that all have to be there.
#[test]
fn simdgroups_that_part_need_subgroups_of_their_size() {
    on_gpu(|| {
        let source = "
            uint t = thread_position_in_threadgroup.x, group = simdgroup_index_in_threadgroup;
            threadgroup int sums[2];
            if (group == 0) { int s = simd_sum(int(t)); if (t == 0) sums[0] = s; }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (t == 0) out[0] = sums[0];";
        let outputs: &[_] = &[("out", [1usize].as_slice(), Dtype::Int32)];
        let call =
            Call { source, outputs, grid: [64, 1, 1], threadgroup: [64, 1, 1], ..Call::default() };
        match has_simdgroups() {
            true => assert_eq!(call.one().to_vec::<i32>().unwrap(), [496]),
            false => {
                assert!(call.error().contains("wants a device whose subgroups have 32 threads"))
            }
        }
    });
}

#[test]
fn atomic_numbers_are_added_up() {
    on_gpu(|| {
        let x: Vec<i32> = (0..1000).map(|i| i * 37 % 101).collect();
        let given = Array::from_slice(&x, &[1000]).unwrap();
        let source = "uint i = thread_position_in_grid.x;
            atomic_fetch_add_explicit(&sums[i % 4], in[i], memory_order_relaxed);
            atomic_fetch_max_explicit(&sums[4], in[i], memory_order_relaxed);
            atomic_fetch_min_explicit(&sums[5], in[i] - 50, memory_order_relaxed);
            atomic_fetch_add_explicit(&floats[i % 3], float(in[i]), memory_order_relaxed);
            threadgroup atomic_uint count[1];
            if (thread_position_in_threadgroup.x == 0) atomic_store_explicit(count, 0u, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            atomic_fetch_add_explicit(&count[0], 2u, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (i == 0) atomic_store_explicit(&sums[6],
                int(atomic_load_explicit(count, memory_order_relaxed)),
                memory_order_relaxed);";
        let out = Call {
            source,
            atomic: true,
            init_value: Some(0.0),
            inputs: &[("in", &given)],
            outputs: &[("sums", &[7], Dtype::Int32), ("floats", &[3], Dtype::Float32)],
            grid: [1000, 1, 1],
            threadgroup: [250, 1, 1],
            ..Call::default()
        }
        .run()
        .unwrap();
        let part = |of: usize, n: usize| x.iter().skip(n).step_by(of).sum::<i32>();
        let want = [part(4, 0), part(4, 1), part(4, 2), part(4, 3), 100, -50, 500];
        assert_eq!(out[0].to_vec::<i32>().unwrap(), want);
        let want = [0, 1, 2].map(|n| part(3, n) as f32);
        assert_eq!(out[1].to_vec::<f32>().unwrap(), want);
    });
}
