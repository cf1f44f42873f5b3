//! Functions of structs: operators that are handed over as types, those that change what they are called on,
//! and static ones.

use mlx::Dtype;

use super::{Call, on_gpu, programs::expect};

/// As libraries of kernels have their operations: structs whose values are called.
const OPERATIONS: &str = "
    struct Add { template <typename T> T operator()(T x, T y) { return x + y; } };
    struct Scale { int by; int operator()(int x, int y) const { return by * x - y; } };
    template <typename T> struct Most {
        T least;
        T operator()(T x, T y) const { return max(least, max(x, y)); }
    };
    template <typename Op> int both(int x, int y) { return Op()(x, y) + Op{}(y, 1); }
    template <typename Op> int with(Op op, int x, int y) { return op(x, y); }";

#[test]
fn values_are_called() {
    on_gpu(|| {
        expect(OPERATIONS, "out[i] = both<Add>(i, 3) + Add().operator()(i, 1);", |i| {
            i + 3 + 4 + i + 1
        });
        expect(OPERATIONS, "out[i] = with(Scale{5}, i, 2);", |i| 5 * i - 2);
        expect(OPERATIONS, "Most<int> most{4}; out[i] = with(most, i, 7 - i);", |i| {
            4.max(i).max(7 - i)
        });
        expect(OPERATIONS, "Add add; out[i] = int(add(half(i), half(0.5h)) * 2);", |i| 2 * i + 1);
    });
}

/// A struct that changes: its functions call each other, take their own templates, and hide names.
const STACK: &str = "
    constant int limit = 100;
    template <typename T, int N> struct Stack {
        void push(T x) { if (size < N) { values[size++] = clipped(x); } }
        T pop() { return values[--size]; }
        T top() const { return values[size - 1]; }
        bool is_full() const { return size == limit; }
        T total() const { T sum = 0; for (int i = 0; i < size; i++) { sum += this->values[i]; } return sum; }
        template <typename U> U total_as(U more) const { return U((*this).total()) + more; }
        static T clipped(T x) { return min(x, T(50)); }
        void clear(int size) { this->size = size; }
        T values[N];
        int size;
    private:
        static constexpr int unused() { return 1; }
        int limit;
    };
    struct Two { Stack<int, 4> a; Stack<int, 2> b; int all() const { return a.total() + 10 * b.total(); } };
    int filled(thread Stack<int, 4>* s, int x) { s->push(x); s->push(2 * x); return s->top(); }";

#[test]
fn values_change() {
    on_gpu(|| {
        let source = "Stack<int, 4> s{}; s.limit = 2; int top = filled(&s, i); bool is_full = s.is_full();
            s.push(7); int seven = s.pop(); out[i] = s.total() + 100 * top + (is_full ? 1000 : 0) + seven;";
        let clipped = |x: i32| x.min(50);
        expect(STACK, source, |i| clipped(i) + clipped(2 * i) * 101 + 1007);
        let source = "Two two{}; for (int n = 0; n < 9; n++) { two.a.push(i); two.b.push(n); }
            out[i] = two.all() + int(two.a.total_as<float>(0.5f) * 2) + two.b.template total_as<int>(1)
                + Stack<short, 3>::clipped(60);
            two.a.clear(1); out[i] += two.a.total();";
        expect(STACK, source, |i| 4 * i + 10 + 8 * i + 1 + 2 + 50 + i);
    });
}

/// Names that variables, fields and functions of the program share.
const NAMES: &str = "
    enum class Mode { slow = 7, fast = 9 };
    template <typename T> T row(T x) { return x + 1; }
    template <typename T> struct Most {
        T n, least;
        T max(T x) const { return metal::max(x, least); }
        T sum() const { int n = 10; return n + least + this->n + int(Mode(9) == Mode::fast); }
        static T twice(T x) { return x * 2; }
    };
    using Floats = Most<float>;
    struct Other {
        decltype(1.0f) row;
        static int twice(int x) { return -x; }
        decltype(1) one() const { return 1; }
    };
    struct Empty {};
    struct Behind { Empty e; uchar a; };
    template <typename Op, typename T> T by(T x) { return Op::twice(x); }";

