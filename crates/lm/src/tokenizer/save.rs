//! Writing a tokenizer as Hugging Face's files.

use std::path::Path;

use serde_json::json;
use tokenizers::processors::template::{Template, TemplateProcessing};

use super::{Prefix, Special, Tokenizer};
use crate::{Error, Result, json};

impl Tokenizer {
    /// Writes `tokenizer.json` and `tokenizer_config.json` into `folder`; `context` is the longest sequence
    /// in tokens.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn save(&self, folder: &Path, special: Special, context: usize) -> Result<()> {
        let path = folder.join("tokenizer.json");
        let mut inner = self.inner.clone();
        if let Some(prefix) = self.prefix_processor()? {
            inner.with_post_processor(Some(prefix));
        }
        inner.save(&path, true).map_err(|e| Error::file(&path, "file", e))?;

        let text = |id: Option<u32>| id.and_then(|id| self.id_to_token(id));
        let mut config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": context,
            "clean_up_tokenization_spaces": false,
        });
        let fields = [
            ("bos_token", text(special.bos)),
            ("eos_token", text(special.eos)),
            ("pad_token", text(special.padding.or(special.eos))),
            ("unk_token", text(special.unknown)),
            ("chat_template", self.chat_template.clone()),
        ];
        for (field, text) in fields {
            if let Some(text) = text {
                config[field] = text.into();
            }
        }
        json::write(&folder.join("tokenizer_config.json"), &config)
    }

    /// What puts the beginning-of-sequence token first, where that is not in the tokenizer yet.
    fn prefix_processor(&self) -> Result<Option<TemplateProcessing>> {
        let Prefix::Bos(bos) = self.prefix else { return Ok(None) };
        let text = self.id_to_token(bos).unwrap_or_default();
        let wrong = |e: String| Error::Tokenizer(format!("cannot put {text:?} first: {e}"));
        // As a list: the text of a token may hold spaces.
        let template = |pieces: &[&str]| Template::try_from(pieces.to_vec()).map_err(wrong);
        let (first, second) = (format!("{text}:0"), format!("{text}:1"));
        TemplateProcessing::builder()
            .single(template(&[&first, "$A:0"])?)
            .pair(template(&[&first, "$A:0", &second, "$B:1"])?)
            .special_tokens(vec![(text.clone(), bos)])
            .build()
            .map(Some)
            .map_err(|e| wrong(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metadata::{Metadata, Value},
        tokenizer::Tokenizer,
    };

    /// A SentencePiece vocabulary that puts `<s>` first.
    fn metadata() -> Metadata {
        let tokens = ["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁a", "▁ab"];
        let scores = [0., 0., 0., 0., 0., -9., -9., -9., -1., -2., -3.];
        let values = [
            ("tokenizer.ggml.model", Value::Text("llama".into())),
            ("tokenizer.ggml.tokens", Value::Texts(tokens.map(str::to_owned).into())),
            ("tokenizer.ggml.scores", Value::Floats(scores.into())),
            ("tokenizer.ggml.token_type", Value::Ints(vec![2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1])),
            ("tokenizer.ggml.bos_token_id", Value::Int(1)),
            ("tokenizer.ggml.eos_token_id", Value::Int(2)),
            ("tokenizer.chat_template", Value::Text("{{ bos_token }}".into())),
        ];
        Metadata::new(Path::new("m.gguf"), values.map(|(k, v)| (k.to_owned(), v)).into())
    }

    #[test]
    fn a_saved_tokenizer_is_the_same_and_puts_the_first_token_first() {
        let (folder, meta) = (tempfile::tempdir().unwrap(), metadata());
        let tokenizer = Tokenizer::from_gguf(&meta).unwrap();
        tokenizer.save(folder.path(), Special::from_gguf(&meta).unwrap(), 64).unwrap();
        let saved = Tokenizer::from_folder(folder.path()).unwrap();
        for text in ["ab aé", "ab</s>ab", "<s>ab", "aéb é"] {
            let ids = tokenizer.encode_prompt(text).unwrap();
            assert_eq!(ids[0], 1, "{text}");
            assert_eq!(saved.encode_prompt(text).unwrap(), ids, "{text}");
            assert_eq!(saved.decode(&ids), tokenizer.decode(&ids), "{text}");
        }
        assert_eq!((saved.bos_id(), saved.eos_text()), (Some(1), Some("</s>".into())));
        assert_eq!(saved.chat_template(), Some("{{ bos_token }}"));
        assert!(saved.token_bytes(2).is_empty(), "special tokens are marked");

        // What Python decodes with.
        let upstream = tokenizers::Tokenizer::from_file(folder.path().join("tokenizer.json"));
        assert_eq!(upstream.unwrap().decode(&[1, 10, 9, 3, 4, 2], true).unwrap(), "ab aé");
    }

    #[test]
    fn absent_tokens_are_not_written() {
        let (folder, mut meta) = (tempfile::tempdir().unwrap(), metadata());
        meta.values.retain(|key, _| !key.ends_with("_token_id") && !key.ends_with("template"));
        let tokenizer = Tokenizer::from_gguf(&meta).unwrap();
        tokenizer.save(folder.path(), Special::from_gguf(&meta).unwrap(), 64).unwrap();
        let config: serde_json::Value =
            json::read(&folder.path().join("tokenizer_config.json")).unwrap();
        let fields: Vec<_> = config.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["tokenizer_class", "model_max_length", "clean_up_tokenization_spaces"]);
        let saved = Tokenizer::from_folder(folder.path()).unwrap();
        assert_eq!(saved.encode_prompt("ab").unwrap(), tokenizer.encode_prompt("ab").unwrap());
    }
}
