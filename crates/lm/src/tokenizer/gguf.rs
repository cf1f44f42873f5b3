//! The tokenizer inside a GGUF file (`tokenizer.ggml.*`).

use std::collections::{BTreeSet, HashSet};

use tokenizers::{AddedToken, decoders::byte_level::ByteLevel, models::bpe::BPE, normalizers::NFC};

use super::{
    Prefix, Tokenizer,
    bytes::{ByteTable, Spelling},
    pretokenizers, spm,
};
use crate::{Error, Result, metadata::Metadata};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";
const TYPES: &str = "tokenizer.ggml.token_type";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(super) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const PADDING: &str = "tokenizer.ggml.padding_token_id";
const TEMPLATE: &str = "tokenizer.chat_template";

/// Keys whose tokens end a generation.
const EOS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
/// Control tokens that end a turn in every model that has them, though files often name only one.
const END_OF_TURN: [&str; 9] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    MESSAGE_END,
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    RETURN,
    "<|call|>",
];
/// Ends gpt-oss's turns, of which [`MESSAGE_END`] ends but a part.
const RETURN: &str = "<|return|>";
const MESSAGE_END: &str = "<|end|>";

/// Kinds of tokens in `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Normal,
    /// Control or unknown token: matched in prompts, never shown.
    Control,
    /// Added by the model's makers: matched in prompts and shown.
    UserDefined,
}

impl Tokenizer {
    /// The tokenizer of a GGUF file.
    ///
    /// # Errors
    /// When the file has no tokenizer, one of an unknown kind, or a damaged one.
    pub fn from_gguf(meta: &Metadata) -> Result<Self> {
        let model = meta.text(MODEL)?.ok_or_else(|| meta.error(MODEL, "missing"))?;
        match model {
            "gpt2" => byte_level(meta),
            "llama" => spm::from_gguf(meta),
            other => Err(meta.error(
                MODEL,
                format_args!(
                    "unknown tokenizer {other:?}; supported: gpt2 (byte-level BPE), \
                     llama (SentencePiece)"
                ),
            )),
        }
    }
}

/// Tokens with a meaning of their own, as the file names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Special {
    pub(crate) bos: Option<u32>,
    /// The one that ends a sequence; a tokenizer may know more that end a generation.
    pub(crate) eos: Option<u32>,
    pub(crate) padding: Option<u32>,
    pub(crate) unknown: Option<u32>,
}

impl Special {
    /// Those of a GGUF file.
    ///
    /// # Errors
    /// When an id is not in the vocabulary.
    pub(crate) fn from_gguf(meta: &Metadata) -> Result<Self> {
        let len = meta.need_texts(TOKENS)?.len();
        let id = |key| token(meta, key, len);
        let [eos, ..] = EOS;
        Ok(Self { bos: id(BOS)?, eos: id(eos)?, padding: id(PADDING)?, unknown: id(UNKNOWN)? })
    }
}

fn byte_level(meta: &Metadata) -> Result<Tokenizer> {
    let name = meta.text(PRE)?.unwrap_or("default");
    let scheme = pretokenizers::scheme(name).ok_or_else(|| {
        let known = pretokenizers::names();
        meta.error(PRE, format_args!("unknown pre-tokenizer {name:?}; supported: {known}"))
    })?;
    let tokens = meta.need_texts(TOKENS)?;
    let mut bpe = BPE::new(vocabulary(tokens), merges(meta, tokens)?);
    bpe.ignore_merges = scheme.ignore_merges;

    let mut inner = tokenizers::Tokenizer::new(bpe);
    let pre = scheme.pre_tokenizer().map_err(|e| meta.error(PRE, e))?;
    inner.with_pre_tokenizer(Some(pre));
    inner.with_normalizer(scheme.nfc.then_some(NFC));
    inner.with_decoder(Some(ByteLevel::new(false, false, false)));
    finish(meta, inner, Spelling::ByteLevel, scheme.add_bos)
}

