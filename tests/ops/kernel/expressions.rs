//! Arithmetic of integers has C's types and wraps as theirs do: random expressions.

use mlx::{Array, Dtype};
use mlx_tests::cases;
use proptest::{prelude::*, sample::select, test_runner::TestRunner};

use super::{Call, on_gpu};

/// A type, its bits and whether it has a sign, in the order of ranks.
const TYPES: [(&str, u32, bool); 8] = [
    ("char", 8, true),
    ("uchar", 8, false),
    ("short", 16, true),
    ("ushort", 16, false),
    ("int", 32, true),
    ("uint", 32, false),
    ("long", 64, true),
    ("ulong", 64, false),
];
const INT: usize = 4;

/// An expression: its text, its type's number and its value.
type Expression = (String, usize, i128);

fn wrapped(value: i128, of: usize) -> i128 {
    let (_, bits, is_signed) = TYPES[of];
    let cut = value & ((1 << bits) - 1);
    if is_signed && cut >> (bits - 1) != 0 { cut - (1 << bits) } else { cut }
}

/// Values of the variables `v0` to `v7`, one of each type.
fn variables() -> [i128; 8] {
    [
        -77,
        200,
        -12_345,
        54_321,
        -1_234_567,
        0xFEDC_BA98,
        -0x1234_5678_9ABC_DEF0,
        u64::MAX as i128 - 6,
    ]
}

fn leaf() -> impl Strategy<Value = Expression> {
    let variable = (0..TYPES.len()).prop_map(|n| (format!("v{n}"), n, variables()[n]));
    let literal = (0i128..100).prop_map(|n| (n.to_string(), INT, n));
    prop_oneof![4 => variable, 1 => literal]
}

fn joined(operator: &str, a: Expression, b: Expression) -> Expression {
    let text = format!("({} {operator} {})", a.0, b.0);
    let of = a.1.max(b.1).max(INT);
    let (x, y) = (wrapped(a.2, of), wrapped(b.2, of));
    let truth = |is: bool| (text.clone(), INT, i128::from(is));
    let value = match operator {
        "+" => x + y,
        "-" => x - y,
        "*" => x.wrapping_mul(y),
        "&" => x & y,
        "|" => x | y,
        "^" => x ^ y,
        "<" => return truth(x < y),
        ">=" => return truth(x >= y),
        "==" => return truth(x == y),
        "!=" => return truth(x != y),
        "&&" => return truth(a.2 != 0 && b.2 != 0),
        "||" => return truth(a.2 != 0 || b.2 != 0),
        _ => unreachable!("{operator}"),
    };
    (text, of, wrapped(value, of))
}

fn divided(a: Expression, by: i128, operator: &str) -> Expression {
    let of = a.1.max(INT);
    let value = if operator == "/" { a.2 / by } else { a.2 % by };
    (format!("({} {operator} {by})", a.0), of, wrapped(value, of))
}

fn shifted(a: Expression, by: u32, operator: &str) -> Expression {
    let of = a.1.max(INT);
    let value = if operator == "<<" { a.2 << by } else { a.2 >> by };
    (format!("({} {operator} {by})", a.0), of, wrapped(value, of))
}

fn expression() -> impl Strategy<Value = Expression> {
    let operators = ["+", "-", "*", "&", "|", "^", "<", ">=", "==", "!=", "&&", "||"];
    leaf().prop_recursive(4, 24, 3, move |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            6 => (select(operators.to_vec()), two.clone())
                .prop_map(|(operator, (a, b))| joined(operator, a, b)),
            1 => (inner.clone(), 1i128..50, select(vec!["/", "%"]))
                .prop_map(|(a, by, operator)| divided(a, by, operator)),
            1 => (inner.clone(), 0u32..31, select(vec!["<<", ">>"]))
                .prop_map(|(a, by, operator)| shifted(a, by, operator)),
            1 => (inner.clone(), 0..TYPES.len())
                .prop_map(|(a, to)| (format!("({})({})", TYPES[to].0, a.0), to, wrapped(a.2, to))),
            1 => inner.clone().prop_map(|a| {
                let of = a.1.max(INT);
                (format!("(-{})", a.0), of, wrapped(-a.2, of))
            }),
            1 => inner.clone().prop_map(|a| {
                let of = a.1.max(INT);
                (format!("(~{})", a.0), of, wrapped(!a.2, of))
            }),
            1 => inner.clone().prop_map(|a| (format!("(!{})", a.0), INT, i128::from(a.2 == 0))),
            1 => (inner, two).prop_map(|(c, (a, b))| {
                let of = a.1.max(b.1).max(INT);
                let value = if c.2 != 0 { a.2 } else { b.2 };
                (format!("({} ? {} : {})", c.0, a.0, b.0), of, wrapped(value, of))
            }),
        ]
    })
}

#[test]
fn integers_are_those_of_c() {
    let declared: Vec<String> =
        (0..).zip(TYPES).map(|(n, (of, ..))| format!("{of} v{n} = {of}(in[{n}]);\n")).collect();
    let values: Vec<i64> = variables().iter().map(|&value| value as i64).collect();
    let given = Array::from_slice(&values, &[values.len()]).unwrap();
    let many = prop::collection::vec(expression(), 40);
    on_gpu(|| {
        TestRunner::new(cases(6))
            .run(&many, |expressions| {
                let mut source = declared.concat();
                for (n, (text, ..)) in expressions.iter().enumerate() {
                    source += &format!("out[{n}] = long({text});\n");
                }
                let out = Call {
                    source: &source,
                    inputs: &[("in", &given)],
                    outputs: &[("out", &[expressions.len()], Dtype::Int64)],
                    ..Call::default()
                }
                .one();
                for ((text, _, value), got) in expressions.iter().zip(out.to_vec::<i64>().unwrap())
                {
                    prop_assert_eq!(got, *value as i64, "{}", text);
                }
                Ok(())
            })
            .unwrap();
    });
}
