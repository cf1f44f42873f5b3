//! Structs and enumerations that stand in functions.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Parser;
use super::program::there_already;
use super::scopes::Meaning;
use crate::ast::{Statement, StatementKind};
use crate::error::{Error, Result};

impl Parser {
    /// Whether `struct` begins a struct of its own; `struct S<T> a` declares a variable here.
    pub(super) fn defines_local_struct(&self) -> bool {
        self.defines_struct() && self.symbol_at(self.position + 2) != Some("<")
    }

    /// `struct S {…};` in a function: a struct of the program whose name the function alone knows.
    pub(super) fn local_structure(&mut self) -> Result<()> {
        self.advance();
        let line = self.line();
        let name = self.name("the name of a struct")?;
        let is_type = self.scopes.is_type_of_program(&name);
        if is_type && !self.structs.contains(&name) {
            return Err(there_already("type", &name, line));
        }
        self.scopes.declare(&name, Meaning::LocalStruct);
        if self.take_symbol(";") {
            return Ok(());
        }
        let start = self.position;
        self.structure_body(&name, Vec::new())?;
        if self.in_template { self.refuse_dependent(&name, start) } else { Ok(()) }
    }

    /// An error for a struct, read from a position on, whose fields differ by a template's instance.
    /// What a function calls its own may come from the parameters, so that is refused as well.
    fn refuse_dependent(&self, name: &Rc<str>, start: usize) -> Result<()> {
        let mut fields: FxHashMap<&str, usize> = FxHashMap::default();
        for field in self.program.structs.last().into_iter().flat_map(|last| &last.fields) {
            *fields.entry(&field.name).or_default() += 1;
        }
        for token in &self.tokens[start..self.position] {
            let Some(used) = token.name().filter(|used| self.scopes.is_of_function(used)) else {
                continue;
            };
            // The fields' own names do not matter.
            match fields.get_mut(&**used) {
                Some(left) if *left > 0 => *left -= 1,
                _ => return Err(dependent(name, used, token.line)),
            }
        }
        Ok(())
    }

    /// `enum M { A, B };` in a function: constants, and a name of `int`.
    pub(super) fn local_enumeration(&mut self) -> Result<Vec<Statement>> {
        let line = self.line();
        let (alias, mut constants) = self.enumeration()?;
        for constant in &mut constants {
            constant.ty.space = None;
        }
        let kinds = [Some(StatementKind::Declare(constants)), alias.map(StatementKind::Alias)];
        Ok(kinds.into_iter().flatten().map(|kind| Statement { kind, line }).collect())
    }
}

fn dependent(name: &str, used: &str, line: u32) -> Error {
    let message = format!(
        "the struct `{name}` cannot stand in a template's function, because it uses `{used}` of that"
    );
    Error::new(line, message)
}
