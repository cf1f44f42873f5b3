//! Functions of the program, each for the arguments that it is called with.

use rspirv::{
    dr::Operand,
    spirv::{Op, StorageClass, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Flow, Lowering,
    library::is_language_function,
    memory::Place,
    names::{Argument, Binding},
    value::{LocalPointer, Root, Value, space_of},
};
use crate::{
    ast::{Expression, Function, Parameter, Space, TemplateArgument},
    error::Result,
    parse::methods::THIS,
    types::{Scalar, Type},
};

/// The rank of a function, also of a template, whose parameters have the types of what it is given.
const EXACT: u32 = 1;

/// What distinguishes instances of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    function: usize,
    template: Vec<Argument>,
    forms: Vec<Form>,
    /// Whether all threads of a group come there together.
    is_uniform: bool,
}

/// How an argument is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    Value(Type),
    /// The address of what is referred to.
    Reference(Space, Type),
    /// A variable, a path, and perhaps an index. A variable of the module is named by the function itself:
    /// handed over, drivers (NVIDIA's) read zeros from it. A step of the path is the number of a field, which
    /// has to be a constant, so it is part of the form, or (none) an element, whose index is handed over.
    Local {
        class: StorageClass,
        of_module: Option<Word>,
        root: Type,
        path: Vec<Option<Word>>,
        has_index: bool,
        ty: Type,
        is_reference: bool,
    },
}

