//! What one thread does: types, control flow, functions, pointers, the library.

use std::f64::consts::PI;

use mlx::{Array, Dtype, bf16, f16, fast::TemplateArg, ops};
use mlx_tests::{array, filled, noise, rounded, values};

use super::{Call, on_gpu};

/// What a body gives for the numbers 0 to 15, with a header before it.
fn numbers(header: &str, source: &str) -> Vec<i32> {
    let source = format!("int i = thread_position_in_grid.x;\n{source}");
    let outputs: &[_] = &[("out", [16usize].as_slice(), Dtype::Int32)];
    let (grid, threadgroup) = ([16, 1, 1], [16, 1, 1]);
    let call = Call { header, source: &source, outputs, grid, threadgroup, ..Call::default() };
    call.one().to_vec().unwrap()
}

pub(super) fn expect(header: &str, source: &str, want: impl Fn(i32) -> i32) {
    let want: Vec<i32> = (0..16).map(want).collect();
    assert_eq!(numbers(header, source), want, "{source}");
}

#[test]
fn control_flow_is_that_of_c() {
    on_gpu(|| {
        expect(
            "",
            "int s = 0; for (int j = 0; j < i; ++j) { if (j % 3 == 1) continue; if (j > 9) break;
                s += j; } out[i] = s;",
            |i| (0..i).filter(|j| j % 3 != 1 && *j <= 9).sum(),
        );
        expect("", "int n = i, s = 0; while (n) { s += n--; } out[i] = s;", |i| i * (i + 1) / 2);
        expect("", "int n = 0; do { n += 5; } while (n < i); out[i] = n;", |i| {
            5 * ((i - 1).max(0) / 5 + 1)
        });
        expect(
            "",
            "int s = 0; switch (i % 5) { case 0: s = 1; break; case 1: s = 10; case 2: s += 100; break;
                case 3: case 4: s = 7; break; default: s = -1; } out[i] = s;",
            |i| [1, 110, 100, 7, 7][i as usize % 5],
        );
        expect(
            "",
            "int s = 0; for (int j = 0; j < 4; j++) { switch (j) { case 2: continue; default: break; }
                s += j; } out[i] = s + i;",
            |i| 4 + i,
        );
        // What is not asked for is not read.
        expect(
            "",
            "int a[4] = {1, 2, 3, 4}; out[i] = i < 4 && a[i] > 2 ? a[i] : (i >= 4 || a[i] == 1 ? -1 : 0);",
            |i| [-1, 0, 3, 4].get(i as usize).copied().unwrap_or(-1),
        );
        expect(
            "",
            "if (i < 3) { out[i] = 1; return; } else if (i == 3) out[i] = 2; else { out[i] = 3; }",
            |i| {
                if i < 3 {
                    1
                } else if i == 3 {
                    2
                } else {
                    3
                }
            },
        );
        expect(
            "",
            "int n = 0; for (int a = 0; a < 3; ++a) { int b = 0; while (true) { if (++b > i) break;
                n += a; } } out[i] = n;",
            |i| 3 * i,
        );
        expect("", "int j = 0; int k = (j++, j + i); out[i] = k + j-- + --j;", |i| 1 + i + 1 - 1);
        expect(
            "",
            "constexpr int N = 3; int s = 0; if constexpr (N == 3) { s = i; } else { s = unknown; }
                out[i] = s;",
            |i| i,
        );
    });
}

