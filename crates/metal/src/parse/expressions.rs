//! Expressions, by how strongly their operators bind.

use super::{Parser, literals, methods::CALL};
use crate::ast::{BinaryOperator, Expression, ExpressionKind, UnaryOperator};
use crate::error::Result;
use crate::token::TokenKind;

/// An operator that waits for its right side.
struct Waiting {
    left: Expression,
    height: u32,
    operator: BinaryOperator,
    strength: u8,
    line: u32,
}

/// What a thread has of a matrix of its simdgroup: a function in Metal, a field here.
const ELEMENTS: &str = "thread_elements";

impl Parser {
    /// An expression that may have commas.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        let mut left = self.assignment()?;
        while self.is_symbol(",") {
            let (line, below) = (self.line(), self.height);
            self.advance();
            let right = self.assignment()?;
            let below = below.max(self.height);
            left = self.node(line, below, ExpressionKind::Comma(left.into(), right.into()))?;
        }
        Ok(left)
    }

    /// An expression without commas.
    pub(super) fn assignment(&mut self) -> Result<Expression> {
        self.nested(|parser| parser.assignment_within())
    }

    fn assignment_within(&mut self) -> Result<Expression> {
        let place = self.conditional()?;
        let Some(operator) = self.symbol().and_then(assigning) else { return Ok(place) };
        let (line, below) = (self.line(), self.height);
        self.advance();
        let value = self.argument()?;
        let below = below.max(self.height);
        self.node(line, below, ExpressionKind::Assign(operator, place.into(), value.into()))
    }

    /// An argument of a call or the right side of `=`: an expression, or `{…}`.
    fn argument(&mut self) -> Result<Expression> {
        if self.is_symbol("{") { self.untyped_braces() } else { self.assignment() }
    }

    fn conditional(&mut self) -> Result<Expression> {
        let condition = self.binary()?;
        if !self.is_symbol("?") {
            return Ok(condition);
        }
        let (line, mut below) = (self.line(), self.height);
        self.advance();
        let then = self.nested(Self::expression)?;
        below = below.max(self.height);
        self.expect_symbol(":")?;
        let otherwise = self.assignment()?;
        below = below.max(self.height);
        let kind = ExpressionKind::Conditional(condition.into(), then.into(), otherwise.into());
        self.node(line, below, kind)
    }

    /// Operators with two sides. Those that bind less strongly wait on a stack.
    fn binary(&mut self) -> Result<Expression> {
        let mut stack: Vec<Waiting> = Vec::new();
        loop {
            let mut left = self.unary()?;
            let next =
                self.symbol().filter(|symbol| !(self.in_angles && matches!(*symbol, ">" | ">>")));
            let next = next.and_then(binary_operator);
            while let Some(top) = stack.pop() {
                if next.is_some_and(|(_, strength)| strength > top.strength) {
                    stack.push(top);
                    break;
                }
                let below = top.height.max(self.height);
                let kind = ExpressionKind::Binary(top.operator, top.left.into(), left.into());
                left = self.node(top.line, below, kind)?;
            }
            let Some((operator, strength)) = next else { return Ok(left) };
            stack.push(Waiting {
                left,
                height: self.height,
                operator,
                strength,
                line: self.line(),
            });
            self.advance();
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        let line = self.line();
        let operator = match self.symbol() {
            Some("+") => UnaryOperator::Plus,
            Some("-") => UnaryOperator::Minus,
            Some("!") => UnaryOperator::Not,
            Some("~") => UnaryOperator::Complement,
            Some("*") => UnaryOperator::Pointee,
            Some("&") => UnaryOperator::AddressOf,
            Some("++") => return self.step_before(1),
            Some("--") => return self.step_before(-1),
            Some("(") if self.names_type(self.position + 1) => return self.nested(Self::cast),
            _ => return self.postfix(),
        };
        self.advance();
        let value = self.nested(Self::unary)?;
        if operator == UnaryOperator::Pointee {
            return self.pointee(line, value);
        }
        let below = self.height;
        self.node(line, below, ExpressionKind::Unary(operator, value.into()))
    }

    /// What an address refers to.
    fn pointee(&mut self, line: u32, address: Expression) -> Result<Expression> {
        if let ExpressionKind::Unary(UnaryOperator::AddressOf, of) = address.kind {
            return Ok(*of);
        }
        let below = self.height;
        self.node(line, below, ExpressionKind::Unary(UnaryOperator::Pointee, address.into()))
    }

    fn step_before(&mut self, by: i32) -> Result<Expression> {
        let line = self.line();
        self.advance();
        let place = self.nested(Self::unary)?.into();
        let below = self.height;
        self.node(line, below, ExpressionKind::Step { place, by, is_postfix: false })
    }

    /// `(T)a` or `(T){…}`
    fn cast(&mut self) -> Result<Expression> {
        let line = self.line();
        self.expect_symbol("(")?;
        let ty = self.angled(false, Self::type_name)?;
        let below = self.height;
        self.expect_symbol(")")?;
        let kind = if self.is_symbol("{") {
            ExpressionKind::Braces(ty, self.braces()?)
        } else {
            ExpressionKind::Cast(ty, self.unary()?.into())
        };
        let below = below.max(self.height);
        self.node(line, below, kind)
    }

    fn postfix(&mut self) -> Result<Expression> {
        let mut value = self.primary()?;
        loop {
            let (line, below) = (self.line(), self.height);
            value = match self.symbol() {
                Some("[") => self.index(value)?,
                Some(symbol @ ("." | "->")) => self.member(value, symbol == "->")?,
                Some(symbol @ ("++" | "--")) => {
                    self.advance();
                    let by = if symbol == "++" { 1 } else { -1 };
                    let kind = ExpressionKind::Step { place: value.into(), by, is_postfix: true };
                    self.node(line, below, kind)?
                }
                Some("(") => self.call_of_value(value, CALL.to_owned(), Vec::new())?,
                _ => return Ok(value),
            }
        }
    }

    fn index(&mut self, base: Expression) -> Result<Expression> {
        let (line, below) = (self.line(), self.height);
        self.advance();
        let index = self.angled(false, Self::expression)?;
        self.expect_symbol("]")?;
        let below = below.max(self.height);
        self.node(line, below, ExpressionKind::Index(base.into(), index.into()))
    }

    fn member(&mut self, mut base: Expression, is_arrow: bool) -> Result<Expression> {
        let line = self.line();
        if is_arrow {
            base = self.pointee(line, base)?;
        }
        self.advance();
        let is_template = self.take_word("template");
        let name = self.member_name()?.to_string();
        let behind = self.is_symbol("<").then(|| self.behind_angles(self.position)).flatten();
        let is_called = behind.is_some_and(|behind| self.symbol_at(behind) == Some("("));
        let below = self.height;
        let has_arguments = is_called && (is_template || self.templates.contains(name.as_str()));
        let template = if has_arguments { self.template_arguments()? } else { Vec::new() };
        self.height = below.max(self.height);
        if name == ELEMENTS && self.take_symbol("(") {
            self.expect_symbol(")")?;
        } else if self.is_symbol("(") {
            return self.call_of_value(base, name, template);
        }
        let below = self.height;
        self.node(line, below, ExpressionKind::Member(base.into(), name))
    }

    /// `(…)`. The height is that of the highest argument.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expression>> {
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        let mut highest = 0;
        while !self.is_symbol(")") {
            arguments.push(self.angled(false, Self::argument)?);
            highest = highest.max(self.height);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.height = highest;
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expression> {
        let line = self.line();
        let kind = match &self.token().kind {
            TokenKind::Number(text) => literals::number(text, line)?,
            TokenKind::Character(code) => ExpressionKind::Integer {
                value: u64::from(*code),
                is_unsigned: false,
                is_long: false,
            },
            TokenKind::Text(_) => return Err(self.error("a string is not supported here")),
            TokenKind::Symbol("(") => {
                self.advance();
                let value = self.angled(false, Self::expression)?;
                return self.expect_symbol(")").map(|()| value);
            }
            TokenKind::Symbol("[") => return Err(self.error("a lambda is not supported")),
            TokenKind::Name(_) | TokenKind::Symbol("::") => return self.named(),
            _ => return Err(self.expected("an expression")),
        };
        self.advance();
        Ok(self.leaf(line, kind))
    }
}

/// What `=`, `+=` and so on do before they assign.
fn assigning(symbol: &str) -> Option<Option<BinaryOperator>> {
    Some(match symbol {
        "=" => None,
        "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" => {
            let (operator, _) = binary_operator(&symbol[..symbol.len() - 1])?;
            Some(operator)
        }
        _ => return None,
    })
}

/// An operator with two sides, and how strongly it binds.
fn binary_operator(symbol: &str) -> Option<(BinaryOperator, u8)> {
    use BinaryOperator::*;
    Some(match symbol {
        "*" => (Multiply, 10),
        "/" => (Divide, 10),
        "%" => (Remainder, 10),
        "+" => (Add, 9),
        "-" => (Subtract, 9),
        "<<" => (ShiftLeft, 8),
        ">>" => (ShiftRight, 8),
        "<" => (Less, 7),
        "<=" => (LessEqual, 7),
        ">" => (Greater, 7),
        ">=" => (GreaterEqual, 7),
        "==" => (Equal, 6),
        "!=" => (NotEqual, 6),
        "&" => (And, 5),
        "^" => (Xor, 4),
        "|" => (Or, 3),
        "&&" => (Both, 2),
        "||" => (Either, 1),
        _ => return None,
    })
}
