//! Model folders that contradict themselves: one line that names the file and the field.

mod support;

use std::path::Path;

use mlx::{Array, io::Arrays, ops};
use mlx_vulkan_lm::load::{LoadOptions, load};
use serde_json::{Value, json};
use support::{
    Case, case,
    experts::{interleaved, one_by_one},
};

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

/// Weights in the form that `form` gives them, edited.
fn with_form(
    form: fn(Arrays) -> Arrays,
    edit: impl FnOnce(&mut Arrays),
) -> impl FnOnce(&Case, &Path) {
    with_weights(move |weights| {
        *weights = form(std::mem::take(weights));
        edit(weights);
    })
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

#[test]
fn experts_that_contradict_their_config() {
    assert_eq!(
        message("qwen3_moe", with_config("num_experts", json!(4))),
        "M/model.safetensors: model.layers.0.mlp.gate.weight: has shape [8, 64] but the \
         configuration asks for [4, 64]"
    );
    assert_eq!(
        message("qwen3_moe", with_config("moe_intermediate_size", json!(16))),
        "M/model.safetensors: model.layers.0.mlp.switch_mlp.gate_proj.weight: has shape \
         [8, 32, 64] but the configuration asks for [8, 16, 64]"
    );
    let text = message("qwen3_moe", with_config("num_experts_per_tok", json!(9)));
    assert_eq!(text, "M/config.json: num_experts_per_tok: 9 of 8 experts cannot be picked");
    let fewer = |name: &'static str| with_form(one_by_one, |w| drop(w.remove(name)));
    let third = "model.layers.2.mlp.experts.3.down_proj.weight";
    assert_eq!(
        message("qwen3_moe", fewer(third)),
        format!("M/model.safetensors: {third}: missing")
    );
    let huge = message("qwen3_moe", |case, folder| {
        with_form(one_by_one, |w| {
            let gate = ops::zeros(&[1 << 20, 64], mlx::Dtype::Bool).unwrap();
            w.insert("model.layers.0.mlp.gate.weight".into(), gate);
        })(case, folder);
        with_config("num_experts", json!(1 << 20))(case, folder);
    });
    assert!(huge.contains("has dtype bool but floating point numbers are needed"), "{huge}");
    let groups = message("qwen3_moe quantized", |case, folder| {
        with_weights(|w| {
            let name = "model.layers.1.mlp.switch_mlp.up_proj.scales";
            let scales = ops::zeros(&[8, 32, 3], mlx::Dtype::Float32).unwrap();
            w.insert(name.into(), scales);
        })(case, folder);
    });
    assert_eq!(
        groups,
        "M/model.safetensors: model.layers.1.mlp.switch_mlp.up_proj.weight: words [8, 32, 8] and \
         scales [8, 32, 3] are no quantized 8 × 32 × 64 matrix, which the configuration asks for"
    );
}

#[test]
fn a_gpt_oss_that_contradicts_itself() {
    mlx::init();
    let floats = |shape: &[usize]| ops::zeros(shape, mlx::Dtype::Float32).unwrap();
    let with = |name: &'static str, array: Array| {
        message("gpt_oss mxfp4", with_form(interleaved, |w| drop(w.insert(name.into(), array))))
    };
    let name = "model.layers.0.mlp.experts.gate_up_proj_blocks";
    assert_eq!(
        with(name, floats(&[8, 192, 2, 16])),
        format!("M/model.safetensors: {name}: has dtype float32 but bytes are needed")
    );
    assert!(with(name, floats(&[8, 192, 2, 4])).contains("asks for [8, 192, 2, 16]"));
    let name = "model.layers.0.self_attn.sinks";
    assert!(with(name, floats(&[3])).contains("sinks: has shape [3] but"));
    let without = |name: &'static str| {
        message("gpt_oss mxfp4", with_form(interleaved, |w| drop(w.remove(name))))
    };
    assert!(without(name).ends_with("self_attn.sinks: missing"));
    let name = "model.layers.3.mlp.experts.down_proj_bias";
    assert_eq!(without(name), format!("M/model.safetensors: {name}: missing"));
    // Scales that are no bytes are affine, and those have biases.
    let text = message(
        "gpt_oss mxfp4",
        with_weights(|w| {
            let name = "model.layers.0.mlp.experts.up_proj.scales";
            drop(w.insert(name.into(), ops::zeros(&[8, 96, 2], mlx::Dtype::Float32).unwrap()));
        }),
    );
    assert!(text.ends_with("experts.up_proj.biases: missing beside the scales"), "{text}");
    let text = message("gpt_oss mxfp4", |case, folder| {
        let mut config = case.config.clone();
        config["quantization"]["model.layers.0.mlp.experts.up_proj"] =
            json!({"group_size": 64, "bits": 8});
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    });
    assert!(text.contains("declares 8 bits in groups of 64 for"), "{text}");
    assert!(text.ends_with("but model.safetensors holds mxfp4"), "{text}");
}

/// Forty columns are more than one block of 32, and less than two.
#[test]
fn blocks_that_do_not_fill_their_rows() {
    let text = message("gpt_oss mxfp4", |case, folder| {
        with_form(interleaved, |w| {
            for layer in 0..4 {
                let name = |part: &str| format!("model.layers.{layer}.mlp.experts.{part}");
                for (part, axis, end) in [
                    ("gate_up_proj_blocks", 1, 80),
                    ("gate_up_proj_scales", 1, 80),
                    ("gate_up_proj_bias", 1, 80),
                    ("down_proj_blocks", 2, 1),
                    ("down_proj_scales", 2, 1),
                ] {
                    let cut = ops::slice_axis(&w[&name(part)], axis, 0, end).unwrap();
                    w.insert(name(part), cut);
                }
            }
        })(case, folder);
        with_config("intermediate_size", json!(40))(case, folder);
    });
    assert_eq!(
        text,
        "M/model.safetensors: model.layers.0.mlp.experts.down_proj.weight: words [8, 64, 4] and \
         scales [8, 64, 1] are no quantized 8 × 64 × 40 matrix, which the configuration asks for"
    );
}
