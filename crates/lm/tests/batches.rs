//! Sequences that are processed together say what each says alone.

mod support;

use mlx::{Array, Dtype, ops};
use mlx_vulkan_lm::{
    bench::{BenchOptions, bench},
    config::{Quantization, preset},
    load::random_model,
    models::{Cache, Transformer},
};
use support::on_every_device;

const FORMAT: Quantization = Quantization { group_size: 64, bits: 4 };

/// Ids of a sequence, the same for the same numbers.
fn ids(sequence: usize, tokens: usize) -> Vec<u32> {
    (0..tokens).map(|i| ((37 * i * i + 101 * sequence + 5 * i) % 1024) as u32).collect()
}

/// Logits (batch, vocabulary) after `rows` of ids, one for each sequence.
fn forward(model: &Transformer, cache: &mut Cache, rows: &[&[u32]]) -> Vec<f32> {
    let tokens = Array::from_slice(&rows.concat(), &[rows.len(), rows[0].len()]).unwrap();
    let logits = model.forward_last(&tokens, cache).unwrap();
    ops::astype(&logits, Dtype::Float32).unwrap().to_vec().unwrap()
}

/// Logits after a prompt and after some tokens behind it, step by step.
fn steps(model: &Transformer, sequences: &[usize], kv: Option<Quantization>) -> Vec<Vec<f32>> {
    let all: Vec<Vec<u32>> = sequences.iter().map(|&sequence| ids(sequence, 24)).collect();
    let mut cache = model.new_cache();
    if let Some(format) = kv {
        cache.quantize(format).unwrap();
    }
    let parts = std::iter::once(0..19).chain((19..24).map(|i| i..i + 1));
    parts
        .map(|part| {
            let rows: Vec<&[u32]> = all.iter().map(|ids| &ids[part.clone()]).collect();
            forward(model, &mut cache, &rows)
        })
        .collect()
}

#[track_caller]
fn agree(name: &str, dtype: Dtype, kv: Option<Quantization>, batch: usize, tolerance: f32) {
    let model = random_model(preset(name).unwrap(), Some(FORMAT.into()), dtype, 5).unwrap();
    let sequences: Vec<usize> = (0..batch).collect();
    let together = steps(&model, &sequences, kv);
    for &sequence in &sequences {
        let alone = steps(&model, &[sequence], kv);
        for (step, (all, want)) in together.iter().zip(&alone).enumerate() {
            let got = &all[sequence * want.len()..][..want.len()];
            let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let most = want.iter().map(|x| x.abs()).fold(0.0, f32::max);
            assert!(
                worst <= tolerance * most,
                "{name} {dtype}, {batch} sequences: sequence {sequence}, step {step}: {worst} of {most}"
            );
        }
    }
}

#[test]
fn logits_of_a_batch_are_those_of_its_sequences() {
    on_every_device(|_| {
        for name in ["qwen3-tiny", "qwen2.5-tiny", "qwen3-moe-tiny"] {
            agree(name, Dtype::Float32, None, 3, 1e-3);
        }
        agree("qwen3-tiny", Dtype::Bfloat16, None, 5, 0.1);
    });
}

#[test]
fn logits_of_a_batch_over_quantized_caches_are_those_of_its_sequences() {
    on_every_device(|_| {
        let kv = Some(Quantization { group_size: 64, bits: 8 });
        agree("qwen3-tiny", Dtype::Float32, kv, 3, 1e-2);
    });
}

/// Each test runs for each number of sequences, behind cached tokens or not, and counts the tokens of all.
#[test]
fn batches_and_depths_are_measured() {
    on_every_device(|_| {
        let model = random_model(preset("qwen3-tiny").unwrap(), None, Dtype::Float32, 6).unwrap();
        let options = BenchOptions {
            prompt: 3,
            generate: 2,
            batches: vec![1, 2],
            depth: 5,
            repetitions: 1,
            kv: None,
        };
        let results = bench(&model, &options).unwrap();
        let names: Vec<(&str, usize)> = results.iter().map(|r| (&*r.test, r.tokens)).collect();
        let want = [("pp3 @ d5", 3), ("tg2 @ d5", 2), ("pp3 x2 @ d5", 6), ("tg2 x2 @ d5", 4)];
        assert_eq!(names, want);
    });
}
