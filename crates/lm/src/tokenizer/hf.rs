//! Hugging Face's `tokenizer.json` with its `tokenizer_config.json`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    Prefix, Tokenizer,
    bytes::{ByteTable, Spelling},
};
use crate::{Error, Result, json};

impl Tokenizer {
    /// The tokenizer of a model folder: `tokenizer.json`, and where present `tokenizer_config.json`
    /// (special tokens, chat template) and `chat_template.jinja`.
    ///
    /// # Errors
    /// When a file is missing or damaged; the message names file and field.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let text = json::read_text(&path)?;
        let damaged = |e: String| Error::file(&path, "file", format_args!("not a tokenizer: {e}"));
        let inner = text.parse::<tokenizers::Tokenizer>().map_err(|e| damaged(e.to_string()))?;
        let decoder =
            serde_json::to_value(inner.get_decoder()).map_err(|e| damaged(e.to_string()))?;
        let spelling = spelling(&path, &decoder)?;
        let config = Config::read(folder)?;
        let bos = config.token(&inner, "bos_token")?;
        let eos = config.token(&inner, "eos_token")?;
        Ok(Self {
            bytes: byte_table(&path, &inner, spelling)?,
            separator: if spelling == Spelling::Verbatim { b" " } else { b"" },
            inner,
            bos,
            eos: BTreeSet::from_iter(eos),
            prefix: Prefix::PostProcessor,
            chat_template: config.chat_template(folder)?,
        })
    }
}

/// How the vocabulary spells bytes, told by the decoder; without one, tokens are shown as they are.
fn spelling(path: &Path, decoder: &Value) -> Result<Spelling> {
    if decoder.is_null() {
        return Ok(Spelling::Verbatim);
    }
    let steps = decoder["decoders"].as_array().map_or(std::slice::from_ref(decoder), |all| all);
    let has = |kind: &str| steps.iter().any(|step| step["type"] == kind);
    if has("ByteLevel") {
        Ok(Spelling::ByteLevel)
    } else if has("ByteFallback") || has("Metaspace") {
        Ok(Spelling::SentencePiece)
    } else {
        let kind = decoder["type"].as_str().unwrap_or("this kind");
        Err(Error::file(
            path,
            "decoder",
            format_args!("{kind} is not supported; supported: ByteLevel, ByteFallback, Metaspace"),
        ))
    }
}

fn byte_table(path: &Path, inner: &tokenizers::Tokenizer, spelling: Spelling) -> Result<ByteTable> {
    let vocab = inner.get_vocab(true);
    let len = vocab.values().max().map_or(0, |id| *id as usize + 1);
    // Ids may have gaps, but a hostile id must not make the table huge.
    if len > 2 * vocab.len() + 65_536 {
        return Err(Error::file(
            path,
            "model.vocab",
            format_args!("token id {} is too large", len - 1),
        ));
    }
    let added = inner.get_added_tokens_decoder();
    let mut by_id: Vec<Option<&str>> = vec![None; len];
    for (token, id) in &vocab {
        by_id[*id as usize] = Some(token);
    }
    let mut table = ByteTable::default();
    for (token, id) in by_id.into_iter().zip(0u32..) {
        table.push(|out| match (added.get(&id), token) {
            (Some(a), _) if a.special => (),
            (Some(a), _) => out.extend_from_slice(a.content.as_bytes()),
            (None, Some(token)) => spelling.write(token, out),
            (None, None) => (),
        });
    }
    Ok(table)
}

/// `tokenizer_config.json`; empty when there is none.
struct Config {
    path: PathBuf,
    fields: Value,
}

impl Config {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        let fields = if path.exists() { json::read(&path)? } else { Value::Null };
        Ok(Self { path, fields })
    }

    /// Id of a special token, given as text or as an object with `content`.
    fn token(&self, inner: &tokenizers::Tokenizer, field: &str) -> Result<Option<u32>> {
        let text = match &self.fields[field] {
            Value::Null => return Ok(None),
            Value::String(text) => text.as_str(),
            object => object["content"]
                .as_str()
                .ok_or_else(|| Error::file(&self.path, field, "expected a string"))?,
        };
        let id = inner.token_to_id(text);
        id.map(Some).ok_or_else(|| {
            Error::file(&self.path, field, format_args!("{text:?} is not in tokenizer.json"))
        })
    }

    /// The template: a file of its own wins; of several named ones, `default`.
    fn chat_template(&self, folder: &Path) -> Result<Option<String>> {
        let file = folder.join("chat_template.jinja");
        if file.exists() {
            return json::read_text(&file).map(Some);
        }
        match &self.fields["chat_template"] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Array(named) => {
                let default = named.iter().find(|t| t["name"] == "default").or(named.first());
                Ok(default.and_then(|t| t["template"].as_str()).map(str::to_owned))
            }
            _ => Err(Error::file(&self.path, "chat_template", "expected a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stream::TextStream;

    /// The tokenizer of a folder with these two files.
    fn load(file: &Value, config: &Value) -> Result<Tokenizer> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        Tokenizer::from_folder(folder.path())
    }

    /// Words, with everything that may be absent given as null.
    fn words() -> Value {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
            "decoder": null,
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "byte_fallback": null, "ignore_merges": null,
                "vocab": {"a": 0, "b": 1, "Ġ": 2}, "merges": [],
            },
        })
    }

    #[test]
    fn optional_nulls_are_absent() {
        let config = json!({"bos_token": null, "eos_token": null, "chat_template": null});
        let tokenizer = load(&words(), &config).unwrap();
        assert_eq!(tokenizer.encode_prompt("a b").unwrap(), [0, 1]);
        assert!(tokenizer.bos_id().is_none() && tokenizer.eos_ids().next().is_none());
        assert!(tokenizer.chat_template().is_none());
        let mut nulls = words();
        nulls["pre_tokenizer"] = Value::Null;
        assert_eq!(load(&nulls, &Value::Null).unwrap().encode_prompt("ab").unwrap(), [0, 1]);
    }

    #[test]
    fn without_a_decoder_tokens_are_joined_by_spaces_as_upstream_does() {
        let tokenizer = load(&words(), &json!({})).unwrap();
        let upstream: tokenizers::Tokenizer = words().to_string().parse().unwrap();
        for ids in [&[][..], &[0], &[0, 1, 2, 0]] {
            let want = upstream.decode(ids, true).unwrap();
            assert_eq!(tokenizer.decode(ids), want);
            let mut stream = TextStream::new(&tokenizer, &[]);
            let text: String = ids.iter().map(|id| stream.push(*id)).collect();
            assert_eq!(text + &stream.finish(), want);
        }
    }

    #[test]
    fn unknown_decoders_are_refused_by_name() {
        let mut file = words();
        file["decoder"] =
            json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": false});
        let error = load(&file, &json!({})).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: decoder: CTC is not supported"), "{error}");
    }
}
