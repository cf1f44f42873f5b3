//! How text is cut before byte-level BPE, by the name that GGUF files give (`tokenizer.ggml.pre`).
//!
//! The expressions are those of the models' own `tokenizer.json`.

use tokenizers::{
    PreTokenizerWrapper,
    pre_tokenizers::{
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
    tokenizer::SplitDelimiterBehavior,
};

/// What `tokenizer.ggml.pre` says about a tokenizer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheme {
    /// Expressions applied one after the other; every match becomes a piece of its own.
    splits: &'static [&'static str],
    /// Text is brought to NFC first.
    pub(super) nfc: bool,
    /// Whole pieces found in the vocabulary are taken before merging.
    pub(super) ignore_merges: bool,
    /// A beginning-of-sequence token goes first unless the file says otherwise.
    pub(super) add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DIGIT: &str = r"\p{N}";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|",
    r"[^\r\n\p{L}\p{N}]?\p{L}+|",
    r"\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|",
    r"\s+(?!\S)|",
    r"\s+",
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|",
    r"[^\r\n\p{L}\p{N}]?\p{L}+|",
    r"\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|",
    r"\s+(?!\S)|",
    r"\s+",
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|",
    r"\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|",
    r"\s*[\r\n]+|",
    r"\s+(?!\S)|",
    r"\s+",
);
/// o200k: gpt-4o's and gpt-oss's.
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|",
    r"\s*[\r\n]+|",
    r"\s+(?!\S)|",
    r"\s+",
);

const PLAIN: Scheme = Scheme { splits: &[GPT2], nfc: false, ignore_merges: false, add_bos: false };

const SCHEMES: &[(&[&str], Scheme)] = &[
    (&["gpt-2", "gpt2", "olmo", "phi-2", "mpt", "default"], PLAIN),
    (
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"],
        Scheme { splits: &[DIGIT, GPT2], ..PLAIN },
    ),
    (
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe", "dbrx"],
        Scheme { splits: &[LLAMA3], ignore_merges: true, add_bos: true, ..PLAIN },
    ),
    (
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"],
        Scheme { splits: &[QWEN2], nfc: true, ..PLAIN },
    ),
    (&["gpt-4o"], Scheme { splits: &[O200K], ignore_merges: true, ..PLAIN }),
    (&["tekken"], Scheme { splits: &[TEKKEN], ignore_merges: true, add_bos: true, ..PLAIN }),
];

/// The scheme of this name.
pub(super) fn scheme(name: &str) -> Option<Scheme> {
    SCHEMES.iter().find(|(names, _)| names.contains(&name)).map(|(_, scheme)| *scheme)
}

/// All names, for messages.
pub(super) fn names() -> String {
    SCHEMES.iter().flat_map(|(names, _)| names.iter().copied()).collect::<Vec<_>>().join(", ")
}

impl Scheme {
    /// The pre-tokenizer: the splits, then GPT-2's spelling of bytes.
    pub(super) fn pre_tokenizer(&self) -> tokenizers::Result<Sequence> {
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for regex in self.splits {
            let pattern = SplitPattern::Regex((*regex).to_owned());
            steps.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        Ok(Sequence::new(steps))
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let mut cut = PreTokenizedString::from(text);
        scheme(name).unwrap().pre_tokenizer().unwrap().pre_tokenize(&mut cut).unwrap();
        cut.get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .map(|(piece, ..)| piece.to_owned())
            .collect()
    }

    #[test]
    fn every_scheme_compiles() {
        for (names, scheme) in SCHEMES {
            scheme.pre_tokenizer().unwrap_or_else(|e| panic!("{names:?}: {e}"));
        }
        assert!(scheme("nonsense").is_none() && names().contains("qwen2"));
    }

    #[test]
    fn digits_stand_alone_in_smollm() {
        assert_eq!(pieces("smollm", "in 2018!"), ["in", "Ġ", "2", "0", "1", "8", "!"]);
        assert_eq!(pieces("gpt-2", "in 2018!"), ["in", "Ġ2018", "!"]);
    }

    #[test]
    fn llama3_groups_three_digits_and_qwen_one() {
        assert_eq!(pieces("llama-bpe", "12345 DON'T"), ["123", "45", "ĠDON", "'T"]);
        assert_eq!(pieces("qwen2", "12 it's"), ["1", "2", "Ġit", "'s"]);
        assert_eq!(pieces("gpt-4o", "1234 it's OneTwo"), ["123", "4", "Ġit's", "ĠOne", "Two"]);
    }
}
