//! Statements.

use super::Parser;
use crate::ast::{Case, Expression, Statement, StatementKind};
use crate::error::Result;

impl Parser {
    /// `{…}` with names of its own.
    pub(super) fn block(&mut self) -> Result<Vec<Statement>> {
        self.expect_symbol("{")?;
        self.scopes.enter();
        let mut statements = Vec::new();
        while !self.take_symbol("}") {
            self.statements(&mut statements)?;
        }
        self.scopes.leave();
        Ok(statements)
    }

    /// The next statement. An `enum` may be two of them.
    fn statements(&mut self, list: &mut Vec<Statement>) -> Result<()> {
        self.attributes()?;
        if self.word() == Some("enum") {
            list.extend(self.local_enumeration()?);
        } else {
            list.push(self.statement()?);
        }
        Ok(())
    }

    fn statement(&mut self) -> Result<Statement> {
        self.nested(|parser| {
            parser.attributes()?;
            let line = parser.line();
            Ok(Statement { kind: parser.statement_kind()?, line })
        })
    }

    fn statement_kind(&mut self) -> Result<StatementKind> {
        match self.symbol() {
            Some("{") => return self.block().map(StatementKind::Block),
            Some(";") => {
                self.advance();
                return Ok(StatementKind::Empty);
            }
            _ => {}
        }
        match self.word() {
            Some("if") => self.if_statement(),
            Some("for") => self.for_statement(),
            Some("while") => self.while_statement(),
            Some("do") => self.do_statement(),
            Some("switch") => self.switch(),
            Some("return") => self.return_statement(),
            Some("break") => self.jump(StatementKind::Break),
            Some("continue") => self.jump(StatementKind::Continue),
            Some("case" | "default") => Err(self.error("a `case` stands outside of a `switch`")),
            Some("static_assert") => self.skip_assertion().map(|()| StatementKind::Empty),
            Some("using") => Ok(self.using()?.map_or(StatementKind::Empty, StatementKind::Alias)),
            Some("typedef") => self.typedef().map(StatementKind::Alias),
            Some("enum") => self.local_enumeration().map(StatementKind::Block),
            Some("struct" | "class") if self.defines_local_struct() => {
                self.local_structure().map(|()| StatementKind::Empty)
            }
            _ => self.simple(),
        }
    }

    /// A declaration or an expression, with its `;`.
    fn simple(&mut self) -> Result<StatementKind> {
        let kind = self.declaration_or_expression()?;
        self.expect_symbol(";")?;
        Ok(kind)
    }

    fn declaration_or_expression(&mut self) -> Result<StatementKind> {
        if !self.is_this() {
            self.refuse_unsupported()?;
        }
        if self.names_type(self.position) {
            let base = self.specifiers()?.ty;
            return self.declarators(&base).map(StatementKind::Declare);
        }
        let start = self.position;
        let value = self.expression()?;
        if self.position == start + 1 && self.token().name().is_some() {
            let message = format!("{} is not the name of a type", self.token_at(start));
            return Err(self.error(message));
        }
        Ok(StatementKind::Expression(value))
    }

    fn jump(&mut self, kind: StatementKind) -> Result<StatementKind> {
        self.advance();
        self.expect_symbol(";").map(|()| kind)
    }

    fn return_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let value = match self.symbol() {
            Some(";") => None,
            Some("{") => Some(self.untyped_braces()?),
            _ => Some(self.expression()?),
        };
        self.expect_symbol(";")?;
        Ok(StatementKind::Return(value))
    }

    /// `(…)` behind `if`, `while` and `switch`
    fn condition(&mut self) -> Result<Expression> {
        self.expect_symbol("(")?;
        if self.names_type(self.position) {
            return Err(self.error("a variable in a condition is not supported"));
        }
        let condition = self.expression()?;
        self.expect_symbol(")")?;
        Ok(condition)
    }

    /// A statement that another one has in it.
    fn body(&mut self) -> Result<Box<Statement>> {
        self.scopes.enter();
        let statement = self.statement()?;
        self.scopes.leave();
        Ok(statement.into())
    }

    fn if_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        self.take_word("constexpr");
        let condition = self.condition()?;
        let then = self.body()?;
        let otherwise = if self.take_word("else") { Some(self.body()?) } else { None };
        Ok(StatementKind::If { condition, then, otherwise })
    }

    fn for_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect_symbol("(")?;
        self.scopes.enter();
        let first = self.first_of_for()?;
        let condition = if self.is_symbol(";") { None } else { Some(self.expression()?) };
        self.expect_symbol(";")?;
        let step = if self.is_symbol(")") { None } else { Some(self.expression()?) };
        self.expect_symbol(")")?;
        let body = self.body()?;
        self.scopes.leave();
        Ok(StatementKind::For { first, condition, step, body })
    }

    fn first_of_for(&mut self) -> Result<Option<Box<Statement>>> {
        if self.take_symbol(";") {
            return Ok(None);
        }
        let line = self.line();
        let kind = self.declaration_or_expression()?;
        if self.is_symbol(":") {
            return Err(self.error("a `for` over a range is not supported"));
        }
        self.expect_symbol(";")?;
        Ok(Some(Box::new(Statement { kind, line })))
    }

    fn while_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let condition = self.condition()?;
        let body = self.body()?;
        Ok(StatementKind::While { condition, body })
    }

    fn do_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let body = self.body()?;
        if !self.take_word("while") {
            return Err(self.expected("`while`"));
        }
        let condition = self.condition()?;
        self.expect_symbol(";")?;
        Ok(StatementKind::DoWhile { body, condition })
    }

    fn switch(&mut self) -> Result<StatementKind> {
        self.advance();
        let value = self.condition()?;
        self.expect_symbol("{")?;
        self.scopes.enter();
        let mut cases = Vec::new();
        while !self.take_symbol("}") {
            cases.push(self.case()?);
        }
        self.scopes.leave();
        Ok(StatementKind::Switch { value, cases })
    }

    fn case(&mut self) -> Result<Case> {
        let mut labels = Vec::new();
        loop {
            let label = match self.word() {
                Some("case") => {
                    self.advance();
                    Some(self.expression()?)
                }
                Some("default") => {
                    self.advance();
                    None
                }
                _ => break,
            };
            self.expect_symbol(":")?;
            labels.push(label);
        }
        if labels.is_empty() {
            return Err(self.expected("`case`"));
        }
        let mut body = Vec::new();
        while !self.is_symbol("}") && !matches!(self.word(), Some("case" | "default")) {
            self.statements(&mut body)?;
        }
        Ok(Case { labels, body })
    }
}
