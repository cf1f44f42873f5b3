//! Expressions that begin with a name: variables, calls, casts and values of types.

use super::Parser;
use super::scopes::{Meaning, is_keyword, is_part_of_integer};
use crate::ast::{BaseType, Expression, ExpressionKind, TemplateArgument, TypeName};
use crate::error::Result;

impl Parser {
    pub(super) fn named(&mut self) -> Result<Expression> {
        if self.is_this() {
            return self.this();
        }
        let start = self.position;
        self.position = self.behind_namespaces(start);
        self.refuse_hidden(start)?;
        self.refuse_unsupported()?;
        let line = self.line();
        let Some(name) = self.word() else { return Err(self.expected("an expression")) };
        match name {
            "true" | "false" => {
                let kind = ExpressionKind::Bool(name == "true");
                self.advance();
                Ok(self.leaf(line, kind))
            }
            "sizeof" => self.size_of(),
            "static_cast" | "reinterpret_cast" | "const_cast" => {
                self.converted(ExpressionKind::Cast)
            }
            "as_type" => self.converted(ExpressionKind::Bits),
            "decltype" | "typename" | "unsigned" | "signed" => self.of_type(),
            _ if is_keyword(name) => Err(self.expected("an expression")),
            _ if is_part_of_integer(name) || self.scopes.is_type(name) => self.of_type(),
            _ => self.variable_or_call(self.position > start),
        }
    }

    /// An error for `M::a` behind which the constant cannot be told from a variable `a`.
    fn refuse_hidden(&self, start: usize) -> Result<()> {
        let Some(name) = self.word() else { return Ok(()) };
        let before = if self.position > start { self.word_at(self.position - 2) } else { None };
        let is_constant =
            before.and_then(|of| self.scopes.meaning(of)) == Some(Meaning::Enumeration);
        match self.scopes.meaning(name) {
            Some(Meaning::Variable | Meaning::Field) if is_constant => {
                let message = format!("a variable `{name}` hides the constant of an `enum` here");
                Err(self.error(message))
            }
            Some(Meaning::Field) if self.position > start && !self.is_called() => {
                Err(self.error(format!("a field `{name}` hides what is named here")))
            }
            _ => Ok(()),
        }
    }

    /// Whether arguments are behind the name that is next.
    fn is_called(&self) -> bool {
        self.symbol_at(self.position + 1) == Some("(")
    }

    fn size_of(&mut self) -> Result<Expression> {
        let line = self.line();
        self.advance();
        if !self.is_symbol("(") || !self.names_type(self.position + 1) {
            return Err(self.error("`sizeof` takes a type in parentheses here"));
        }
        self.advance();
        let ty = self.angled(false, Self::type_name)?;
        self.expect_symbol(")")?;
        let below = self.height;
        self.node(line, below, ExpressionKind::SizeOf(ty))
    }

    /// `static_cast<T>(a)` and the like.
    fn converted(
        &mut self,
        kind: fn(TypeName, Box<Expression>) -> ExpressionKind,
    ) -> Result<Expression> {
        let line = self.line();
        self.advance();
        self.expect_symbol("<")?;
        let ty = self.type_name()?;
        self.close_angles()?;
        let below = self.height;
        self.expect_symbol("(")?;
        let value = self.angled(false, Self::expression)?;
        self.expect_symbol(")")?;
        let below = below.max(self.height);
        self.node(line, below, kind(ty, value.into()))
    }

    /// `T(…)`, `T{…}` or `T::name`
    fn of_type(&mut self) -> Result<Expression> {
        let line = self.line();
        let ty = self.specifiers()?.ty;
        let below = self.height;
        let kind = match self.symbol() {
            Some("(") => ExpressionKind::Construct(ty, self.arguments()?),
            Some("{") => ExpressionKind::Braces(ty, self.braces()?),
            Some("::") => return self.of_type_by_name(ty),
            _ => return Err(self.expected("`(` behind a type")),
        };
        let below = below.max(self.height);
        self.node(line, below, kind)
    }

    /// `::name` or `::name(…)` behind a type.
    fn of_type_by_name(&mut self, ty: TypeName) -> Result<Expression> {
        let (line, below) = (self.line(), self.height);
        self.advance();
        let name = self.name("a name")?.to_string();
        self.height = 0;
        let arguments = match self.symbol() {
            Some("(") => self.arguments()?,
            Some("::") => return Err(self.error("a type within a type is not supported")),
            _ => Vec::new(),
        };
        let below = below.max(self.height);
        self.node(line, below, ExpressionKind::CallOf { ty, name, arguments })
    }

    /// A name with namespaces before it is no variable of a function, and nothing of a struct.
    fn variable_or_call(&mut self, has_namespaces: bool) -> Result<Expression> {
        let line = self.line();
        let has_arguments = self.has_template_arguments(self.position);
        let name = self.name("an expression")?.to_string();
        self.height = 0;
        let template = if has_arguments { self.template_arguments()? } else { Vec::new() };
        if has_arguments && self.is_symbol("::") {
            return self.of_type_by_name(templated(name, template, line));
        }
        if !has_namespaces && let Some(value) = self.of_owner(&name, &template, line)? {
            return Ok(value);
        }
        let below = self.height;
        // The value of a variable may be called.
        let is_variable = !has_namespaces && self.scopes.meaning(&name) == Some(Meaning::Variable);
        if !self.is_symbol("(") || is_variable {
            return self.node(line, below, ExpressionKind::Name(name, template));
        }
        let arguments = self.arguments()?;
        let below = below.max(self.height);
        self.node(line, below, ExpressionKind::Call { name, template, arguments })
    }
}

fn templated(name: String, arguments: Vec<TemplateArgument>, line: u32) -> TypeName {
    let base = BaseType::Named(name, arguments);
    TypeName { space: None, is_const: false, base, pointers: 0, is_reference: false, line }
}
