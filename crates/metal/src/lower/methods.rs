//! Calls of functions of structures, which the parser made functions of the program.

use super::{Lowering, call::Written, memory::Place, value::Value};
use crate::{
    ast::{Expression, ExpressionKind, TemplateArgument, TypeName},
    error::Result,
    parse::methods::{CALL, THIS, method_name},
};

impl Lowering<'_> {
    /// The value of a call of a function of the struct that a value has.
    pub(crate) fn call_on(
        &mut self,
        value: &Expression,
        name: &str,
        template: &[TemplateArgument],
        arguments: &[Expression],
    ) -> Result<Value> {
        let line = self.line;
        let this = self.nested_place(value)?;
        self.line = line;
        let ty = this.ty();
        let Some((of, known)) = self.struct_with_arguments(&ty) else {
            let ty = ty.name();
            return Err(self.error(match name {
                CALL => format!("a value of `{ty}` cannot be called"),
                _ => format!("a value of `{ty}` has no function `{name}`"),
            }));
        };
        let (full, known) = (method_name(of, name), known.to_vec());
        let methods = self.methods(&full, arguments.len() + 1, true);
        if methods.is_empty() {
            return self.call_static(&full, Written::Known(&known), arguments);
        }
        let is_copy = matches!(this, Place::Value(_)) && !is_new(value);
        let given = self.places(vec![this], arguments)?;
        self.line = line;
        let (_, chosen) = self.expect_best(name, &methods, Written::Named(template), &given)?;
        let changes = !self.program.functions[chosen.number].parameters[0].ty.is_const;
        if is_copy && changes {
            return Err(self.error(format!("`{name}` would change a copy here")));
        }
        self.call_instance(chosen, given)
    }

    /// The value of a static function of a type, or what a type of the language says of itself.
    pub(crate) fn call_of(
        &mut self,
        ty: &TypeName,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Value> {
        let line = self.line;
        let resolved = self.resolve(ty).ok();
        self.line = line;
        let known = resolved.as_ref().and_then(|ty| self.struct_with_arguments(ty));
        let known = known.map(|(of, known)| (method_name(of, name), known.to_vec()));
        match known {
            Some((full, known)) => self.call_static(&full, Written::Known(&known), arguments),
            None if arguments.is_empty() => self.limit(ty, name),
            None => Err(self.error(format!("there is no such `{name}`"))),
        }
    }

    /// The value of a static function by its full name.
    fn call_static(
        &mut self,
        full: &str,
        written: Written<'_>,
        arguments: &[Expression],
    ) -> Result<Value> {
        let line = self.line;
        let functions = self.methods(full, arguments.len(), false);
        if functions.is_empty() {
            return Err(self.error(format!("there is no function `{full}` of so many values")));
        }
        let given = self.places(Vec::new(), arguments)?;
        self.line = line;
        let (_, chosen) = self.expect_best(full, &functions, written, &given)?;
        self.call_instance(chosen, given)
    }

    /// Functions of a structure that take so many arguments: those that refer to it, or static ones.
    fn methods(&self, full: &str, count: usize, refer: bool) -> Vec<usize> {
        let refers = |&number: &usize| {
            let first = self.program.functions[number].parameters.first();
            first.is_some_and(|parameter| parameter.name == THIS)
        };
        self.candidates(full, count).into_iter().filter(|number| refers(number) == refer).collect()
    }
}

/// Whether a value is nobody's yet, so that a function may change it.
fn is_new(value: &Expression) -> bool {
    match &value.kind {
        ExpressionKind::Cast(ty, _) => !ty.is_reference,
        ExpressionKind::Construct(..)
        | ExpressionKind::Braces(..)
        | ExpressionKind::Call { .. }
        | ExpressionKind::CallOf { .. }
        | ExpressionKind::CallOn { .. } => true,
        _ => false,
    }
}
