//! The example `digits`: the same training on both devices.

use mlx::Device;
use mlx_examples::digits::{Classifier, ConvNet, Digits, Mlp, Pictures, Training};

const EPOCHS: usize = 12;

/// The losses of a short training on `device`, and how many of the pictures are named rightly after it.
fn train<M: Classifier>(pictures: &Pictures, device: Device) -> (Vec<f32>, usize) {
    mlx_tests::init();
    let train = || {
        let mut training = Training::<M>::new(pictures, EPOCHS, 1).unwrap();
        let losses = (0..EPOCHS).flat_map(|_| training.epoch(pictures).unwrap()).collect();
        (losses, training.right(pictures).unwrap())
    };
    mlx::with_device(device, train).unwrap()
}

fn check<M: Classifier>() {
    // Few enough for lavapipe under the validation layers.
    let pictures = Digits::load().unwrap().held_out;
    let (losses, right) = train::<M>(&pictures, Device::GPU);
    mlx_tests::expect_valid();
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(first > 2.0 && last < 0.5 * first, "{losses:?}");
    assert!(right > pictures.len() * 8 / 10, "{right} of {}", pictures.len());
    let (on_cpu, _) = train::<M>(&pictures, Device::CPU);
    for (step, (a, b)) in losses.iter().zip(&on_cpu).enumerate() {
        assert!((a - b).abs() <= 1e-4 * first, "{a} or {b} in step {step}");
    }
    assert_eq!(losses.len(), on_cpu.len());
}

#[test]
fn an_mlp_learns_the_same_on_both_devices() {
    check::<Mlp>();
}

#[test]
fn a_convolutional_net_learns_the_same_on_both_devices() {
    check::<ConvNet>();
}
