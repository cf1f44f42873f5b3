//! Numbers as they are written.

use crate::ast::ExpressionKind;
use crate::error::{Error, Result};

/// What a number means: `0x1F`, `1'000ul`, `.5h`, `1e-3f`.
pub(crate) fn number(text: &str, line: u32) -> Result<ExpressionKind> {
    let digits = text.replace('\'', "").to_ascii_lowercase();
    let (radix, body) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'b', ..] => (2, &digits[2..]),
        _ => (10, digits.as_str()),
    };
    let is_float = match radix {
        16 => body.contains(['.', 'p']),
        10 => body.contains(['.', 'e']),
        _ => false,
    };
    let value = match (is_float, radix) {
        (true, 16) => hexadecimal_float(body),
        (true, _) => decimal_float(body),
        (false, 10) if body.starts_with('0') => integer(body, 8),
        (false, _) => integer(body, radix),
    };
    value.ok_or_else(|| Error::new(line, format!("`{text}` is not a number that is known here")))
}

fn integer(text: &str, radix: u32) -> Option<ExpressionKind> {
    let end = text.find(['u', 'l']).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (is_unsigned, is_long) = match suffix {
        "" => (false, false),
        "u" => (true, false),
        "l" | "ll" => (false, true),
        "ul" | "ull" | "lu" | "llu" => (true, true),
        _ => return None,
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    // A number of 32 bits has no sign unless it is written in base 10, where it has more bits then.
    let has_32_bits = (1 << 31..1 << 32).contains(&value);
    let is_unsigned = is_unsigned || radix != 10 && has_32_bits && !is_long;
    Some(ExpressionKind::Integer { value, is_unsigned, is_long })
}

/// Takes the suffix off; whether it makes a half.
fn without_suffix(text: &str) -> (&str, bool) {
    let is_half = text.ends_with('h');
    (text.strip_suffix(['f', 'h', 'l']).unwrap_or(text), is_half)
}

fn decimal_float(text: &str) -> Option<ExpressionKind> {
    let (digits, is_half) = without_suffix(text);
    let value = digits.parse().ok()?;
    Some(ExpressionKind::Float { value, is_half })
}

fn hexadecimal_float(text: &str) -> Option<ExpressionKind> {
    let (digits, exponent) = text.split_once('p')?;
    let (exponent, is_half) = without_suffix(exponent);
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let exponent = exponent.saturating_sub(places.saturating_mul(4));
    Some(ExpressionKind::Float { value: value * 2f64.powi(exponent.clamp(-1022, 1023)), is_half })
}
