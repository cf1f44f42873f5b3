//! Replaces macros by what they stand for.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Result};
use crate::token::{Token, TokenKind};

/// How many tokens macros may make.
const MOST_TOKENS: usize = 1_000_000;
/// How many parameters a macro may have.
const MOST_PARAMETERS: usize = 100;
/// How deep macros may stand in arguments of macros.
const MOST_NESTED: u32 = 100;

#[derive(Default)]
pub(super) struct Macro {
    /// Nothing for a macro without parentheses.
    parameters: Option<Vec<Rc<str>>>,
    body: Vec<Token>,
    /// What it has that is not supported. It is an error only where the macro is used.
    unsupported: Option<&'static str>,
}

impl Macro {
    pub(super) fn set_parameters(&mut self, tokens: &[Token], line: u32) -> Result<()> {
        if tokens.len() > 2 * MOST_PARAMETERS {
            let message = format!("a macro has more than {MOST_PARAMETERS} parameters");
            return Err(Error::new(line, message));
        }
        let mut names = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match token.name() {
                Some(name) if at % 2 == 0 => names.push(name.clone()),
                None if at % 2 == 1 && token.is_symbol(",") => {}
                None if token.is_symbol("...") => self.unsupported = Some("..."),
                _ => {
                    let message = format!("a macro's parameter was expected but found {token}");
                    return Err(Error::new(token.line, message));
                }
            }
        }
        self.parameters = Some(names);
        Ok(())
    }

    pub(super) fn set_body(&mut self, tokens: &[Token]) {
        for symbol in ["#", "##"] {
            if tokens.iter().any(|token| token.is_symbol(symbol)) {
                self.unsupported = Some(symbol);
            }
        }
        self.body = tokens.to_vec();
    }

    fn number(value: &str) -> Rc<Macro> {
        let body = vec![Token::new(TokenKind::Number(value.into()), 0)];
        Rc::new(Macro { body, ..Macro::default() })
    }
}

/// What is still to be read.
enum Item {
    Token(Token),
    /// Here what a macro stands for ends: from here on it may be used again.
    Close(Rc<str>),
}

pub(super) struct Expander {
    pub(super) macros: FxHashMap<Rc<str>, Rc<Macro>>,
    /// Macros whose text is being read: they are not replaced within it.
    open: FxHashSet<Rc<str>>,
    made: usize,
    depth: u32,
}

impl Expander {
    pub(super) fn new() -> Expander {
        let known = [("__METAL__", "1"), ("__METAL_VERSION__", "310")];
        let macros = known.map(|(name, value)| (name.into(), Macro::number(value)));
        let (open, made, depth) = (FxHashSet::default(), 0, 0);
        Expander { macros: macros.into_iter().collect(), open, made, depth }
    }

    pub(super) fn expand(&mut self, tokens: Vec<Token>) -> Result<Vec<Token>> {
        let mut stack: Vec<Item> = tokens.into_iter().rev().map(Item::Token).collect();
        let mut output = Vec::new();
        while let Some(token) = self.next(&mut stack) {
            let found = token.name().filter(|_| !token.is_final);
            let Some((name, definition)) = found.and_then(|name| self.macros.get_key_value(name))
            else {
                output.push(token);
                continue;
            };
            let (name, definition) = (name.clone(), definition.clone());
            if definition.parameters.is_some() && !self.is_called(&mut stack) {
                output.push(token);
                continue;
            }
            let body = self.replacement(&name, &definition, token.line, &mut stack)?;
            self.open.insert(name.clone());
            stack.push(Item::Close(name));
            stack.extend(body.into_iter().rev().map(Item::Token));
        }
        Ok(output)
    }

    /// Puts one and nothing for each `defined(NAME)`.
    pub(super) fn resolve_defined(&self, tokens: &[Token], line: u32) -> Result<Vec<Token>> {
        let mut output = Vec::new();
        let mut rest = tokens;
        while let [token, behind @ ..] = rest {
            rest = behind;
            if token.name().is_none_or(|name| &**name != "defined") {
                output.push(token.clone());
                continue;
            }
            let name;
            (name, rest) = match behind {
                [open, word, close, rest @ ..] if open.is_symbol("(") && close.is_symbol(")") => {
                    (word.name(), rest)
                }
                [word, rest @ ..] => (word.name(), rest),
                [] => (None, behind),
            };
            let name = name.ok_or_else(|| Error::new(line, "expected a name behind `defined`"))?;
            let value = if self.macros.contains_key(name) { "1" } else { "0" };
            output.push(Token::new(TokenKind::Number(value.into()), line));
        }
        Ok(output)
    }

