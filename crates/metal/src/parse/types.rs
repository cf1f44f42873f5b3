//! Names of types.

use std::rc::Rc;

use super::scopes::{is_part_of_integer, is_skipped, is_unsupported, space};
use super::{Parser, literals};
use crate::ast::{Attribute, BaseType, ExpressionKind, Space, TemplateArgument, TypeName};
use crate::error::{Error, Result};
use crate::token::TokenKind;

/// How many `*` a type may have.
const MOST_POINTERS: u32 = 16;

/// What stands before the names of variables: a type, but for `*`, `&` and sizes of arrays.
pub(super) struct Specifiers {
    pub(super) ty: TypeName,
    pub(super) is_kernel: bool,
}

/// Words that may stand before and behind a type.
#[derive(Default)]
struct Qualifiers {
    space: Option<Space>,
    is_const: bool,
    is_kernel: bool,
}

impl Parser {
    pub(super) fn specifiers(&mut self) -> Result<Specifiers> {
        self.nested(|parser| parser.specifiers_within())
    }

    fn specifiers_within(&mut self) -> Result<Specifiers> {
        let mut qualifiers = Qualifiers::default();
        self.qualifiers(&mut qualifiers)?;
        let line = self.line();
        let base = self.base_type()?;
        self.qualifiers(&mut qualifiers)?;
        let Qualifiers { space, is_const, is_kernel } = qualifiers;
        let ty = TypeName { space, is_const, base, pointers: 0, is_reference: false, line };
        Ok(Specifiers { ty, is_kernel })
    }

    fn qualifiers(&mut self, found: &mut Qualifiers) -> Result<()> {
        loop {
            if self.is_symbol("[") && self.symbol_at(self.position + 1) == Some("[") {
                found.is_kernel |=
                    self.attributes()?.iter().any(|attribute| attribute.name == "kernel");
                continue;
            }
            let Some(word) = self.word() else { return Ok(()) };
            if let Some(space) = space(word) {
                if found.space.is_some_and(|before| before != space) {
                    return Err(self.error("a type has two address spaces"));
                }
                found.space = Some(space);
            } else if matches!(word, "const" | "constexpr") {
                found.is_const = true;
            } else if word == "kernel" {
                found.is_kernel = true;
            } else if !is_skipped(word) {
                return Ok(());
            }
            self.advance();
        }
    }

    fn base_type(&mut self) -> Result<BaseType> {
        self.height = 0;
        self.refuse_unsupported()?;
        if self.take_word("auto") {
            return Ok(BaseType::Auto);
        }
        if self.take_word("decltype") {
            self.expect_symbol("(")?;
            let value = self.angled(false, Self::expression)?;
            self.expect_symbol(")")?;
            return Ok(BaseType::Decltype(Box::new(value)));
        }
        let is_tagged = self.take_word("struct");
        self.position = self.behind_namespaces(self.position);
        if let Some(name) = self.integer_type()? {
            return Ok(BaseType::Named(name.to_string(), Vec::new()));
        }
        let found = self.token().name().filter(|name| self.scopes.is_type(name)).cloned();
        let name = found.ok_or_else(|| self.not_a_type())?;
        self.advance();
        if is_tagged && self.is_symbol("{") {
            return Err(self.error("a struct cannot be defined here"));
        }
        let arguments = match self.symbol() {
            Some("<") => self.template_arguments()?,
            _ => Vec::new(),
        };
        Ok(BaseType::Named(name.to_string(), arguments))
    }

    fn not_a_type(&self) -> Error {
        match (&self.token().kind, self.word_at(self.position + 1)) {
            (TokenKind::Name(name), Some(_)) => {
                self.error(format!("`{name}` is not the name of a type"))
            }
            _ => self.expected("a type"),
        }
    }

