//! What a program is made of: functions, structs, constants and names of types.

use std::rc::Rc;

use super::Parser;
use super::methods::Owner;
use super::scopes::Meaning;
use super::types::Specifiers;
use crate::ast::{
    Alias, BaseType, BinaryOperator, Declaration, Expression, ExpressionKind, Function, Initial,
    Parameter, Space, Struct, TemplateParameter, TypeName,
};
use crate::error::{Error, Result};

impl Parser {
    pub(super) fn item(&mut self) -> Result<()> {
        if self.take_symbol(";") {
            return Ok(());
        }
        let line = self.line();
        match self.word() {
            Some("using") => {
                let alias = self.using()?;
                alias.map_or(Ok(()), |alias| self.alias_of_program(alias, line))
            }
            Some("typedef") => {
                let alias = self.typedef()?;
                self.alias_of_program(alias, line)
            }
            Some("namespace") => self.nested(Self::namespace),
            Some("template") => self.template(),
            Some("struct" | "class") if self.defines_struct() => self.structure(Vec::new()),
            Some("enum") => self.enumeration_of_program(),
            Some("static_assert") => self.skip_assertion(),
            _ => self.function_or_constants(Vec::new()),
        }
    }

    /// A name of a type. That of a struct, which may stand in a function, is only for the struct itself.
    fn alias_of_program(&mut self, alias: Alias, line: u32) -> Result<()> {
        let is_itself = matches!(&alias.ty.base, BaseType::Named(name, _) if *name == alias.name);
        if self.structs.contains(alias.name.as_str()) && !is_itself {
            return Err(there_already("struct", &alias.name, line));
        }
        self.program.aliases.push(alias);
        Ok(())
    }

    /// `namespace a::b {…}`: what is in it is as if it were outside.
    fn namespace(&mut self) -> Result<()> {
        self.advance();
        self.position = self.behind_namespaces(self.position);
        if self.word().is_some() {
            self.name("the name of a namespace")?;
        }
        if self.take_symbol("=") {
            while !self.take_symbol(";") {
                if !self.is_symbol("::") && self.word().is_none() {
                    return Err(self.expected("`;`"));
                }
                self.advance();
            }
            return Ok(());
        }
        self.expect_symbol("{")?;
        while !self.take_symbol("}") {
            self.item()?;
        }
        Ok(())
    }

    /// Whether `struct` begins a struct of its own, not only names one as a type.
    pub(super) fn defines_struct(&self) -> bool {
        matches!(self.symbol_at(self.position + 2), Some("{" | ";" | ":" | "<"))
            || self.symbol_at(self.position + 1) == Some("{")
    }

    pub(super) fn structure(&mut self, template: Vec<TemplateParameter>) -> Result<()> {
        self.advance();
        let name = self.name("the name of a struct")?;
        self.scopes.declare_outermost(&name, Meaning::Type);
        if self.take_symbol(";") {
            return Ok(());
        }
        self.structure_body(&name, template)
    }

    /// What is behind the name of a struct.
    pub(super) fn structure_body(
        &mut self,
        name: &Rc<str>,
        template: Vec<TemplateParameter>,
    ) -> Result<()> {
        if !self.structs.insert(name.clone()) {
            return Err(there_already("struct", name, self.line()));
        }
        match self.symbol() {
            Some(":") => return Err(self.error("a struct that builds on another is not supported")),
            Some("<") => return Err(self.error("a specialization of a template is not supported")),
            _ => self.expect_symbol("{")?,
        }
        self.scopes.enter();
        let (mut fields, mut methods) = (Vec::new(), Vec::new());
        while !self.take_symbol("}") {
            match self.skipped_method(name)? {
                Some(method) => methods.push(method),
                None => fields.extend(self.fields()?),
            }
        }
        self.scopes.leave();
        self.expect_symbol(";")?;
        self.methods(&Owner { name, template: &template, fields: &fields }, &methods)?;
        self.program.structs.push(Struct { name: name.to_string(), template, fields });
        Ok(())
    }

