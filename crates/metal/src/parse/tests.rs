//! Expressions are printed back with all their parentheses; statements by their kinds.

mod show;

use super::parse;
use crate::ast::{Attribute, Parameter, Program, Space, TemplateArgument};
use crate::error::Error;
use show::{declaration, expression, joined, statements, type_name};

/// What is declared before the code of the tests.
const HEADER: &str = "
    using namespace metal;
    struct Pair { float a; int b[2]; };
    template <typename T> struct Box { T value; };
    enum Mode { slow, fast = 4, faster };
    inline float two(float a, float b) { return a + b; }
";

fn program(source: &str) -> Program {
    match parse(source) {
        Ok(program) => program,
        Err(error) => panic!("{error} in {source}"),
    }
}

fn error(source: &str) -> Error {
    match parse(source) {
        Ok(program) => panic!("no error: {program:?}"),
        Err(error) => error,
    }
}

/// The statements of a function, as they are printed.
fn body(code: &str) -> String {
    let all = format!(
        "{HEADER} template <typename T, int N> void f(device T* p, uint n) {{ {code} }}
        template <typename T, int N = 2> T late(T a) {{ return a; }}"
    );
    let program = program(&all);
    let found = program.functions.iter().find(|function| function.name == "f");
    found.map(|function| statements(&function.body)).unwrap_or_default()
}

fn value(code: &str) -> String {
    let printed = body(&format!("n = {code};"));
    let inner = printed.strip_prefix("(n = ").and_then(|rest| rest.strip_suffix(");"));
    inner.unwrap_or(&printed).to_string()
}

#[track_caller]
fn values(cases: &[(&str, &str)]) {
    for (code, printed) in cases {
        assert_eq!(value(code), *printed, "{code}");
    }
}

#[track_caller]
fn messages(cases: &[(&str, u32, &str)]) {
    for (source, line, message) in cases {
        assert_eq!(error(source), Error::new(*line, *message), "{source}");
    }
}

