//! Functions of structs. Each becomes a function of the program, whose first parameter refers to the struct.

use std::rc::Rc;

use super::Parser;
use super::scopes::{Meaning, space};
use crate::ast::{
    BaseType, Declaration, Expression, ExpressionKind, Function, Parameter, TemplateArgument,
    TemplateParameter, TypeName, UnaryOperator,
};
use crate::error::{Error, Result};
use crate::token::TokenKind;

/// The parameter that refers to the struct: a word of the language, which names nothing else.
pub(crate) const THIS: &str = "this";

/// What a value's parentheses call.
pub(crate) const CALL: &str = "operator()";

/// The name that a function of a struct has among those of the program.
pub(crate) fn method_name(of: &str, name: &str) -> String {
    format!("{of}::{name}")
}

/// A function of a struct that is still to be read, because its body may name what stands behind it.
pub(super) struct Method {
    /// Where its declaration begins.
    start: usize,
    name: Rc<str>,
    is_static: bool,
}

/// The struct whose functions are read.
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) template: &'a [TemplateParameter],
    pub(super) fields: &'a [Declaration],
}

impl Parser {
    /// A function of the struct `of`, if one is next; its body is skipped.
    pub(super) fn skipped_method(&mut self, of: &str) -> Result<Option<Method>> {
        let start = self.position;
        let Some(name_at) = self.method_name_at()? else { return Ok(None) };
        let name = self.token_at(name_at).name().cloned().unwrap_or_else(|| Rc::from(""));
        if &*name == of && name_at == start {
            return Err(self.error("a constructor of a struct is not supported"));
        }
        let is_static = (start..name_at).any(|at| self.word_at(at) == Some("static"));
        self.position = name_at + 1;
        let name = if &*name == "operator" { self.call_operator()? } else { name };
        self.skip_parentheses()?;
        while !self.is_symbol("{") {
            if self.is_symbol("(") {
                self.skip_parentheses()?;
                continue;
            }
            if self.is_symbol(";") || matches!(self.token().kind, TokenKind::End) {
                return Err(self.error("a function of a struct needs its body here"));
            }
            self.advance();
        }
        self.skip_enclosed("{", "}")?;
        self.take_symbol(";");
        Ok(Some(Method { start, name, is_static }))
    }

    /// Where the name stands of the function that is next in a struct; nothing if a field is.
    fn method_name_at(&self) -> Result<Option<usize>> {
        let mut at = self.position;
        if self.word_at(at) == Some("template") && self.symbol_at(at + 1) == Some("<") {
            at = self.behind_angles(at + 1).ok_or_else(|| self.expected("a function"))?;
        }
        loop {
            match &self.token_at(at).kind {
                TokenKind::Symbol("(") => {
                    let is_name = at > self.position && self.word_at(at - 1).is_some();
                    return Ok(is_name.then(|| at - 1));
                }
                TokenKind::Symbol("[") if self.symbol_at(at + 1) == Some("[") => {
                    at = self.behind_brackets(at)
                }
                TokenKind::Symbol("<") => match self.behind_angles(at) {
                    Some(behind) => at = behind,
                    None => return Ok(None),
                },
                TokenKind::Symbol("*" | "&" | "::") => at += 1,
                TokenKind::Name(name) if &**name == "operator" => return Ok(Some(at)),
                TokenKind::Name(name) if matches!(&**name, "static_assert" | "alignas") => {
                    return Ok(None);
                }
                TokenKind::Name(name) if &**name == "decltype" => at = self.behind_brackets(at + 1),
                TokenKind::Name(_) => at += 1,
                _ => return Ok(None),
            }
        }
    }

    /// What is behind the parentheses or brackets that open here.
    fn behind_brackets(&self, mut at: usize) -> usize {
        let mut depth = 0usize;
        loop {
            match self.token_at(at).kind {
                TokenKind::Symbol("(" | "[") => depth += 1,
                TokenKind::Symbol(")" | "]") => depth = depth.saturating_sub(1),
                TokenKind::End => return at,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return at;
            }
        }
    }

    /// `()` behind `operator`.
    fn call_operator(&mut self) -> Result<Rc<str>> {
        if !self.is_symbol("(") {
            return Err(self.error("an operator but `()` cannot be defined here"));
        }
        self.advance();
        self.expect_symbol(")")?;
        Ok(Rc::from(CALL))
    }

    /// Reads functions that were skipped, where fields and functions of the struct have no other names.
    pub(super) fn methods(&mut self, owner: &Owner<'_>, methods: &[Method]) -> Result<()> {
        let (behind, in_template) = (self.position, self.in_template);
        self.scopes.enter();
        for field in owner.fields {
            self.scopes.declare(&Rc::from(&*field.name), Meaning::Field);
        }
        for method in methods {
            let meaning = if method.is_static { Meaning::StaticMethod } else { Meaning::Method };
            self.scopes.declare(&method.name, meaning);
        }
        let outer = self.owner.replace(type_of(owner, self.line()));
        for method in methods {
            self.position = method.start;
            self.method(owner, method)?;
        }
        self.owner = outer;
        self.scopes.leave();
        (self.position, self.in_template) = (behind, in_template);
        Ok(())
    }

