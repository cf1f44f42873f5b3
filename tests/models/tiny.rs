//! Tiny Qwen3 and Llama models, whose weights follow from their names, against `data/tiny.json`: a
//! float64 implementation in numpy that was held against upstream's mlx_lm (`data/tiny.py`).

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use mlx::{
    Array, Device, Dtype,
    io::{Arrays, GgufArray, GgufValue},
    ops,
};
use mlx_vulkan_lm::{
    export::export_hf,
    load::{LoadOptions, LoadedModel, load},
};
use serde_json::{Value, json};

use crate::support::{Logits, difference, on_both_devices};

/// `data/tiny.json`.
struct Reference {
    prompt: Vec<u32>,
    /// Positions whose logits are known.
    positions: Vec<usize>,
    models: Vec<Tiny>,
}

struct Tiny {
    name: String,
    /// config.json.
    config: Value,
    /// Shapes of the tensors by their names in safetensors files.
    tensors: Vec<(String, Vec<usize>)>,
    /// What llama3's scaling divides frequencies by.
    rope_divisors: Vec<f32>,
    /// One row for each position.
    logits: Vec<Vec<f32>>,
}

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let json: Value = serde_json::from_str(include_str!("data/tiny.json")).unwrap();
    let sizes = |list: &Value| numbers(list).map(|x| x as usize).collect::<Vec<_>>();
    let floats = |list: &Value| numbers(list).map(|x| x as f32).collect::<Vec<_>>();
    let tiny = |(name, json): (&String, &Value)| Tiny {
        name: name.clone(),
        config: json["config"].clone(),
        tensors: entries(&json["tensors"]).map(|(name, s)| (name.clone(), sizes(s))).collect(),
        rope_divisors: floats(&json["rope_divisors"]),
        logits: json["logits"].as_array().unwrap().iter().map(floats).collect(),
    };
    Reference {
        prompt: numbers(&json["prompt"]).map(|x| x as u32).collect(),
        positions: sizes(&json["positions"]),
        models: entries(&json["models"]).map(tiny).collect(),
    }
});

fn numbers(list: &Value) -> impl Iterator<Item = f64> + '_ {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap())
}

fn entries(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().unwrap().iter()
}

/// As `weight` of tiny.py.
fn weight(name: &str, shape: &[usize]) -> Array {
    let fnv1a = |h: u32, byte: u8| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let seed = name.bytes().fold(0x811C_9DC5, fnv1a);
    let around = if shape.len() == 1 { 1.0 } else { 0.0 };
    let value = |i: u32| {
        let mut h = i.wrapping_mul(0x9E37_79B1).wrapping_add(seed);
        for (shift, factor) in [(16, 0x7FEB_352D), (15, 0x846C_A68B)] {
            h = (h ^ (h >> shift)).wrapping_mul(factor);
        }
        h ^= h >> 16;
        (((h >> 8) as f64 - f64::from(1 << 23)) / f64::from(1 << 25) + around) as f32
    };
    let count = shape.iter().product::<usize>() as u32;
    Array::from_slice(&(0..count).map(value).collect::<Vec<f32>>(), shape).unwrap()
}

impl Tiny {
    fn named(name: &str) -> &'static Tiny {
        REFERENCE.models.iter().find(|tiny| tiny.name == name).unwrap()
    }

    fn weights(&self) -> Arrays {
        self.tensors.iter().map(|(name, shape)| (name.clone(), weight(name, shape))).collect()
    }

    fn size(&self, field: &str) -> usize {
        self.config[field].as_u64().unwrap() as usize
    }

    /// Checks the logits of the whole prompt at once, and of the prompt in pieces.
    fn check(&self, what: &str, loaded: &LoadedModel) {
        let Reference { prompt, positions, .. } = &*REFERENCE;
        let all = Logits::all(&loaded.model, prompt);
        assert_eq!(all.rows().len(), prompt.len(), "{what}");
        for (&position, want) in positions.iter().zip(&self.logits) {
            assert_close(&format!("{what}, position {position}"), all.row(position), want);
        }
        for piece in [1, 5] {
            let mut cache = loaded.model.new_cache();
            let mut position = 0;
            for ids in prompt.chunks(piece) {
                let logits = Logits::after(&loaded.model, &mut cache, ids);
                position += ids.len();
                let known = positions.iter().position(|&p| p + 1 == position);
                if let Some(want) = known.map(|i| &self.logits[i]) {
                    let what = format!("{what}, position {} in pieces of {piece}", position - 1);
                    assert_close(&what, logits.last(), want);
                }
            }
        }
    }
}