/// What is written as the arguments of a function's template, or known of a structure.
#[derive(Clone, Copy)]
pub(super) enum Written<'a> {
    Named(&'a [TemplateArgument]),
    Known(&'a [Argument]),
}

/// A function that is called, with the arguments of its template and the types of its parameters.
pub(super) struct Chosen {
    pub(super) number: usize,
    template: Vec<Argument>,
    parameters: Vec<Type>,
}

/// An instance that is still to be written.
pub(crate) struct Waiting {
    key: Key,
    id: Word,
    result: Type,
}

impl Lowering<'_> {
    /// The value of a call: of the program's functions, or of the language's.
    pub(crate) fn call(
        &mut self,
        name: &str,
        template: &[TemplateArgument],
        arguments: &[Expression],
    ) -> Result<Value> {
        let line = self.line;
        let candidates = self.candidates(name, arguments.len());
        if candidates.is_empty() {
            return self.language_call(name, arguments);
        }
        let given = self.places(Vec::new(), arguments)?;
        self.line = line;
        let (rank, chosen) =
            self.expect_best(name, &candidates, Written::Named(template), &given)?;
        if rank > EXACT && is_language_function(name) {
            let values = given.iter().map(|place| self.load(place)).collect::<Result<Vec<_>>>()?;
            return self.language_values(name, &values);
        }
        self.call_instance(chosen, given)
    }

    /// The places of arguments, behind those that are there already.
    pub(super) fn places(
        &mut self,
        mut places: Vec<Place>,
        arguments: &[Expression],
    ) -> Result<Vec<Place>> {
        for argument in arguments {
            places.push(self.place(argument)?);
        }
        Ok(places)
    }

    /// Functions of a name that take so many arguments.
    pub(super) fn candidates(&self, name: &str, count: usize) -> Vec<usize> {
        let takes = |function: &Function| {
            let least = function.parameters.iter().filter(|p| p.default.is_none()).count();
            !function.is_kernel && (least..=function.parameters.len()).contains(&count)
        };
        // No function calls itself, so one of its own name is the language's, an overload or another
        // instance.
        let functions = self.program.functions.iter().enumerate();
        let functions =
            functions.filter(|(number, f)| *number != self.function || !f.template.is_empty());
        functions.filter(|(_, f)| f.name == name && takes(f)).map(|(number, _)| number).collect()
    }

    /// The best of functions, an error if none takes what is given.
    pub(super) fn expect_best(
        &mut self,
        name: &str,
        candidates: &[usize],
        written: Written<'_>,
        given: &[Place],
    ) -> Result<(u32, Chosen)> {
        let line = self.line;
        let best = self.best(candidates, written, given);
        self.line = line;
        best.ok_or_else(|| self.error(format!("no function `{name}` takes these values")))
    }

    /// The function whose parameters what it is given becomes most easily, the first of several, and how.
    fn best(
        &mut self,
        candidates: &[usize],
        written: Written<'_>,
        given: &[Place],
    ) -> Option<(u32, Chosen)> {
        let ranked = candidates.iter().filter_map(|&number| {
            let function = &self.program.functions[number];
            let is_plain = matches!(written, Written::Named([]) | Written::Known([]));
            if function.template.is_empty() && !is_plain {
                return None;
            }
            let chosen = self.chosen(number, written, given).ok()?;
            let cost = cost_of_all(given, &chosen.parameters)?;
            Some((2 * cost + u32::from(!function.template.is_empty()), chosen))
        });
        ranked.min_by_key(|&(rank, _)| rank)
    }

    /// A function with the arguments that its template gets when it is given this.
    fn chosen(&mut self, number: usize, written: Written<'_>, given: &[Place]) -> Result<Chosen> {
        let function = &self.program.functions[number];
        let template = self.template_arguments(function, written, given)?;
        let parameters = self.outside(|this| {
            this.bind_template(&function.template, &template)?;
            function.parameters.iter().map(|p| this.parameter_type(p)).collect()
        })?;
        Ok(Chosen { number, template, parameters })
    }

    /// Does something where no name of the function that is written is known.
    fn outside<T>(&mut self, function: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::take(&mut self.scopes);
        let result = self.scoped(function);
        self.scopes = outer;
        result
    }

    fn parameter_type(&mut self, parameter: &Parameter) -> Result<Type> {
        let ty = self.resolve(&parameter.ty)?;
        if parameter.array.is_empty() || parameter.ty.is_reference {
            return self.sized(ty, &parameter.array);
        }
        // An array as a parameter is a pointer.
        let of = self.sized(ty, &parameter.array[1..])?;
        Ok(Type::Pointer(parameter.ty.space.unwrap_or(Space::Thread), Box::new(of)))
    }

    /// The value of a call of one of the program's functions.
    pub(crate) fn call_function(&mut self, number: usize, given: Vec<Place>) -> Result<Value> {
        let line = self.line;
        let chosen = self.chosen(number, Written::Named(&[]), &given)?;
        self.line = line;
        self.call_instance(chosen, given)
    }

    pub(super) fn call_instance(&mut self, chosen: Chosen, mut given: Vec<Place>) -> Result<Value> {
        let Chosen { number, template, parameters } = chosen;
        let function = &self.program.functions[number];
        let line = self.line;
        let result = self.outside(|this| {
            this.bind_template(&function.template, &template)?;
            for parameter in &function.parameters[given.len()..] {
                if let Some(default) = &parameter.default {
                    given.push(Place::Value(this.value(default)?));
                }
            }
            this.resolve(&function.result)
        });
        self.line = line;
        let result = result?;
        let (mut forms, mut ids) = (Vec::new(), Vec::new());
        for ((parameter, ty), place) in function.parameters.iter().zip(parameters).zip(given) {
            forms.push(self.hand_over(parameter, ty, place, &mut ids)?);
        }
        let is_uniform = self.flow.is_uniform;
        let key = Key { function: number, template, forms, is_uniform };
        let id = self.instance(key, &result)?;
        let of = self.value_type(&result);
        let mut operands = vec![Operand::IdRef(id)];
        operands.extend(ids.into_iter().map(Operand::IdRef));
        let id = self.emitter.op_of(Op::FunctionCall, of, operands);
        Ok(Value::new(result, id, false))
    }

    /// The function of an instance, which is written later if it is new.
    fn instance(&mut self, key: Key, result: &Type) -> Result<Word> {
        if let Some(&id) = self.instances.get(&key) {
            self.calls.push((self.caller, id));
            return Ok(id);
        }
        if self.instances.len() >= 1000 {
            return Err(self.error("functions call each other without an end"));
        }
        let id = self.emitter.id();
        self.instances.insert(key.clone(), id);
        self.calls.push((self.caller, id));
        self.waiting.push(Waiting { key, id, result: result.clone() });
        Ok(id)
    }

    /// Arguments of a function's template: those that are written, then what types of arguments say.
    fn template_arguments(
        &mut self,
        function: &Function,
        written: Written<'_>,
        given: &[Place],
    ) -> Result<Vec<Argument>> {
        let mut arguments = match written {
            Written::Named(named) if named.len() <= function.template.len() => {
                named.iter().map(|a| self.argument(a)).collect::<Result<Vec<Argument>>>()?
            }
            Written::Known(known) if known.len() <= function.template.len() => known.to_vec(),
            _ => return Err(self.error(format!("`{}` has fewer parameters", function.name))),
        };
        let mut found = FxHashMap::default();
        for (parameter, place) in function.parameters.iter().zip(given) {
            let mut ty = place.ty();
            if let (Type::Array(of, _), false) = (&ty, parameter.ty.is_reference) {
                ty = Type::Pointer(Space::Thread, of.clone());
            }
            for _ in &parameter.array {
                if let Type::Pointer(_, of) | Type::Array(of, _) = ty {
                    ty = *of;
                }
            }
            self.deduce(&parameter.ty, &ty, &mut found);
        }
        for parameter in &function.template[arguments.len()..] {
            let argument = match (found.remove(&parameter.name), &parameter.default) {
                (Some(argument), _) => argument,
                (None, Some(default)) => self.argument(default)?,
                (None, None) => {
                    let (function, name) = (&function.name, &parameter.name);
                    return Err(self.error(format!("`{name}` of `{function}` is not known")));
                }
            };
            arguments.push(argument);
        }
        Ok(arguments)
    }

    /// Adds what an argument hands over to `ids`.
    fn hand_over(
        &mut self,
        parameter: &Parameter,
        ty: Type,
        place: Place,
        ids: &mut Vec<Word>,
    ) -> Result<Form> {
        if parameter.ty.is_reference {
            match place {
                Place::Local { root, path, ty: of, .. } if of == ty => {
                    let class = root.class;
                    let of_module = of_module(&root);
                    ids.extend(of_module.is_none().then_some(root.id));
                    let path = self.hand_over_path(&root, &path, ids);
                    self.touch(&root);
                    let root = root.ty;
                    let (has_index, is_reference) = (false, true);
                    return Ok(Form::Local {
                        class,
                        of_module,
                        root,
                        path,
                        has_index,
                        ty,
                        is_reference,
                    });
                }
                Place::Device { address, ty: of, space, .. } if of == ty => {
                    ids.push(address);
                    return Ok(Form::Reference(space, ty));
                }
                // A value that has no name may have its functions called.
                Place::Value(_) if parameter.name == THIS => {}
                _ if !parameter.ty.is_const => {
                    return Err(self.error(format!("`{}` refers to another type", parameter.name)));
                }
                _ => {}
            }
        }
        let value = self.load(&place)?;
        match (&ty, &value.pointer, &value.ty) {
            (Type::Pointer(..), Some(local), Type::Pointer(_, of)) => {
                let local = local.clone();
                let of_module = of_module(&local.root);
                ids.extend(of_module.is_none().then_some(local.root.id));
                let path = self.hand_over_path(&local.root, &local.path, ids);
                ids.extend(local.index);
                self.touch(&local.root);
                Ok(Form::Local {
                    class: local.root.class,
                    of_module,
                    root: local.root.ty,
                    path,
                    has_index: local.index.is_some(),
                    ty: (**of).clone(),
                    is_reference: false,
                })
            }
            (Type::Pointer(_, to), None, Type::Pointer(space, of)) if to == of => {
                ids.push(value.id);
                Ok(Form::Value(Type::Pointer(*space, to.clone())))
            }
            (Type::Pointer(..), ..) => {
                let (from, to) = (value.ty.name(), ty.name());
                Err(self.error(format!("`{from}` does not become `{to}`")))
            }
            _ => {
                ids.push(self.convert(&value, &ty)?.id);
                Ok(Form::Value(ty))
            }
        }
    }

    /// Adds the indices of elements in a variable's path to `ids`, and gives the path with its fields alone.
    fn hand_over_path(
        &mut self,
        root: &Root,
        path: &[Word],
        ids: &mut Vec<Word>,
    ) -> Vec<Option<Word>> {
        let mut of = root.ty.clone();
        let mut step = |this: &mut Self, id: Word| match std::mem::replace(&mut of, Type::Void) {
            Type::Struct(number) => {
                let fields = 0..this.structs[number].fields.len();
                let at = fields.into_iter().find(|&at| this.emitter.uint(at as u32) == id);
                of = at.map_or(Type::Void, |at| this.structs[number].fields[at].1.clone());
                Some(id)
            }
            Type::Array(element, _) => {
                of = *element;
                None
            }
            _ => None,
        };
        let steps: Vec<_> = path.iter().map(|&id| step(self, id)).collect();
        ids.extend(path.iter().zip(&steps).filter(|(_, field)| field.is_none()).map(|(id, _)| id));
        steps
    }

    /// A function may write to what it is handed.
    fn touch(&mut self, root: &Root) {
        self.found.insert(root.number);
    }

    /// Writes the functions that are called, and those that they call.
    pub(crate) fn write_waiting(&mut self) -> Result<()> {
        while let Some(waiting) = self.waiting.pop() {
            self.write(&waiting)?;
        }
        self.expect_no_circle()
    }

    /// Functions that call themselves, by way of others or not, have no end on a GPU.
    fn expect_no_circle(&self) -> Result<()> {
        let mut open: FxHashSet<(Word, Word)> = self.calls.iter().copied().collect();
        loop {
            let callers: FxHashSet<Word> = open.iter().map(|&(caller, _)| caller).collect();
            let before = open.len();
            // Who calls nobody is in no circle.
            open.retain(|(_, called)| callers.contains(called));
            match open.len() {
                0 => return Ok(()),
                left if left == before => {
                    return Err(self.error("functions call each other in a circle"));
                }
                _ => {}
            }
        }
    }

    fn write(&mut self, waiting: &Waiting) -> Result<()> {
        let Waiting { key, id, result } = waiting;
        let function = &self.program.functions[key.function];
        self.line = function.line;
        (self.function, self.caller) = (key.function, *id);
        let mut of = Vec::new();
        for form in &key.forms {
            self.parameter_types(form, &mut of);
        }
        let result_type = self.value_type(result);
        let ids = self.emitter.begin_function(*id, result_type, &of);
        self.result = result.clone();
        self.flow = Flow { is_uniform: key.is_uniform };
        self.begin_threads();
        self.scopes.clear();
        self.scoped(|this| {
            if function.name.starts_with("__") {
                this.bind_threads();
            }
            this.bind_template(&function.template, &key.template)?;
            let mut ids = &ids[..];
            for (parameter, form) in function.parameters.iter().zip(&key.forms) {
                this.receive(&parameter.name, form, &mut ids);
            }
            this.statements(&function.body)
        })?;
        if self.emitter.is_reached() {
            match result {
                Type::Void => self.emitter.jump(Op::Return, &[]),
                _ => self.emitter.jump(Op::Unreachable, &[]),
            }
        }
        self.emitter.end_function();
        Ok(())
    }

    fn parameter_types(&mut self, form: &Form, of: &mut Vec<Word>) {
        match form {
            Form::Value(ty) => of.push(self.value_type(ty)),
            Form::Reference(..) => of.push(self.emitter.int(64)),
            Form::Local { class, of_module, root, path, has_index, .. } => {
                if of_module.is_none() {
                    let root = self.value_type(root);
                    of.push(self.emitter.pointer(*class, root));
                }
                let int = self.emitter.int(32);
                let elements = path.iter().filter(|field| field.is_none()).count();
                of.extend(vec![int; elements + usize::from(*has_index)]);
            }
        }
    }

    /// Binds a parameter to what it was handed.
    fn receive(&mut self, name: &str, form: &Form, ids: &mut &[Word]) {
        let mut next = || {
            let (first, rest) = ids.split_first().unwrap_or((&0, &[]));
            *ids = rest;
            *first
        };
        let binding = match form {
            Form::Value(ty) => {
                let id = next();
                let value = Value::new(ty.clone(), id, false);
                Binding::Place(self.kept(&value))
            }
            Form::Reference(space, ty) => {
                let (address, ty) = (next(), ty.clone());
                Binding::Place(Place::Device { address, ty, space: *space, is_uniform: false })
            }
            Form::Local { class, of_module, root, path, has_index, ty, is_reference } => {
                let id = of_module.unwrap_or_else(&mut next);
                let path = path.iter().map(|field| field.unwrap_or_else(&mut next)).collect();
                let index = has_index.then(next);
                let number = self.new_number();
                self.found.insert(number);
                let root = Root { id, class: *class, ty: root.clone(), number };
                if *is_reference {
                    let ty = ty.clone();
                    Binding::Place(Place::Local { root, path, ty, is_uniform: false })
                } else {
                    let pointer = LocalPointer { root, path, index };
                    let ty = Type::Pointer(space_of(*class), Box::new(ty.clone()));
                    let id = index.unwrap_or_else(|| self.emitter.uint(0));
                    let value = Value::new(ty, id, false);
                    let value = Value { pointer: Some(pointer), ..value };
                    self.kept_pointer(&value)
                }
            }
        };
        self.bind(name, binding);
    }

    /// A variable that begins as a value.
    pub(crate) fn kept(&mut self, value: &Value) -> Place {
        let of = self.value_type(&value.ty);
        let id = self.emitter.variable(of);
        self.emitter.act(Op::Store, [id, value.id].map(Operand::IdRef).into());
        let number = self.new_number();
        if !(value.is_uniform && self.flow.is_uniform) {
            self.found.insert(number);
        }
        let ty = value.ty.clone();
        let root = Root { id, class: StorageClass::Function, ty: ty.clone(), number };
        Place::Local { root, path: Vec::new(), ty, is_uniform: true }
    }

    /// A variable that begins as a pointer to another variable.
    pub(crate) fn kept_pointer(&mut self, value: &Value) -> Binding {
        let Some(LocalPointer { root, path, index: Some(at) }) = value.pointer.clone() else {
            return Binding::Value(value.clone());
        };
        let int = self.emitter.int(32);
        let index = self.emitter.variable(int);
        self.emitter.act(Op::Store, [index, at].map(Operand::IdRef).into());
        let number = self.new_number();
        if !(value.is_uniform && self.flow.is_uniform) {
            self.found.insert(number);
        }
        let pointer = LocalPointer { root, path, index: None };
        Binding::Place(Place::Pointer { pointer, index, ty: value.ty.clone(), number })
    }

    /// The number of the kernel that is asked for, and the arguments of its template.
    pub(crate) fn entry(&mut self, name: &str) -> Result<(usize, Vec<Argument>)> {
        let functions = self.program.functions.iter();
        let Some(number) = functions.clone().position(|f| f.is_kernel && f.name == name) else {
            return Err(self.error(format!("there is no kernel `{name}`")));
        };
        let function = &self.program.functions[number];
        let instance = self.program.instances.iter().find(|instance| instance.function == name);
        let arguments = match instance {
            Some(instance) => instance.arguments.clone(),
            None => Vec::new(),
        };
        let arguments = self.template_arguments(function, Written::Named(&arguments), &[])?;
        Ok((number, arguments))
    }
}

