//! The expressions of `#if`.

use crate::ast::ExpressionKind;
use crate::error::{Error, Result};
use crate::parse::literals;
use crate::token::{Token, TokenKind};

/// How deep parentheses may be nested.
const MOST_NESTED: u32 = 100;

/// What an expression gives. Names that are left are zero.
pub(super) fn evaluate(tokens: &[Token], line: u32) -> Result<i64> {
    let mut condition = Condition { tokens, line, depth: 0, unused: 0 };
    let value = condition.conditional()?;
    match condition.tokens.first() {
        None => Ok(value),
        Some(token) => {
            Err(condition.error(format!("expected an operator in `#if` but found {token}")))
        }
    }
}

struct Condition<'a> {
    tokens: &'a [Token],
    line: u32,
    depth: u32,
    /// More than zero within a part whose value is not used.
    unused: u32,
}

impl Condition<'_> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(self.line, message)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_here = self.tokens.first().is_some_and(|token| token.is_symbol(symbol));
        if is_here {
            self.tokens = &self.tokens[1..];
        }
        is_here
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(self.error(format!("expected `{symbol}` in `#if`")))
        }
    }

    /// Reads something that is nested, whose value is used or not.
    fn nested(&mut self, is_used: bool, read: fn(&mut Self) -> Result<i64>) -> Result<i64> {
        if self.depth >= MOST_NESTED {
            return Err(self.error("the condition is nested too deeply"));
        }
        self.depth += 1;
        self.unused += u32::from(!is_used);
        let value = read(self)?;
        self.unused -= u32::from(!is_used);
        self.depth -= 1;
        Ok(value)
    }

    fn conditional(&mut self) -> Result<i64> {
        let value = self.binary(1)?;
        if !self.take("?") {
            return Ok(value);
        }
        let then = self.nested(value != 0, Self::conditional)?;
        self.expect(":")?;
        let otherwise = self.nested(value == 0, Self::conditional)?;
        Ok(if value != 0 { then } else { otherwise })
    }

    fn binary(&mut self, weakest: u8) -> Result<i64> {
        let mut left = self.unary()?;
        while let Some((symbol, strength)) =
            self.operator().filter(|&(_, strength)| strength >= weakest)
        {
            self.tokens = &self.tokens[1..];
            let is_used = match symbol {
                "&&" => left != 0,
                "||" => left == 0,
                _ => true,
            };
            self.unused += u32::from(!is_used);
            let right = self.binary(strength + 1)?;
            left = self.apply(symbol, left, right)?;
            self.unused -= u32::from(!is_used);
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, u8)> {
        match self.tokens.first()?.kind {
            TokenKind::Symbol(symbol) => strength(symbol).map(|strength| (symbol, strength)),
            _ => None,
        }
    }

    fn apply(&self, symbol: &str, left: i64, right: i64) -> Result<i64> {
        if matches!(symbol, "/" | "%") && right == 0 {
            return if self.unused > 0 { Ok(0) } else { Err(self.error("`#if` divides by zero")) };
        }
        Ok(match symbol {
            "*" => left.wrapping_mul(right),
            "/" => left.wrapping_div(right),
            "%" => left.wrapping_rem(right),
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "<<" => left.wrapping_shl(right as u32),
            ">>" => left.wrapping_shr(right as u32),
            "&" => left & right,
            "^" => left ^ right,
            "|" => left | right,
            "<" => i64::from(left < right),
            ">" => i64::from(left > right),
            "<=" => i64::from(left <= right),
            ">=" => i64::from(left >= right),
            "==" => i64::from(left == right),
            "!=" => i64::from(left != right),
            "&&" => i64::from(left != 0 && right != 0),
            _ => i64::from(left != 0 || right != 0),
        })
    }

    fn unary(&mut self) -> Result<i64> {
        if self.take("!") {
            return Ok(i64::from(self.nested(true, Self::unary)? == 0));
        }
        if self.take("-") {
            return Ok(self.nested(true, Self::unary)?.wrapping_neg());
        }
        if self.take("~") {
            return Ok(!self.nested(true, Self::unary)?);
        }
        if self.take("+") {
            return self.nested(true, Self::unary);
        }
        if self.take("(") {
            let value = self.nested(true, Self::conditional)?;
            return self.expect(")").map(|()| value);
        }
        self.value()
    }

    fn value(&mut self) -> Result<i64> {
        let Some((first, rest)) = self.tokens.split_first() else {
            return Err(self.error("expected a value in `#if`"));
        };
        self.tokens = rest;
        match &first.kind {
            TokenKind::Name(name) => Ok(i64::from(&**name == "true")),
            TokenKind::Character(code) => Ok(i64::from(*code)),
            TokenKind::Number(text) => match literals::number(text, self.line)? {
                ExpressionKind::Integer { value, .. } => Ok(value as i64),
                _ => Err(self.error(format!("`#if` takes integers alone but found {first}"))),
            },
            _ => Err(self.error(format!("expected a value in `#if` but found {first}"))),
        }
    }
}

/// How strongly an operator binds.
fn strength(symbol: &str) -> Option<u8> {
    Some(match symbol {
        "*" | "/" | "%" => 10,
        "+" | "-" => 9,
        "<<" | ">>" => 8,
        "<" | ">" | "<=" | ">=" => 7,
        "==" | "!=" => 6,
        "&" => 5,
        "^" => 4,
        "|" => 3,
        "&&" => 2,
        "||" => 1,
        _ => return None,
    })
}
