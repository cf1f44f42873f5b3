//! Mixtures of experts in every form that files have them in, and beyond their windows.

mod support;

use std::{collections::BTreeMap, path::Path};

use mlx::{
    Dtype,
    io::{Arrays, GgufArray, GgufValue},
    ops::{self, FpMode},
};
use mlx_vulkan_lm::{
    config::{Format, Quantization, preset},
    export::export_hf,
    generate::prefill,
    load::{LoadOptions, load, random_model},
    models::Transformer,
};
use serde_json::{Value, json};
use support::{
    Case, case,
    experts::{ggml_blocks, interleaved, one_by_one},
    on_every_device,
};

fn open(path: &Path) -> Transformer {
    load(path, &LoadOptions::default()).unwrap().model
}

/// A folder with these weights in place of the case's.
fn open_with(case: &Case, config: &Value, weights: &Arrays) -> Transformer {
    let folder = tempfile::tempdir().unwrap();
    case.write(folder.path());
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let file = folder.path().join("model.safetensors");
    mlx::io::save_safetensors(file, weights, &Default::default()).unwrap();
    open(folder.path())
}

fn logits(model: &Transformer, prompt: &[u32], chunk: usize) -> Vec<f32> {
    let logits = prefill(model, &mut model.new_cache(), prompt, chunk).unwrap();
    ops::astype(&logits, Dtype::Float32).unwrap().to_vec().unwrap()
}

#[track_caller]
fn assert_close(got: &[f32], want: &[f32], tolerance: f32, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < tolerance, "{what}: differs by {worst}");
}

#[test]
fn experts_of_qwen_with_files_of_their_own_are_stacked() {
    on_every_device(|device| {
        let case = case("qwen3_moe");
        let model = open_with(&case, &case.config, &one_by_one(case.weights()));
        let got = logits(&model, &case.prompt, 2048);
        assert_close(&got, &case.first, 2e-3, &format!("on {device}"));
    });
}

#[test]
fn experts_of_gpt_oss_are_taken_apart() {
    on_every_device(|device| {
        let case = case("gpt_oss mxfp4");
        let config = &case.config;
        let stacked = logits(&open_with(&case, config, &case.weights()), &case.prompt, 2048);
        assert_close(&stacked, &case.first, 2e-3, &format!("on {device}"));
        let published = open_with(&case, config, &interleaved(case.weights()));
        assert_eq!(logits(&published, &case.prompt, 2048), stacked, "on {device}");
    });
}

/// The weights of a case with mxfp4 experts, and nothing else quantized.
fn dense_but_experts(case: &Case) -> Arrays {
    let mut dense = Arrays::new();
    let weights = case.weights();
    for (name, array) in &weights {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        match weights.get(&format!("{module}.biases")) {
            Some(biases) if name.ends_with(".weight") => {
                let scales = &weights[&format!("{module}.scales")];
                let (group, bits) = if module.ends_with("router") { (64, 8) } else { (32, 4) };
                let array = ops::dequantize(array, scales, biases, group, bits).unwrap();
                dense.insert(name.clone(), array);
            }
            Some(_) => {}
            None if name.ends_with(".scales") && !name.contains("experts") => {}
            None if name.ends_with(".biases") => {}
            None => drop(dense.insert(name.clone(), array.clone())),
        }
    }
    dense
}

