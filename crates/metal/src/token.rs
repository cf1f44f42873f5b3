//! The words and signs of a source, with the lines that they are on.

use std::fmt;
use std::rc::Rc;

use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Name(Rc<str>),
    /// A number as it is written: what it means is found where it is used.
    Number(Rc<str>),
    Character(u32),
    Text(Rc<str>),
    Symbol(&'static str),
    /// A character that begins nothing known. It is an error only where it is used: text that
    /// `#if` leaves out may have any.
    Stray(char),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) line: u32,
    /// Whether it is the first of its line.
    pub(crate) starts_line: bool,
    /// Whether there is space before it.
    pub(crate) is_spaced: bool,
    /// Whether it is a macro's name that is not replaced any more.
    pub(crate) is_final: bool,
}

impl Token {
    pub(crate) fn new(kind: TokenKind, line: u32) -> Token {
        Token { kind, line, starts_line: false, is_spaced: false, is_final: false }
    }

    pub(crate) fn name(&self) -> Option<&Rc<str>> {
        match &self.kind {
            TokenKind::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind, TokenKind::Symbol(found) if found == symbol)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TokenKind::Name(text) | TokenKind::Number(text) => write!(f, "`{text}`"),
            TokenKind::Character(_) => write!(f, "a character"),
            TokenKind::Text(text) => write!(f, "\"{text}\""),
            TokenKind::Symbol(symbol) => write!(f, "`{symbol}`"),
            TokenKind::Stray(character) => write!(f, "`{character}`"),
            TokenKind::End => write!(f, "the end of the program"),
        }
    }
}

/// The signs, longer ones before those that they begin with.
const SYMBOLS: [&str; 48] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::", "##", "{", "}", "[", "]", "(", ")", "<", ">",
    ";", ":", "?", ".", "~", "!", "+", "-", "*", "/", "%", "^", "&", "|", "=", ",",
];

/// Splits a source into tokens; the last one is the end.
pub(crate) fn tokenize(source: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { characters: characters(source), position: 0, tokens: Vec::new() };
    let (mut starts_line, mut is_spaced) = (true, true);
    while let Some((character, line)) = lexer.current() {
        if character == '\n' {
            starts_line = true;
            lexer.position += 1;
        } else if character.is_whitespace() {
            lexer.position += 1;
        } else if !lexer.skip_comment()? {
            let kind = lexer.token(character);
            lexer.tokens.push(Token { kind, line, starts_line, is_spaced, is_final: false });
            (starts_line, is_spaced) = (false, false);
            continue;
        }
        is_spaced = true;
    }
    let line = lexer.characters.last().map_or(1, |&(_, line)| line);
    lexer.tokens.push(Token { starts_line: true, ..Token::new(TokenKind::End, line) });
    Ok(lexer.tokens)
}

/// The characters with their lines. Lines that a backslash ends go on with the next.
fn characters(source: &str) -> Vec<(char, u32)> {
    let mut all = Vec::with_capacity(source.len());
    let mut line = 1u32;
    for character in source.chars().filter(|&character| character != '\r') {
        if character != '\n' {
            all.push((character, line));
            continue;
        }
        if matches!(all.last(), Some(('\\', _))) {
            all.pop();
        } else {
            all.push((character, line));
        }
        line = line.saturating_add(1);
    }
    all
}

struct Lexer {
    characters: Vec<(char, u32)>,
    position: usize,
    tokens: Vec<Token>,
}

impl Lexer {
    fn current(&self) -> Option<(char, u32)> {
        self.characters.get(self.position).copied()
    }

    fn ahead(&self, count: usize) -> Option<char> {
        self.characters.get(self.position + count).map(|&(character, _)| character)
    }

    /// Skips a comment, if one is here.
    fn skip_comment(&mut self) -> Result<bool> {
        if self.ahead(0) != Some('/') {
            return Ok(false);
        }
        match self.ahead(1) {
            Some('/') => {
                while self.ahead(0).is_some_and(|character| character != '\n') {
                    self.position += 1;
                }
                Ok(true)
            }
            Some('*') => self.skip_long_comment().map(|()| true),
            _ => Ok(false),
        }
    }

    fn skip_long_comment(&mut self) -> Result<()> {
        let line = self.current().map_or(1, |(_, line)| line);
        self.position += 2;
        while let Some(character) = self.ahead(0) {
            if character == '*' && self.ahead(1) == Some('/') {
                self.position += 2;
                return Ok(());
            }
            self.position += 1;
        }
        Err(Error::new(line, "the comment has no end"))
    }

    fn token(&mut self, first: char) -> TokenKind {
        let is_number = |character: char| character.is_ascii_digit();
        if first.is_ascii_alphabetic() || first == '_' {
            return self.word();
        }
        if is_number(first) || (first == '.' && self.ahead(1).is_some_and(is_number)) {
            return self.number();
        }
        if first == '"' || first == '\'' {
            return self.quoted(first);
        }
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(at, sign)| self.ahead(at) == Some(sign)) {
                self.position += symbol.len();
                return TokenKind::Symbol(symbol);
            }
        }
        self.position += 1;
        if first == '#' { TokenKind::Symbol("#") } else { TokenKind::Stray(first) }
    }

    fn word(&mut self) -> TokenKind {
        let mut text = String::new();
        while let Some(character) = self.ahead(0) {
            if !character.is_ascii_alphanumeric() && character != '_' {
                break;
            }
            text.push(character);
            self.position += 1;
        }
        match text.as_str() {
            "and" => TokenKind::Symbol("&&"),
            "or" => TokenKind::Symbol("||"),
            "not" => TokenKind::Symbol("!"),
            _ => TokenKind::Name(text.into()),
        }
    }

    fn number(&mut self) -> TokenKind {
        let mut text = String::new();
        let is_hexadecimal = matches!(self.ahead(1), Some('x' | 'X'));
        while let Some(character) = self.ahead(0) {
            let is_exponent = match text.chars().last() {
                Some('e' | 'E') => !is_hexadecimal,
                Some('p' | 'P') => is_hexadecimal,
                _ => false,
            };
            let goes_on = match character {
                '+' | '-' => is_exponent,
                '\'' => self.ahead(1).is_some_and(|next| next.is_ascii_alphanumeric()),
                _ => character.is_ascii_alphanumeric() || character == '.' || character == '_',
            };
            if !goes_on {
                break;
            }
            text.push(character);
            self.position += 1;
        }
        TokenKind::Number(text.into())
    }

    /// A string or a character. One that its line does not end is stray.
    fn quoted(&mut self, quote: char) -> TokenKind {
        let mut text = String::new();
        self.position += 1;
        while let Some(character) = self.ahead(0).filter(|&character| character != '\n') {
            self.position += 1;
            if character == quote {
                return quoted(quote, text);
            }
            let escaped = if character == '\\' { self.ahead(0) } else { None };
            self.position += usize::from(escaped.is_some());
            text.push(escaped.map_or(character, unescape));
        }
        TokenKind::Stray(quote)
    }
}

fn quoted(quote: char, text: String) -> TokenKind {
    let mut characters = text.chars();
    match (quote, characters.next(), characters.next()) {
        ('"', ..) => TokenKind::Text(text.into()),
        (_, Some(only), None) => TokenKind::Character(u32::from(only)),
        _ => TokenKind::Stray(quote),
    }
}

/// What a character behind a backslash stands for.
fn unescape(character: char) -> char {
    match character {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        other => other,
    }
}
