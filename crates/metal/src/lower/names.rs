//! What names mean.

use rspirv::{
    dr::Operand,
    spirv::{Op, Word},
};
use rustc_hash::FxHashMap;

use super::{
    Lowering,
    memory::Place,
    value::{Constant, Value},
};
use crate::{
    ast::{
        BaseType, Expression, ExpressionKind, Space, Struct, TemplateArgument, TemplateParameter,
        TypeName,
    },
    error::Result,
    types::{Packing, Scalar, Type},
};

/// More elements than any array that threads have.
const LARGEST_ARRAY: i128 = 1 << 20;

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Binding {
    Place(Place),
    Value(Value),
    Type(Type),
}

/// A structure whose fields are known.
#[derive(Debug, Clone)]
pub(crate) struct StructType {
    /// The number of its declaration.
    declared: usize,
    /// The arguments of its template.
    arguments: Vec<Argument>,
    pub(crate) fields: Vec<(String, Type)>,
    /// The bytes that it takes in memory of the device, and the multiple of which it lies at.
    pub(crate) layout: (u64, u64),
    /// The bytes that it takes in memory of a group.
    pub(crate) shared: u64,
    /// Its type in the module.
    pub(crate) id: Word,
}

/// What is given for a parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Argument {
    Type(Type),
    Number(Scalar, i128),
}