/// Adds the special tokens, the byte table and the ids that begin and end text.
pub(super) fn finish(
    meta: &Metadata,
    mut inner: tokenizers::Tokenizer,
    spelling: Spelling,
    add_bos: bool,
) -> Result<Tokenizer> {
    let tokens = meta.need_texts(TOKENS)?;
    let kinds = kinds(meta, tokens.len())?;
    add_special_tokens(&mut inner, tokens, &kinds);
    let bos = token(meta, BOS, tokens.len())?;
    let add_bos = meta.bool(ADD_BOS)?.unwrap_or(add_bos);
    Ok(Tokenizer {
        inner,
        bytes: byte_table(tokens, &kinds, spelling),
        separator: b"",
        bos,
        eos: end_tokens(meta, tokens, &kinds)?,
        prefix: bos.filter(|_| add_bos).map_or(Prefix::None, Prefix::Bos),
        chat_template: meta.text(TEMPLATE)?.map(str::to_owned),
    })
}

/// Ids by text, in whatever map the tokenizers crate wants.
pub(super) fn vocabulary<M: FromIterator<(String, u32)>>(tokens: &[String]) -> M {
    tokens.iter().zip(0u32..).map(|(t, id)| (t.clone(), id)).collect()
}

/// The merges, checked: `BPE::new` relies on every part and product being in the vocabulary.
fn merges(meta: &Metadata, tokens: &[String]) -> Result<Vec<(String, String)>> {
    let known: HashSet<&str> = tokens.iter().map(String::as_str).collect();
    let lines = meta.need_texts(MERGES)?;
    let mut merges = Vec::with_capacity(lines.len());
    let mut product = String::new();
    for (i, line) in lines.iter().enumerate() {
        // A part may itself contain spaces only at its start, so the first inner space divides.
        let divided = line.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        let (a, b) = divided.map(|at| (&line[..at], &line[at + 1..])).unwrap_or((line, ""));
        product.clear();
        product.extend([a, b]);
        if b.is_empty() || ![a, b, &product].iter().all(|t| known.contains(*t)) {
            return Err(
                meta.error(MERGES, format_args!("merge {i} ({line:?}) is not of the vocabulary"))
            );
        }
        merges.push((a.to_owned(), b.to_owned()));
    }
    Ok(merges)
}

/// Kind of each token; all normal where the file does not say.
fn kinds(meta: &Metadata, len: usize) -> Result<Vec<Kind>> {
    let Some(types) = meta.ints(TYPES)? else { return Ok(vec![Kind::Normal; len]) };
    if types.len() != len {
        let n = types.len();
        return Err(meta.error(TYPES, format_args!("has {n} entries for {len} tokens")));
    }
    let kind = |t: &i64| match t {
        2 | 3 => Kind::Control,
        4 => Kind::UserDefined,
        _ => Kind::Normal,
    };
    Ok(types.iter().map(kind).collect())
}

fn add_special_tokens(inner: &mut tokenizers::Tokenizer, tokens: &[String], kinds: &[Kind]) {
    let added: Vec<AddedToken> = tokens
        .iter()
        .zip(kinds)
        .filter(|(_, kind)| **kind != Kind::Normal)
        .map(|(t, kind)| AddedToken::from(t.as_str(), *kind == Kind::Control).normalized(false))
        .collect();
    inner.add_tokens(&added);
}

fn byte_table(tokens: &[String], kinds: &[Kind], spelling: Spelling) -> ByteTable {
    let mut table = ByteTable::default();
    for (token, kind) in tokens.iter().zip(kinds) {
        table.push(|out| match kind {
            Kind::Normal => spelling.write(token, out),
            Kind::UserDefined => out.extend_from_slice(token.as_bytes()),
            Kind::Control => (),
        });
    }
    table
}

fn end_tokens(meta: &Metadata, tokens: &[String], kinds: &[Kind]) -> Result<BTreeSet<u32>> {
    let mut ends = BTreeSet::new();
    for key in EOS {
        ends.extend(token(meta, key, tokens.len())?);
    }
    let in_parts = tokens.iter().any(|token| token == RETURN);
    let is_end = |token: &str| END_OF_TURN.contains(&token) && !(in_parts && token == MESSAGE_END);
    let control = (0u32..).zip(tokens).zip(kinds).filter(|(_, kind)| **kind == Kind::Control);
    ends.extend(control.filter(|((_, t), _)| is_end(t)).map(|((id, _), _)| id));
    Ok(ends)
}

