//! Einstein summation, tensor contractions, outer and Kronecker products.

use std::collections::BTreeMap;

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, complex_noise, complex_parts, dtypes_of, filled,
    indices, noise, on_each_device, sum_error, unravel, values,
};

/// The sum of products over all letters that the output lacks, from its definition.
fn definition(
    terms: &[&str],
    output: &str,
    operands: &[Host],
    dtype: Dtype,
) -> (Vec<usize>, Vec<Approx>) {
    let mut sizes = BTreeMap::new();
    for (term, operand) in terms.iter().zip(operands) {
        for (letter, &size) in term.chars().zip(&operand.shape) {
            let joint = sizes.entry(letter).or_insert(size);
            *joint = size.max(*joint);
        }
    }
    let summed: Vec<char> = sizes.keys().copied().filter(|&c| !output.contains(c)).collect();
    let size = |letters: &[char]| letters.iter().map(|c| sizes[c]).collect::<Vec<usize>>();
    let kept: Vec<char> = output.chars().collect();
    let (shape, inner) = (size(&kept), size(&summed));
    let one = |index: Vec<usize>| {
        let (mut value, mut magnitude) = (0.0, 0.0);
        let count: usize = inner.iter().product();
        for place in 0..count {
            let at: BTreeMap<char, usize> = kept
                .iter()
                .copied()
                .zip(index.iter().copied())
                .chain(summed.iter().copied().zip(unravel(place, &inner)))
                .collect();
            let element = |(term, operand): (&&str, &Host)| {
                operand.at(&term.chars().map(|c| at[&c]).collect::<Vec<_>>())
            };
            let term: f64 = terms.iter().zip(operands).map(element).product();
            (value, magnitude) = (value + term, magnitude + term.abs());
        }
        // Each sum and each product of a contraction rounds once.
        Approx { value, error: sum_error(count + 2 * terms.len(), magnitude, dtype) }
    };
    (shape.clone(), indices(&shape).map(one).collect())
}

fn check(text: &str, shapes: &[&[usize]], dtype: Dtype, layout: Layout) {
    let (inputs, output) = text.split_once("->").expect("an output");
    let terms: Vec<&str> = inputs.split(',').collect();
    let arrays: Vec<Array> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            let make = |s: &[usize]| filled(s, dtype, noise(i as u64 + 1, -1.0, 1.0));
            if shape.is_empty() { make(shape) } else { layout.view(shape, make) }
        })
        .collect();
    let operands: Vec<&Array> = arrays.iter().collect();
    let got = ops::einsum(text, &operands).expect(text);
    let hosts: Vec<Host> = arrays.iter().map(Host::of).collect();
    let (shape, want) = definition(&terms, output, &hosts, dtype);
    assert_eq!(got.shape(), shape, "{text}: shape");
    assert_approx(&format!("{text} {dtype} {layout:?}"), &got, &want);
}

/// Contractions of each kind: products of matrices with and without batches, outer products,
/// diagonals, traces, sums, transposes, broadcasts and longer chains.
const CASES: [(&str, &[&[usize]]); 22] = [
    ("ij->ji", &[&[3, 5]]),
    ("ij->", &[&[3, 5]]),
    ("ij->j", &[&[3, 5]]),
    ("ii->i", &[&[4, 4]]),
    ("ii->", &[&[4, 4]]),
    ("iji->j", &[&[4, 3, 4]]),
    ("i,i->", &[&[7], &[7]]),
    ("i,j->ij", &[&[3], &[4]]),
    ("i,j->ji", &[&[3], &[4]]),
    ("ij,jk->ik", &[&[3, 4], &[4, 5]]),
    ("ij,jk->ki", &[&[3, 4], &[4, 5]]),
    ("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 5]]),
    ("bij,bkj->ikb", &[&[2, 3, 4], &[2, 5, 4]]),
    ("ijk,jil->kl", &[&[3, 4, 2], &[4, 3, 5]]),
    ("ij,ij->ij", &[&[3, 4], &[3, 4]]),
    ("ij,kj->i", &[&[3, 4], &[2, 4]]),
    ("ij,jk->ik", &[&[3, 1], &[4, 5]]),
    ("ii,ij->j", &[&[4, 4], &[4, 3]]),
    (",ij->ij", &[&[], &[2, 3]]),
    ("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 5]]),
    ("i,ij,jk,k->", &[&[3], &[3, 4], &[4, 2], &[2]]),
    ("ab,cd,ef->acf", &[&[2, 3], &[2, 2], &[3, 2]]),
];

#[test]
fn contractions_are_sums_of_products() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            // What lies between the contractions of a chain is rounded to the dtype.
            let whole = |d: Dtype| matches!(d, Dtype::Float32 | Dtype::Float64);
            let few = CASES.iter().filter(|(_, shapes)| shapes.len() == 1 || whole(dtype));
            for (text, shapes) in few {
                for layout in [Layout::Contiguous, Layout::Reversed] {
                    check(text, shapes, dtype, layout);
                }
            }
            check("ij,jk->ik", &[&[9, 40], &[40, 17]], dtype, Layout::Transposed);
        }
    });
}