    /// `unsigned long int` and the like, by one name.
    fn integer_type(&mut self) -> Result<Option<&'static str>> {
        let mut words: Vec<Rc<str>> = Vec::new();
        while let Some(name) = self.token().name().filter(|name| is_part_of_integer(name)).cloned()
        {
            if words.len() == 4 {
                return Err(self.expected("fewer words of an integer type"));
            }
            words.push(name);
            self.advance();
        }
        let has = |wanted: &str| words.iter().any(|word| &**word == wanted);
        let is_unsigned = has("unsigned");
        let name = match (has("char"), has("short"), has("long"), is_unsigned) {
            _ if words.is_empty() => return Ok(None),
            (true, _, _, false) => "char",
            (true, _, _, true) => "uchar",
            (_, true, _, false) => "short",
            (_, true, _, true) => "ushort",
            (_, _, true, false) => "long",
            (_, _, true, true) => "ulong",
            (_, _, _, false) => "int",
            (_, _, _, true) => "uint",
        };
        Ok(Some(name))
    }

    /// The `*` and `&` before a variable's name.
    pub(super) fn pointers(&mut self, mut ty: TypeName) -> Result<TypeName> {
        loop {
            match (self.symbol(), self.word()) {
                (Some("*"), _) if ty.pointers == MOST_POINTERS => {
                    return Err(self.error("a type has too many `*`"));
                }
                (Some("*"), _) => ty.pointers += 1,
                (Some("&"), _) => {
                    self.advance();
                    ty.is_reference = true;
                    return Ok(ty);
                }
                (Some("&&"), _) => return Err(self.error("a reference by `&&` is not supported")),
                (_, Some("const" | "volatile" | "restrict" | "__restrict" | "__restrict__")) => {}
                (_, Some("thread")) if ty.pointers > 0 => {}
                _ => return Ok(ty),
            }
            self.advance();
        }
    }

    /// A type without a variable, as in a cast.
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        let specifiers = self.specifiers()?;
        self.pointers(specifiers.ty)
    }

    /// `<…>`
    pub(super) fn template_arguments(&mut self) -> Result<Vec<TemplateArgument>> {
        self.expect_symbol("<")?;
        let mut arguments = Vec::new();
        let mut highest = 0;
        while !matches!(self.symbol(), Some(">" | ">>")) {
            arguments.push(self.template_argument()?);
            highest = highest.max(self.height);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.close_angles()?;
        self.height = highest;
        Ok(arguments)
    }

    pub(super) fn template_argument(&mut self) -> Result<TemplateArgument> {
        if self.names_type(self.position) {
            return self.type_name().map(TemplateArgument::Type);
        }
        self.angled(true, Self::assignment).map(TemplateArgument::Value)
    }

    /// All of `[[…]]` that are here.
    pub(super) fn attributes(&mut self) -> Result<Vec<Attribute>> {
        let mut attributes = Vec::new();
        while self.is_symbol("[") && self.symbol_at(self.position + 1) == Some("[") {
            self.advance();
            self.advance();
            while !self.is_symbol("]") {
                attributes.push(self.attribute()?);
                if !self.take_symbol(",") {
                    break;
                }
            }
            self.expect_symbol("]")?;
            self.expect_symbol("]")?;
        }
        Ok(attributes)
    }

    fn attribute(&mut self) -> Result<Attribute> {
        while self.symbol_at(self.position + 1) == Some("::") {
            self.position += 2;
        }
        let name =
            self.word().ok_or_else(|| self.expected("the name of an attribute"))?.to_string();
        self.advance();
        let mut argument = None;
        if self.is_symbol("(") {
            let start = self.position + 1;
            self.skip_parentheses()?;
            if self.position == start + 2 {
                argument = self.small_number(start)?;
            }
        }
        Ok(Attribute { name, argument })
    }

    fn small_number(&self, position: usize) -> Result<Option<u32>> {
        let token = self.token_at(position);
        let TokenKind::Number(text) = &token.kind else { return Ok(None) };
        match literals::number(text, token.line)? {
            ExpressionKind::Integer { value, .. } => Ok(u32::try_from(value).ok()),
            _ => Ok(None),
        }
    }

    /// An error for words that stand for what is not supported at all.
    pub(super) fn refuse_unsupported(&self) -> Result<()> {
        match self.word() {
            Some(word) if is_unsupported(word) => {
                Err(self.error(format!("`{word}` is not supported")))
            }
            _ => Ok(()),
        }
    }
}
