//! The gated delta rule.

use mlx::{Dtype, fast};
use mlx_tests::{
    Approx, Host, Layout, assert_approx, dtypes_of, epsilon, filled, indices, noise, on_each_device,
};

/// Inputs of the delta rule as numbers.
struct Delta {
    q: Host,
    k: Host,
    v: Host,
    gamma: Host,
    beta: Host,
}

impl Delta {
    /// Outputs and the last state, by the recurrence in float64.
    fn run(&self, state: Option<&Host>, mask: Option<&[bool]>) -> (Vec<f64>, Vec<f64>) {
        let [batch, time, heads, dv] = self.v.shape[..] else { panic!("four axes") };
        let (dk, group) = (self.q.shape[3], heads / self.q.shape[2]);
        let mut outputs = vec![0.0; batch * time * heads * dv];
        let mut states = vec![0.0; batch * heads * dv * dk];
        for i in indices(&[batch, heads, dv]) {
            let [b, h, d] = i[..] else { panic!("three axes") };
            let mut s: Vec<f64> =
                (0..dk).map(|c| state.map_or(0.0, |state| state.at(&[b, h, d, c]))).collect();
            for t in 0..time {
                if mask.is_some_and(|mask| !mask[b * time + t]) {
                    continue;
                }
                let key = |c: usize| self.k.at(&[b, t, h / group, c]);
                let decay = |c: usize| match self.gamma.shape.len() {
                    3 => self.gamma.at(&[b, t, h]),
                    _ => self.gamma.at(&[b, t, h, c]),
                };
                s.iter_mut().enumerate().for_each(|(c, s)| *s *= decay(c));
                let held: f64 = s.iter().enumerate().map(|(c, s)| s * key(c)).sum();
                let change = (self.v.at(&[b, t, h, d]) - held) * self.beta.at(&[b, t, h]);
                s.iter_mut().enumerate().for_each(|(c, s)| *s += change * key(c));
                let terms = s.iter().enumerate().map(|(c, s)| s * self.q.at(&[b, t, h / group, c]));
                outputs[((b * time + t) * heads + h) * dv + d] = terms.sum();
            }
            states[((b * heads + h) * dv + d) * dk..][..dk].copy_from_slice(&s);
        }
        (outputs, states)
    }
}

/// Batches, tokens, key heads, value heads, key features and values.
const SIZES: [[usize; 6]; 4] =
    [[2, 5, 2, 4, 8, 6], [1, 1, 2, 4, 128, 16], [2, 3, 1, 2, 33, 5], [1, 2, 1, 1, 200, 3]];

#[test]
fn it_follows_its_recurrence() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for (size, layout) in SIZES.into_iter().flat_map(|s| Layout::ALL.map(|l| (s, l))) {
                for each_feature in [false, true] {
                    check(dtype, size, layout, each_feature, &format!("{dtype} on {device}"));
                }
            }
        }
    });
}

fn check(dtype: Dtype, size: [usize; 6], layout: Layout, each_feature: bool, on: &str) {
    let [batch, time, key_heads, heads, dk, dv] = size;
    let make = |shape: &[usize], seed, low, high| {
        layout.view(shape, |s| filled(s, dtype, noise(seed, low, high)))
    };
    // Keys are no longer than one, so that states stay small.
    let most = 1.0 / (dk as f64).sqrt();
    let q = make(&[batch, time, key_heads, dk], 1, -1.0, 1.0);
    let k = make(&[batch, time, key_heads, dk], 2, -most, most);
    let v = make(&[batch, time, heads, dv], 3, -1.0, 1.0);
    let decays = [batch, time, heads, dk];
    let gamma = make(if each_feature { &decays } else { &decays[..3] }, 4, 0.5, 1.0);
    let beta = make(&[batch, time, heads], 5, 0.0, 1.0);
    let state =
        layout.view(&[batch, heads, dv, dk], |s| filled(s, Dtype::Float32, noise(6, -1.0, 1.0)));
    let bits: Vec<bool> = (0..batch * time).map(|i| i % 3 != 1).collect();
    let mask = filled(&[batch, time], Dtype::Bool, |i| f64::from(bits[i]));
    let [host_q, host_k, host_v] = [&q, &k, &v].map(Host::of);
    let host =
        Delta { q: host_q, k: host_k, v: host_v, gamma: Host::of(&gamma), beta: Host::of(&beta) };
    for (some_state, some_mask) in [(false, false), (true, false), (true, true)] {
        let what = format!("{size:?} {layout:?} {each_feature} {some_state} {some_mask} {on}");
        let (y, last) = fast::gated_delta_update(
            [&q, &k, &v],
            &gamma,
            &beta,
            some_state.then_some(&state),
            some_mask.then_some(&mask),
        )
        .unwrap();
        assert_eq!((y.shape(), y.dtype()), (v.shape(), dtype), "{what}");
        assert_eq!((last.shape(), last.dtype()), (state.shape(), Dtype::Float32), "{what}");
        let first = some_state.then(|| Host::of(&state));
        let (outputs, states) = host.run(first.as_ref(), some_mask.then_some(bits.as_slice()));
        // Sums of up to two hundred terms below one, in float32.
        let near = |x: &f64| Approx { value: *x, error: 512.0 * epsilon(Dtype::Float32) };
        assert_approx(&what, &y, &outputs.iter().map(near).collect::<Vec<_>>());
        assert_approx(&what, &last, &states.iter().map(near).collect::<Vec<_>>());
    }
}

#[test]
fn states_are_taken_over() {
    on_each_device(|device| {
        let make = |shape: &[usize]| filled(shape, Dtype::Float32, noise(1, 0.0, 0.1));
        let (q, v, gate) = (make(&[1, 1, 2, 64]), make(&[1, 1, 2, 64]), make(&[1, 1, 2]));
        let mut state = make(&[1, 2, 64, 64]);
        let mut kept = Host::of(&state);
        let host = Delta {
            q: Host::of(&q),
            k: Host::of(&q),
            v: Host::of(&v),
            gamma: Host::of(&gate),
            beta: Host::of(&gate),
        };
        for _ in 0..3 {
            let next = fast::gated_delta_update([&q, &q, &v], &gate, &gate, Some(&state), None);
            state = next.unwrap().1;
            state.eval().unwrap();
            kept.values = host.run(Some(&kept), None).1;
        }
        let near = |x: &f64| Approx { value: *x, error: 512.0 * epsilon(Dtype::Float32) };
        let want: Vec<Approx> = kept.values.iter().map(near).collect();
        assert_approx(&format!("three steps on {device}"), &state, &want);
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    on_each_device(|_| {
        let a = filled(&[1, 2, 2, 4], Dtype::Float32, |_| 1.0);
        let g = filled(&[1, 2, 2], Dtype::Float32, |_| 1.0);
        let short = filled(&[1, 2, 1], Dtype::Float32, |_| 1.0);
        let update =
            |inputs, gamma, beta, state| fast::gated_delta_update(inputs, gamma, beta, state, None);
        assert!(update([&a, &a, &a], &g, &short, None).is_err());
        assert!(update([&a, &a, &a], &g, &a, None).is_err());
        assert!(update([&a, &a, &g], &g, &g, None).is_err());
        assert!(update([&a, &a, &a], &g, &g, Some(&a)).is_err());
    });
}
