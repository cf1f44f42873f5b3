//! Low-rank adaptation: training, keeping and using an adapter beside a small quantized model.

use std::{collections::BTreeMap, path::Path};

use mlx::{Array, Device, Dtype, Tree, io, ops, random};
use mlx_examples::lora::Tuning;
use mlx_vulkan_lm::{
    config::{ModelConfig, Quantization, preset},
    load::random_model,
    lora::Adapter,
    models::Transformer,
};

use crate::support::on_both_devices;

const TEXT: [u32; 12] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];

fn config() -> ModelConfig {
    ModelConfig { num_layers: 3, ..preset("qwen3-tiny").unwrap() }
}

/// Made anew each time, with the same weights.
fn model() -> Transformer {
    let quantization = Some(Quantization { group_size: 32, bits: 4 }.into());
    random_model(config(), quantization, Dtype::Float32, 5).unwrap()
}

/// The losses of a short training, and the adapter.
fn tune() -> (Vec<f32>, Adapter) {
    let mut tuning = Tuning::new(model(), 1).unwrap();
    let losses = (0..8).map(|_| tuning.step(&TEXT).unwrap()).collect();
    (losses, tuning.adapter().clone())
}

fn logits(model: &Transformer) -> Vec<f32> {
    let ids = Array::from_slice(&TEXT, &[1, TEXT.len()]).unwrap();
    model.forward(&ids, &mut model.new_cache()).unwrap().to_vec().unwrap()
}

fn the_loss_falls_as_on_the_cpu(_: Device) {
    let (losses, _) = tune();
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(last < 0.8 * first, "{losses:?}");
    let (on_cpu, _) = mlx::with_device(Device::CPU, tune).unwrap();
    for (step, (a, b)) in losses.iter().zip(&on_cpu).enumerate() {
        assert!((a - b).abs() <= 1e-3 * first, "{a} or {b} in step {step}");
    }
}

fn a_new_adapter_changes_nothing_and_a_trained_one_does(_: Device) {
    let plain = logits(&model());
    let fresh = Adapter::new(&config(), 4, 2.0, &random::key(1).unwrap()).unwrap();
    assert_eq!(logits(&model().adapted(&fresh).unwrap()), plain);
    let model = model();
    let adapted = model.adapted(&tune().1).unwrap();
    assert_ne!(logits(&adapted), plain);
    assert_eq!(logits(&model), plain);
    let of_adapter = 3 * 2 * 2;
    assert_eq!(adapted.arrays().len(), model.arrays().len() + of_adapter);
}

fn a_file_keeps_an_adapter(_: Device) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.safetensors");
    let (_, adapter) = tune();
    adapter.save(&path).unwrap();
    let loaded = Adapter::load(&path, &config()).unwrap();
    let logits = |adapter| logits(&model().adapted(adapter).unwrap());
    assert_eq!(logits(&loaded), logits(&adapter));
}

on_both_devices!(
    the_loss_falls_as_on_the_cpu,
    a_new_adapter_changes_nothing_and_a_trained_one_does,
    a_file_keeps_an_adapter,
);

/// What loading says about a file with these changes.
fn refusal(path: &Path, change: impl FnOnce(&mut io::Safetensors)) -> String {
    mlx::with_device(Device::CPU, || {
        let adapter = Adapter::new(&config(), 4, 2.0, &random::key(1).unwrap()).unwrap();
        adapter.save(path).unwrap();
        let mut file = io::load_safetensors(path).unwrap();
        mlx::eval(&file.arrays.values().collect::<Vec<_>>()).unwrap();
        change(&mut file);
        let other = path.with_file_name("other.safetensors");
        io::save_safetensors(&other, &file.arrays, &file.metadata).unwrap();
        Adapter::load(&other, &config()).err().expect("the file is wrong").to_string()
    })
    .unwrap()
}

#[test]
fn files_of_something_else_are_refused() {
    mlx_tests::init();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.safetensors");
    let name = "layers.1.v_proj.lora_b";
    let refusals = [
        refusal(&path, |file| file.metadata = BTreeMap::new()),
        refusal(&path, |file| drop(file.arrays.remove(name).unwrap())),
        refusal(&path, |file| {
            file.arrays.insert("more".into(), ops::zeros(&[4], Dtype::Float32).unwrap());
        }),
        refusal(&path, |file| {
            file.arrays.insert(name.into(), ops::zeros(&[4, 3], Dtype::Float32).unwrap());
        }),
    ];
    let wanted = [
        "scale: missing, or no number",
        "layers.1.v_proj.lora_b: missing",
        "more: is nothing of the model's",
        "layers.1.v_proj.lora_b: is float32 [4, 3], not float32 [4, 1024] as the model needs it",
    ];
    for (refusal, wanted) in refusals.iter().zip(wanted) {
        assert!(refusal.ends_with(wanted), "{refusal}");
    }
    let few = ModelConfig { num_layers: 2, ..config() };
    let adapter = Adapter::new(&few, 4, 2.0, &random::key(1).unwrap()).unwrap();
    let refusal = model().adapted(&adapter).err().expect("there are more layers").to_string();
    assert_eq!(refusal, "adapter: has 2 layers of 3");
}
