//! SmolLM2-135M-Instruct, a real model in a real GGUF file, against `data/smollm2.json`: a numpy run
//! with the file's weights in float32 and activations in float64.

use std::{
    path::PathBuf,
    sync::{LazyLock, OnceLock},
};

use mlx::{Device, Dtype};
use mlx_vulkan_lm::{
    chat::prompt_ids,
    config::Quantization,
    export::export_hf,
    generate::{GenerateOptions, KvQuantization, Tokens, prefill},
    load::{LoadOptions, LoadedModel, load},
    template::Message,
};
use serde_json::Value;

use crate::support::{Logits, check_choice, difference, on_both_devices};

/// The file, as `cargo xtask test` names it or where `cargo xtask model` keeps it.
fn file() -> PathBuf {
    const NAME: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
    let cached =
        || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/mlx-vulkan").join(NAME));
    let path = std::env::var_os("MLX_TEST_MODEL").map(PathBuf::from).or_else(cached);
    path.filter(|path| path.exists())
        .unwrap_or_else(|| panic!("{NAME} is not there: run the tests with `cargo xtask test`"))
}

/// What to compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// What the file stores and users get: float16.
    Stored,
    /// What tells a wrong result from a rounded one.
    Float32,
}

/// The model, loaded once for each device and precision.
fn model(device: Device, precision: Precision) -> &'static LoadedModel {
    static MODELS: [OnceLock<LoadedModel>; 4] = [const { OnceLock::new() }; 4];
    let wide = precision == Precision::Float32;
    let index = 2 * usize::from(device == Device::GPU) + usize::from(wide);
    MODELS[index].get_or_init(|| {
        let options = LoadOptions { dtype: wide.then_some(Dtype::Float32) };
        load(&file(), &options).unwrap()
    })
}

/// A prompt and its greedy continuation.
struct Case {
    prompt: String,
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    text: String,
    /// The five largest logits after the prompt, by token.
    top: Vec<(u32, f32)>,
}

/// `data/smollm2.json`.
struct Golden {
    cases: Vec<Case>,
    perplexity_text: String,
    perplexity_ids: Vec<u32>,
}