#[test]
fn operators_bind_as_in_cpp() {
    values(&[
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("a << 1 + b >> 2", "((a << (1 + b)) >> 2)"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a & b == c ^ d | e", "(((a & (b == c)) ^ d) | e)"),
        ("a || b && c | d", "(a || (b && (c | d)))"),
        ("a % b / c * -d", "(((a % b) / c) * (-d))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a = b += c ? d : e", "(a = (b += (c ? d : e)))"),
        ("-a.x[1] + !*q++", "((-a.x[1]) + (!(*(q++))))"),
        ("~--a - &b->c", "((~(--a)) - (&(*b).c))"),
        ("(a, b) + c", "((a , b) + c)"),
        ("a and not b or c", "((a && (!b)) || c)"),
    ]);
}

#[test]
fn numbers_are_read() {
    values(&[
        ("0x1Fu + 017 + 0b101ul + 1'000", "(((31u + 15) + 5ul) + 1000)"),
        ("1e-3f + .5 + 1. + 1.0h", "(((0.001 + 0.5) + 1.0) + 1.0h)"),
        ("0x1.8p3 + 'a' + '\\n'", "((12.0 + 97) + 10)"),
        ("0xe+1", "(14 + 1)"),
        ("true | false", "(true | false)"),
    ]);
}

#[test]
fn casts_are_told_from_parentheses() {
    values(&[
        ("(float)a * b", "(cast<float>(a) * b)"),
        ("(a) * b", "(a * b)"),
        ("(T)(a)", "cast<T>(a)"),
        ("(device const float4*)(p + 4)", "cast<device const float4*>((p + 4))"),
        ("*(thread unsigned int*)&a", "(*cast<thread uint*>((&a)))"),
        ("(float4(a) + b)", "(float4(a) + b)"),
        ("(int)-1", "cast<int>((-1))"),
        ("static_cast<vec<T, 4>>(a)", "cast<vec<T, 4>>(a)"),
        ("reinterpret_cast<device uint*>(p)[1]", "cast<device uint*>(p)[1]"),
        ("as_type<uint>(1.0f) >> 3", "(bits<uint>(1.0) >> 3)"),
        ("(Pair){1, {2, 3}}", "Pair{1, {2, 3}}"),
        ("sizeof(T) / sizeof(unsigned char)", "(sizeof(T) / sizeof(uchar))"),
        ("vec<T, 4>(a).x + unsigned(b)", "(vec<T, 4>(a).x + uint(b))"),
    ]);
}

#[test]
fn templates_are_told_from_comparisons() {
    values(&[
        ("late<float, 4>(a)", "late<float, 4>(a)"),
        ("late<float>(a) > late<T, N + 1>(b)", "(late<float>(a) > late<T, (N + 1)>(b))"),
        ("late<Box<T>, (N > 2)>(a)", "late<Box<T>, (N > 2)>(a)"),
        ("late<Box<Box<T>>>(a)", "late<Box<Box<T>>>(a)"),
        ("n < N >> 1", "(n < (N >> 1))"),
        ("two < a && b > (c)", "((two < a) && (b > c))"),
        ("metal::max<T>(a, b)", "max<T>(a, b)"),
        ("metal::is_same_v<T, float> && a", "(is_same_v<T, float> && a)"),
        ("numeric_limits<T>::max() - a", "(numeric_limits<T>::max() - a)"),
        ("metal::numeric_limits<half>::infinity()", "numeric_limits<half>::infinity()"),
        ("Limits<T>::max", "Limits<T>::max()"),
        ("Mode::fast + metal::fast::exp(a)", "(fast + exp(a))"),
        ("simd_sum(p[n < 4 ? n : 0])", "simd_sum(p[((n < 4) ? n : 0)])"),
    ]);
    assert_eq!(body("float late = 1; n = late < 4;"), "float late = 1; (n = (late < 4));");
}

#[test]
fn declarations_are_read() {
    let cases = [
        ("float a = 1, b[4] = {0}, *q = p;", "float a = 1, float b[4] = {0}, float* q = p;"),
        ("thread float& a = b, c;", "thread float& a = b, float c;"),
        ("device const T* const r = p;", "device const T* r = p;"),
        ("const device T* r, s;", "device const T* r, device const T s;"),
        ("T device* r;", "device T* r;"),
        ("threadgroup float s[2][N * 32];", "threadgroup float s[2][(N * 32)];"),
        ("constexpr static unsigned long long k = 3;", "const ulong k = 3;"),
        ("const constant int& k = n;", "constant const int& k = n;"),
        ("auto x = 1, y = 2;", "auto x = 1, auto y = 2;"),
        ("auto* r = p; const auto& q = n;", "auto* r = p; const auto& q = n;"),
        ("Pair x{1, {2, 3}}; T y(1, 2);", "Pair x = {1, {2, 3}}; T y = T(1, 2);"),
        ("metal::vec<T, 4> v[] = {1, 2,};", "vec<T, 4> v[] = {1, 2};"),
        ("struct Pair x; decltype(n) y;", "Pair x; decltype(n) y;"),
        ("Mode m = faster;", "Mode m = faster;"),
        ("using A = Box<T>*; A x; typedef half H; H y;", "A: Box<T>* A x; H: half H y;"),
        ("int Pair = 3; n = (Pair) * n;", "int Pair = 3; (n = (Pair * n));"),
        ("{ using A = int; } A * n;", "{ A: int } (A * n);"),
        ("enum M { K, L = 5 }; M m = M::L;", "const int K = 0, const int L = 5; M: int M m = L;"),
        ("enum class M : uchar { K }; n = K < 3;", "const int K = 0; M: int (n = (K < 3));"),
        ("if (a) enum M { K };", "if (a) { const int K = 0; M: int }"),
        ("struct Box<T> b; { struct S { int p; }; S s; }", "Box<T> b; { ; S s; }"),
        ("enum { K = 4, L }; x = K;", "const int K = 4, const int L = (K + 1); (x = K);"),
        (
            "atomic<uint> a; packed_float3 b; half4x4 c;",
            "atomic<uint> a; packed_float3 b; half4x4 c;",
        ),
    ];
    for (code, printed) in cases {
        // `b` after `&a` is not a reference.
        let printed = printed.replace("b, float c;", "b, thread float c;");
        assert_eq!(body(code), printed, "{code}");
    }
}

#[test]
fn statements_are_read() {
    let cases = [
        ("if (a) b = 1; else if (c) { d(); }", "if (a) (b = 1); else if (c) { d(); }"),
        ("if constexpr (N > 2) return;", "if ((N > 2)) return;"),
        ("for (int i = 0, j = 1; i < n; ++i, j--) ;", FOR_LOOP),
        ("for (;;) { break; continue; }", "for (; ; ) { break; continue; }"),
        ("[[unroll]] for (; n; n--) {}", "for (; n; (n--)) { }"),
        ("while (n) n /= 2;", "while (n) (n /= 2);"),
        ("do { n++; } while (n < 3);", "do { (n++); } while ((n < 3));"),
        ("#define U _Pragma(\"unroll\")\n U while (n) {}", "while (n) { }"),
        ("static_assert(N > 0, \"a\"); ;; return a, b;", "; ; ; return (a , b);"),
        ("return {a, {b}};", "return auto{a, {b}};"),
        ("int x __attribute__((unused)) = 1;", "int x = 1;"),
        ("x = {1, 2}; two({1}, a);", "(x = auto{1, 2}); two(auto{1}, a);"),
    ];
    for (code, printed) in cases {
        assert_eq!(body(&format!("\n{code}")), printed, "{code}");
    }
    let switch = "switch (n) { case 1: case Mode::fast: n = 1; case 3: { break; } default: ; }";
    let printed = "switch (n) { [1, fast] (n = 1); [3] { break; } [default] ; }";
    assert_eq!(body(switch), printed);
}

const FOR_LOOP: &str = "for (int i = 0, int j = 1; (i < n); ((++i) , (j--))) ;";

#[test]
fn functions_have_parameters() {
    let source = "
        namespace a { namespace b {
        template <typename T, int N = 4, bool B = (N > 2)> METAL_FUNC static T g(thread T (&x)[N], T = 1);
        [[host_name(\"k\")]] [[kernel]] void k(
            const device float* x [[buffer(3)]], uint3 at [[thread_position_in_grid]],
            float y[], constant int& z = 2) {}
        } }
        kernel void l(void) {}
        auto m(int a) -> float { return a; }";
    let program = program(source);
    let names: Vec<_> =
        program.functions.iter().map(|f| (f.name.as_str(), f.is_kernel, f.line)).collect();
    assert_eq!(names, [("k", true, 4), ("l", true, 8), ("m", false, 9)]);
    let parameters = &program.functions[0].parameters;
    assert_eq!(type_name(&parameters[0].ty), "device const float*");
    let buffer = Attribute { name: "buffer".into(), argument: Some(3) };
    assert_eq!(parameters[0].attribute, Some(buffer));
    let position = Attribute { name: "thread_position_in_grid".into(), argument: None };
    assert_eq!(parameters[1].attribute, Some(position));
    assert!(parameters[2].array[0].is_none() && parameters[3].default.is_some());
    assert_eq!(type_name(&program.functions[2].result), "float");
}

#[test]
fn programs_have_structs_constants_and_instances() {
    let source = "
        #include <metal_stdlib>
        template <typename T, int N> struct S { T a[N], *p; public: device float* q; };
        constant constexpr float table[2] = {1, 2};
        enum Mode : uint { slow, fast = 4, faster };
        using F = float; typedef device F* P;
        template <typename T = F, int N = 2 * 2> T f(T a) { return a; }
        template [[host_name(\"n\")]] [[kernel]] decltype(f<float, 4>) f<float, 4>;
        template void f<half>(device half* x [[buffer(0)]]);";
    let program = program(source);
    let fields: Vec<_> = program.structs[0].fields.iter().map(declaration).collect();
    assert_eq!(fields, ["T a[N]", "T* p", "device float* q"]);
    let constants: Vec<_> = program.constants.iter().map(declaration).collect();
    let enumerated = ["slow = 0", "fast = 4", "faster = (fast + 1)"]
        .map(|text| format!("constant const int {text}"));
    assert_eq!(constants[0], "constant const float table[2] = {1, 2}");
    assert_eq!(constants[1..], enumerated);
    let aliases: Vec<_> =
        program.aliases.iter().map(|a| format!("{} {}", a.name, type_name(&a.ty))).collect();
    assert_eq!(aliases, ["Mode int", "F float", "P device F*"]);
    let default = &program.functions[0].template[1].default;
    assert!(
        matches!(default, Some(TemplateArgument::Value(value)) if expression(value) == "(2 * 2)")
    );
    let instances: Vec<_> =
        program.instances.iter().map(|i| (i.function.as_str(), i.arguments.len())).collect();
    assert_eq!(instances, [("f", 2), ("f", 1)]);
    assert_eq!(program.constants[0].ty.space, Some(Space::Constant));
}

#[test]
fn structs_may_stand_in_functions() {
    let source = "
        template <typename T> void f(device T* a) { struct P { device P* a; }; struct Q { P b[2]; }; Q q; }
        kernel void k() {
            constexpr int N = 3;
            if (N > 2) { struct R; struct R { float a, b[N]; }; R r = {1}; } int P = 1; P * N;
        }
        enum class Mode { slow, fast = 4 };
        constant int last = Mode::fast;";
    let program = program(source);
    let structs: Vec<_> = program
        .structs
        .iter()
        .map(|found| format!("{}: {}", found.name, joined(&found.fields, declaration)))
        .collect();
    assert_eq!(structs, ["P: device P* a", "Q: P b[2]", "R: float a, float b[N]"]);
    let bodies: Vec<_> = program.functions.iter().map(|f| statements(&f.body)).collect();
    let second = "const int N = 3; if ((N > 2)) { ; ; R r = {1}; } int P = 1; (P * N);";
    assert_eq!(bodies, ["; ; Q q;", second]);
    assert_eq!(
        program.constants.last().map(declaration).as_deref(),
        Some("constant int last = fast")
    );
}

#[test]
fn names_of_types_in_functions_are_new() {
    let dependent =
        "the struct `S` cannot stand in a template's function, because it uses `N` of that";
    let hidden = "a variable `A` hides the constant of an `enum` here";
    messages(&[
        (
            "struct S { int a; };\nvoid f() { struct S { int b; }; }",
            2,
            "a struct `S` is there already",
        ),
        (
            "void f() { struct S {}; }\nvoid g() { struct S {}; }",
            2,
            "a struct `S` is there already",
        ),
        ("void f() { struct S {}; }\nstruct S {};", 2, "a struct `S` is there already"),
        ("void f() { struct S {}; }\nenum S { A };", 2, "a struct `S` is there already"),
        ("using S = int;\nvoid f() { struct S {}; }", 2, "a type `S` is there already"),
        ("void f() { struct S {}; }\nvoid g() { S s; }", 2, "`S` is not the name of a type"),
        ("template <int N> void f() { struct S {\nint N[N]; }; }", 2, dependent),
        ("template <int M> void f() { const int N = M; struct S { int a[N]; }; }", 1, dependent),
        ("void f() { union U { int a; }; }", 1, "`union` is not supported"),
        ("enum class X { A };\nenum class Y { A };", 2, "the name `A` is there already"),
        ("void f(int A) { enum class X { A }; }", 1, "the name `A` is there already"),
        ("enum class X { A };\nvoid f(int A) { A = X::A; }", 2, hidden),
    ]);
}

fn constants(source: &str) -> String {
    let all: Vec<_> = program(source).constants.iter().map(declaration).collect();
    all.join("; ")
}

#[test]
fn macros_are_replaced() {
    let cases = [
        (
            "#define N 4\n#define SQ(x) ((x) * \\\n (x))\nint a = SQ(N + 1);",
            "int a = ((4 + 1) * (4 + 1))",
        ),
        ("#define F (1)\nint a = F;", "int a = 1"),
        ("#define A B\n#define B A\nint A = 1;", "int A = 1"),
        ("#define F(x) G(x)\n#define G(x) F(x) + 1\nint a = F(2);", "int a = (F(2) + 1)"),
        ("#define ID(x) x\nint a = ID(ID)(3);", "int a = ID(3)"),
        ("#define T2(a, b) a b;\nT2(int, c = (1, 2))", "int c = (1 , 2)"),
        ("#define E()\n#define F(x) x\nint a = F(E() 2);", "int a = 2"),
        ("#define A 1\n#undef A\nint A;", "int A"),
        (
            "#if 0\na't \" @\n#elif defined(X) || !defined Y && 7 / 2 == 3\nint a;\n#else\nb\n#endif",
            "int a",
        ),
        (
            "#define X 2\n#ifdef X\n#if X > (1 ? 2 : 0)\nint a;\n#else\nint b;\n#endif\n#endif",
            "int b",
        ),
        ("#ifndef X\n#pragma unroll\nint a;\n#elif 1 / 0\n#error no\n#endif", "int a"),
        (
            "#if defined(X) && 1 / X\n#define P(x) #x\n#endif\nint a; // b\nint c; /* d\n */",
            "int a; int c",
        ),
        ("#if __METAL_VERSION__ >= 300 && __METAL__\nint a;\n#endif", "int a"),
    ];
    for (source, printed) in cases {
        assert_eq!(constants(source), printed, "{source}");
    }
}

#[test]
fn errors_of_macros_have_lines() {
    messages(&[
        ("\n#if 1\nint a;", 2, "the condition has no `#endif`"),
        ("#endif", 1, "`#endif` has no `#if`"),
        ("#if 1\n#else\n#else\n#endif", 3, "`#else` has no `#if`"),
        ("#error no \"this\"", 1, "`#error` no this"),
        ("#if 1 +\n#endif", 1, "expected a value in `#if`"),
        ("#if 1 / 0\n#endif", 1, "`#if` divides by zero"),
        (
            "#define F(x) x ## 1\n\nint a = F(1);",
            3,
            "the macro `F` has `##`, which is not supported",
        ),
        (
            "#define F(a, ...) a\nint a = F(1);",
            2,
            "the macro `F` has `...`, which is not supported",
        ),
        ("#define F(a) a\nint a = F(1, 2);", 2, "the macro `F` takes 1 arguments but found 2"),
        ("#define F(a) a\n\nint a = F(1;", 3, "the arguments of the macro `F` have no `)`"),
        ("int a;\n/* b", 2, "the comment has no end"),
    ]);
}

#[test]
fn errors_have_lines() {
    messages(&[
        ("void f() {\n int a = 1\n foo(); }", 3, "expected `;` but found `foo`"),
        ("void f() {\n foo x; }", 2, "`foo` is not the name of a type"),
        ("foo x;", 1, "`foo` is not the name of a type"),
        ("void f() { a = @; }", 1, "expected an expression but found `@`"),
        ("void f() {\n\n", 2, "expected an expression but found the end of the program"),
        ("void f() { a = 1", 1, "expected `;` but found the end of the program"),
        ("void f() { a = 09; }", 1, "`09` is not a number that is known here"),
        ("void f() { a = [](int x) { return x; }; }", 1, "a lambda is not supported"),
        ("void f() { for (auto x : y) {} }", 1, "a `for` over a range is not supported"),
        ("void f() { goto a; }", 1, "`goto` is not supported"),
        ("void f() { if (int a = 1) {} }", 1, "a variable in a condition is not supported"),
        ("void f() { case 1: ; }", 1, "a `case` stands outside of a `switch`"),
        ("void f() { a = sizeof(a); }", 1, "`sizeof` takes a type in parentheses here"),
        ("void f() { a = nullptr; }", 1, "`nullptr` is not supported"),
        ("void f() { int if = 1; }", 1, "expected the name of a variable but found `if`"),
        ("struct A {\n using B = int;\n};", 2, "structs have fields and functions alone here"),
        ("struct A { A(int x) {} };", 1, "a constructor of a struct is not supported"),
        ("struct A { int operator+(A b); };", 1, "an operator but `()` cannot be defined here"),
        ("struct A { int f() const; };", 1, "a function of a struct needs its body here"),
        (
            "struct A { int a; static int f() { return a; } };",
            1,
            "a static function has no field `a`",
        ),
        ("void f() { return this; }", 1, "`this` is not supported"),
        ("struct A { int n; int f() { A this; return n; } };", 1, "`this` is not supported"),
        ("struct A { thread A& f() {\n return *this; } };", 1, REFERENCE),
        ("struct A { template > x; };", 1, "structs have fields and functions alone here"),
        ("struct A { template int > x; };", 1, "structs have fields and functions alone here"),
        ("struct A { static_assert(true); };", 1, "expected a type but found `static_assert`"),
        (
            "constant int n = 1;\nstruct A { int n; int f() { return ::n; } };",
            2,
            "a field `n` hides what is named here",
        ),
        ("template <typename... T> void f() {}", 1, VARIADIC),
        ("template <> void f<int>() {}", 1, "a specialization of a template is not supported"),
    ]);
}

const REFERENCE: &str = "a function that gives a reference is not supported";
const VARIADIC: &str = "a template with any number of parameters is not supported";

#[test]
fn hostile_programs_are_refused() {
    let many = |text: &str| text.repeat(50_000);
    let sources = [
        format!("int a = {};", many("(")),
        format!("int a = {}1;", many("-")),
        format!("int a = 1{};", many(" + 1")),
        format!("int a = b{};", many("[0]")),
        format!("int a = b{};", many(" ? 1 : b")),
        format!("int a = b{};", many(" = b")),
        format!("int a = b{};", many(", b").replace(',', ".x,")),
        format!("int a = {}1;", many("(int)")),
        format!("int a[] = {};", many("{")),
        format!("void f() {{ {} }}", many("{")),
        format!("void f() {{ {} ; }}", many("if (a) ; else ")),
        format!("void f() {{ {} ; }}", many("for (;;) ")),
        format!("{}float x;", many("array<")),
        format!("int a = {}", many("a<")),
        format!("int a = {}", many("f(")),
        format!("float {}a;", many("*")),
        many("namespace a {"),
        many("template <"),
        format!("#if {}1", many("(")),
        format!("#define F(x) x\nint a = {}1{};", many("F("), many(")")),
    ];
    for source in sources {
        assert!(parse(&source).is_err(), "{}", &source[..40]);
    }
    let mut bomb = String::from("#define A0 x x x x\n");
    for level in 1..40 {
        bomb.push_str(&format!("#define A{level} A{0} A{0} A{0} A{0}\n", level - 1));
    }
    assert_eq!(error(&format!("{bomb}A39")).message, "macros make more than 1000000 tokens");
}

#[test]
fn structs_have_functions() {
    let source = "
        struct F { int operator()(int x) const { return x; } };
        template <typename T, int N> struct S {
          T sum(T more = 1) const { T n = more; return a[0] + this->n + (*this).n + n + next(1); }
          template <typename U> void operator()(U x) threadgroup { n = f(x); sum(); add<U>(x); }
          template <typename U> void add(U x) { n += U(x); }
          static T next(T x) { return x + 1; }
          T a[N], n;
          F f;
        };
        void g(S<int, 2> s, thread S<int, 2>* p) {
          s.sum(); p->sum(1); s(2); s.template add<int>(3); p->add<int>(4); S<int, 2>::next(5); F()(6);
        }";
    let program = program(source);
    let functions: Vec<_> =
        program.functions.iter().map(|f| (f.name.as_str(), statements(&f.body))).collect();
    let want = [
        ("F::operator()", "return x;"),
        (
            "S::sum",
            "T n = more; return ((((this.a[0] + this.n) + this.n) + n) + S<T, N>::next(1));",
        ),
        ("S::operator()", "(this.n = this.f.operator()(x)); this.sum(); this.add<U>(x);"),
        ("S::add", "(this.n += U(x));"),
        ("S::next", "return (x + 1);"),
        (
            "g",
            "s.sum(); (*p).sum(1); s.operator()(2); s.add<int>(3); (*p).add<int>(4); \
             S<int, 2>::next(5); F().operator()(6);",
        ),
    ];
    assert_eq!(functions, want.map(|(name, body)| (name, body.to_owned())));
    let parameters = |at: usize| {
        let function = &program.functions[at];
        let ty = |p: &Parameter| format!("{} {}", type_name(&p.ty), p.name);
        (function.template.len(), joined(&function.parameters, ty))
    };
    assert_eq!(parameters(1), (2, "const S<T, N>& this, T more".into()));
    assert_eq!(parameters(2), (3, "threadgroup S<T, N>& this, U x".into()));
    assert_eq!(parameters(4), (2, "T x".into()));
}

/// No piece of a program may stop the parser other than by an error.
#[test]
fn pieces_of_programs_do_not_panic() {
    let source = "#define F(x) x\n#if F(1)\ntemplate <typename T, int N = 4> [[kernel]] void f(device T* p
        [[buffer(0)]]) { threadgroup vec<T, 4> s[2] = {{1}, F(2)}; for (int i = 0; i < N; i++) p[i] =
        (T)as_type<float>(0x1p3) + s[0].x ? numeric_limits<T>::max() : 'a'; switch (N) { case 1: break; } }
        #endif\nenum class E { A, B = 2 }; struct S { int a; } ; 
        void g() { enum F { C }; struct U { F a; }; } template decltype(f<int, 2>) f<int, 2>;
        template <typename T> struct M { template <typename U> T operator()(U x) const { return this->n + x; }
        static int s(int x) { return x; } T n; };
        int h(M<int> m) { return m(1) + m.template t<int>(2) + M<int>::s(3); }";
    for start in 0..source.len() {
        for length in [1, 7, 30, 100, source.len()] {
            let _ = parse(&source[start..source.len().min(start + length)]);
        }
    }
}