/// A token id that must be in the vocabulary.
fn token(meta: &Metadata, key: &str, len: usize) -> Result<Option<u32>, Error> {
    match meta.token(key)? {
        Some(id) if id as usize >= len => Err(meta
            .error(key, format_args!("token {id} is outside of the vocabulary of {len} tokens"))),
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::metadata::Value;

    /// A byte-level tokenizer of a few tokens, with one key replaced.
    fn tiny(change: Option<(&str, Value)>) -> Result<Tokenizer> {
        let texts = |t: &[&str]| Value::Texts(t.iter().map(|t| (*t).to_owned()).collect());
        let mut meta = Metadata::new(
            Path::new("m.gguf"),
            [
                (MODEL, Value::Text("gpt2".into())),
                (PRE, Value::Text("smollm".into())),
                (
                    TOKENS,
                    texts(&["<|end|>", "<t>", "a", "b", "Ġ", "ab", "Ġab", "1", "ä", "½", "ł"]),
                ),
                (TYPES, Value::Ints(vec![3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1])),
                (MERGES, texts(&["a b", "Ġ ab"])),
                (BOS, Value::Int(0)),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
        );
        meta.values.extend(change.map(|(k, v)| (k.to_owned(), v)));
        Tokenizer::from_gguf(&meta)
    }

    #[test]
    fn encodes_and_decodes_with_special_tokens() {
        let t = tiny(None).unwrap();
        let ids = t.encode_prompt("ab ab11<|end|><t>你").unwrap();
        assert_eq!(ids, [5, 6, 7, 7, 0, 1, 8, 9, 10]);
        assert_eq!(t.decode(&ids), "ab ab11<t>你");
        assert!(t.is_eos(0) && !t.is_eos(1));
        assert_eq!(t.decode(&[99]), "");
    }

    /// gpt-oss's messages end before its turns do.
    #[test]
    fn a_message_is_no_turn_where_turns_have_an_end_of_their_own() {
        let texts = ["<|end|>", "<|return|>", "<|call|>", "b", "a", "ab"].map(str::to_owned);
        let mut meta = Metadata::new(Path::new("m.gguf"), Default::default());
        meta.values.insert(TOKENS.to_owned(), Value::Texts(texts.to_vec()));
        let kinds = [3, 3, 3, 1, 1, 1];
        meta.values.insert(TYPES.to_owned(), Value::Ints(kinds.to_vec()));
        meta.values.insert(MODEL.to_owned(), Value::Text("gpt2".into()));
        meta.values.insert(PRE.to_owned(), Value::Text("gpt-4o".into()));
        meta.values.insert(MERGES.to_owned(), Value::Texts(vec!["a b".into()]));
        let t = Tokenizer::from_gguf(&meta).unwrap();
        assert_eq!(t.eos_ids().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn bos_is_added_once_and_only_on_request() {
        let t = tiny(Some((ADD_BOS, Value::Bool(true)))).unwrap();
        assert_eq!(t.encode_prompt("a").unwrap(), [0, 2]);
        assert_eq!(t.encode_prompt("<|end|>a").unwrap(), [0, 2]);
        assert_eq!(t.encode("a", false).unwrap(), [2]);
    }

    #[test]
    fn damaged_tokenizers_are_refused_by_key() {
        let message = |key: &str, value| tiny(Some((key, value))).unwrap_err().to_string();
        assert!(
            message(PRE, Value::Text("x".into()))
                .starts_with("m.gguf: tokenizer.ggml.pre: unknown")
        );
        assert!(message(MODEL, Value::Text("bert".into())).contains("supported: gpt2"));
        assert!(message(TYPES, Value::Ints(vec![1])).contains("1 entries for 11 tokens"));
        assert!(message(BOS, Value::Int(11)).contains("outside of the vocabulary"));
        for merge in ["a", "a z", "b b", ""] {
            assert!(message(MERGES, Value::Texts(vec![merge.into()])).contains("merge 0"));
        }
    }
}