    /// The fields that one declaration names.
    fn fields(&mut self) -> Result<Vec<Declaration>> {
        if self.take_symbol(";") {
            return Ok(Vec::new());
        }
        let is_label = matches!(self.word(), Some("public" | "private"));
        if is_label && self.symbol_at(self.position + 1) == Some(":") {
            self.advance();
            self.advance();
            return Ok(Vec::new());
        }
        const OTHERS: [&str; 8] =
            ["template", "using", "typedef", "static", "struct", "class", "enum", "friend"];
        if self.is_symbol("~") || self.word().is_some_and(|word| OTHERS.contains(&word)) {
            return Err(self.error("structs have fields and functions alone here"));
        }
        let base = self.specifiers()?.ty;
        let fields = self.declarators(&base)?;
        self.expect_symbol(";")?;
        Ok(fields)
    }

    fn enumeration_of_program(&mut self) -> Result<()> {
        let line = self.line();
        let (name, constants) = self.enumeration()?;
        self.program.constants.extend(constants);
        name.map_or(Ok(()), |alias| self.alias_of_program(alias, line))
    }

    /// `enum NAME {…};`: its name, as one of `int`, and its constants.
    pub(super) fn enumeration(&mut self) -> Result<(Option<Alias>, Vec<Declaration>)> {
        let line = self.line();
        self.advance();
        let is_scoped = self.take_word("class") || self.take_word("struct");
        let mut alias = None;
        if self.word().is_some() {
            let name = self.name("a name")?;
            self.scopes.declare(&name, Meaning::Enumeration);
            alias = Some(Alias { name: name.to_string(), ty: plain("int", line) });
        }
        if self.take_symbol(":") {
            self.type_name()?;
        }
        let constants = self.enumerators(is_scoped)?;
        self.expect_symbol(";")?;
        Ok((alias, constants))
    }