#[test]
fn names_are_told_apart() {
    on_gpu(|| {
        expect(NAMES, "int max = i; max = metal::max(max, 5); out[i] = max;", |i| i.max(5));
        expect(NAMES, "Most<int> m{1, 4}; out[i] = m.max(i) + m.sum();", |i| i.max(4) + 16);
        expect(NAMES, "out[i] = int(Floats::twice(i + 0.5f)) + int(by<Floats>(0.5f) * 3);", |i| {
            2 * i + 1 + 3
        });
        expect(
            NAMES,
            "Most<int> m{}; out[i] = by<Other>(i) + Other::twice(1) + m.twice(4);",
            |i| -i - 1 + 8,
        );
        expect(NAMES, "Other o{4}; out[i] = (o.row < i ? row<int>(i) : 0) + o.one();", |i| {
            if i > 4 { i + 2 } else { 1 }
        });
        expect(NAMES, "out[i] = sizeof(Empty) + 10 * sizeof(Behind);", |_| 21);
    });
}

/// Functions are handed parts of variables: fields of fields, and elements of these.
#[test]
fn parts_are_referred_to() {
    on_gpu(|| {
        let header = "
            struct Inner { int n; int a[3]; };
            struct Outer { float f; Inner inner; Inner all[2]; };
            void add(thread int& x, int by) { x += by; }
            void add_all(thread int* x, int by) { for (int k = 0; k < 3; k++) { x[k] += by; } }
            int last(thread const Inner& inner) { return inner.a[2]; }";
        let source =
            "Outer o{}; add(o.inner.n, i); add(o.all[i % 2].a[1], 3); add_all(o.inner.a, 4);
            add_all(o.all[1].a, i); add(o.all[1].n, 5);
            out[i] = o.inner.n + o.all[i % 2].a[1] + last(o.inner) + last(o.all[1]) + o.all[1].n;";
        expect(header, source, |i| i + 3 + (i % 2) * i + 4 + i + 5);
    });
}

/// Structs in memory of a group and of the device.
#[test]
fn values_lie_in_other_memory() {
    on_gpu(|| {
        let header = "
            struct Cell {
                int n;
                int twice() const threadgroup { return 2 * n; }
                int thrice() const { return 3 * n; }
                void set(int x) threadgroup { n = x; }
            };
            struct Pair { int a, b; int sum() const device { return a + b; } };";
        let source = "
            threadgroup Cell cells[16];
            uint i = thread_position_in_grid.x;
            cells[i].set(int(i) + 1);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const device Pair* pairs = (const device Pair*)x;
            Cell copy = cells[15 - i];
            out[i] = cells[15 - i].twice() + copy.thrice() + pairs[i / 2].sum();";
        let x = mlx_tests::filled(&[16], Dtype::Int32, |i| i as f64);
        let outputs: &[_] = &[("out", [16usize].as_slice(), Dtype::Int32)];
        let (grid, threadgroup) = ([16, 1, 1], [16, 1, 1]);
        let inputs: &[_] = &[("x", &x)];
        let call = Call { header, source, inputs, outputs, grid, threadgroup, ..Call::default() };
        let want: Vec<i32> = (0..16).map(|i| 5 * (16 - i) + 4 * (i / 2) + 1).collect();
        assert_eq!(call.one().to_vec::<i32>().unwrap(), want);
    });
}

#[test]
fn calls_of_values_may_be_wrong() {
    on_gpu(|| {
        let error = |header: &str, source: &str| {
            let outputs: &[_] = &[("out", [1usize].as_slice(), Dtype::Int32)];
            Call { header, source, outputs, ..Call::default() }.error()
        };
        let header =
            "struct A { int n; int f(int x) const { return n + x; } void g() { n = 1; } };";
        for (source, message) in [
            ("A a{1}; out[0] = a.f();", "there is no function `A::f` of so many values"),
            ("A a{1}; out[0] = a.h(1);", "there is no function `A::h` of so many values"),
            ("A a{1}; out[0] = a(1);", "there is no function `A::operator()` of so many values"),
            ("int a = 1; out[0] = a(1);", "a value of `int` cannot be called"),
            ("float2 a = 1; out[0] = a.f(1);", "a value of `float2` has no function `f`"),
            ("out[0] = A::h(1);", "there is no function `A::h` of so many values"),
            (
                "A a{1}, b{2}; (out[0] > 0 ? a : b).g(); out[0] = a.n;",
                "`g` would change a copy here",
            ),
        ] {
            let got = error(header, source);
            assert!(got.contains(message), "{source}: {got}");
        }
    });
}
