//! Cross entropy, and attention with sinks.

use mlx::{Array, Device, Dtype, fast, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, dtypes_of, epsilon, filled, indices, noise,
    on_each_device, sum_error, values,
};

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

#[test]
fn cross_entropy_is_the_surprise_of_the_targets() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (rows, classes) in [(1, 2), (5, 33), (3, 1030)] {
                for layout in [Layout::Contiguous, Layout::Transposed, Layout::Reversed] {
                    let logits =
                        layout.view(&[2, rows, classes], |s| filled(s, dtype, noise(1, -4.0, 4.0)));
                    let targets = filled(&[2, rows], Dtype::Uint32, |i| (i * 7 % classes) as f64);
                    let got = fast::cross_entropy(&logits, &targets).unwrap();
                    let what = format!("{rows}x{classes} {dtype} {layout:?} on {device}");
                    assert_eq!((got.shape(), got.dtype()), (&[2, rows][..], Dtype::Float32));
                    let (x, t) = (values(&logits), values(&targets));
                    let want: Vec<Approx> = x
                        .chunks(classes)
                        .zip(t)
                        .map(|(row, t)| {
                            let largest = row.iter().copied().fold(f64::MIN, f64::max);
                            let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
                            let value = largest + sum.ln() - row[t as usize];
                            let size = largest.abs() + row[t as usize].abs() + 8.0;
                            Approx {
                                value,
                                error: sum_error(classes + 16, 1.0, Dtype::Float32)
                                    + 4.0 * size * epsilon(Dtype::Float32),
                            }
                        })
                        .collect();
                    assert_approx(&what, &got, &want);
                }
            }
        }
        let logits = filled(&[3, 7], Dtype::Float32, |_| 0.0);
        let index = |shape: &[usize]| filled(shape, Dtype::Int32, |_| 0.0);
        assert!(fast::cross_entropy(&logits, &index(&[2])).is_err());
        assert!(fast::cross_entropy(&logits, &filled(&[3], Dtype::Float32, |_| 0.0)).is_err());
        assert!(fast::cross_entropy(&index(&[3, 7]), &index(&[3])).is_err());
    });
}

/// Attention of query heads that share keys, with a score per head that has no value.
fn attention_with_sinks(
    [q, k, v]: [&Host; 3],
    scale: f64,
    mask: impl Fn(usize, usize, usize, usize) -> f64,
    sinks: &[f64],
) -> Vec<f64> {
    let [batch, heads, rows, width] = q.shape[..] else { panic!("four axes") };
    let (group, keys) = (heads / k.shape[1], k.shape[2]);
    indices(&[batch, heads, rows, v.shape[3]])
        .map(|i| {
            let [b, h, r, d] = i[..] else { panic!("four axes") };
            let score = |j: usize| {
                let dot: f64 =
                    (0..width).map(|c| q.at(&[b, h, r, c]) * k.at(&[b, h / group, j, c])).sum();
                scale * dot + mask(b, h, r, j)
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let total: f64 = scores.iter().map(|s| s.exp()).sum::<f64>() + sinks[h].exp();
            let values = scores.iter().enumerate();
            values.map(|(j, s)| s.exp() * v.at(&[b, h / group, j, d])).sum::<f64>() / total
        })
        .collect()
}

#[test]
fn sinks_take_a_share_of_the_softmax() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for (rows, keys) in [(1, 9), (5, 5), (7, 12)] {
                let make = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
                let (q, k) = (make(&[2, 4, rows, 16], 1), make(&[2, 2, keys, 16], 2));
                let v = make(&[2, 2, keys, 8], 3);
                let sinks = array(&[0.5, -1.0, 2.0, 0.0], &[4], dtype);
                let kept = filled(&[rows, keys], Dtype::Bool, |i| f64::from(i % 4 != 2));
                let added = filled(&[2, 1, 1, keys], dtype, noise(4, -2.0, 0.0));
                let hosts = [&q, &k, &v].map(Host::of);
                let hosts = [&hosts[0], &hosts[1], &hosts[2]];
                let (bits, sums, s) = (Host::of(&kept), Host::of(&added), values(&sinks));
                let hide = |hidden: bool| if hidden { f64::NEG_INFINITY } else { 0.0 };
                let check = |name: &str, mask: fast::Mask<'_>, want: Vec<f64>| {
                    let got = fast::scaled_dot_product_attention_with_sinks(
                        &q, &k, &v, 0.25, mask, &sinks,
                    )
                    .unwrap();
                    assert_eq!(got.shape(), [2, 4, rows, 8]);
                    // Weights are at most one, and scores of the mask are kept in the dtype.
                    let error = 64.0 * epsilon(Dtype::Float32);
                    let want: Vec<Approx> =
                        want.into_iter().map(|value| Approx { value, error }).collect();
                    assert_approx(
                        &format!("{name} {rows}x{keys} {dtype} on {device}"),
                        &got,
                        &want,
                    );
                };
                let plain = attention_with_sinks(hosts, 0.25, |_, _, _, _| 0.0, &s);
                check("none", fast::Mask::None, plain);
                let causal = |_, _, r: usize, j: usize| hide(j + rows > r + keys);
                check("causal", fast::Mask::Causal, attention_with_sinks(hosts, 0.25, causal, &s));
                let by_bits = |_, _, r: usize, j: usize| hide(bits.at(&[r, j]) == 0.0);
                let want = attention_with_sinks(hosts, 0.25, by_bits, &s);
                check("bool", fast::Mask::Array(&kept), want);
                let by_sums = |b: usize, _, _, j: usize| sums.at(&[b, 0, 0, j]);
                let want = attention_with_sinks(hosts, 0.25, by_sums, &s);
                check("additive", fast::Mask::Array(&added), want);
            }
        }
        let q = filled(&[1, 2, 3, 8], Dtype::Float32, |_| 0.0);
        let sinks = |n: usize| filled(&[n], Dtype::Float32, |_| 0.0);
        let with = |s: &Array| {
            let mask = fast::Mask::None;
            fast::scaled_dot_product_attention_with_sinks(&q, &q, &q, 1.0, mask, s)
        };
        assert!(with(&sinks(2)).is_ok() && with(&sinks(3)).is_err());
        assert!(with(&ops::reshape(&sinks(2), &[1, 2]).unwrap()).is_err());
    });
}
