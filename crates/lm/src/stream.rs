//! From token ids to text as it comes: whole characters only, and nothing of a stop string.

use crate::tokenizer::Tokenizer;

/// Gives out text token by token without ever splitting a character.
///
/// Byte-level tokens hold pieces of characters; bytes that may still become a character are held
/// back until they do, and invalid ones become U+FFFD as in Rust's lossy decoding.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Adds bytes and returns the text that is complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.pending[done..]) {
                Ok(rest) => {
                    text.push_str(rest);
                    done = self.pending.len();
                    break;
                }
                Err(e) => {
                    let valid = done + e.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.pending[done..valid]));
                    done = valid;
                    match e.error_len() {
                        Some(n) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            done += n;
                        }
                        // The end of the input may be the start of a character.
                        None => break,
                    }
                }
            }
        }
        self.pending.drain(..done);
        text
    }

    /// What is left at the end: at most one replacement character.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Ends a text before the first of some stop strings.
///
/// Text that may be the beginning of a stop string is held back until it is known not to be.
#[derive(Debug, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

impl StopStrings {
    /// Stops before any of `stops`; empty strings are ignored.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        Self { stops: stops.into_iter().filter(|s| !s.is_empty()).collect(), ..Self::default() }
    }

    /// Whether a stop string was seen.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Adds text and returns what may be shown.
    pub fn push(&mut self, text: &str) -> String {
        if self.stopped {
            return String::new();
        }
        self.held.push_str(text);
        let first = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = first {
            self.stopped = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let keep = self.stops.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// What was held back, once no more text will come.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length of the longest end of `text` that begins `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let limit = text.len().min(stop.len());
    (1..=limit)
        .rev()
        .find(|n| {
            text.is_char_boundary(text.len() - n)
                && stop.as_bytes().starts_with(&text.as_bytes()[text.len() - n..])
        })
        .unwrap_or(0)
}

/// Streaming detokenizer: token ids in, text that may be shown out.
#[derive(Debug)]
pub struct TextStream<'t> {
    tokenizer: &'t Tokenizer,
    utf8: Utf8Stream,
    stops: StopStrings,
    /// Whether a token with text came already.
    started: bool,
}

impl<'t> TextStream<'t> {
    /// A stream that ends before any of `stops`.
    pub fn new(tokenizer: &'t Tokenizer, stops: &[String]) -> Self {
        let stops = StopStrings::new(stops.iter().cloned());
        Self { tokenizer, utf8: Utf8Stream::default(), stops, started: false }
    }

    /// Adds a token and returns the text it completes; special tokens have no text.
    pub fn push(&mut self, id: u32) -> String {
        let bytes = self.tokenizer.token_bytes(id);
        if bytes.is_empty() {
            return String::new();
        }
        let mut text = String::new();
        if std::mem::replace(&mut self.started, true) {
            text = self.utf8.push(self.tokenizer.separator());
        }
        text.push_str(&self.utf8.push(bytes));
        self.stops.push(&text)
    }

    /// Whether a stop string was seen.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// The text held back, once no more tokens will come.
    pub fn finish(&mut self) -> String {
        let tail = self.utf8.finish();
        let mut text = self.stops.push(&tail);
        text.push_str(&self.stops.finish());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_never_split() {
        let mut stream = Utf8Stream::default();
        let parts: Vec<String> = "a你🙂".bytes().map(|b| stream.push(&[b])).collect();
        assert_eq!(parts, ["a", "", "", "你", "", "", "", "🙂"]);
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn broken_bytes_become_replacement_characters() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(&[0xe4, 0xbd, b'x', 0xff, b'y']), "\u{fffd}x\u{fffd}y");
        assert_eq!(stream.push(&[0xf0, 0x9f]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn every_split_gives_the_lossy_text() {
        let bytes = b"ok\xe4\xbd\xa0\xf0\x9f\x99\xff\xc3(\xe2\x82";
        let want = String::from_utf8_lossy(bytes);
        for cut in 0..=bytes.len() {
            let mut stream = Utf8Stream::default();
            let text = stream.push(&bytes[..cut]) + &stream.push(&bytes[cut..]) + &stream.finish();
            assert_eq!(text, want, "cut at {cut}");
        }
    }

    #[test]
    fn stop_strings_end_the_text_and_leave_no_trace() {
        let mut stops = StopStrings::new(["END".to_owned(), "E!".to_owned()]);
        assert_eq!(stops.push("abE"), "ab");
        assert_eq!(stops.push("N"), "");
        assert_eq!(stops.push("x"), "ENx");
        assert_eq!(stops.push("yEN"), "y");
        assert_eq!(stops.push("Dz"), "");
        assert!(stops.stopped());
        assert_eq!(stops.push("more") + &stops.finish(), "");
    }

    #[test]
    fn held_text_comes_out_at_the_end() {
        let mut stops = StopStrings::new(["你好".to_owned()]);
        assert_eq!(stops.push("a你"), "a");
        assert_eq!(stops.finish(), "你");
    }
}