/// Float32 leaves an error of 5e-6 in upstream's logits, which reach 4.
#[track_caller]
fn assert_close(what: &str, got: &[f32], want: &[f32]) {
    let largest = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    let error = difference(got, want);
    assert!(error <= 2e-5 * largest, "{what}: logits up to {largest} differ by {error}");
}

/// A folder as Hugging Face and MLX lay it out.
fn write_folder(folder: &Path, config: &Value, weights: &Arrays) {
    let save = |name: &str, value: &Value| {
        std::fs::write(folder.join(name), value.to_string()).unwrap();
    };
    save("config.json", config);
    save(
        "tokenizer.json",
        &json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": null, "post_processor": null,
            "decoder": {
                "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
            },
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        }),
    );
    mlx::io::save_safetensors(folder.join("model.safetensors"), weights, &Default::default())
        .unwrap();
}

fn load_folder(config: &Value, weights: &Arrays) -> LoadedModel {
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), config, weights);
    load(folder.path(), &LoadOptions::default()).unwrap()
}

on_both_devices! {
    safetensors_have_the_reference_logits,
    gguf_files_have_the_reference_logits,
    exported_gguf_files_have_the_reference_logits,
    quantized_weights_are_what_they_dequantize_to,
}

fn safetensors_have_the_reference_logits(device: Device) {
    for tiny in &REFERENCE.models {
        let loaded = load_folder(&tiny.config, &tiny.weights());
        tiny.check(&format!("{} on {device}", tiny.name), &loaded);
    }
}

fn gguf_files_have_the_reference_logits(device: Device) {
    for tiny in &REFERENCE.models {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tiny.gguf");
        mlx::io::save_gguf(&file, &gguf_tensors(tiny), &gguf_metadata(tiny)).unwrap();
        let loaded = load(&file, &LoadOptions::default()).unwrap();
        tiny.check(&format!("{} as GGUF on {device}", tiny.name), &loaded);
    }
}

fn exported_gguf_files_have_the_reference_logits(device: Device) {
    for tiny in &REFERENCE.models {
        let folder = tempfile::tempdir().unwrap();
        let (file, out) = (folder.path().join("tiny.gguf"), folder.path().join("out"));
        mlx::io::save_gguf(&file, &gguf_tensors(tiny), &gguf_metadata(tiny)).unwrap();
        export_hf(&file, &out, Some(Dtype::Float32)).unwrap();
        let loaded = load(&out, &LoadOptions::default()).unwrap();
        tiny.check(&format!("{}, exported, on {device}", tiny.name), &loaded);
        assert!(!loaded.model.config().rope.traditional, "as Hugging Face lays rows out");
        let again = export_hf(&file, &out, None).unwrap_err().to_string();
        assert!(again.ends_with("out: file: exists already: name a new folder"), "{again}");
    }
}

/// The tensors as llama.cpp's converter stores them.
fn gguf_tensors(tiny: &Tiny) -> Arrays {
    let mut tensors = Arrays::new();
    for (name, array) in tiny.weights() {
        let llama = tiny.config["model_type"] == "llama";
        let heads = match name.split('.').nth(4) {
            Some("q_proj") if llama => tiny.size("num_attention_heads"),
            Some("k_proj") if llama => tiny.size("num_key_value_heads"),
            _ => 0,
        };
        let array = if heads == 0 { array } else { interleaved(&array, heads) };
        tensors.insert(gguf_name(&name), array);
    }
    if tiny.config.get("rope_scaling").is_some() {
        let divisors = &tiny.rope_divisors;
        let divisors = Array::from_slice(divisors, &[divisors.len()]).unwrap();
        tensors.insert("rope_freqs.weight".into(), divisors);
    }
    tensors
}