#[test]
fn ellipses_and_outputs_are_filled_in() {
    on_each_device(|device| {
        let make = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
        let (a, b) = (make(&[2, 3, 4], 1), make(&[4, 5], 2));
        let same = |text: &str, explicit: &str, operands: &[&Array]| {
            let (x, y) = (ops::einsum(text, operands), ops::einsum(explicit, operands));
            let (x, y) = (x.expect(text), y.expect(explicit));
            assert_eq!((x.shape(), values(&x)), (y.shape(), values(&y)), "{text} on {device}");
        };
        same("...j,jk", "abj,jk->abk", &[&a, &b]);
        same("...j, jk -> ...k", "abj,jk->abk", &[&a, &b]);
        same("i...->...i", "iab->abi", &[&a]);
        same("abj,jk", "abj,jk->abk", &[&a, &b]);
        same("ba", "ba->ab", &[&b]);
        same("...,...->...", "ab,ab->ab", &[&b, &b]);
        let wide = make(&[3, 1, 4], 3);
        same("...ij,...ij->...i", "aij,aij->ai", &[&wide, &wide]);
    });
}

/// The path that MLX 0.32 prints for the same operands, and its errors.
#[test]
fn paths_and_errors_are_upstreams() {
    mlx_tests::init();
    let ones = |shape: &[usize]| filled(shape, Dtype::Float32, |_| 1.0);
    let chain = [ones(&[2, 3]), ones(&[3, 4]), ones(&[4, 5]), ones(&[5, 2])];
    let operands: Vec<&Array> = chain.iter().collect();
    let (path, summary) = ops::einsum_path("ij,jk,kl,lm->im", &operands).unwrap();
    assert_eq!(path, [[2, 3], [1, 2], [0, 1]]);
    assert_eq!(
        summary,
        "  Complete contraction:  ij,jk,kl,lm->im\n         Naive scaling:  5\n     Optimized scaling:  \
         3\n      Naive FLOP count:  960\n  Optimized FLOP count:  152\n"
    );
    let message =
        |text: &str, operands: &[&Array]| ops::einsum(text, operands).expect_err(text).to_string();
    let a = ones(&[2, 3]);
    assert_eq!(message("", &[]), "[einsum] At least one operand is required.");
    assert!(message("ij,jk", &[&a]).contains("Number of operands, 1, does not match"));
    assert!(message("i", &[&a]).contains("Invalid number of subscripts 1 for input 0 with 2"));
    assert!(message("i1->i", &[&a]).contains("Subscripts must be letters, but got '1'."));
    assert!(message("...i...", &[&a]).contains("Only one ellipsis per subscript"));
    assert!(message("ij->ii", &[&a]).contains("Repeat indices not allowed in output."));
    assert!(message("ii", &[&a]).contains("do not have the same size (2 != 3)."));
    assert!(message("ij,ij", &[&a, &ones(&[3, 3])]).contains("Cannot broadcast dimension 0"));
    assert!(message("...ijk", &[&a]).contains("insufficient dimensions"));
    let whole = array(&[1.0; 4], &[2, 2], Dtype::Int32);
    assert!(ops::einsum("ij,jk", &[&whole, &whole]).is_err(), "no product of integers");
}

