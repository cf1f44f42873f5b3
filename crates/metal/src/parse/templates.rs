//! Templates: their parameters, and the ones that are asked for by name.

use super::Parser;
use super::scopes::Meaning;
use crate::ast::{Instance, TemplateArgument, TemplateParameter};
use crate::error::Result;

/// Parameters that a template may have: each function of a struct has those of the struct, too.
const MOST_PARAMETERS: usize = 64;

impl Parser {
    /// `template <…>` and what it stands before, or `template` before an instance.
    pub(super) fn template(&mut self) -> Result<()> {
        self.advance();
        if !self.is_symbol("<") {
            return self.instance();
        }
        self.scopes.enter();
        let parameters = self.template_parameters()?;
        match self.word() {
            Some("struct" | "class") if self.defines_struct() => self.structure(parameters)?,
            Some("using") => return Err(self.error("a template of `using` is not supported")),
            Some("template") => return Err(self.error("a template of a template is not supported")),
            _ => self.function_or_constants(parameters)?,
        }
        self.scopes.leave();
        Ok(())
    }

    pub(super) fn template_parameters(&mut self) -> Result<Vec<TemplateParameter>> {
        self.expect_symbol("<")?;
        if self.is_symbol(">") {
            return Err(self.error("a specialization of a template is not supported"));
        }
        let mut parameters = Vec::new();
        loop {
            if parameters.len() == MOST_PARAMETERS {
                return Err(self.error("a template has too many parameters"));
            }
            parameters.push(self.template_parameter()?);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.close_angles()?;
        Ok(parameters)
    }

    fn template_parameter(&mut self) -> Result<TemplateParameter> {
        let is_type = matches!(self.word(), Some("typename" | "class"));
        let of = if is_type {
            self.advance();
            None
        } else {
            Some(self.type_name()?)
        };
        if self.is_symbol("...") {
            return Err(self.error("a template with any number of parameters is not supported"));
        }
        let name = self.name("the name of a template's parameter")?;
        self.scopes.declare(&name, if is_type { Meaning::Type } else { Meaning::Variable });
        let default =
            if self.take_symbol("=") { Some(self.default_argument(is_type)?) } else { None };
        Ok(TemplateParameter { name: name.to_string(), of, default })
    }

    fn default_argument(&mut self, is_type: bool) -> Result<TemplateArgument> {
        if is_type {
            return self.type_name().map(TemplateArgument::Type);
        }
        self.angled(true, Self::assignment).map(TemplateArgument::Value)
    }

    /// `[[host_name("n")]] [[kernel]] decltype(f<float>) f<float>;`, also with the types written out
    fn instance(&mut self) -> Result<()> {
        self.type_name()?;
        let function = self.name("the name of a template")?.to_string();
        let arguments = if self.is_symbol("<") { self.template_arguments()? } else { Vec::new() };
        if self.is_symbol("(") {
            self.skip_parentheses()?;
        }
        self.expect_symbol(";")?;
        self.program.instances.push(Instance { function, arguments });
        Ok(())
    }
}
