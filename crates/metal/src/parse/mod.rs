//! From the tokens of a program to its tree, by recursive descent.

mod declarations;
mod expressions;
pub(crate) mod literals;
mod local;
mod lookahead;
pub(crate) mod methods;
mod named;
mod program;
mod scopes;
mod statements;
mod templates;
mod types;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::ast::{Expression, ExpressionKind, Program, TypeName};
use crate::error::{Error, Result};
use crate::preprocess::preprocess;
use crate::token::{Token, TokenKind};
use scopes::{Scopes, is_keyword};

/// How deep statements, expressions and types may be nested.
const MOST_NESTED: u32 = 200;
/// How high the tree of an expression may be: `a + b + c + …` nests without parentheses.
const MOST_HEIGHT: u32 = 256;

/// Reads a program.
pub(crate) fn parse(source: &str) -> Result<Program> {
    let mut parser = Parser::new(preprocess(source)?);
    while !matches!(parser.token().kind, TokenKind::End) {
        parser.item()?;
    }
    Ok(parser.program)
}

struct Parser {
    /// The last one is the end.
    tokens: Vec<Token>,
    position: usize,
    depth: u32,
    /// The height of the expression, the arguments or the type that was read last.
    height: u32,
    /// Whether `>` ends a template's arguments here.
    in_angles: bool,
    scopes: Scopes,
    /// The names of all function templates.
    templates: FxHashSet<Rc<str>>,
    /// The names of the structs so far.
    structs: FxHashSet<Rc<str>>,
    /// Whether the function that is read is a template.
    in_template: bool,
    /// The struct whose function is read.
    owner: Option<TypeName>,
    program: Program,
}

impl Parser {
    fn new(tokens: Vec<Token>) -> Parser {
        let templates = lookahead::function_templates(&tokens);
        Parser {
            tokens,
            position: 0,
            depth: 0,
            height: 0,
            in_angles: false,
            scopes: Scopes::new(),
            templates,
            structs: FxHashSet::default(),
            in_template: false,
            owner: None,
            program: Program::default(),
        }
    }

    fn token_at(&self, position: usize) -> &Token {
        &self.tokens[position.min(self.tokens.len() - 1)]
    }

    fn token(&self) -> &Token {
        self.token_at(self.position)
    }

    fn line(&self) -> u32 {
        self.token().line
    }

    fn word_at(&self, position: usize) -> Option<&str> {
        self.token_at(position).name().map(|name| &**name)
    }

    fn word(&self) -> Option<&str> {
        self.word_at(self.position)
    }

    fn symbol_at(&self, position: usize) -> Option<&'static str> {
        match self.token_at(position).kind {
            TokenKind::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    fn symbol(&self) -> Option<&'static str> {
        self.symbol_at(self.position)
    }

    fn advance(&mut self) {
        self.position = (self.position + 1).min(self.tokens.len() - 1);
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.token().is_symbol(symbol)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_here = self.is_symbol(symbol);
        if is_here {
            self.advance();
        }
        is_here
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_here = self.word() == Some(word);
        if is_here {
            self.advance();
        }
        is_here
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    /// The `>` behind a template's arguments, which may be the first half of `>>`.
    fn close_angles(&mut self) -> Result<()> {
        if self.is_symbol(">>") {
            self.tokens[self.position].kind = TokenKind::Symbol(">");
            return Ok(());
        }
        self.expect_symbol(">")
    }

    /// A name that the program gives to something.
    fn name(&mut self, what: &str) -> Result<Rc<str>> {
        self.refuse_unsupported()?;
        let name = self.token().name().filter(|name| !is_keyword(name)).cloned();
        let name = name.ok_or_else(|| self.expected(what))?;
        self.advance();
        Ok(name)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(self.line(), message)
    }

    fn expected(&self, what: &str) -> Error {
        self.error(format!("expected {what} but found {}", self.token()))
    }

    /// Reads something that may have others of its kind in it.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MOST_NESTED {
            return Err(self.error("the program is nested too deeply here"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Reads something in which `>` ends a template's arguments, or does not.
    fn angled<T>(
        &mut self,
        in_angles: bool,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.in_angles, in_angles);
        let value = read(self)?;
        self.in_angles = before;
        Ok(value)
    }

    fn leaf(&mut self, line: u32, kind: ExpressionKind) -> Expression {
        self.height = 1;
        Expression { kind, line }
    }

    /// An expression whose parts are this high.
    fn node(&mut self, line: u32, below: u32, kind: ExpressionKind) -> Result<Expression> {
        self.height = below + 1;
        if self.height > MOST_HEIGHT {
            return Err(Error::new(line, "the expression is nested too deeply"));
        }
        Ok(Expression { kind, line })
    }

    /// Skips what is in parentheses, which are next.
    fn skip_parentheses(&mut self) -> Result<()> {
        self.skip_enclosed("(", ")")
    }

    /// Skips what stands between two symbols, of which the first is next.
    fn skip_enclosed(&mut self, open: &str, close: &str) -> Result<()> {
        self.expect_symbol(open)?;
        let mut depth = 1usize;
        while depth > 0 {
            match self.token().kind {
                TokenKind::Symbol(symbol) if symbol == open => depth += 1,
                TokenKind::Symbol(symbol) if symbol == close => depth -= 1,
                TokenKind::End => return Err(self.expected(&format!("`{close}`"))),
                _ => {}
            }
            self.advance();
        }
        Ok(())
    }
}