#[test]
fn tensordot_inner_outer_and_kron() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let make = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
            let (a, b) = (make(&[2, 3, 4], 1), make(&[3, 4, 5], 2));
            let (x, y) = (Host::of(&a), Host::of(&b));
            let what = format!("{dtype} on {device}");
            let got = ops::tensordot(&a, &b, 2).unwrap();
            let (shape, want) = definition(&["ijk", "jkl"], "il", &[x.clone(), y.clone()], dtype);
            assert_eq!(got.shape(), shape, "{what}");
            assert_approx(&what, &got, &want);
            let got = ops::tensordot_axes(&a, &b, &[-1, 1], &[1, 0]).unwrap();
            assert_approx(&what, &got, &want);
            let got = ops::tensordot(&a, &b, 0).unwrap();
            assert_eq!(got.shape(), [2, 3, 4, 3, 4, 5], "{what}");
            let c = make(&[6, 4], 3);
            let got = ops::inner(&a, &c).unwrap();
            let (shape, want) = definition(&["ijk", "lk"], "ijl", &[x, Host::of(&c)], dtype);
            assert_eq!(got.shape(), shape, "{what}");
            assert_approx(&what, &got, &want);
            let got = ops::outer(&c, &a).unwrap();
            assert_eq!(got.shape(), [24, 24], "{what}");
            let (p, q) = (values(&c), values(&a));
            let want: Vec<Approx> =
                p.iter().flat_map(|p| q.iter().map(move |q| Approx::exact(p * q))).collect();
            assert_approx(&what, &got, &want);
            check_kron(&what, &make(&[2, 3], 4), &make(&[4, 1, 2], 5));
        }
        let zeros = filled(&[0, 2], Dtype::Float32, |_| 0.0);
        let ones = filled(&[2, 2], Dtype::Float32, |_| 1.0);
        assert!(ops::kron(&zeros, &ones).is_err());
        assert!(ops::tensordot(&ones, &ones, 3).is_err());
        assert!(ops::tensordot_axes(&ones, &zeros, &[0], &[0]).is_err());
        assert!(ops::inner(&ones, &filled(&[3], Dtype::Float32, |_| 1.0)).is_err());
        let two = filled(&[], Dtype::Int32, |_| 2.0);
        assert_eq!(values(&ops::inner(&two, &ones).unwrap()), [2.0; 4]);
    });
}

fn check_kron(what: &str, a: &Array, b: &Array) {
    let got = ops::kron(a, b).unwrap();
    assert_eq!(got.shape(), [4, 2, 6], "{what}");
    let (x, y) = (Host::of(a), Host::of(b));
    let one = |i: Vec<usize>| Approx::exact(x.at(&[i[1], i[2] / 2]) * y.at(&[i[0], 0, i[2] % 2]));
    assert_approx(what, &got, &indices(&[4, 2, 6]).map(one).collect::<Vec<_>>());
}

#[test]
fn vecdot_conjugates_its_first_operand() {
    on_each_device(|device| {
        let (a, b) = (complex_noise(&[3, 5], 1), complex_noise(&[3, 5], 5));
        let got = complex_parts(&ops::vecdot(&a, &b, -1).unwrap());
        let (x, y) = (complex_parts(&a), complex_parts(&b));
        for (i, [re, im]) in got.into_iter().enumerate() {
            let terms = (5 * i..5 * i + 5).map(|j| {
                let ([p, q], [r, s]) = (x[j], y[j]);
                [p * r + q * s, p * s - q * r]
            });
            let want = terms.fold([0.0, 0.0], |sum, z| [sum[0] + z[0], sum[1] + z[1]]);
            let near = (re - want[0]).abs() < 1e-5 && (im - want[1]).abs() < 1e-5;
            assert!(near, "{i} on {device}: {re} + {im}i, not {want:?}");
        }
        let real = filled(&[4, 3], Dtype::Float32, noise(3, -1.0, 1.0));
        let got = ops::vecdot(&real, &real, 0).unwrap();
        let host = Host::of(&real);
        let (shape, want) = definition(&["ij", "ij"], "j", &[host.clone(), host], Dtype::Float32);
        assert_eq!(got.shape(), shape);
        assert_approx(&format!("{device}"), &got, &want);
        assert!(ops::vecdot(&real, &real, 2).is_err());
        assert!(ops::vecdot(&real, &filled(&[3], Dtype::Float32, |_| 1.0), 0).is_err());
    });
}