/// Rows of each head so that the features of a pair are neighbours (`LlamaModel.permute`).
fn interleaved(array: &Array, heads: usize) -> Array {
    let &[rows, columns] = array.shape() else { panic!("a matrix") };
    let split = [heads, 2, rows / heads / 2, columns].map(|n| n as isize);
    let swapped = ops::transpose(&ops::reshape(array, &split).unwrap(), &[0, 2, 1, 3]).unwrap();
    ops::reshape(&swapped, &[rows as isize, columns as isize]).unwrap()
}

fn gguf_name(name: &str) -> String {
    [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
    ]
    .into_iter()
    .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

fn gguf_metadata(tiny: &Tiny) -> BTreeMap<String, GgufValue> {
    let arch = tiny.config["model_type"].as_str().unwrap();
    let size = |field: &str| GgufValue::Uint32(tiny.size(field) as u32);
    let float = |field: &str| GgufValue::Float32(tiny.config[field].as_f64().unwrap() as f32);
    let of_arch = [
        ("block_count", size("num_hidden_layers")),
        ("context_length", size("max_position_embeddings")),
        ("embedding_length", size("hidden_size")),
        ("feed_forward_length", size("intermediate_size")),
        ("attention.head_count", size("num_attention_heads")),
        ("attention.head_count_kv", size("num_key_value_heads")),
        ("attention.key_length", size("head_dim")),
        ("attention.value_length", size("head_dim")),
        ("attention.layer_norm_rms_epsilon", float("rms_norm_eps")),
        ("rope.freq_base", float("rope_theta")),
    ];
    let tokens = (0..tiny.size("vocab_size")).map(|i| format!("t{i}")).collect();
    let text = |text: &str| GgufValue::String(text.to_owned());
    let general = [
        ("general.architecture", text(arch)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.tokens", GgufValue::Array(GgufArray::String(tokens))),
        ("tokenizer.ggml.merges", GgufValue::Array(GgufArray::String(Vec::new()))),
    ];
    let of_arch = of_arch.into_iter().map(|(key, value)| (format!("{arch}.{key}"), value));
    general.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(of_arch).collect()
}

fn quantized_weights_are_what_they_dequantize_to(device: Device) {
    for (name, group_size, bits) in
        [("qwen3", 64, 4), ("qwen3 tied", 32, 4), ("llama", 64, 8), ("llama3", 32, 3)]
    {
        let tiny = Tiny::named(name);
        // Both models get the same numbers, whatever a device makes of `quantize`.
        let (packed, dense) =
            mlx::with_device(Device::CPU, || quantize(tiny, group_size, bits)).unwrap();
        let mut config = tiny.config.clone();
        let dense = load_folder(&config, &dense);
        config["quantization"] = json!({"group_size": group_size, "bits": bits});
        let packed = load_folder(&config, &packed);
        let [packed, dense] =
            [packed, dense].map(|loaded| Logits::all(&loaded.model, &REFERENCE.prompt));
        for (i, (got, want)) in packed.rows().zip(dense.rows()).enumerate() {
            assert_close(&format!("{name} with {bits} bits on {device}, position {i}"), got, want);
        }
        // And it did change something.
        assert!(difference(packed.last(), tiny.logits.last().unwrap()) > 1e-3);
    }
}

/// The weights quantized, and what they dequantize to.
fn quantize(tiny: &Tiny, group_size: usize, bits: usize) -> (Arrays, Arrays) {
    let (mut packed, mut dense) = (Arrays::new(), Arrays::new());
    for (name, array) in tiny.weights() {
        if array.ndim() != 2 {
            packed.insert(name.clone(), array.clone());
            dense.insert(name, array);
            continue;
        }
        let (words, scales, biases) = ops::quantize(&array, group_size, bits).unwrap();
        let module = name.strip_suffix(".weight").unwrap();
        dense.insert(
            name.clone(),
            ops::dequantize(&words, &scales, &biases, group_size, bits).unwrap(),
        );
        packed.insert(format!("{module}.scales"), scales);
        packed.insert(format!("{module}.biases"), biases);
        packed.insert(name, words);
    }
    (packed, dense)
}
