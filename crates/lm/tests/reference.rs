//! Tiny models against numbers from upstream's mlx_lm (`data/reference.py`), on every device.

mod support;

use mlx::{Array, Dtype, ops};
use mlx_vulkan_lm::{
    chat::Chat,
    generate::{Finish, GenerateOptions, Tokens, generate, prefill},
    load::{LoadOptions, LoadedModel, load},
};
use support::{Case, case, cases, on_every_device};

fn load_case(case: &Case) -> LoadedModel {
    let folder = tempfile::tempdir().unwrap();
    case.write(folder.path());
    load(folder.path(), &LoadOptions::default()).unwrap()
}

fn floats(logits: &Array) -> Vec<f32> {
    ops::astype(logits, Dtype::Float32).unwrap().to_vec().unwrap()
}

#[track_caller]
fn assert_close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 2e-3, "{what}: differs by {worst}");
}

#[test]
fn logits_and_greedy_tokens_are_upstreams() {
    on_every_device(|device| {
        for case in cases() {
            let what = format!("{} on {device}", case.name);
            let loaded = load_case(&case);
            let mut cache = loaded.model.new_cache();
            let logits = prefill(&loaded.model, &mut cache, &case.prompt, 2048).unwrap();
            assert_close(&floats(&logits), &case.first, &what);

            let options = GenerateOptions { max_tokens: case.ids.len(), ..Default::default() };
            let mut cache = loaded.model.new_cache();
            let tokens = Tokens::start(&loaded.model, &mut cache, &case.prompt, &options).unwrap();
            assert_eq!(tokens.collect::<Result<Vec<_>, _>>().unwrap(), case.ids, "{what}");

            let last = Array::from_slice(&case.ids[case.ids.len() - 1..], &[1, 1]).unwrap();
            let logits = loaded.model.forward_last(&last, &mut cache).unwrap();
            assert_close(&floats(&logits), &case.last, &format!("{what}, after the last token"));
        }
    });
}

/// The same whether tokens come one by one or together: what is hidden by windows, and whether tokens are
/// sorted by their experts, follows from how many there are.
#[test]
fn prefill_in_chunks_gives_the_same_logits() {
    on_every_device(|device| {
        let names =
            ["qwen3 quantized", "qwen3_moe", "qwen3_moe quantized", "gpt_oss", "gpt_oss mxfp4"];
        for (case, chunk) in names.map(case).iter().flat_map(|c| [1, 7, 64, 89, 90].map(|n| (c, n)))
        {
            let loaded = load_case(case);
            let mut cache = loaded.model.new_cache();
            let logits = prefill(&loaded.model, &mut cache, &case.prompt, chunk).unwrap();
            let what = format!("{} in chunks of {chunk} on {device}", case.name);
            assert_close(&floats(&logits), &case.first, &what);
            assert_eq!(cache.len(), case.prompt.len());
        }
    });
}

#[test]
fn all_logits_end_with_the_last_ones() {
    on_every_device(|_| {
        let case = case("qwen3");
        let loaded = load_case(&case);
        let ids = Array::from_slice(&case.prompt, &[1, case.prompt.len()]).unwrap();
        let logits = loaded.model.forward(&ids, &mut loaded.model.new_cache()).unwrap();
        assert_eq!(logits.shape(), [1, 90, 96]);
        let all = floats(&logits);
        assert!(all.iter().all(|x| x.is_finite()));
        assert_close(&all[89 * 96..], &case.first, "last row");
    });
}

#[test]
fn generation_stops_at_strings_and_lengths() {
    on_every_device(|_| {
        let case = case("llama with llama3 scaling");
        let loaded = load_case(&case);
        // 64, 62, 24, 64, 62: characters are the ids from '!' on.
        let text: String = case.ids.iter().map(|id| char::from(b'!' + *id as u8)).collect();
        assert!(text.starts_with("a_9a_"));
        let run = |stop: &[&str], max_tokens| {
            let stop = stop.iter().map(|s| (*s).to_owned()).collect();
            let options = GenerateOptions { max_tokens, stop, ..Default::default() };
            let mut shown = String::new();
            let mut tokenless = loaded.clone();
            tokenless.tokenizer.clear_eos();
            let mut cache = loaded.model.new_cache();
            let show = |text: &str| {
                shown.push_str(text);
                true
            };
            let out = generate(&tokenless, &mut cache, &case.prompt, &options, show).unwrap();
            assert_eq!(shown, out.text);
            (out.text, out.finish)
        };
        assert_eq!(run(&[], 8), (text.clone(), Finish::Length));
        assert_eq!(run(&["9a"], 8), (text[..2].to_owned(), Finish::StopString));
        assert_eq!(run(&["nothing"], 3), (text[..3].to_owned(), Finish::Length));

        // With '_' as the end of text, only the first character remains.
        let mut cache = loaded.model.new_cache();
        let options = GenerateOptions::default();
        let out = generate(&loaded, &mut cache, &case.prompt, &options, |_| true).unwrap();
        assert_eq!((out.text.as_str(), out.finish), ("a", Finish::EndOfText));
    });
}

#[test]
fn prompts_that_cannot_run_are_refused() {
    mlx::init();
    let case = case("qwen3");
    let loaded = load_case(&case);
    let start = |prompt: &[u32]| {
        let options = GenerateOptions::default();
        Tokens::start(&loaded.model, &mut loaded.model.new_cache(), prompt, &options)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    assert!(start(&[]).starts_with("prompt: is empty"));
    let long = start(&vec![1; 513]);
    assert!(long.contains("513 tokens do not fit into the context of 512"), "{long}");
    assert!(long.contains("config.json: max_position_embeddings"), "{long}");
    assert!(start(&[96]).contains("token 96"));
}

#[test]
fn generation_ends_where_the_context_does() {
    on_every_device(|_| {
        let case = case("qwen3");
        let loaded = load_case(&case);
        let prompt = vec![3; 509];
        let options = GenerateOptions { max_tokens: 100, ..Default::default() };
        let mut cache = loaded.model.new_cache();
        let count = Tokens::start(&loaded.model, &mut cache, &prompt, &options).unwrap().count();
        assert_eq!((count, cache.len()), (4, 512));
    });
}

#[test]
fn a_conversation_reuses_its_cache_and_answers_as_without() {
    on_every_device(|_| {
        let loaded = load_case(&case("qwen3"));
        let options = GenerateOptions { max_tokens: 5, ..Default::default() };
        let mut kept = Chat::new(&loaded, None);
        let first = kept.send("Hello", &options, |_| true).unwrap();
        let second = kept.send("there", &options, |_| true).unwrap();
        assert!(second.stats.prompt_tokens < first.stats.prompt_tokens + 12);

        let mut cache = loaded.model.new_cache();
        let messages = &kept.messages()[..3];
        let prompt = mlx_vulkan_lm::chat::prompt_ids(&loaded, messages).unwrap();
        let fresh = generate(&loaded, &mut cache, &prompt, &options, |_| true).unwrap();
        assert_eq!(second.ids, fresh.ids);
    });
}
