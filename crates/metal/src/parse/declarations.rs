//! Variables and what they begin as.

use super::Parser;
use super::scopes::Meaning;
use crate::ast::{Alias, BaseType, Declaration, Expression, ExpressionKind, Initial, TypeName};
use crate::error::Result;

impl Parser {
    /// The variables behind a type, up to the `;`.
    pub(super) fn declarators(&mut self, base: &TypeName) -> Result<Vec<Declaration>> {
        let mut list = Vec::new();
        loop {
            list.push(self.declarator(base)?);
            if !self.take_symbol(",") {
                return Ok(list);
            }
        }
    }

    fn declarator(&mut self, base: &TypeName) -> Result<Declaration> {
        let ty = self.pointers(base.clone())?;
        let line = self.line();
        let name = self.name("the name of a variable")?;
        let array = self.array_sizes()?;
        self.attributes()?;
        self.scopes.declare(&name, Meaning::Variable);
        let value = self.initial(&ty)?;
        Ok(Declaration { ty, name: name.to_string(), array, value, line })
    }

    /// The sizes in brackets behind a name.
    pub(super) fn array_sizes(&mut self) -> Result<Vec<Option<Expression>>> {
        let mut sizes = Vec::new();
        while self.is_symbol("[") && self.symbol_at(self.position + 1) != Some("[") {
            self.advance();
            let size = match self.symbol() {
                Some("]") => None,
                _ => Some(self.angled(false, Self::expression)?),
            };
            self.expect_symbol("]")?;
            sizes.push(size);
        }
        Ok(sizes)
    }

    /// `= a`, `= {…}`, `{…}` or `(…)`
    fn initial(&mut self, ty: &TypeName) -> Result<Option<Initial>> {
        if self.take_symbol("=") {
            return self.initial_value().map(Some);
        }
        if self.is_symbol("{") {
            return self.braces().map(Initial::List).map(Some);
        }
        if !self.is_symbol("(") {
            return Ok(None);
        }
        let line = self.line();
        let arguments = self.arguments()?;
        let kind = ExpressionKind::Construct(ty.clone(), arguments);
        let below = self.height;
        Ok(Some(Initial::Value(self.node(line, below, kind)?)))
    }

    fn initial_value(&mut self) -> Result<Initial> {
        if self.is_symbol("{") {
            return self.braces().map(Initial::List);
        }
        self.assignment().map(Initial::Value)
    }

    /// `{a, {b, c}}`. The height is that of the highest.
    pub(super) fn braces(&mut self) -> Result<Vec<Initial>> {
        self.nested(|parser| parser.angled(false, Self::braces_within))
    }

    fn braces_within(&mut self) -> Result<Vec<Initial>> {
        self.expect_symbol("{")?;
        let mut list = Vec::new();
        let mut highest = 0;
        while !self.is_symbol("}") {
            if self.is_symbol(".") {
                return Err(self.error("names of fields in braces are not supported"));
            }
            list.push(self.initial_value()?);
            highest = highest.max(self.height);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol("}")?;
        self.height = highest + 1;
        Ok(list)
    }

    /// `{…}` whose type is that of what takes it.
    pub(super) fn untyped_braces(&mut self) -> Result<Expression> {
        let line = self.line();
        let list = self.braces()?;
        let base = BaseType::Auto;
        let ty =
            TypeName { space: None, is_const: false, base, pointers: 0, is_reference: false, line };
        let below = self.height;
        self.node(line, below, ExpressionKind::Braces(ty, list))
    }

    /// `using …;`. Nothing for a namespace or a name of one.
    pub(super) fn using(&mut self) -> Result<Option<Alias>> {
        self.advance();
        if self.take_word("namespace") || self.symbol_at(self.position + 1) != Some("=") {
            self.position = self.behind_namespaces(self.position);
            if self.word().is_none() {
                return Err(self.expected("a name"));
            }
            self.advance();
            return self.expect_symbol(";").map(|()| None);
        }
        let name = self.name("a name")?;
        self.expect_symbol("=")?;
        let ty = self.type_name()?;
        self.expect_symbol(";")?;
        self.scopes.declare(&name, Meaning::Type);
        Ok(Some(Alias { name: name.to_string(), ty }))
    }

    /// `typedef TYPE NAME;`
    pub(super) fn typedef(&mut self) -> Result<Alias> {
        self.advance();
        let ty = self.type_name()?;
        let name = self.name("a name")?;
        self.expect_symbol(";")?;
        self.scopes.declare(&name, Meaning::Type);
        Ok(Alias { name: name.to_string(), ty })
    }

    /// `static_assert(…);`
    pub(super) fn skip_assertion(&mut self) -> Result<()> {
        self.advance();
        self.skip_parentheses()?;
        self.expect_symbol(";")
    }
}