impl Lowering<'_> {
    pub(crate) fn bind(&mut self, name: &str, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), binding);
        }
    }

    pub(crate) fn binding(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// Does something with names of its own.
    pub(crate) fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(FxHashMap::default());
        let result = body(self);
        self.scopes.pop();
        result
    }

    /// The type that is named, references aside.
    pub(crate) fn resolve(&mut self, name: &TypeName) -> Result<Type> {
        self.line = name.line.max(1);
        let base = match &name.base {
            BaseType::Named(base, arguments) => self.named_type(base, arguments)?,
            BaseType::Auto => return Err(self.error("`auto` is not known here")),
            BaseType::Decltype(of) => self.value(of)?.ty,
        };
        let space = name.space.unwrap_or(Space::Thread);
        let pointer = |ty, _| Type::Pointer(space, Box::new(ty));
        Ok((0..name.pointers).fold(base, pointer))
    }

    fn named_type(&mut self, name: &str, arguments: &[TemplateArgument]) -> Result<Type> {
        if let Some(Binding::Type(ty)) = self.binding(name) {
            return Ok(ty);
        }
        if let Some(number) = self.program.structs.iter().position(|s| s.name == name) {
            return self.structure(number, arguments);
        }
        if let Some(alias) = self.program.aliases.iter().find(|alias| alias.name == name) {
            self.deeper()?;
            let outer = std::mem::take(&mut self.scopes);
            let ty = self.resolve(&alias.ty);
            self.scopes = outer;
            self.depth -= 1;
            return ty;
        }
        let known = match (name, arguments) {
            ("vec", [of, count]) => {
                let (scalar, count) = (self.number_type(of)?, self.number(count)?);
                (2..=4).contains(&count).then(|| Type::of(scalar, count as u32))
            }
            ("atomic", [of]) => Some(Type::Atomic(self.number_type(of)?)),
            ("array", [of, count]) => {
                let Argument::Type(of) = self.argument(of)? else {
                    return Err(self.error("an array is of a type"));
                };
                let count = self.number(count)?;
                Some(self.array_type(of, count)?)
            }
            (_, []) => Type::named(name),
            _ => None,
        };
        known.ok_or_else(|| match name {
            "double" | "complex64_t" => {
                self.error(format!("`{name}` is not supported in kernels here"))
            }
            _ => self.error(format!("`{name}` is no type that is known")),
        })
    }

    /// `is_same_v<A, B>`
    pub(crate) fn of_types(&mut self, name: &str, types: &[TemplateArgument]) -> Result<Value> {
        match (name, types) {
            ("is_same_v", [a, b]) => {
                let is_same = self.argument(a)? == self.argument(b)?;
                Ok(self.constant(Scalar::Bool, Constant::Bool(is_same)))
            }
            _ => Err(self.error(format!("`{name}` of types is not known"))),
        }
    }

    fn number_type(&mut self, argument: &TemplateArgument) -> Result<Scalar> {
        match self.argument(argument)? {
            Argument::Type(Type::Scalar(scalar)) => Ok(scalar),
            _ => Err(self.error("this is for types of numbers")),
        }
    }

    fn number(&mut self, argument: &TemplateArgument) -> Result<i128> {
        match self.argument(argument)? {
            Argument::Number(_, number) => Ok(number),
            Argument::Type(_) => Err(self.error("a number is wanted here")),
        }
    }

    /// What an argument of a template is. A name may turn out to be either.
    pub(crate) fn argument(&mut self, argument: &TemplateArgument) -> Result<Argument> {
        match argument {
            TemplateArgument::Type(name) => Ok(Argument::Type(self.resolve(name)?)),
            TemplateArgument::Value(expression) => {
                let value = self.value(expression)?;
                match (&value.ty, value.known()) {
                    (Type::Scalar(scalar), Some(number)) => Ok(Argument::Number(*scalar, number)),
                    _ => Err(self.error("an argument of a template has to be known")),
                }
            }
        }
    }

    /// What an argument of a template is for a parameter: a number has the parameter's type.
    fn argument_of(
        &mut self,
        parameter: &TemplateParameter,
        argument: &TemplateArgument,
    ) -> Result<Argument> {
        let argument = self.argument(argument)?;
        let (Argument::Number(_, number), Some(of)) = (&argument, &parameter.of) else {
            return Ok(argument);
        };
        match self.resolve(of)? {
            Type::Scalar(scalar) if !scalar.is_float() => {
                Ok(Argument::Number(scalar, scalar.wrapped(*number)))
            }
            _ => Ok(argument),
        }
    }

    /// Gives names of a template's parameters their meaning.
    pub(crate) fn bind_template(
        &mut self,
        parameters: &[TemplateParameter],
        arguments: &[Argument],
    ) -> Result<()> {
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let binding = match (argument, &parameter.of) {
                (Argument::Type(ty), None) => Binding::Type(ty.clone()),
                (Argument::Number(_, number), Some(of)) => {
                    let Type::Scalar(scalar) = self.resolve(of)? else {
                        return Err(self.error("a parameter of a template is a type or a number"));
                    };
                    Binding::Value(self.constant(scalar, Constant::Int(*number)))
                }
                _ => {
                    let message = format!("`{}` is given the wrong kind", parameter.name);
                    return Err(self.error(message));
                }
            };
            self.bind(&parameter.name, binding);
        }
        Ok(())
    }

    fn structure(&mut self, number: usize, arguments: &[TemplateArgument]) -> Result<Type> {
        let declared: &Struct = &self.program.structs[number];
        if arguments.len() != declared.template.len() {
            return Err(self.error(format!("`{}` is a template", declared.name)));
        }
        let given = declared.template.iter().zip(arguments);
        let arguments =
            given.map(|(p, a)| self.argument_of(p, a)).collect::<Result<Vec<Argument>>>()?;
        let is_this = |known: &StructType| known.declared == number && known.arguments == arguments;
        if let Some(known) = self.structs.iter().position(is_this) {
            return Ok(Type::Struct(known));
        }
        self.deeper()?;
        let outer = std::mem::take(&mut self.scopes);
        let fields = self.scoped(|this| {
            this.bind_template(&declared.template, &arguments)?;
            let field = |this: &mut Self, field: &crate::ast::Declaration| {
                let ty = this.resolve(&field.ty)?;
                let ty = this.sized(ty, &field.array)?;
                this.expect_kept(&ty)?;
                Ok((field.name.clone(), ty))
            };
            declared.fields.iter().map(|f| field(this, f)).collect::<Result<Vec<_>>>()
        });
        self.scopes = outer;
        self.depth -= 1;
        let structure = self.laid_out(number, arguments, fields?)?;
        self.structs.push(structure);
        Ok(Type::Struct(self.structs.len() - 1))
    }

    /// A structure of fields, with its size.
    fn laid_out(
        &mut self,
        declared: usize,
        arguments: Vec<Argument>,
        mut fields: Vec<(String, Type)>,
    ) -> Result<StructType> {
        if fields.is_empty() {
            // So that it has a size, a byte as in C++; no program can name it.
            fields.push((String::new(), Type::Scalar(Scalar::Uchar)));
        }
        let (mut end, mut align, mut shared) = (0u64, 1u64, 0u64);
        let mut ids = Vec::new();
        for (_, ty) in &fields {
            let (size, own) = self.layout(ty);
            (end, align) = (end.next_multiple_of(own) + size, align.max(own));
            shared += self.shared_bytes(ty);
            ids.push(Operand::IdRef(self.value_type(ty)));
        }
        if end > LARGEST_ARRAY as u64 {
            return Err(self.error("a structure has no more than a MiB"));
        }
        let id = self.emitter.global(Op::TypeStruct, None, ids);
        let layout = (end.next_multiple_of(align), align);
        Ok(StructType { declared, arguments, fields, layout, shared, id })
    }

    /// Refuses what no variable may have parts of: pointers to others, whose places are not values.
    fn expect_kept(&self, ty: &Type) -> Result<()> {
        match ty {
            Type::Void | Type::Pointer(Space::Thread | Space::Threadgroup, _) => {
                let name = ty.name();
                Err(self.error(format!("structures and arrays of `{name}` are not supported")))
            }
            _ => Ok(()),
        }
    }

    /// A type with the sizes in brackets behind a name.
    pub(crate) fn sized(&mut self, ty: Type, sizes: &[Option<Expression>]) -> Result<Type> {
        let mut ty = ty;
        for size in sizes.iter().rev() {
            let Some(size) = size else {
                return Err(self.error("the size of an array has to be written here"));
            };
            let value = self.value(size)?;
            let Some(count) = value.known() else {
                return Err(self.error("the size of an array has to be known"));
            };
            ty = self.array_type(ty, count)?;
        }
        Ok(ty)
    }

    fn array_type(&mut self, of: Type, count: i128) -> Result<Type> {
        self.expect_kept(&of)?;
        let bytes = i128::from(self.layout(&of).0).saturating_mul(count);
        if !(1..=LARGEST_ARRAY).contains(&bytes) {
            return Err(self.error(format!("an array of {count} `{}` is none", of.name())));
        }
        Ok(Type::Array(Box::new(of), count as u32))
    }

    /// What a parameter of a template has to be, so that a parameter of the function has the type of what it
    /// is given.
    pub(crate) fn deduce(
        &self,
        pattern: &TypeName,
        given: &Type,
        found: &mut FxHashMap<String, Argument>,
    ) {
        let mut given = given;
        for _ in 0..pattern.pointers {
            let Type::Pointer(_, of) = given else { return };
            given = of;
        }
        let BaseType::Named(name, arguments) = &pattern.base else { return };
        match (given, &arguments[..]) {
            (_, []) => {
                found.entry(name.clone()).or_insert_with(|| Argument::Type(plain(given)));
            }
            (Type::Vector(scalar, count, _), [of, number]) if name == "vec" => {
                deduce_argument(of, Argument::Type(Type::Scalar(*scalar)), found);
                deduce_argument(number, Argument::Number(Scalar::Int, (*count).into()), found);
            }
            (Type::Atomic(scalar), [of]) if name == "atomic" => {
                deduce_argument(of, Argument::Type(Type::Scalar(*scalar)), found);
            }
            (Type::Struct(number), arguments) if self.declared_name(*number) == name => {
                for (pattern, argument) in arguments.iter().zip(&self.structs[*number].arguments) {
                    deduce_argument(pattern, argument.clone(), found);
                }
            }
            _ => {}
        }
    }

    /// The name of a structure, without the arguments of its template.
    fn declared_name(&self, number: usize) -> &str {
        &self.program.structs[self.structs[number].declared].name
    }

    /// A structure of the program, and the arguments of its template.
    pub(crate) fn struct_with_arguments(&self, ty: &Type) -> Option<(&str, &[Argument])> {
        match ty {
            Type::Struct(number) if !self.is_matrix(*number) => {
                Some((self.declared_name(*number), &self.structs[*number].arguments))
            }
            _ => None,
        }
    }

    /// Whether a structure is a matrix of a simdgroup.
    pub(crate) fn is_matrix(&self, number: usize) -> bool {
        self.declared_name(number) == "simdgroup_matrix"
    }
}

fn deduce_argument(
    pattern: &TemplateArgument,
    given: Argument,
    found: &mut FxHashMap<String, Argument>,
) {
    let name = match pattern {
        TemplateArgument::Type(TypeName { base: BaseType::Named(name, _), .. }) => name,
        TemplateArgument::Value(Expression { kind: ExpressionKind::Name(name, _), .. }) => name,
        _ => return,
    };
    found.entry(name.clone()).or_insert(given);
}

/// A type as it is for values: how a vector lies in memory does not count.
fn plain(ty: &Type) -> Type {
    match *ty {
        Type::Vector(scalar, count, _) => Type::Vector(scalar, count, Packing::Aligned),
        _ => ty.clone(),
    }
}