#[test]
fn functions_are_called() {
    on_gpu(|| {
        let header = "
            #define TWICE(x) ((x) * 2)
            #define LIMIT 9
            constant constexpr int TABLE[4] = {3, 1, 4, 1};
            constexpr constant int START = LIMIT + 1;
            using Number = int;
            struct Pair { int a; float b; int c[2]; };
            inline Number next(int x) { return TWICE(x) + 1; }
            template <typename T> T largest(T a, T b) { return a > b ? a : b; }
            template <int N, typename T = int> T power(T x) { T y = 1; for (int i = 0; i < N;
                i++) y *= x; return y; }
            int first_above(thread const int* a, int n, int x) {
              for (int i = 0; i < n; ++i) { if (a[i] > x) { return i; } }
              return -1;
            }
            void swap(thread int& a, thread int& b) { int c = a; a = b; b = c; }
            template <typename T, int N> void clear(thread T* a) { for (int i = 0; i < N; ++i) a[i] = T(0); }
            Pair pair(int a) { Pair p; p.a = a; p.b = a * 0.5f; p.c[0] = a; p.c[1] = -a; return p; }
            float overloaded(float x) { return x + 0.5f; }
            int overloaded(int x) { return x + 100; }
            int later(int x);
            int sooner(int x) { return later(x) + 1; }
            int later(int x) { return x * 3; }
        ";
        let expect = |source: &str, want: &dyn Fn(i32) -> i32| expect(header, source, want);
        expect("out[i] = next(i) + TABLE[i & 3] + START;", &|i| {
            2 * i + 11 + [3, 1, 4, 1][i as usize & 3]
        });
        expect("out[i] = largest(i, 7) + int(largest<float>(i, 2.5f) * 2);", &|i| {
            i.max(7) + (2.0 * f64::from(i).max(2.5)) as i32
        });
        expect("out[i] = power<3>(i) - power<2, int>(i);", &|i| i * i * i - i * i);
        expect(
            "int a[5] = {2, 4, 6, 8, 10}; out[i] = first_above(a, 5, i) * 10 + first_above(a + 1, 4, i);",
            &|i| {
                let find = |from: i32| (from..=5).find(|n| 2 * n > i).map_or(-1, |n| n - from);
                find(1) * 10 + find(2)
            },
        );
        expect(
            "int a = i, b = 5; swap(a, b); int c[2] = {a, b}; swap(c[0], c[1]);
                out[i] = c[0] * 100 + c[1] + a;",
            &|i| 100 * i + 5 + 5,
        );
        expect("int a[6]; a[5] = i; clear<int, 5>(a); out[i] = a[4] + a[5];", &|i| i);
        expect(
            "Pair p = pair(i); Pair q = p; q.c[1] += 1;
                out[i] = p.a + int(p.b * 4) + p.c[1] + q.c[1] + q.c[0];",
            &|i| i + 2 * i - i - i + 1 + i,
        );
        expect("out[i] = overloaded(i) + int(overloaded(float(i)) * 2);", &|i| i + 100 + 2 * i + 1);
        expect("out[i] = sooner(i);", &|i| 3 * i + 1);
        expect(
            "Pair p = {i, 1.5f, {2, 3}}; thread int* c = p.c; c++; out[i] = p.a + *c + int(p.b * 2);",
            &|i| i + 6,
        );
    });
}

/// Which of several functions is called, and when it is the language's.
#[test]
fn overloads_are_chosen_by_types() {
    on_gpu(|| {
        let header = "
            namespace my { float exp(float x) { return metal::exp(x) + 1.0f; } }
            half max(half a, half b) { return a > b ? a : b; }
            int kind(float) { return 1; }
            int kind(int) { return 2; }
            template <typename T> int kind(T) { return 3; }
            int plain(float) { return 4; }
            template <typename T> int plain(T) { return 5; }
            template <int N> int count() { if constexpr (N > 0) { return 1 + count<N - 1>(); } return 0; }
            constant float3 V = float3(1, 2, 3);
            constant float2 W[2] = {float2(4, 5), float2(6, 7)};
            constant float E = log2(4.0f);
            float part(int i) { return V.x + i + E; }
        ";
        let expect = |source: &str, want: &dyn Fn(i32) -> i32| expect(header, source, want);
        expect("out[i] = int(my::exp(float(0)) * 10);", &|_| 20);
        expect("out[i] = max(3, 70000 + i);", &|i| 70_000 + i);
        expect(
            "out[i] = kind(uchar(3)) + 10 * kind(1.5f) + 100 * kind(2) + 1000 * kind(7u);",
            &|_| 3213,
        );
        expect("out[i] = plain(i) + 10 * plain(1.5f);", &|_| 45);
        expect("out[i] = count<5>();", &|_| 5);
        expect(
            "if (i == 0) { out[i] = V.y; } else { out[i] = int(V.z + part(i) + W[i & 1].y); }",
            &|i| {
                if i == 0 { 2 } else { 3 + 1 + i + 2 + if i % 2 == 0 { 5 } else { 7 } }
            },
        );
    });
}

