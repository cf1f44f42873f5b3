//! What the tests of whole models share: both devices, logits as rows, and how a greedy choice may
//! differ.

use std::io::Write;

use mlx::{Array, Device, Dtype, ops};
use mlx_vulkan_lm::models::{Cache, Transformer};

/// Makes two tests of each function that takes a device.
macro_rules! on_both_devices {
    ($($name:ident),* $(,)?) => {
        mod cpu {
            $(#[test] fn $name() { crate::support::on(mlx::Device::CPU, super::$name); })*
        }
        mod vulkan {
            $(#[test] fn $name() { crate::support::on(mlx::Device::GPU, super::$name); })*
        }
    };
}
pub(crate) use on_both_devices;

/// Runs `test` with `device` as the default. The validation layers, where they are on, must agree.
pub(crate) fn on(device: Device, test: impl FnOnce(Device)) {
    mlx_tests::init();
    mlx::with_device(device, || test(device)).expect("both devices are usable");
    mlx_tests::expect_valid();
}

/// Logits of consecutive tokens.
pub(crate) struct Logits {
    values: Vec<f32>,
    vocabulary: usize,
}

impl Logits {
    /// What `model` computes for `ids`, which follow what is in `cache`.
    pub(crate) fn after(model: &Transformer, cache: &mut Cache, ids: &[u32]) -> Self {
        let ids = Array::from_slice(ids, &[1, ids.len()]).unwrap();
        Self::of(&model.forward(&ids, cache).unwrap())
    }

    /// What `model` computes for a sequence in one go.
    pub(crate) fn all(model: &Transformer, ids: &[u32]) -> Self {
        Self::after(model, &mut model.new_cache(), ids)
    }

    /// From an array (…, vocabulary), whose numbers must all be finite.
    #[track_caller]
    pub(crate) fn of(array: &Array) -> Self {
        let vocabulary = *array.shape().last().unwrap();
        let values: Vec<f32> = ops::astype(array, Dtype::Float32).unwrap().to_vec().unwrap();
        let bad = values.iter().position(|x| !x.is_finite());
        assert_eq!(bad, None, "position of a logit that is not finite");
        Self { values, vocabulary }
    }

    /// One row for each token.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.vocabulary)
    }

    /// The row of a token.
    pub(crate) fn row(&self, token: usize) -> &[f32] {
        &self.values[token * self.vocabulary..][..self.vocabulary]
    }

    /// The row of the last token.
    pub(crate) fn last(&self) -> &[f32] {
        self.row(self.rows().len() - 1)
    }
}

/// The most likely token.
pub(crate) fn best(row: &[f32]) -> u32 {
    let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
    (0..row.len()).reduce(better).unwrap() as u32
}

/// The largest difference between two rows.
#[track_caller]
pub(crate) fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// How far apart two logits may be for a greedy choice between them to be a matter of rounding.
const TIE: f32 = 0.05;

/// Checks that `want` is the greedy choice in `row`. Another choice is accepted where the two are
/// nearly tied, and reported even when the test passes.
#[track_caller]
pub(crate) fn check_choice(what: &str, row: &[f32], want: u32) {
    let got = best(row);
    if got == want {
        return;
    }
    let gap = row[got as usize] - row[want as usize];
    assert!(gap <= TIE, "{what}: token {got} instead of {want}, by {gap}");
    // Not `eprintln`, which the test harness keeps to itself when the test passes.
    let line = format!("flip: {what}: token {got} instead of {want}, by {gap}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
