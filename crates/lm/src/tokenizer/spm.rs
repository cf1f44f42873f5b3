//! SentencePiece vocabularies in GGUF files (`tokenizer.ggml.model` = `llama`).
//!
//! The file holds a score per token instead of merges. As in Hugging Face's converter, every way
//! of cutting a token into two tokens becomes a merge, and the scores order them.

use std::collections::HashMap;

use tokenizers::{
    DecoderWrapper, NormalizerWrapper,
    decoders::{
        byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence as Decoders, strip::Strip,
    },
    models::bpe::BPE,
    normalizers::{Prepend, Replace, Sequence},
};

use super::{
    Tokenizer,
    bytes::Spelling,
    gguf::{TOKENS, UNKNOWN, finish, vocabulary},
};
use crate::{Result, metadata::Metadata};

const SCORES: &str = "tokenizer.ggml.scores";
const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// Longest token, in characters, whose cuts are tried: real vocabularies stay far below.
const MAX_CHARS: usize = 256;

pub(super) fn from_gguf(meta: &Metadata) -> Result<Tokenizer> {
    let tokens = meta.need_texts(TOKENS)?;
    let scores = meta.floats(SCORES)?.ok_or_else(|| meta.error(SCORES, "missing"))?;
    if scores.len() != tokens.len() {
        let (n, len) = (scores.len(), tokens.len());
        return Err(meta.error(SCORES, format_args!("has {n} entries for {len} tokens")));
    }
    let mut bpe = BPE::new(vocabulary(tokens), merges(tokens, &scores));
    bpe.byte_fallback = true;
    bpe.fuse_unk = true;
    let unknown = meta.token(UNKNOWN)?.unwrap_or(0) as usize;
    bpe.unk_token = tokens.get(unknown).cloned();

    let mut inner = tokenizers::Tokenizer::new(bpe);
    let prefix = meta.bool(SPACE_PREFIX)?.unwrap_or(true);
    let replace = |from: &str, to| Replace::new(from, to).map_err(|e| meta.error(TOKENS, e));
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    steps.extend(prefix.then(|| Prepend::new("▁".to_owned()).into()));
    steps.push(replace(" ", "▁")?.into());
    inner.with_normalizer(Some(Sequence::new(steps)));
    let mut steps: Vec<DecoderWrapper> =
        vec![replace("▁", " ")?.into(), ByteFallback::new().into(), Fuse::new().into()];
    steps.extend(prefix.then(|| Strip::new(' ', 1, 0).into()));
    inner.with_decoder(Some(Decoders::new(steps)));
    finish(meta, inner, Spelling::SentencePiece, true)
}

/// All cuts of all tokens, best score first.
fn merges(tokens: &[String], scores: &[f64]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> = tokens.iter().map(String::as_str).zip(0..).collect();
    let mut cuts: Vec<(f64, usize, usize)> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        if token.chars().count() > MAX_CHARS {
            continue;
        }
        let pairs = token.char_indices().skip(1).filter_map(|(at, _)| {
            let (a, b) = token.split_at(at);
            Some((*score, *ids.get(a)?, *ids.get(b)?))
        });
        let first = cuts.len();
        cuts.extend(pairs);
        cuts[first..].sort_unstable_by_key(|(_, a, b)| (*a, *b));
    }
    // Stable: cuts of equal score stay in the order of the vocabulary.
    cuts.sort_by(|x, y| y.0.total_cmp(&x.0));
    cuts.into_iter().map(|(_, a, b)| (tokens[a].clone(), tokens[b].clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::metadata::Value;

    #[test]
    fn scores_decide_and_unknown_bytes_fall_back() {
        let tokens = ["<unk>", "<s>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁a", "▁ab"];
        let scores = [0., 0., 0., 0., -9., -9., -9., -1., -2., -3.];
        let values = [
            ("tokenizer.ggml.model", Value::Text("llama".into())),
            (TOKENS, Value::Texts(tokens.map(str::to_owned).into())),
            (SCORES, Value::Floats(scores.into())),
            ("tokenizer.ggml.token_type", Value::Ints(vec![2, 3, 6, 6, 1, 1, 1, 1, 1, 1])),
            ("tokenizer.ggml.bos_token_id", Value::Int(1)),
        ];
        let meta =
            Metadata::new(Path::new("m.gguf"), values.map(|(k, v)| (k.to_owned(), v)).into());
        let t = Tokenizer::from_gguf(&meta).unwrap();
        assert_eq!(t.encode_prompt("ab aé").unwrap(), [1, 9, 8, 2, 3]);
        assert_eq!(t.decode(&[9, 8, 2, 3]), " ab aé");
    }
}