    fn method(&mut self, owner: &Owner<'_>, method: &Method) -> Result<()> {
        self.scopes.enter();
        let mut template = Vec::new();
        if self.take_word("template") {
            template = self.template_parameters()?;
            if method.is_static {
                return Err(self.error("a template of a static function is not supported"));
            }
        }
        // The struct's follow: they are deduced from `this`, so that written ones are the function's own.
        template.extend(owner.template.iter().cloned());
        self.in_template = !template.is_empty();
        let specifiers = self.specifiers()?;
        let mut result = self.pointers(specifiers.ty)?;
        let line = self.line();
        if self.member_name()? != method.name {
            return Err(Error::new(line, format!("expected the function `{}`", method.name)));
        }
        let mut parameters = self.parameters()?;
        if !method.is_static {
            let this = self.this_parameter(owner)?;
            parameters.insert(0, this);
        }
        if self.take_symbol("->") {
            result = self.type_name()?;
        }
        if result.is_reference && !result.is_const {
            // It would be a copy, and changes of that would be lost.
            return Err(Error::new(line, "a function that gives a reference is not supported"));
        }
        let body = self.block()?;
        self.scopes.leave();
        let name = method_name(owner.name, &method.name);
        let is_kernel = false;
        self.program.functions.push(Function {
            name,
            template,
            result,
            parameters,
            body,
            is_kernel,
            line,
        });
        Ok(())
    }

    /// The parameter that refers to the struct, with the words behind a function's parameters.
    fn this_parameter(&mut self, owner: &Owner<'_>) -> Result<Parameter> {
        let mut ty = TypeName { is_reference: true, ..type_of(owner, self.line()) };
        while let Some(word) = self.word() {
            match space(word) {
                Some(space) => ty.space = Some(space),
                None if word == "const" => ty.is_const = true,
                None if matches!(word, "volatile" | "noexcept") => {}
                None => return Err(self.expected("the body of a function")),
            }
            self.advance();
        }
        self.scopes.declare(&Rc::from(THIS), Meaning::Variable);
        let name = THIS.to_owned();
        Ok(Parameter { ty, name, array: Vec::new(), attribute: None, default: None })
    }

    /// The name of what a struct has: `operator()` or a word.
    pub(super) fn member_name(&mut self) -> Result<Rc<str>> {
        if self.take_word("operator") {
            return self.call_operator();
        }
        self.name("the name of a field")
    }

    /// Whether `this` is next, in a function of a struct.
    pub(super) fn is_this(&self) -> bool {
        self.word() == Some(THIS) && self.scopes.meaning(THIS).is_some()
    }

    /// `this`, in a function of a struct: the address of what it refers to.
    pub(super) fn this(&mut self) -> Result<Expression> {
        let line = self.line();
        self.advance();
        let of = self.leaf(line, ExpressionKind::Name(THIS.to_owned(), Vec::new()));
        let below = self.height;
        self.node(line, below, ExpressionKind::Unary(UnaryOperator::AddressOf, of.into()))
    }

    /// What a name of the struct stands for in its functions: a field, or a call of one of these.
    pub(super) fn of_owner(
        &mut self,
        name: &str,
        template: &[TemplateArgument],
        line: u32,
    ) -> Result<Option<Expression>> {
        let this = Expression { kind: ExpressionKind::Name(THIS.to_owned(), Vec::new()), line };
        match self.scopes.meaning(name) {
            Some(Meaning::Field) if self.scopes.meaning(THIS).is_none() => {
                Err(Error::new(line, format!("a static function has no field `{name}`")))
            }
            Some(Meaning::Field) => {
                self.node(line, 1, ExpressionKind::Member(this.into(), name.to_owned())).map(Some)
            }
            Some(Meaning::Method) if self.is_symbol("(") => {
                self.call_of_value(this, name.to_owned(), template.to_vec()).map(Some)
            }
            Some(Meaning::StaticMethod) if self.is_symbol("(") => {
                let Some(ty) = self.owner.clone() else { return Ok(None) };
                let arguments = self.arguments()?;
                let below = self.height;
                let kind = ExpressionKind::CallOf { ty, name: name.to_owned(), arguments };
                self.node(line, below, kind).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The call of a function of a value, whose arguments are next.
    pub(super) fn call_of_value(
        &mut self,
        value: Expression,
        name: String,
        template: Vec<TemplateArgument>,
    ) -> Result<Expression> {
        let (line, below) = (value.line, self.height);
        let arguments = self.arguments()?;
        let below = below.max(self.height);
        let kind = ExpressionKind::CallOn { value: value.into(), name, template, arguments };
        self.node(line, below, kind)
    }
}

/// A struct as its functions know it.
fn type_of(owner: &Owner<'_>, line: u32) -> TypeName {
    let named = |name: &str| TypeName {
        space: None,
        is_const: false,
        base: BaseType::Named(name.to_owned(), Vec::new()),
        pointers: 0,
        is_reference: false,
        line,
    };
    let argument = |parameter: &TemplateParameter| match parameter.of {
        None => TemplateArgument::Type(named(&parameter.name)),
        Some(_) => {
            let kind = ExpressionKind::Name(parameter.name.clone(), Vec::new());
            TemplateArgument::Value(Expression { kind, line })
        }
    };
    let arguments = owner.template.iter().map(argument).collect();
    TypeName { base: BaseType::Named(owner.name.to_owned(), arguments), ..named("") }
}