/// Numbers that are known have the precision of their types.
#[test]
fn constants_are_rounded() {
    on_gpu(|| {
        let source = "
            const half h = 0.1h; out[0] = float(h) * 1e8f;
            out[1] = float(half(2049.0f)); out[2] = float(bfloat(257.0f));
            out[3] = 0.1f + 0.2f == 0.3f ? 1 : 0; out[4] = int(16777217.0f);
            out[5] = isinf(float(65504.0h * 2.0h)) ? 1 : 0;
            float f = -2147483648; out[6] = f / 2147483648.0f;
            long y = 4000000000 * 2; out[7] = y / 1000000000;
            uchar2 u = uchar2(1, 2); float2 v = float2(-u); out[8] = v.y;
            uint n = 3; const device float* p = out + 10; out[9] = p - n == out + 7 ? 1 : 0;";
        let outputs: &[_] = &[("out", [10usize].as_slice(), Dtype::Float32)];
        let out = Call { source, outputs, ..Call::default() }.one();
        let tenth = f16::from_f32(0.1).to_f32() * 1e8;
        let want =
            [tenth, 2048.0, 256.0, f32::from(u8::from(0.1f32 + 0.2 == 0.3)), 16_777_216.0, 1.0];
        assert_eq!(out.to_vec::<f32>().unwrap(), [&want[..], &[-1.0, 8.0, 254.0, 1.0]].concat());
    });
}

#[test]
fn pointers_move() {
    on_gpu(|| {
        let data: Vec<i32> = (0..64).map(|n| n * n % 31).collect();
        let given = Array::from_slice(&data, &[4, 16]).unwrap();
        let source = "
            int i = thread_position_in_grid.x;
            auto row = data + 16 * (i % 4);
            const device int* end = row + 16;
            int sum = 0;
            for (auto p = row; p < end; p += 2) { sum += *p; }
            row += 3;
            device int* to = &out[2 * i];
            *to++ = sum + row[-1] + int(end - row);
            const device int4* four = (const device int4*)(data + 16);
            int local[2][3] = {{1, 2, 3}, {4, 5, 6}};
            thread int* line = local[1];
            *to = four[i].w + line[i % 3] + (*(data + i)) + sizeof(int4);";
        let out = Call {
            source,
            inputs: &[("data", &given)],
            outputs: &[("out", &[8], Dtype::Int32)],
            grid: [4, 1, 1],
            threadgroup: [4, 1, 1],
            ..Call::default()
        }
        .one();
        let want = (0..4usize).flat_map(|i| {
            let row = &data[16 * i..][..16];
            let sum: i32 = row.iter().step_by(2).sum();
            [sum + row[2] + 13, data[16 + 4 * i + 3] + [4, 5, 6][i % 3] + data[i] + 16]
        });
        assert_eq!(out.to_vec::<i32>().unwrap(), want.collect::<Vec<_>>());
    });
}

#[test]
fn vectors_have_lanes() {
    on_gpu(|| {
        let source = "
            float4 v = float4(1, float2(2, 3), 4);
            v.xy = v.yx * 2.0f;
            v.w += 1;
            float3 w = v.zyx + float3(0.5);
            float2 h = select(v.xy, v.zw, bool2(true, false));
            int4 n = int4(v) << 2;
            uchar4 bytes = as_type<uchar4>(0x04030201u);
            v[2] = dot(w, float3(1, 0, 2));
            vec<float, 2> sum = w.xz + h;
            bool4 small = v < float4(5);
            packed_float3 p = packed_float3(7, 8, 9);
            out[0] = v.x; out[1] = v.y; out[2] = v.z; out[3] = v.w;
            out[4] = w.x; out[5] = w.y; out[6] = w.z; out[7] = h.x; out[8] = h.y;
            out[9] = n.x + n.y + n.z + n.w;
            out[10] = bytes.x + 10 * bytes.y + 100 * bytes.z + 1000 * bytes.w;
            out[11] = sum.x; out[12] = sum.y;
            out[13] = any(small) + 2 * all(small) + 4 * int(small.x) + 8 * int(small.r);
            out[14] = p.y; out[15] = length(float2(3, 4)) + max(float2(1, 5), 2.0f).x;";
        let outputs: &[_] = &[("out", [16usize].as_slice(), Dtype::Float32)];
        let out = Call { source, outputs, ..Call::default() }.one();
        let want =
            [4.0, 2.0, 12.5, 5.0, 3.5, 2.5, 4.5, 3.0, 2.0, 56.0, 4321.0, 6.5, 6.5, 13.0, 8.0, 7.0];
        assert_eq!(out.to_vec::<f32>().unwrap(), want);
    });
}