static GOLDEN: LazyLock<Golden> = LazyLock::new(|| {
    let json: Value = serde_json::from_str(include_str!("data/smollm2.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let id = |value: &Value| value.as_u64().unwrap() as u32;
    let ids = |value: &Value| value.as_array().unwrap().iter().map(id).collect::<Vec<u32>>();
    let logit = |pair: &Value| (id(&pair[0]), pair[1].as_f64().unwrap() as f32);
    let case = |case: &Value| Case {
        prompt: text(&case["prompt"]),
        prompt_ids: ids(&case["prompt_ids"]),
        ids: ids(&case["out_ids"]),
        text: text(&case["text"]),
        top: case["first_top5"].as_array().unwrap().iter().map(logit).collect(),
    };
    Golden {
        cases: json["cases"].as_array().unwrap().iter().map(case).collect(),
        perplexity_text: text(&json["ppl_text"]),
        perplexity_ids: ids(&json["ppl_ids"]),
    }
});

#[test]
fn texts_become_the_golden_ids_and_back() {
    mlx_tests::init();
    let tokenizer = &model(Device::CPU, Precision::Stored).tokenizer;
    for case in &GOLDEN.cases {
        assert_eq!(
            tokenizer.encode_prompt(&case.prompt).unwrap(),
            case.prompt_ids,
            "{}",
            case.prompt
        );
        assert_eq!(tokenizer.decode(&case.ids), case.text);
    }
    let ids = tokenizer.encode_prompt(&GOLDEN.perplexity_text).unwrap();
    assert_eq!(ids, GOLDEN.perplexity_ids);
}

#[test]
fn the_chat_template_makes_the_golden_prompt() {
    mlx_tests::init();
    let loaded = model(Device::CPU, Precision::Stored);
    for (question, case) in [("What is gravity? Answer in one sentence.", 2), ("What is 2+2?", 3)] {
        let ids = prompt_ids(loaded, &[Message::user(question)]).unwrap();
        assert_eq!(ids, GOLDEN.cases[case].prompt_ids);
    }
}

/// The folder holds the same numbers, so the ids are those of the file.
#[test]
fn an_exported_folder_has_the_golden_ids() {
    crate::support::on(Device::CPU, |_| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        assert_eq!(export_hf(&file(), &out, None).unwrap(), Dtype::Float16);
        let exported = load(&out, &LoadOptions::default()).unwrap();
        let original = model(Device::CPU, Precision::Stored);
        for case in &GOLDEN.cases {
            let ids = exported.tokenizer.encode_prompt(&case.prompt).unwrap();
            assert_eq!(ids, case.prompt_ids, "{}", case.prompt);
            assert_eq!(exported.tokenizer.decode(&case.ids), case.text);
        }
        let question = [Message::user("What is 2+2?")];
        assert_eq!(prompt_ids(&exported, &question).unwrap(), GOLDEN.cases[3].prompt_ids);
        assert!(exported.tokenizer.eos_ids().eq(original.tokenizer.eos_ids()));
        let case = &GOLDEN.cases[0];
        check_decode("exported", &exported, &case.prompt_ids, &case.ids, None);
    });
}

on_both_devices! {
    float16_follows_the_golden_ids,
    float32_has_the_golden_logits,
    decoding_follows_the_golden_ids,
    a_quantized_cache_follows_the_golden_ids,
    perplexity_is_golden,
    chunks_do_not_change_the_logits,
}

/// One pass over prompt and continuation makes every greedy choice, each after the golden tokens
/// before it: what follows a flip is checked too.
#[track_caller]
fn check_case(device: Device, precision: Precision, case: &Case, tolerance: f32) {
    let what = format!("{:?} on {device} in {precision:?}", case.text);
    let all = [case.prompt_ids.as_slice(), &case.ids].concat();
    let logits = Logits::all(&model(device, precision).model, &all[..all.len() - 1]);
    let start = case.prompt_ids.len() - 1;
    for &(token, want) in &case.top {
        let got = logits.row(start)[token as usize];
        let error = (got - want).abs();
        assert!(error <= tolerance, "{what}: logit of {token} is {got} instead of {want}");
    }
    for (i, &want) in case.ids.iter().enumerate() {
        check_choice(&format!("{what}, token {i}"), logits.row(start + i), want);
    }
}

fn float16_follows_the_golden_ids(device: Device) {
    for case in &GOLDEN.cases {
        check_case(device, Precision::Stored, case, 0.05);
    }
}

fn float32_has_the_golden_logits(device: Device) {
    for case in &GOLDEN.cases {
        check_case(device, Precision::Float32, case, 5e-4);
    }
}

/// Greedy tokens after `prompt`, by the decode loop.
fn decode(
    loaded: &LoadedModel,
    prompt: &[u32],
    count: usize,
    kv: Option<KvQuantization>,
) -> Vec<u32> {
    let options = GenerateOptions { max_tokens: count, kv, ..Default::default() };
    let mut cache = loaded.model.new_cache();
    let tokens = Tokens::start(&loaded.model, &mut cache, prompt, &options).unwrap();
    tokens.collect::<Result<_, _>>().unwrap()
}

/// Checks that the decode loop yields `want` after `prompt`. Where it flips between tokens that are
/// nearly tied, it goes on from the wanted one.
#[track_caller]
fn check_decode(
    what: &str,
    loaded: &LoadedModel,
    prompt: &[u32],
    want: &[u32],
    kv: Option<KvQuantization>,
) {
    let mut at = 0;
    while at < want.len() {
        let before = [prompt, &want[..at]].concat();
        let got = decode(loaded, &before, want.len() - at, kv);
        assert_eq!(got.len(), want.len() - at, "{what}: number of tokens");
        let Some(flip) = got.iter().zip(&want[at..]).position(|(got, want)| got != want) else {
            return;
        };
        let before = [prompt, &want[..at + flip]].concat();
        let mut row = Logits::all(&loaded.model, &before).last().to_vec();
        // The loop chose `got`; what a single pass over the same tokens finds may differ by rounding.
        row[got[flip] as usize] += f32::EPSILON;
        check_choice(&format!("{what}, token {}", at + flip), &row, want[at + flip]);
        at += flip + 1;
    }
}

fn decoding_follows_the_golden_ids(device: Device) {
    let loaded = model(device, Precision::Stored);
    for case in &GOLDEN.cases[..2] {
        let what = format!("decoding {:?} on {device}", case.text);
        check_decode(&what, loaded, &case.prompt_ids, &case.ids[..10], None);
    }
}

/// From the start, and from a few tokens after the prompt on.
fn a_quantized_cache_follows_the_golden_ids(device: Device) {
    let loaded = model(device, Precision::Stored);
    let case = &GOLDEN.cases[0];
    let format = Quantization { group_size: 32, bits: 8 };
    for start in [0, case.prompt_ids.len() + 3] {
        let what = format!("{:?} on {device}, quantized after {start}", case.text);
        let kv = Some(KvQuantization { format, start });
        check_decode(&what, loaded, &case.prompt_ids, &case.ids[..10], kv);
    }
}

#[test]
fn both_devices_answer_alike() {
    for question in ["Hi what is your name", "你好啊"] {
        let answer = |device, run: &dyn Fn(&LoadedModel, &[u32])| {
            crate::support::on(device, |_| {
                let loaded = model(device, Precision::Stored);
                run(loaded, &prompt_ids(loaded, &[Message::user(question)]).unwrap());
            });
        };
        let want = OnceLock::new();
        answer(Device::CPU, &|loaded, prompt| drop(want.set(decode(loaded, prompt, 10, None))));
        let want = want.into_inner().unwrap();
        answer(Device::GPU, &|loaded, prompt| {
            check_decode(&format!("{question:?} on Vulkan"), loaded, prompt, &want, None);
        });
    }
}

fn perplexity_is_golden(device: Device) {
    let ids = &GOLDEN.perplexity_ids;
    let logits = Logits::all(&model(device, Precision::Stored).model, &ids[..ids.len() - 1]);
    let surprise = |(row, &id): (&[f32], &u32)| {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        sum.ln() - f64::from(row[id as usize])
    };
    let total: f64 = logits.rows().zip(&ids[1..]).map(surprise).sum();
    let perplexity = (total / (ids.len() - 1) as f64).exp();
    assert!((perplexity / 11.27 - 1.0).abs() < 0.01, "{perplexity}");
}

fn chunks_do_not_change_the_logits(device: Device) {
    let prompt = &GOLDEN.cases[2].prompt_ids;
    // Logits reach 30, where float16 numbers are 1/64 apart; other chunks round otherwise.
    for (precision, tolerance) in [(Precision::Float32, 5e-4), (Precision::Stored, 0.125)] {
        let model = &model(device, precision).model;
        let logits = |chunk| {
            let mut cache = model.new_cache();
            let logits = Logits::of(&prefill(model, &mut cache, prompt, chunk).unwrap());
            assert_eq!(cache.len(), prompt.len());
            logits
        };
        let whole = logits(prompt.len());
        for chunk in [7, 16] {
            let error = difference(logits(chunk).last(), whole.last());
            let what = format!("chunks of {chunk} on {device} in {precision:?}");
            assert!(error <= tolerance, "{what}: logits differ by {error}");
        }
    }
}
