//! What a JSON parser does not check: no key twice, and no more structure than a header has.

use std::{borrow::Cow, collections::HashSet};

use crate::io::context::MAX_RANK;

/// A header is an object of objects of arrays.
const MAX_DEPTH: usize = 3;

/// What is open at some point of the text.
enum Open<'a> {
    /// An object and its keys so far.
    Object(HashSet<Cow<'a, str>>),
    /// An array and its commas so far.
    Array(usize),
}

/// Checks that no object of `text` has a key twice, that nesting is no deeper and arrays no longer
/// than in a header (so that the parser's memory stays in proportion to the text). Text that is not
/// JSON may pass: the parser finds that out.
pub(super) fn check(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut key_next = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = string_end(bytes, at).ok_or("a string does not end")?;
                if let (true, Some(Open::Object(keys))) = (key_next, open.last_mut()) {
                    let key = unescape(&text[at..end])?;
                    if let Some(key) = keys.replace(key) {
                        return Err(format!("duplicate key {key:?}"));
                    }
                }
                at = end;
                continue;
            }
            b'{' | b'[' if open.len() == MAX_DEPTH => return Err("nested too deep".into()),
            b'{' => {
                open.push(Open::Object(HashSet::new()));
                key_next = true;
            }
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => {
                open.pop();
            }
            b':' => key_next = false,
            b',' => match open.last_mut() {
                Some(Open::Array(commas)) if *commas == MAX_RANK => {
                    return Err(format!("an array has more than {MAX_RANK} elements"));
                }
                Some(Open::Array(commas)) => *commas += 1,
                _ => key_next = true,
            },
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The index after the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The text of a quoted string.
fn unescape(quoted: &str) -> Result<Cow<'_, str>, String> {
    if quoted.contains('\\') {
        serde_json::from_str(quoted).map(Cow::Owned).map_err(|e| format!("invalid JSON: {e}"))
    } else {
        Ok(Cow::Borrowed(&quoted[1..quoted.len() - 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn duplicates_are_found_in_every_object_and_spelling() {
        assert!(check(r#"{"a": {"x": [1, 2]}, "b": {"x": "a,\"b\": {"}}"#).is_ok());
        for text in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"m": {"x": "1", "y": "}", "x": "3"}}"#,
            r#"{"a": [[1, 2]], "b": {"c": [[[]]]}}"#,
            r#"{"a"#,
            r#"{"a\"#,
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check(&format!("[{}]", "1,".repeat(70))).is_err());
    }
}