/// Every dtype is read, converted and written.
#[test]
fn dtypes_are_read_and_written() {
    // Metal has no numbers of 64 bits with a point, and `complex64_t` is not known.
    let all = Dtype::ALL.into_iter().filter(|d| !matches!(d, Dtype::Float64 | Dtype::Complex64));
    on_gpu(|| {
        let source = "uint i = thread_position_in_grid.x; U x = U(in[i]); U list[2] = {x, U(1)};
            out[i] = list[i / 64];";
        for from in all.clone() {
            let given = filled(&[60], from, |n| noise(5, 0.0, 100.0)(n).round());
            for to in all.clone() {
                let template = [("U", TemplateArg::Dtype(to))];
                let out = Call {
                    source,
                    inputs: &[("in", &given)],
                    template: &template,
                    outputs: &[("out", &[60], to)],
                    grid: [60, 1, 1],
                    threadgroup: [32, 1, 1],
                    ..Call::default()
                }
                .one();
                let want = ops::astype(&given, to).unwrap();
                assert_eq!(values(&out), values(&want), "{from:?} to {to:?}");
            }
        }
    });
}

/// Sums are not taken apart: this rounds to whole numbers.
#[test]
fn sums_keep_their_order() {
    on_gpu(|| {
        let x = filled(&[64], Dtype::Float32, noise(3, -50.0, 50.0));
        let source = "uint i = thread_position_in_grid.x; float j = x[i] + 12582912.0f;
            out[i] = j - 12582912.0f;
            out[i] += fma(1.0f, x[i], 12582912.0f) - 12582912.0f;";
        let out = Call {
            source,
            inputs: &[("x", &x)],
            outputs: &[("out", &[64], Dtype::Float32)],
            grid: [64, 1, 1],
            threadgroup: [64, 1, 1],
            ..Call::default()
        }
        .one();
        let want: Vec<f64> = values(&x).into_iter().map(|x| 2.0 * x.round_ties_even()).collect();
        assert_eq!(values(&out), want);
    });
}

/// Halves and bfloats are rounded after each operation.
#[test]
fn small_floats_are_rounded() {
    on_gpu(|| {
        let [a, b] = [3, 4].map(|seed| filled(&[256], Dtype::Float32, noise(seed, -3.0, 3.0)));
        let source = "uint i = thread_position_in_grid.x; T x = T(a[i]), y = T(b[i]); T z = x * y;
            z += x; out[i] = float(z - y / T(3));";
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let out = Call {
                source,
                inputs: &[("a", &a), ("b", &b)],
                template: &[("T", TemplateArg::Dtype(dtype))],
                outputs: &[("out", &[256], Dtype::Float32)],
                grid: [256, 1, 1],
                threadgroup: [256, 1, 1],
                ..Call::default()
            }
            .one();
            let round = |x: f64| rounded(x, dtype);
            for ((x, y), got) in values(&a).into_iter().zip(values(&b)).zip(values(&out)) {
                let (x, y) = (round(x), round(y));
                let z = round(round(x * y) + x);
                let third = round(y / 3.0);
                // Division of halves may be a last place off.
                let unit = if dtype == Dtype::Float16 { 2f64.powi(-7) } else { 0.0 };
                assert!((got - round(z - third)).abs() <= unit, "{dtype:?} {x} {y}: {got}");
            }
        }
        let largest = [f64::from(f16::MAX), f64::from(bf16::MAX)];
        for (dtype, want) in [Dtype::Float16, Dtype::Bfloat16].into_iter().zip(largest) {
            let out = Call {
                source: "out[0] = numeric_limits<T>::max(); out[1] = Limits<T>::min;",
                template: &[("T", TemplateArg::Dtype(dtype))],
                outputs: &[("out", &[2], dtype)],
                ..Call::default()
            };
            assert_eq!(values(&out.one()), [want, f64::NEG_INFINITY]);
        }
    });
}

