//! What each token stands for in bytes.

use std::sync::LazyLock;

/// Bytes of every token, by id, in one allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct ByteTable {
    bytes: Vec<u8>,
    /// End of each token's bytes; the start is the end of the one before.
    ends: Vec<usize>,
}

impl ByteTable {
    /// Adds the next token; `write` appends its bytes.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of token `id`.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// How a vocabulary spells bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// GPT-2's: every byte is one printable character.
    ByteLevel,
    /// SentencePiece's: `▁` is a space and `<0x0A>` a byte.
    SentencePiece,
    /// None: tokens are text as they are.
    Verbatim,
}

impl Spelling {
    /// Appends the bytes of a token of the vocabulary.
    pub(super) fn write(self, token: &str, out: &mut Vec<u8>) {
        match self {
            Spelling::ByteLevel => write_byte_level(token, out),
            Spelling::SentencePiece => match hex_byte(token) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(token.replace('▁', " ").as_bytes()),
            },
            Spelling::Verbatim => out.extend_from_slice(token.as_bytes()),
        }
    }
}

/// A token with a character outside of the byte alphabet stands for itself.
fn write_byte_level(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for c in token.chars() {
        match BYTE_OF_CHAR.get(c as usize).copied().flatten() {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

/// The byte of `<0x0A>`.
fn hex_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// GPT-2's alphabet: printable Latin-1 bytes are themselves, the others follow from U+0100 on.
static BYTE_OF_CHAR: LazyLock<Vec<Option<u8>>> = LazyLock::new(|| {
    let mut table = vec![None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let c = if printable { usize::from(byte) } else { next };
        next += usize::from(!printable);
        table[c] = Some(byte);
    }
    table
});

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(spelling: Spelling, token: &str) -> Vec<u8> {
        let mut out = Vec::new();
        spelling.write(token, &mut out);
        out
    }

    #[test]
    fn byte_level_spelling() {
        assert_eq!(bytes(Spelling::ByteLevel, "ĠaĊ"), b" a\n");
        assert_eq!(bytes(Spelling::ByteLevel, "ä½ł"), "你".as_bytes());
        assert_eq!(bytes(Spelling::ByteLevel, "你"), "你".as_bytes());
        assert_eq!(BYTE_OF_CHAR.iter().flatten().count(), 256);
    }

    #[test]
    fn sentencepiece_spelling() {
        assert_eq!(bytes(Spelling::SentencePiece, "▁a"), b" a");
        assert_eq!(bytes(Spelling::SentencePiece, "<0x0A>"), b"\n");
        assert_eq!(bytes(Spelling::SentencePiece, "<0xZZ>"), b"<0xZZ>");
    }

    #[test]
    fn the_table_keeps_tokens_apart() {
        let mut table = ByteTable::default();
        for token in [&b"ab"[..], b"", b"c"] {
            table.push(|out| out.extend_from_slice(token));
        }
        assert_eq!(table.get(0), Some(&b"ab"[..]));
        assert_eq!(table.get(1), Some(&b""[..]));
        assert_eq!(table.get(2), Some(&b"c"[..]));
        assert_eq!(table.get(3), None);
    }
}
