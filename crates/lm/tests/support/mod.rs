//! Tiny models with made-up weights, written as folders that the loader reads.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod experts;
pub(crate) mod hub;

use std::path::Path;

use mlx::{Array, io::Arrays, ops, ops::FpMode};
use serde_json::{Value, json};

/// One case of `data/reference.json`.
pub(crate) struct Case {
    /// Its name.
    pub(crate) name: String,
    /// config.json.
    pub(crate) config: Value,
    /// Shape of every tensor by name.
    pub(crate) tensors: Vec<(String, Vec<usize>)>,
    /// Token ids to start from.
    pub(crate) prompt: Vec<u32>,
    /// Greedy continuation.
    pub(crate) ids: Vec<u32>,
    /// Logits after the prompt.
    pub(crate) first: Vec<f32>,
    /// Logits after the continuation.
    pub(crate) last: Vec<f32>,
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let all: Value = serde_json::from_str(include_str!("../data/reference.json")).unwrap();
    all.as_object().unwrap().iter().map(|(name, case)| Case::new(name, case)).collect()
}

/// The case of this name.
pub(crate) fn case(name: &str) -> Case {
    cases().into_iter().find(|c| c.name == name).unwrap()
}

impl Case {
    fn new(name: &str, case: &Value) -> Self {
        let ids = |field: &str| numbers(&case[field]).map(|n| n as u32).collect();
        let floats = |field: &str| numbers(&case[field]).map(|n| n as f32).collect();
        let tensors = case["tensors"].as_object().unwrap().iter();
        Case {
            name: name.to_owned(),
            config: case["config"].clone(),
            tensors: tensors
                .map(|(name, shape)| (name.clone(), numbers(shape).map(|n| n as usize).collect()))
                .collect(),
            prompt: ids("prompt"),
            ids: ids("ids"),
            first: floats("first"),
            last: floats("last"),
        }
    }

    /// The weights, quantized as config.json declares.
    pub(crate) fn weights(&self) -> Arrays {
        let mut names: Vec<_> = self.tensors.clone();
        names.sort();
        let mut arrays = Arrays::new();
        for (index, (name, shape)) in names.into_iter().enumerate() {
            let array = Array::from_slice(&weight(index as u32, &name, &shape), &shape).unwrap();
            let module = name.strip_suffix(".weight").unwrap_or(&name).to_owned();
            let matrix = name.ends_with(".weight") && shape.len() >= 2;
            match self.quantization(&module).filter(|_| matrix) {
                None => drop(arrays.insert(name, array)),
                Some((_, _, "mxfp4")) => {
                    let (w, scales) = ops::fp_quantize(&array, FpMode::Mxfp4, None).unwrap();
                    arrays.insert(name, w);
                    arrays.insert(format!("{module}.scales"), scales);
                }
                Some((group_size, bits, _)) => {
                    let (w, scales, biases) = ops::quantize(&array, group_size, bits).unwrap();
                    arrays.insert(name, w);
                    arrays.insert(format!("{module}.scales"), scales);
                    arrays.insert(format!("{module}.biases"), biases);
                }
            }
        }
        arrays
    }

    /// Group size, bits and mode of a module.
    fn quantization(&self, module: &str) -> Option<(usize, usize, &str)> {
        let block = self.config.get("quantization")?;
        let own = block.get(module).unwrap_or(block);
        let number = |field: &str| own[field].as_u64().unwrap() as usize;
        Some((number("group_size"), number("bits"), own["mode"].as_str().unwrap_or("affine")))
    }

    /// Writes config, weights and a tokenizer into `folder`.
    pub(crate) fn write(&self, folder: &Path) {
        let save = |name: &str, value: &Value| {
            std::fs::write(folder.join(name), value.to_string()).unwrap();
        };
        save("config.json", &self.config);
        save("tokenizer.json", &tokenizer());
        let template = "{% for m in messages %}{{ m.role[0] }}{{ m.content }}!{% endfor %}a";
        save("tokenizer_config.json", &json!({"chat_template": template, "eos_token": "_"}));
        let path = folder.join("model.safetensors");
        mlx::io::save_safetensors(&path, &self.weights(), &Default::default()).unwrap();
    }
}

/// A tokenizer of 96 single characters.
fn tokenizer() -> Value {
    let vocab: serde_json::Map<String, Value> =
        (0..95u8).map(|i| (char::from(b'!' + i).to_string(), json!(i))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
        },
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
}

fn numbers(list: &Value) -> impl Iterator<Item = f64> + '_ {
    list.as_array().unwrap().iter().map(|n| n.as_f64().unwrap())
}

/// As `unit` of reference.py.
fn unit(tensor: u32, element: u32) -> f32 {
    let mut h = element.wrapping_mul(2_654_435_761).wrapping_add(tensor * 40_503 + 1);
    h ^= h >> 16;
    h = h.wrapping_mul(0x7FEB_352D);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846C_A68B);
    h ^= h >> 16;
    (h >> 8) as f32 / (1 << 24) as f32
}

/// As `weight` of reference.py.
fn weight(tensor: u32, name: &str, shape: &[usize]) -> Vec<f32> {
    let count = shape.iter().product::<usize>() as u32;
    let centered = (0..count).map(|i| unit(tensor, i) - 0.5);
    match shape {
        [_, .., inner] => {
            let factor = (3.0 / (*inner as f64).sqrt()) as f32;
            centered.map(|x| x * factor).collect()
        }
        _ => {
            let middle = if name.ends_with("bias") { 0.0 } else { 1.0 };
            centered.map(|x| x * 0.5 + middle).collect()
        }
    }
}

/// Every device that is there, as the default of `f`.
pub(crate) fn on_every_device(mut f: impl FnMut(mlx::Device)) {
    mlx::init();
    for device in [mlx::Device::CPU, mlx::Device::GPU] {
        if mlx::backend::is_available(device.kind) {
            mlx::with_device(device, || f(device)).unwrap();
        }
    }
}