/// A function of the library, and the same here.
type Function = (&'static str, fn(f64, f64) -> f64);

const FUNCTIONS: [Function; 39] = [
    ("exp(x)", |x, _| x.exp()),
    ("metal::fast::exp2(x)", |x, _| x.exp2()),
    ("exp10(y)", |_, y| 10f64.powf(y)),
    ("log(abs(x))", |x, _| x.abs().ln()),
    ("log2(abs(x))", |x, _| x.abs().log2()),
    ("log10(abs(x))", |x, _| x.abs().log10()),
    ("log1p(abs(y) * 1e-5f)", |_, y| (y.abs() * f64::from(1e-5f32)).ln_1p()),
    ("metal::precise::sin(x)", |x, _| x.sin()),
    ("cos(x)", |x, _| x.cos()),
    ("tan(y)", |_, y| y.tan()),
    ("asin(y)", |_, y| y.asin()),
    ("acos(y)", |_, y| y.acos()),
    ("atan(x)", |x, _| x.atan()),
    ("atan2(x, y)", |x, y| x.atan2(y)),
    ("sinh(y)", |_, y| y.sinh()),
    ("cosh(y)", |_, y| y.cosh()),
    ("tanh(x)", |x, _| x.tanh()),
    ("tanh(x * 100)", |x, _| (x * 100.0).tanh()),
    ("sqrt(abs(x))", |x, _| x.abs().sqrt()),
    ("rsqrt(abs(x))", |x, _| 1.0 / x.abs().sqrt()),
    ("pow(x, 3)", |x, _| x.powi(3)),
    ("pow(x, -2.0f)", |x, _| x.powi(-2)),
    ("powr(abs(x), y)", |x, y| x.abs().powf(y)),
    ("floor(x) + ceil(y)", |x, y| x.floor() + y.ceil()),
    ("trunc(x) + fract(x)", |x, _| x.trunc() + x - x.floor()),
    ("round(x * 2) + rint(x)", |x, _| (x * 2.0).round() + x.round_ties_even()),
    ("fmod(x, 0.75f)", |x, _| x % 0.75),
    ("min(x, y) - fmax(x, 1.0)", |x, y| x.min(y) - x.max(1.0)),
    ("clamp(x, -1.0f, 1.0f) + saturate(x)", |x, _| x.clamp(-1.0, 1.0) + x.clamp(0.0, 1.0)),
    ("mix(x, y, 0.25f)", |x, y| x + (y - x) * 0.25),
    ("sign(x) + step(0.5f, y)", |x, y| x.signum() + f64::from(u8::from(y >= 0.5))),
    ("fma(x, y, 1.0f)", |x, y| x.mul_add(y, 1.0)),
    ("copysign(x, y)", |x, y| x.copysign(y)),
    ("ldexp(x, 3) + absdiff(7, 9)", |x, _| x * 8.0 + 2.0),
    ("select(x, y, x < y) + M_PI_F", |x, y| x.max(y) + PI),
    ("sinpi(x) + cospi(y)", |x, y| (x * PI).sin() + (y * PI).cos()),
    ("median3(x, y, 0.25f) + max3(x, y, 0.5f)", |x, y| {
        x.min(y).max(x.max(y).min(0.25)) + x.max(y).max(0.5)
    }),
    ("two_results(x, y)", |x, y| {
        let (whole, power) = (x.trunc(), y.abs().log2().floor() + 1.0);
        (x - whole) + 10.0 * whole + y.sin() + 10.0 * y.cos() + y / power.exp2() + 10.0 * power
    }),
    ("isnan(x) + isinf(exp(abs(x) + 200)) * 2 + isfinite(y) * 4 + signbit(x) * 8", |x, _| {
        6.0 + if x < 0.0 { 8.0 } else { 0.0 }
    }),
];

#[test]
fn the_library_is_right() {
    on_gpu(|| {
        let a = filled(&[64], Dtype::Float32, noise(1, -8.0, 8.0));
        let b = filled(&[64], Dtype::Float32, noise(2, -1.0, 1.0));
        for (text, want) in FUNCTIONS {
            let source = format!(
                "uint i = thread_position_in_grid.x; float x = a[i], y = b[i]; out[i] = {text};"
            );
            let out = Call {
                source: &source,
                header: "float two_results(float x, float y) {
                    float whole, c; int e;
                    float part = modf(x, whole), s = sincos(y, c), f = frexp(y, e);
                    return part + 10 * whole + s + 10 * c + f + 10 * e;
                }",
                inputs: &[("a", &a), ("b", &b)],
                outputs: &[("out", &[64], Dtype::Float32)],
                grid: [64, 1, 1],
                threadgroup: [64, 1, 1],
                ..Call::default()
            }
            .one();
            for ((x, y), got) in values(&a).into_iter().zip(values(&b)).zip(values(&out)) {
                let want = want(x, y);
                // What drivers' own functions give.
                let tolerance = 2e-5 * want.abs().max(0.1);
                assert!(
                    (got - want).abs() <= tolerance,
                    "{text} of {x} and {y}: {got}, not {want}"
                );
            }
        }
    });
}

