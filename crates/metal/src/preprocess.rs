//! Macros and conditions: what is left of a source for the parser.

mod condition;
mod expand;

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::token::{Token, TokenKind, tokenize};
use expand::{Expander, Macro};

/// Splits a source into tokens and replaces its macros. The last token is the end.
pub(crate) fn preprocess(source: &str) -> Result<Vec<Token>> {
    let mut tokens = tokenize(source)?;
    let end = tokens.pop().unwrap_or(Token::new(TokenKind::End, 1));
    let mut preprocessor = Preprocessor::new();
    let mut rest = tokens.as_slice();
    while let Some(first) = rest.first() {
        let behind = rest.iter().skip(1).position(|token| token.starts_line);
        let (line, next) = rest.split_at(behind.map_or(rest.len(), |at| at + 1));
        rest = next;
        if first.is_symbol("#") {
            preprocessor.flush()?;
            preprocessor.directive(&line[1..], first.line)?;
        } else if preprocessor.is_active() {
            preprocessor.pending.extend_from_slice(line);
        }
    }
    preprocessor.flush()?;
    if let Some(open) = preprocessor.branches.last() {
        return Err(Error::new(open.line, "the condition has no `#endif`"));
    }
    let mut output = without_annotations(preprocessor.output);
    output.push(end);
    Ok(output)
}

/// An `#if` whose `#endif` has not been reached.
struct Branch {
    line: u32,
    /// Whether what is around it is used.
    is_reachable: bool,
    /// Whether the present part is used.
    is_active: bool,
    /// Whether a part up to here is used.
    was_active: bool,
    had_else: bool,
}

struct Preprocessor {
    expander: Expander,
    branches: Vec<Branch>,
    /// What is between two directives: its macros are not replaced yet.
    pending: Vec<Token>,
    output: Vec<Token>,
}

impl Preprocessor {
    fn new() -> Preprocessor {
        let (pending, output) = (Vec::new(), Vec::new());
        Preprocessor { expander: Expander::new(), branches: Vec::new(), pending, output }
    }

    fn is_active(&self) -> bool {
        self.branches.last().is_none_or(|branch| branch.is_active)
    }

    /// Replaces the macros of what is pending.
    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            let expanded = self.expander.expand(pending)?;
            self.output.extend(expanded);
        }
        Ok(())
    }

    fn directive(&mut self, tokens: &[Token], line: u32) -> Result<()> {
        let Some((first, rest)) = tokens.split_first() else { return Ok(()) };
        let word = first.name().map_or("", |name| name);
        match word {
            "if" | "ifdef" | "ifndef" => return self.open(word, rest, line),
            "elif" | "else" => return self.turn(word, rest, line),
            "endif" if self.branches.pop().is_some() => return Ok(()),
            "endif" => return Err(Error::new(line, "`#endif` has no `#if`")),
            _ => {}
        }
        if !self.is_active() {
            return Ok(());
        }
        match word {
            "define" => self.define(rest, line),
            "undef" => {
                let name = macro_name(rest, line)?;
                self.expander.macros.remove(&name);
                Ok(())
            }
            "include" | "pragma" | "warning" => Ok(()),
            "error" => Err(Error::new(line, format!("`#error`{}", words(rest)))),
            _ => Err(Error::new(
                line,
                format!("a line that begins with `#` and {first} is not supported"),
            )),
        }
    }

    fn open(&mut self, word: &str, rest: &[Token], line: u32) -> Result<()> {
        let is_reachable = self.is_active();
        let is_active = is_reachable && self.holds(word, rest, line)?;
        let was_active = is_active;
        self.branches.push(Branch { line, is_reachable, is_active, was_active, had_else: false });
        Ok(())
    }

    /// `#elif` and `#else`
    fn turn(&mut self, word: &str, rest: &[Token], line: u32) -> Result<()> {
        let misplaced = || Error::new(line, format!("`#{word}` has no `#if`"));
        let branch =
            self.branches.last().filter(|branch| !branch.had_else).ok_or_else(misplaced)?;
        let is_possible = branch.is_reachable && !branch.was_active;
        let is_active = is_possible && (word == "else" || self.holds("if", rest, line)?);
        if let Some(branch) = self.branches.last_mut() {
            branch.is_active = is_active;
            branch.was_active |= is_active;
            branch.had_else = word == "else";
        }
        Ok(())
    }

    fn holds(&mut self, word: &str, rest: &[Token], line: u32) -> Result<bool> {
        if word == "if" {
            let tokens = self.expander.resolve_defined(rest, line)?;
            let expanded = self.expander.expand(tokens)?;
            return Ok(condition::evaluate(&expanded, line)? != 0);
        }
        let name = macro_name(rest, line)?;
        Ok(self.expander.macros.contains_key(&name) == (word == "ifdef"))
    }

    fn define(&mut self, rest: &[Token], line: u32) -> Result<()> {
        let name = macro_name(rest, line)?;
        let mut rest = &rest[1..];
        let mut definition = Macro::default();
        if rest.first().is_some_and(|token| token.is_symbol("(") && !token.is_spaced) {
            let close = rest.iter().position(|token| token.is_symbol(")"));
            let unclosed =
                || Error::new(line, format!("the parameters of the macro `{name}` have no `)`"));
            let close = close.ok_or_else(unclosed)?;
            definition.set_parameters(&rest[1..close], line)?;
            rest = &rest[close + 1..];
        }
        definition.set_body(rest);
        self.expander.macros.insert(name, Rc::new(definition));
        Ok(())
    }
}

fn macro_name(tokens: &[Token], line: u32) -> Result<Rc<str>> {
    let name = tokens.first().and_then(Token::name).cloned();
    name.ok_or_else(|| Error::new(line, "expected the name of a macro"))
}

/// What the tokens of a message say.
fn words(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        text.push(' ');
        match &token.kind {
            TokenKind::Name(word) | TokenKind::Number(word) | TokenKind::Text(word) => {
                text.push_str(word)
            }
            TokenKind::Symbol(symbol) => text.push_str(symbol),
            _ => {}
        }
    }
    text
}

/// Leaves out `_Pragma(…)` and `__attribute__((…))`, which may stand anywhere and change no result.
fn without_annotations(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_annotation =
            token.name().is_some_and(|name| matches!(&**name, "_Pragma" | "__attribute__"));
        if !is_annotation || !tokens.peek().is_some_and(|next| next.is_symbol("(")) {
            kept.push(token);
            continue;
        }
        let mut depth = 0usize;
        for skipped in tokens.by_ref() {
            depth += usize::from(skipped.is_symbol("("));
            depth -= usize::from(skipped.is_symbol(")"));
            if depth == 0 {
                break;
            }
        }
    }
    kept
}
