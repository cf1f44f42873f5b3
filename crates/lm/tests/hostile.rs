//! Model folders that contradict themselves: one line that names the file and the field.

mod support;

use std::path::Path;

use mlx::{Array, io::Arrays};
use mlx_vulkan_lm::load::{LoadOptions, load};
use serde_json::{Value, json};
use support::{Case, case};

/// The message of loading a case after `change` was made to its folder.
#[track_caller]
fn message(name: &str, change: impl FnOnce(&Case, &Path)) -> String {
    mlx::init();
    let folder = tempfile::tempdir().unwrap();
    let case = case(name);
    mlx::with_device(mlx::Device::CPU, || {
        case.write(folder.path());
        change(&case, folder.path());
        let error = load(folder.path(), &LoadOptions::default()).err().expect("an error");
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text.replace(&folder.path().display().to_string(), "M")
    })
    .unwrap()
}

fn with_config(field: &'static str, value: Value) -> impl FnOnce(&Case, &Path) {
    move |case, folder| {
        let mut config = case.config.clone();
        config[field] = value;
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }
}

fn with_weights(edit: impl FnOnce(&mut Arrays)) -> impl FnOnce(&Case, &Path) {
    move |case, folder| {
        let mut weights = case.weights();
        edit(&mut weights);
        let path = folder.join("model.safetensors");
        mlx::io::save_safetensors(path, &weights, &Default::default()).unwrap();
    }
}

#[test]
fn a_config_that_contradicts_its_weights() {
    assert_eq!(
        message("qwen3", with_config("intermediate_size", json!(128))),
        "M/model.safetensors: model.layers.0.mlp.gate_proj.weight: has shape [96, 64] but the \
         configuration asks for [128, 64]"
    );
    assert_eq!(
        message("qwen3", with_config("num_hidden_layers", json!(1))),
        "M/config.json: num_hidden_layers: says 1 layers but model.safetensors holds \
         model.layers.1.input_layernorm.weight"
    );
    let more = message("qwen3", with_config("num_hidden_layers", json!(3)));
    assert!(more.starts_with("M/model.safetensors: model.layers.2."), "{more}");
    assert!(more.ends_with(": missing"), "{more}");
    let untied = message("qwen3", with_config("tie_word_embeddings", json!(false)));
    assert_eq!(untied, "M/model.safetensors: lm_head.weight: missing");
}

#[test]
fn quantization_that_is_not_what_config_declares() {
    let eight = json!({"group_size": 32, "bits": 8});
    let text = message("qwen3 quantized", with_config("quantization", eight));
    assert!(
        text.starts_with("M/config.json: quantization: declares 8 bits in groups of 32"),
        "{text}"
    );
    assert!(text.ends_with("holds 4 bits in groups of 32"), "{text}");
    let text = message("qwen3 quantized", with_config("quantization", Value::Null));
    assert!(text.contains("declares no quantization"), "{text}");
    let text = message("qwen3 quantized", with_weights(|w| drop(w.remove("lm_head.biases"))));
    assert_eq!(text, "M/model.safetensors: lm_head.biases: missing beside the scales");
}

#[test]
fn tensors_of_wrong_dtypes_and_shapes() {
    let integers = Array::from_slice(&[1i32; 64], &[64]).unwrap();
    let text =
        message("qwen3", with_weights(|w| drop(w.insert("model.norm.weight".into(), integers))));
    assert!(text.contains("model.norm.weight: has dtype int32"), "{text}");
    let scales = Array::from_slice(&[1f32; 3], &[3]).unwrap();
    let text = message(
        "qwen3 quantized",
        with_weights(|w| drop(w.insert("lm_head.scales".into(), scales))),
    );
    assert!(text.starts_with("M/model.safetensors: lm_head.weight: words"), "{text}");
}

#[test]
fn files_that_are_missing_or_damaged() {
    let remove = |name: &'static str| {
        move |_: &Case, folder: &Path| std::fs::remove_file(folder.join(name)).unwrap()
    };
    let write = |name: &'static str, text: &'static str| {
        move |_: &Case, folder: &Path| std::fs::write(folder.join(name), text).unwrap()
    };
    assert!(message("qwen3", remove("config.json")).starts_with("M: config.json: missing"));
    assert!(message("qwen3", remove("tokenizer.json")).starts_with("M/tokenizer.json: file: "));
    assert!(message("qwen3", remove("model.safetensors")).contains("model.safetensors"));
    assert!(
        message("qwen3", write("config.json", "{"))
            .starts_with("M/config.json: file: not valid JSON")
    );
    assert!(
        message("qwen3", write("tokenizer.json", "{}"))
            .starts_with("M/tokenizer.json: file: not a tokenizer")
    );
    let index = r#"{"weight_map": {"a": "../b.safetensors"}}"#;
    let text = message("qwen3", write("model.safetensors.index.json", index));
    assert!(
        text.starts_with("M/model.safetensors.index.json: weight_map.a: expected the name"),
        "{text}"
    );
    let text = message("qwen3", with_config("model_type", json!("mamba")));
    assert!(text.contains("unknown architecture \"mamba\"; supported: llama"), "{text}");
}