#[test]
fn bits_are_counted_and_moved() {
    on_gpu(|| {
        expect(
            "",
            "uint x = uint(i) * 0x9E3779B9u; out[i] = popcount(x) + 100 * clz(x) + 10000 * ctz(x);",
            |i| {
                let x = (i as u32).wrapping_mul(0x9E37_79B9);
                (x.count_ones() + 100 * x.leading_zeros() + 10_000 * x.trailing_zeros()) as i32
            },
        );
        expect(
            "",
            "uint x = uint(i) * 0x9E3779B9u;
                out[i] = int(extract_bits(x, 5, 7)
                + rotate(x, 9u) + reverse_bits(x) + mulhi(x, 77u)
                + insert_bits(x, 3u, 8, 4));",
            |i| {
                let x = (i as u32).wrapping_mul(0x9E37_79B9);
                let high = ((u64::from(x) * 77) >> 32) as u32;
                let inserted = x & !0xF00 | 3 << 8;
                (x >> 5 & 127)
                    .wrapping_add(x.rotate_left(9))
                    .wrapping_add(x.reverse_bits())
                    .wrapping_add(high)
                    .wrapping_add(inserted) as i32
            },
        );
        expect(
            "",
            "out[i] = as_type<int>(float(i)) + int(as_type<ushort>(half(i)))
                + int(as_type<ushort2>(i * 65537).y);",
            |i| {
                let half = f16::from_f32(i as f32).to_bits();
                (i as f32).to_bits() as i32 + i32::from(half) + i
            },
        );
    });
}

/// Shapes and strides are what the kernel is given, and `elem_to_loc` finds elements by them.
#[test]
fn inputs_are_read_by_their_strides() {
    on_gpu(|| {
        let base = array(&(0..60).map(f64::from).collect::<Vec<_>>(), &[3, 4, 5], Dtype::Float32);
        let turned = ops::transpose(&base, &[2, 0, 1]).unwrap();
        let source = "uint i = thread_position_in_grid.x;
            auto at = elem_to_loc(i, x_shape, x_strides, x_ndim);
            out[i] = x[at] + 1000 * x_shape[0] + float(x_strides[1]) * 10000;";
        for (in_rows, stride) in [(false, 20.0), (true, 4.0)] {
            let out = Call {
                source,
                in_rows,
                inputs: &[("x", &turned)],
                outputs: &[("out", &[5, 3, 4], Dtype::Float32)],
                grid: [60, 1, 1],
                threadgroup: [60, 1, 1],
                ..Call::default()
            }
            .one();
            let want: Vec<f64> =
                values(&turned).into_iter().map(|x| x + 5000.0 + stride * 10_000.0).collect();
            assert_eq!(values(&out), want);
        }
    });
}

#[test]
fn scalars_and_small_arrays_are_constants() {
    on_gpu(|| {
        let scalar = Array::from_slice(&[2.5f32], &[]).unwrap();
        let few = Array::from_slice(&[10i32, 20], &[2]).unwrap();
        let out = Call {
            source: "out[0] = s * few[1] + N; flag[0] = B;",
            inputs: &[("s", &scalar), ("few", &few)],
            template: &[("N", TemplateArg::Int(-7)), ("B", TemplateArg::Bool(true))],
            outputs: &[("out", &[1], Dtype::Float32), ("flag", &[1], Dtype::Bool)],
            ..Call::default()
        }
        .run()
        .unwrap();
        assert_eq!((values(&out[0])[0], values(&out[1])[0]), (43.0, 1.0));
    });
}