    /// The constants of an `enum`, in braces.
    fn enumerators(&mut self, is_scoped: bool) -> Result<Vec<Declaration>> {
        self.expect_symbol("{")?;
        let mut constants = Vec::new();
        // The last constant that has a value of its own, and how many are behind it.
        let (mut last, mut behind): (Option<String>, u64) = (None, 0);
        while !self.is_symbol("}") {
            let line = self.line();
            let name = self.enumerator(is_scoped)?.to_string();
            let value = if self.take_symbol("=") {
                (last, behind) = (Some(name.clone()), 1);
                self.assignment()?
            } else {
                behind += 1;
                enumerated(last.clone(), behind - 1, line)
            };
            constants.push(constant(name, value, line));
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol("}")?;
        Ok(constants)
    }

    /// The name of a constant. Those of an `enum class` are found without its name too, so they must be new.
    fn enumerator(&mut self, is_scoped: bool) -> Result<Rc<str>> {
        let line = self.line();
        let name = self.name("the name of a constant")?;
        let meaning = self.scopes.meaning(&name);
        let is_variable = matches!(meaning, Some(Meaning::Variable | Meaning::Field));
        let is_other = is_variable || self.scopes.is_type(&name);
        if meaning == Some(Meaning::Enumerator) || (is_scoped && is_other) {
            return Err(Error::new(line, format!("the name `{name}` is there already")));
        }
        self.scopes.declare(&name, Meaning::Enumerator);
        Ok(name)
    }

    pub(super) fn function_or_constants(&mut self, template: Vec<TemplateParameter>) -> Result<()> {
        let Specifiers { ty, is_kernel } = self.specifiers()?;
        let start = self.position;
        let result = self.pointers(ty.clone())?;
        if self.word() == Some("operator") {
            return Err(self.error("an operator cannot be defined here"));
        }
        match self.symbol_at(self.position + 1) {
            Some("(") => self.function(template, result, is_kernel),
            Some("<") => Err(self.error("a specialization of a template is not supported")),
            _ if !template.is_empty() => {
                Err(self.error("a template has to be of a function or a struct here"))
            }
            _ => {
                self.position = start;
                let constants = self.declarators(&ty)?;
                self.expect_symbol(";")?;
                self.program.constants.extend(constants);
                Ok(())
            }
        }
    }

    /// A function from its name on. One without a body is only known by its name.
    fn function(
        &mut self,
        template: Vec<TemplateParameter>,
        mut result: TypeName,
        is_kernel: bool,
    ) -> Result<()> {
        let line = self.line();
        self.in_template = !template.is_empty();
        let name = self.name("the name of a function")?;
        self.scopes.declare_outermost(&name, Meaning::Function);
        self.scopes.enter();
        let parameters = self.parameters()?;
        let is_kernel =
            is_kernel || self.attributes()?.iter().any(|attribute| attribute.name == "kernel");
        if self.take_symbol("->") {
            result = self.type_name()?;
        }
        if !self.take_symbol(";") {
            let body = self.block()?;
            let name = name.to_string();
            let function = Function { name, template, result, parameters, body, is_kernel, line };
            self.program.functions.push(function);
        }
        self.scopes.leave();
        Ok(())
    }

    pub(super) fn parameters(&mut self) -> Result<Vec<Parameter>> {
        self.expect_symbol("(")?;
        let mut parameters = Vec::new();
        if self.word() == Some("void") && self.symbol_at(self.position + 1) == Some(")") {
            self.advance();
        }
        while !self.is_symbol(")") {
            if self.is_symbol("...") {
                return Err(self.error("a function with any number of arguments is not supported"));
            }
            parameters.push(self.parameter()?);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        Ok(parameters)
    }

    fn parameter(&mut self) -> Result<Parameter> {
        let mut ty = self.type_name()?;
        // `T (&a)[4]`
        let is_wrapped = self.is_symbol("(") && self.symbol_at(self.position + 1) == Some("&");
        if is_wrapped {
            self.advance();
            ty = self.pointers(ty)?;
        }
        let mut name = String::new();
        if self.word().is_some() {
            let found = self.name("the name of a parameter")?;
            self.scopes.declare(&found, Meaning::Variable);
            name = found.to_string();
        }
        if is_wrapped {
            self.expect_symbol(")")?;
        }
        let array = self.array_sizes()?;
        let attributes = self.attributes()?;
        let attribute = attributes.into_iter().find(|attribute| attribute.name != "maybe_unused");
        let default = if self.take_symbol("=") { Some(self.assignment()?) } else { None };
        Ok(Parameter { ty, name, array, attribute, default })
    }
}

/// An error for a name that a type has already.
pub(super) fn there_already(what: &str, name: &str, line: u32) -> Error {
    Error::new(line, format!("a {what} `{name}` is there already"))
}

/// A type that has a name alone.
fn plain(name: &str, line: u32) -> TypeName {
    let base = BaseType::Named(name.to_string(), Vec::new());
    TypeName { space: None, is_const: false, base, pointers: 0, is_reference: false, line }
}

/// A constant of an `enum`.
fn constant(name: String, value: Expression, line: u32) -> Declaration {
    let ty = TypeName { space: Some(Space::Constant), is_const: true, ..plain("int", line) };
    Declaration { ty, name, array: Vec::new(), value: Some(Initial::Value(value)), line }
}

/// The value of a constant that is so far behind the last one with a value.
fn enumerated(last: Option<String>, behind: u64, line: u32) -> Expression {
    let kind = ExpressionKind::Integer { value: behind, is_unsigned: false, is_long: false };
    let distance = Expression { kind, line };
    let Some(last) = last else { return distance };
    let last = Expression { kind: ExpressionKind::Name(last, Vec::new()), line };
    let kind = ExpressionKind::Binary(BinaryOperator::Add, last.into(), distance.into());
    Expression { kind, line }
}