    /// The next token; one that names a macro which is being read is not replaced any more.
    fn next(&mut self, stack: &mut Vec<Item>) -> Option<Token> {
        loop {
            match stack.pop()? {
                Item::Close(name) => self.open.remove(&name),
                Item::Token(mut token) => {
                    token.is_final |= token.name().is_some_and(|name| self.open.contains(name));
                    return Some(token);
                }
            };
        }
    }

    /// Whether `(` comes next.
    fn is_called(&mut self, stack: &mut Vec<Item>) -> bool {
        while let Some(Item::Close(_)) = stack.last() {
            if let Some(Item::Close(name)) = stack.pop() {
                self.open.remove(&name);
            }
        }
        matches!(stack.last(), Some(Item::Token(token)) if token.is_symbol("("))
    }

    /// What a macro stands for at a line. Its arguments are taken off the stack.
    fn replacement(
        &mut self,
        name: &Rc<str>,
        definition: &Macro,
        line: u32,
        stack: &mut Vec<Item>,
    ) -> Result<Vec<Token>> {
        if let Some(symbol) = definition.unsupported {
            let message = format!("the macro `{name}` has `{symbol}`, which is not supported");
            return Err(Error::new(line, message));
        }
        let parameters = definition.parameters.as_deref().unwrap_or_default();
        let mut arguments = match &definition.parameters {
            Some(parameters) => self.arguments(name, parameters.len(), line, stack)?,
            None => Vec::new(),
        };
        for (argument, parameter) in arguments.iter_mut().zip(parameters) {
            if definition.body.iter().any(|token| token.name() == Some(parameter)) {
                *argument = self.expand_argument(std::mem::take(argument), line)?;
            }
        }
        let mut body = Vec::new();
        self.spend(1, line)?;
        for token in &definition.body {
            let found = parameters.iter().position(|parameter| token.name() == Some(parameter));
            if let Some(argument) = found.and_then(|at| arguments.get(at)) {
                self.spend(argument.len(), line)?;
                body.extend_from_slice(argument);
            } else {
                self.spend(1, line)?;
                body.push(Token { line, starts_line: false, ..token.clone() });
            }
        }
        Ok(body)
    }

    fn expand_argument(&mut self, argument: Vec<Token>, line: u32) -> Result<Vec<Token>> {
        if self.depth >= MOST_NESTED {
            return Err(Error::new(line, "macros are nested too deeply"));
        }
        self.depth += 1;
        let expanded = self.expand(argument);
        self.depth -= 1;
        expanded
    }

    fn spend(&mut self, tokens: usize, line: u32) -> Result<()> {
        self.made += tokens;
        if self.made <= MOST_TOKENS {
            return Ok(());
        }
        Err(Error::new(line, format!("macros make more than {MOST_TOKENS} tokens")))
    }

    /// Takes the arguments in parentheses off the stack.
    fn arguments(
        &mut self,
        name: &str,
        count: usize,
        line: u32,
        stack: &mut Vec<Item>,
    ) -> Result<Vec<Vec<Token>>> {
        let mut arguments = vec![Vec::new()];
        // The `(` that is next.
        self.next(stack);
        let mut depth = 1usize;
        while let Some(token) = self.next(stack) {
            depth += usize::from(token.is_symbol("("));
            depth -= usize::from(token.is_symbol(")"));
            if depth == 0 {
                return matching(name, arguments, count, line);
            }
            if depth == 1 && token.is_symbol(",") {
                arguments.push(Vec::new());
            } else if let Some(last) = arguments.last_mut() {
                last.push(token);
            }
        }
        Err(Error::new(line, format!("the arguments of the macro `{name}` have no `)`")))
    }
}

/// The arguments, if there are as many as the macro has parameters.
fn matching(
    name: &str,
    found: Vec<Vec<Token>>,
    count: usize,
    line: u32,
) -> Result<Vec<Vec<Token>>> {
    let is_none = count == 0 && found.len() == 1 && found.iter().all(Vec::is_empty);
    if found.len() == count || is_none {
        return Ok(found);
    }
    let message = format!("the macro `{name}` takes {count} arguments but found {}", found.len());
    Err(Error::new(line, message))
}
