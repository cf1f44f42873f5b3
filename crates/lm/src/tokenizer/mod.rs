//! Tokenizers: Hugging Face's `tokenizer.json`, and the vocabulary inside a GGUF file.
//!
//! Both become one [`Tokenizer`]: the `tokenizers` crate encodes, and a flat table of bytes per
//! token decodes, so that streaming never has to guess where a character ends.

mod bytes;
mod gguf;
mod hf;
mod pretokenizers;
mod save;
mod spm;

use std::collections::BTreeSet;

use self::bytes::ByteTable;
pub(crate) use self::gguf::Special;
use crate::{Error, Result};

/// Text to token ids and back.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    bytes: ByteTable,
    /// What stands between the texts of two tokens.
    separator: &'static [u8],
    /// Beginning-of-sequence token, if the model has one.
    bos: Option<u32>,
    /// Tokens that end a generation.
    eos: BTreeSet<u32>,
    /// Who puts the beginning-of-sequence token before a prompt.
    prefix: Prefix,
    /// Source of the chat template that came with the tokenizer.
    chat_template: Option<String>,
}

/// How a prompt gets its beginning-of-sequence token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    /// The post-processor of `tokenizer.json` adds what belongs there.
    PostProcessor,
    /// This token goes first.
    Bos(u32),
    /// Nothing is added.
    None,
}

impl Tokenizer {
    /// Ids of a prompt. Special tokens written in it are recognized, and the beginning-of-sequence
    /// token is added where the model wants one and the text does not already start with it.
    ///
    /// # Errors
    /// When the text cannot be encoded.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        let starts_with_bos = self.bos_text().is_some_and(|bos| text.starts_with(bos.as_str()));
        self.encode(text, !starts_with_bos)
    }

    /// Ids of `text`; with `add_special`, as the model expects the beginning of a sequence.
    ///
    /// # Errors
    /// When the text cannot be encoded.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let post_process = add_special && self.prefix == Prefix::PostProcessor;
        let encoding = self
            .inner
            .encode_fast(text, post_process)
            .map_err(|e| Error::Tokenizer(format!("cannot encode the text: {e}")))?;
        let ids = encoding.get_ids();
        Ok(match self.prefix {
            Prefix::Bos(bos) if add_special => [&[bos], ids].concat(),
            _ => ids.to_vec(),
        })
    }

    /// Text of `ids`, without special tokens; broken characters become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let tokens = ids.iter().map(|id| self.token_bytes(*id)).filter(|bytes| !bytes.is_empty());
        let bytes = tokens.collect::<Vec<_>>().join(self.separator);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Bytes of one token. Special tokens have none, and neither have ids beyond the vocabulary:
    /// models round their number of logits up.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id).unwrap_or_default()
    }

    /// What stands between the bytes of two tokens that have some: nothing, but for a
    /// `tokenizer.json` without a decoder, whose tokens the `tokenizers` library joins by spaces.
    pub fn separator(&self) -> &[u8] {
        self.separator
    }

    /// Whether `id` ends a generation.
    pub fn is_eos(&self, id: u32) -> bool {
        self.eos.contains(&id)
    }

    /// Tokens that end a generation.
    pub fn eos_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.eos.iter().copied()
    }

    /// Makes `ids` end a generation too, as a model's config.json may ask.
    pub fn add_eos(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.eos.extend(ids);
    }

    /// Makes no token end a generation: to let a model run on.
    pub fn clear_eos(&mut self) {
        self.eos.clear();
    }

    /// The beginning-of-sequence token.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos
    }

    /// Id of a token by its text.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Text of a token as the vocabulary spells it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.bytes.len()
    }

    /// Text of the beginning-of-sequence token.
    pub fn bos_text(&self) -> Option<String> {
        self.bos.and_then(|id| self.id_to_token(id))
    }

    /// Text of the first end-of-sequence token.
    pub fn eos_text(&self) -> Option<String> {
        self.eos.first().and_then(|id| self.id_to_token(*id))
    }

    /// Source of the chat template, if one came with the tokenizer.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}
