//! What comes next, without reading it.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::Parser;
use super::scopes::{Meaning, is_part_of_integer, is_skipped, space};
use crate::token::{Token, TokenKind};

/// How many tokens a list in `<…>` may have where it has to be guessed.
const MOST_GUESSED: usize = 256;

impl Parser {
    /// Whether a type stands here of which no value is made: no `(`, `{` or `::` is behind it.
    pub(super) fn names_type(&self, position: usize) -> bool {
        let position = self.behind_namespaces(position);
        let Some(word) = self.word_at(position) else { return false };
        let is_qualifier = is_skipped(word) || space(word).is_some();
        if is_qualifier || matches!(word, "const" | "constexpr" | "auto" | "decltype" | "struct") {
            return true;
        }
        if !is_part_of_integer(word) && !self.scopes.is_type(word) {
            return false;
        }
        let mut next = position + 1;
        while self.word_at(next).is_some_and(is_part_of_integer) {
            next += 1;
        }
        if self.symbol_at(next) == Some("<") {
            let Some(behind) = self.behind_angles(next) else { return true };
            next = behind;
        }
        !matches!(self.symbol_at(next), Some("(" | "{" | "::"))
    }

    /// Where the name begins behind the namespaces that are written before it.
    pub(super) fn behind_namespaces(&self, mut position: usize) -> usize {
        if self.symbol_at(position) == Some("::") {
            position += 1;
        }
        while self.symbol_at(position + 1) == Some("::") {
            let Some(name) = self.word_at(position) else { break };
            if self.scopes.is_type(name) && self.scopes.meaning(name) != Some(Meaning::Enumeration)
            {
                break;
            }
            position += 2;
        }
        position
    }

    /// What is behind the `>` that closes the `<` here, if one does.
    pub(super) fn behind_angles(&self, position: usize) -> Option<usize> {
        let (mut angles, mut brackets) = (0usize, 0usize);
        for at in position..position + MOST_GUESSED {
            let symbol = match self.token_at(at).kind {
                TokenKind::Symbol(symbol) => symbol,
                TokenKind::End => return None,
                _ => continue,
            };
            match symbol {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets = brackets.checked_sub(1)?,
                ";" | "{" | "}" => return None,
                "<" if brackets == 0 => angles += 1,
                ">" if brackets == 0 => angles = angles.checked_sub(1)?,
                ">>" if brackets == 0 => angles = angles.checked_sub(2)?,
                "&&" | "||" if brackets == 0 => return None,
                _ => {}
            }
            if angles == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// Whether `<` behind the name at a position begins arguments of a template.
    pub(super) fn has_template_arguments(&self, position: usize) -> bool {
        if self.symbol_at(position + 1) != Some("<") {
            return false;
        }
        let Some(name) = self.word_at(position) else { return false };
        let meaning = self.scopes.meaning(name);
        if matches!(meaning, Some(Meaning::Variable | Meaning::Enumerator | Meaning::Field)) {
            return false;
        }
        if self.templates.contains(name) {
            return true;
        }
        // A name that is not the program's: `is_same_v<T, float>`, `Limits<T>::max`
        let Some(behind) = self.behind_angles(position + 1) else { return false };
        self.names_type(position + 2) || self.symbol_at(behind) == Some("::")
    }
}

/// The names of all function templates of a program.
pub(super) fn function_templates(tokens: &[Token]) -> FxHashSet<Rc<str>> {
    let mut names = FxHashSet::default();
    for (at, pair) in tokens.windows(2).enumerate() {
        let is_template = pair[0].name().is_some_and(|name| &**name == "template");
        if is_template && pair[1].is_symbol("<") {
            names.extend(templated_function(&tokens[at + 1..]));
        }
    }
    names
}

/// The name before the first `(` behind a template's parameters.
fn templated_function(tokens: &[Token]) -> Option<Rc<str>> {
    let (mut angles, mut brackets) = (0usize, 0usize);
    let mut last: Option<&Rc<str>> = None;
    for token in tokens {
        let name = last.take();
        match &token.kind {
            TokenKind::Symbol("<") if brackets == 0 => angles += 1,
            TokenKind::Symbol(">") if brackets == 0 => angles = angles.saturating_sub(1),
            TokenKind::Symbol(">>") if brackets == 0 => angles = angles.saturating_sub(2),
            TokenKind::Symbol("(") => match name {
                Some(name) if angles == 0 && brackets == 0 && &**name != "decltype" => {
                    return Some(name.clone());
                }
                _ => brackets += 1,
            },
            TokenKind::Symbol("[") => brackets += 1,
            TokenKind::Symbol(")" | "]") => brackets = brackets.saturating_sub(1),
            TokenKind::Symbol("{" | ";") | TokenKind::End => return None,
            TokenKind::Name(name) if matches!(&**name, "template" | "using") => return None,
            TokenKind::Name(name) => last = Some(name),
            _ => {}
        }
    }
    None
}
