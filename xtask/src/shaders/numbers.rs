//! Numbers that a GLSL file gives names and the host uses: operations, modes, flags.
//!
//! A comment with `[host]` marks the declaration below it. Named constants leave no trace in a
//! module, so these are read from the text: `const uint NAME = 1, OTHER = 0x2u;`, literals only.

use crate::error::{Error, Result};

/// What marks a declaration.
const MARK: &str = "[host]";

/// A number and its name.
pub(crate) type Number = (String, u32);

/// The numbers that `text` marks; `file` is named in errors.
///
/// # Errors
/// When what a mark stands over is of another form.
pub(crate) fn of(file: &str, text: &str) -> Result<Vec<Number>> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if !line.trim_start().starts_with("//") || !line.contains(MARK) {
            continue;
        }
        let mut declaration = String::new();
        for (_, line) in lines.by_ref().skip_while(|(_, line)| line.trim_start().starts_with("//"))
        {
            declaration += line.split("//").next().unwrap_or_default();
            declaration.push(' ');
            if declaration.contains(';') {
                break;
            }
        }
        let numbers = parse(&declaration).ok_or_else(|| {
            let expected = "expected `const uint NAME = literal, …;` below";
            Error::new(format!("{file}:{}: {expected} {MARK}", index + 1))
        })?;
        found.extend(numbers);
    }
    Ok(found)
}

fn parse(declaration: &str) -> Option<Vec<Number>> {
    let (list, rest) = declaration.trim().strip_prefix("const uint ")?.split_once(';')?;
    rest.trim().is_empty().then_some(())?;
    list.split(',').map(number).collect()
}

fn number(text: &str) -> Option<Number> {
    let (name, value) = text.split_once('=')?;
    let digits = value.trim().trim_end_matches('u');
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    Some((name.trim().to_owned(), value.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_declarations_are_read() {
        let text = "const uint OTHER = 7;\n// modes [host]\n// and more\n\
                    const uint RUN = 0, TRIAL = 0x2u, // why\n    LAST = 3u;\n";
        let expected = [("RUN".to_owned(), 0), ("TRIAL".to_owned(), 2), ("LAST".to_owned(), 3)];
        assert_eq!(of("a.comp", text).unwrap(), expected);
    }

    #[test]
    fn other_declarations_below_a_mark_are_errors() {
        for text in ["// [host]\nconst uint A = B;", "// [host]\nuint a;", "// [host]\n"] {
            let error = of("a.comp", text).unwrap_err().to_string();
            assert!(error.starts_with("a.comp:1: expected `const uint"), "{error}");
        }
    }
}