/// With what the makers' config.json says.
#[test]
fn a_published_gpt_oss_says_mxfp4_and_keeps_the_rest_dense() {
    on_every_device(|device| {
        let case = case("gpt_oss mxfp4");
        let dense = dense_but_experts(&case);
        let mut config = case.config.clone();
        config.as_object_mut().unwrap().remove("quantization");
        config["quantization_config"] =
            json!({"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]});
        let model = open_with(&case, &config, &interleaved(dense));
        let got = logits(&model, &case.prompt, 2048);
        assert_close(&got, &case.first, 2e-3, &format!("on {device}"));
    });
}

fn gguf_name(name: &str) -> String {
    [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.sinks", "attn_sinks.weight"),
        ("self_attn.", "attn_"),
        ("mlp.gate.", "ffn_gate_inp."),
        ("mlp.router.", "ffn_gate_inp."),
    ]
    .into_iter()
    .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// The tensors as llama.cpp's converter stores them.
fn gguf_tensors(weights: Arrays, norm: &str) -> Arrays {
    let rename = |name: String| {
        let mut name = gguf_name(&name).replace("post_attention_layernorm", norm);
        for module in ["mlp.switch_mlp.", "mlp.experts."] {
            if name.contains(module) {
                name = name.replace(module, "ffn_").replace("_proj", "_exps");
            }
        }
        name.replace("mlp.", "ffn_").replace("_proj", "")
    };
    weights.into_iter().map(|(name, array)| (rename(name), array)).collect()
}

fn gguf_metadata(
    case: &Case,
    arch: &str,
    more: &[(&str, GgufValue)],
) -> BTreeMap<String, GgufValue> {
    let size = |field: &str| GgufValue::Uint32(case.config[field].as_u64().unwrap() as u32);
    let float = |field: &str| GgufValue::Float32(case.config[field].as_f64().unwrap() as f32);
    let of_arch = [
        ("block_count", size("num_hidden_layers")),
        ("context_length", size("max_position_embeddings")),
        ("embedding_length", size("hidden_size")),
        ("expert_used_count", size("num_experts_per_tok")),
        ("attention.head_count", size("num_attention_heads")),
        ("attention.head_count_kv", size("num_key_value_heads")),
        ("attention.key_length", size("head_dim")),
        ("attention.layer_norm_rms_epsilon", float("rms_norm_eps")),
        ("rope.freq_base", float("rope_theta")),
    ];
    let tokens = (0..96).map(|i| format!("t{i}")).collect();
    let text = |text: &str| GgufValue::String(text.to_owned());
    let general = [
        ("general.architecture", text(arch)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.tokens", GgufValue::Array(GgufArray::String(tokens))),
        ("tokenizer.ggml.merges", GgufValue::Array(GgufArray::String(Vec::new()))),
    ];
    let of_arch = of_arch.into_iter().chain(more.iter().cloned());
    let of_arch = of_arch.map(|(key, value)| (format!("{arch}.{key}"), value));
    general.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(of_arch).collect()
}

/// A `qwen3_moe` case as GGUF has it: experts in every layer, shares that add up to one.
fn qwen3_moe_gguf(file: &Path) -> Case {
    let mut case = case("qwen3_moe");
    // GGUF has no name for layers without experts.
    case.config["mlp_only_layers"] = json!([]);
    let shape = |name: &str| {
        let layer = name.replace("layers.1", "layers.0");
        case.tensors.iter().find(|(n, _)| *n == layer).map(|(_, shape)| shape.clone())
    };
    let mlp: Vec<_> =
        ["gate", "switch_mlp.gate_proj", "switch_mlp.up_proj", "switch_mlp.down_proj"]
            .map(|part| format!("model.layers.1.mlp.{part}.weight"))
            .map(|name| (shape(&name).unwrap(), name))
            .into_iter()
            .map(|(shape, name)| (name, shape))
            .collect();
    case.tensors.retain(|(name, _)| !name.starts_with("model.layers.1.mlp."));
    case.tensors.extend(mlp);
    let more = [
        ("expert_count", GgufValue::Uint32(8)),
        ("expert_feed_forward_length", GgufValue::Uint32(32)),
    ];
    let metadata = gguf_metadata(&case, "qwen3moe", &more);
    mlx::io::save_gguf(file, &gguf_tensors(case.weights(), "ffn_norm"), &metadata).unwrap();
    case
}

#[test]
fn gguf_files_of_qwen_are_the_same_and_can_be_exported() {
    on_every_device(|device| {
        let place = tempfile::tempdir().unwrap();
        let (file, out) = (place.path().join("m.gguf"), place.path().join("out"));
        let case = qwen3_moe_gguf(&file);
        let want = logits(&open_with(&case, &case.config, &case.weights()), &case.prompt, 2048);
        let got = logits(&open(&file), &case.prompt, 2048);
        assert_close(&got, &want, 1e-5, &format!("on {device}"));
        export_hf(&file, &out, Some(Dtype::Float32)).unwrap();
        let got = logits(&open(&out), &case.prompt, 2048);
        assert_close(&got, &want, 1e-5, &format!("exported, on {device}"));
    });
}

/// The metadata of a `gpt_oss` case.
fn gpt_oss_metadata(case: &Case) -> BTreeMap<String, GgufValue> {
    let more = [
        ("expert_count", GgufValue::Uint32(8)),
        ("expert_feed_forward_length", GgufValue::Uint32(96)),
        ("attention.sliding_window", GgufValue::Uint32(16)),
        ("rope.scaling.type", GgufValue::String("yarn".to_owned())),
        ("rope.scaling.factor", GgufValue::Float32(32.0)),
        ("rope.scaling.original_context_length", GgufValue::Uint32(64)),
    ];
    gguf_metadata(case, "gpt-oss", &more)
}

#[test]
fn gguf_files_of_gpt_oss_are_the_same() {
    on_every_device(|device| {
        let place = tempfile::tempdir().unwrap();
        let (file, case) = (place.path().join("m.gguf"), case("gpt_oss"));
        let tensors = gguf_tensors(case.weights(), "post_attention_norm");
        mlx::io::save_gguf(&file, &tensors, &gpt_oss_metadata(&case)).unwrap();
        let got = logits(&open(&file), &case.prompt, 2048);
        assert_close(&got, &case.first, 2e-3, &format!("on {device}"));
        let refused = export_hf(&file, &place.path().join("out"), None).unwrap_err().to_string();
        assert!(refused.contains("gpt-oss is not exported"), "{refused}");
    });
}

/// Makes the tensor `name` of a GGUF file, whose bytes were written as one axis of int8, one of mxfp4 with
/// this shape. Its entry grows by 16 bytes.
fn declare_mxfp4(file: &mut Vec<u8>, name: &str, shape: [usize; 3]) {
    const MXFP4: u32 = 39;
    let key = [&(name.len() as u64).to_le_bytes(), name.as_bytes()].concat();
    let at = file.windows(key.len()).position(|window| window == key).expect("it is there");
    // Number of axes, one axis, and the type.
    let dims = at + key.len()..at + key.len() + 4 + 8 + 4;
    let axes = shape.iter().rev().flat_map(|&d| (d as u64).to_le_bytes());
    let entry: Vec<u8> =
        3u32.to_le_bytes().into_iter().chain(axes).chain(MXFP4.to_le_bytes()).collect();
    file.splice(dims, entry);
}

/// As it is published for llama.cpp: experts in mxfp4, the rest dense.
#[test]
fn gguf_files_of_gpt_oss_have_mxfp4_experts() {
    on_every_device(|device| {
        let place = tempfile::tempdir().unwrap();
        let (file, case) = (place.path().join("m.gguf"), case("gpt_oss mxfp4"));
        let mut tensors = gguf_tensors(dense_but_experts(&case), "post_attention_norm");
        let mut shapes = Vec::new();
        let scales = tensors.extract_if(.., |name, _| name.ends_with("_exps.scales"));
        for (name, scales) in scales.collect::<Vec<_>>() {
            let name = name.replace(".scales", ".weight");
            let words = &tensors[&name];
            shapes.push((name.clone(), [words.dim(0), words.dim(1), words.dim(2) * 8]));
            let blocks = ggml_blocks(words, &scales);
            tensors.insert(name, blocks);
        }
        mlx::io::save_gguf(&file, &tensors, &gpt_oss_metadata(&case)).unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        assert!((16 * shapes.len()).is_multiple_of(32), "the data behind stays aligned");
        shapes.iter().for_each(|(name, shape)| declare_mxfp4(&mut bytes, name, *shape));
        std::fs::write(&file, &bytes).unwrap();
        let got = logits(&open(&file), &case.prompt, 2048);
        assert_close(&got, &case.first, 2e-3, &format!("on {device}"));
    });
}

/// Past the window, and past what the cache of a layer with a window keeps.
#[test]
fn long_prompts_in_pieces_are_long_prompts() {
    on_every_device(|device| {
        let case = case("gpt_oss");
        let folder = tempfile::tempdir().unwrap();
        case.write(folder.path());
        let model = open(folder.path());
        let prompt: Vec<u32> = (0..480u32).map(|i| (5 * i * i + i) % 96).collect();
        let want = logits(&model, &prompt, 2048);
        for chunk in [3, 100, 479] {
            let got = logits(&model, &prompt, chunk);
            assert_close(&got, &want, 1e-4, &format!("chunks of {chunk} on {device}"));
        }
        // Eight bits are not far from what they stand for.
        let mut cache = model.new_cache();
        cache.quantize(Quantization { group_size: 32, bits: 8 }).unwrap();
        let got = prefill(&model, &mut cache, &prompt, 100).unwrap().to_vec::<f32>().unwrap();
        assert_close(&got, &want, 0.1, &format!("a quantized cache on {device}"));
        assert_ne!(got, want);
    });
}

/// Random models say something finite, whose bytes are those of their format, in pieces as at once.
#[test]
fn random_models_are_as_large_as_their_formats_say() {
    on_every_device(|device| {
        let affine = Some(Format::Affine(Quantization { group_size: 64, bits: 4 }));
        let [mx, nv] = [FpMode::Mxfp4, FpMode::Nvfp4].map(|mode| Some(Format::Floats(mode)));
        for (name, format) in [
            ("qwen3-moe-tiny", affine),
            ("qwen3-moe-tiny", None),
            ("qwen3-moe-tiny", nv),
            ("gpt-oss-tiny", affine),
            ("qwen3-tiny", mx),
        ] {
            let config = preset(name).unwrap();
            let model = random_model(config.clone(), format, Dtype::Float32, 3).unwrap();
            let parameters = config.num_parameters();
            // Norms of queries and keys are not counted.
            let dense = 4 * (parameters + config.num_layers * 2 * config.head_dim);
            let bytes = model.nbytes();
            // Scales and biases, of float32 here, are a quarter of the words; those of small floats less.
            let expected = if format.is_none() { dense..dense + 1 } else { dense / 8..dense / 4 };
            assert!(expected.contains(&bytes), "{name}: {bytes} of {dense}");
            let prompt: Vec<u32> = (0..150u32).map(|i| 7 * i % 1024).collect();
            let want = logits(&model, &prompt, 2048);
            assert!(want.iter().all(|x| x.is_finite()), "{name} on {device}");
            let got = logits(&model, &prompt, 1);
            assert_close(&got, &want, 1e-3, &format!("{name} on {device}"));
        }
    });
}