/// What the most costly conversion of what a function is given costs.
fn cost_of_all(given: &[Place], parameters: &[Type]) -> Option<u32> {
    let costs = given.iter().zip(parameters).map(|(place, to)| cost_of(&place.ty(), to));
    costs.collect::<Option<Vec<u32>>>().map(|costs| costs.into_iter().max().unwrap_or(0))
}

/// What a conversion costs: nothing, a promotion, or more; none where there is no conversion.
fn cost_of(from: &Type, to: &Type) -> Option<u32> {
    match (from, to) {
        _ if from == to => Some(0),
        (Type::Pointer(_, a) | Type::Array(a, _), Type::Pointer(_, b)) => (a == b).then_some(0),
        (Type::Scalar(from), Type::Scalar(to)) => {
            let is_wider = match to {
                Scalar::Int => *from < Scalar::Int,
                Scalar::Float => matches!(from, Scalar::Half | Scalar::Bfloat),
                _ => false,
            };
            Some(if is_wider { 1 } else { 2 })
        }
        (Type::Vector(_, m, _), Type::Vector(_, n, _)) => (m == n).then_some(2),
        (Type::Scalar(_), Type::Vector(..)) => Some(3),
        _ => None,
    }
}

/// A variable's id, if all functions may name it.
fn of_module(root: &Root) -> Option<Word> {
    (root.class != StorageClass::Function).then_some(root.id)
}
