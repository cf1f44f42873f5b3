//! Where a kernel begins: what it is given.

use rspirv::{
    dr::Operand,
    spirv::{BuiltIn, Decoration, Op, StorageClass, Word},
};

use super::{
    Lowering,
    memory::Place,
    names::Binding,
    threads::WIDTH,
    value::{Constant, Value},
};
use crate::{
    ast::{BinaryOperator, Parameter, Space},
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// Writes the kernel and what it calls; its function is given.
    pub(crate) fn kernel(&mut self, name: &str) -> Result<Word> {
        let (number, template) = self.scoped(|this| this.entry(name))?;
        let function = &self.program.functions[number];
        let (id, void) = (self.emitter.id(), self.emitter.void());
        self.emitter.begin_function(id, void, &[]);
        self.begin_threads();
        self.scoped(|this| {
            this.bind_template(&function.template, &template)?;
            let arguments = this.arguments();
            let mut buffers = 0;
            for parameter in &function.parameters {
                this.line = parameter.ty.line;
                this.parameter(parameter, arguments, &mut buffers)?;
            }
            this.statements(&function.body)
        })?;
        if self.emitter.is_reached() {
            self.emitter.jump(Op::Return, &[]);
        }
        self.emitter.end_function();
        self.write_waiting()?;
        Ok(id)
    }

    /// What every function begins with.
    pub(crate) fn begin_threads(&mut self) {
        self.returned_apart = false;
        let int = Type::UINT;
        self.thread_index = self.input(BuiltIn::LocalInvocationIndex, &int);
        self.thread_index.is_uniform = self.options.threadgroup == [1; 3];
    }

    /// The variable in which the numbers that go with a dispatch lie: the address of a table of buffers, the
    /// threads of the grid along each axis, and the groups before this dispatch's.
    fn arguments(&mut self) -> Word {
        let (long, int) = (self.emitter.int(64), self.emitter.int(32));
        let members = [long, int, int, int, int, int, int].map(Operand::IdRef);
        // No structure of the program shall be decorated as this one.
        let block = self.emitter.new_global(Op::TypeStruct, None, members.into());
        let decorate = |member: Option<u32>, decoration, value: Option<u32>| {
            let mut operands = vec![Operand::IdRef(block)];
            operands.extend(member.map(Operand::LiteralBit32));
            operands.push(Operand::Decoration(decoration));
            operands.extend(value.map(Operand::LiteralBit32));
            operands
        };
        self.emitter.annotate(Op::Decorate, decorate(None, Decoration::Block, None));
        for member in 0..7 {
            let offset = if member == 0 { 0 } else { 4 + 4 * member };
            let operands = decorate(Some(member), Decoration::Offset, Some(offset));
            self.emitter.annotate(Op::MemberDecorate, operands);
        }
        self.emitter.module_variable(StorageClass::PushConstant, block, None)
    }

    fn argument_at(&mut self, arguments: Word, member: u32, ty: &Type) -> Value {
        let of = self.value_type(ty);
        let pointer = self.emitter.pointer(StorageClass::PushConstant, of);
        let member = self.emitter.uint(member);
        let pointer = self.emitter.op(Op::AccessChain, pointer, &[arguments, member]);
        let id = self.emitter.op(Op::Load, of, &[pointer]);
        Value::new(ty.clone(), id, true)
    }

    /// What the device tells a thread.
    fn input(&mut self, input: BuiltIn, ty: &Type) -> Value {
        let of = self.value_type(ty);
        let variable = match self.inputs.get(&(input as u32)) {
            Some(&variable) => variable,
            None => {
                let variable = self.emitter.module_variable(StorageClass::Input, of, None);
                let operands = vec![
                    Operand::IdRef(variable),
                    Operand::Decoration(Decoration::BuiltIn),
                    Operand::BuiltIn(input),
                ];
                self.emitter.annotate(Op::Decorate, operands);
                self.inputs.insert(input as u32, variable);
                variable
            }
        };
        let id = self.emitter.op(Op::Load, of, &[variable]);
        Value::new(ty.clone(), id, false)
    }

    fn parameter(
        &mut self,
        parameter: &Parameter,
        arguments: Word,
        buffers: &mut u32,
    ) -> Result<()> {
        let ty = self.resolve(&parameter.ty)?;
        let attribute = parameter.attribute.as_ref();
        let space = parameter.ty.space;
        let binding = match (space, attribute) {
            (Some(space @ (Space::Device | Space::Constant)), _) => {
                let given = attribute.filter(|a| a.name == "buffer").and_then(|a| a.argument);
                let number = given.unwrap_or(*buffers);
                *buffers = number.saturating_add(1);
                let table = self.argument_at(arguments, 0, &Type::Scalar(Scalar::Ulong));
                let ulong = Type::Scalar(Scalar::Ulong);
                let at = self.moved(table.id, 8 * u64::from(number));
                let entry = Place::Device { address: at, ty: ulong, space, is_uniform: true };
                let address = self.load(&entry)?;
                match parameter.ty.is_reference {
                    true => Binding::Place(Place::Device {
                        address: address.id,
                        ty,
                        space,
                        is_uniform: true,
                    }),
                    false => {
                        let pointer = Value { ty, ..address };
                        Binding::Place(self.kept(&pointer))
                    }
                }
            }
            (_, Some(attribute)) => {
                let value = self.attribute(&attribute.name, arguments)?;
                let value = self.first_of(&value, &ty)?;
                match value.ty {
                    // Threads may differ in some of the numbers alone.
                    Type::Vector(..) => Binding::Value(value),
                    _ => Binding::Place(self.kept(&value)),
                }
            }
            _ => {
                let message =
                    format!("`{}` is neither a buffer nor told by threads", parameter.name);
                return Err(self.error(message));
            }
        };
        self.bind(&parameter.name, binding);
        Ok(())
    }

    /// As many of three numbers as a type has.
    fn first_of(&mut self, value: &Value, ty: &Type) -> Result<Value> {
        let counts = [&value.ty, ty].map(|ty| ty.numbers().map_or(0, |(_, count)| count));
        match counts {
            [3, count @ 1..3] => {
                let lanes: Vec<u32> = (0..count).collect();
                let some = self.lanes(value, &lanes);
                let some = self.convert(&some, ty)?;
                Ok(Value { uniform_lanes: value.uniform_lanes, ..some })
            }
            _ => self.convert(value, ty),
        }
    }

    /// What a thread knows of itself, its group and the grid.
    fn attribute(&mut self, name: &str, arguments: Word) -> Result<Value> {
        let three = Type::of(Scalar::Uint, 3);
        let size = self.options.threadgroup;
        let threads: u32 = size.iter().product();
        let in_groups = |size: [u32; 3], of: u32| Some(size.iter().product::<u32>().div_ceil(of));
        let number = match name {
            "threads_per_simdgroup" | "thread_execution_width" => Some(WIDTH),
            "simdgroups_per_threadgroup" => in_groups(size, WIDTH),
            "dispatch_simdgroups_per_threadgroup" => in_groups(self.options.dispatched, WIDTH),
            "quadgroups_per_threadgroup" => in_groups(size, 4),
            "dispatch_quadgroups_per_threadgroup" => in_groups(self.options.dispatched, 4),
            _ => None,
        };
        if let Some(number) = number {
            return Ok(self.constant(Scalar::Uint, Constant::Int(number.into())));
        }
        Ok(match name {
            "thread_position_in_grid" => {
                let (group, own) = (self.group(arguments), self.own_position());
                let size = self.three(self.options.dispatched);
                let first = self.arithmetic(BinaryOperator::Multiply, &group, &size)?;
                let position = self.arithmetic(BinaryOperator::Add, &first, &own)?;
                Value { uniform_lanes: own.uniform_lanes, ..position }
            }
            "thread_position_in_threadgroup" => self.own_position(),
            "threadgroup_position_in_grid" => self.group(arguments),
            "threadgroups_per_grid" => {
                let (grid, size) = (self.grid(arguments), self.three(self.options.dispatched));
                let most = self.three(self.options.dispatched.map(|n| n - 1));
                let sum = self.arithmetic(BinaryOperator::Add, &grid, &most)?;
                self.arithmetic(BinaryOperator::Divide, &sum, &size)?
            }
            "thread_index_in_threadgroup" => self.thread_index.clone(),
            "thread_index_in_simdgroup" => self.lane(),
            "simdgroup_index_in_threadgroup" => self.index_divided(WIDTH, threads <= WIDTH)?,
            "quadgroup_index_in_threadgroup" => self.index_divided(4, threads <= 4)?,
            "thread_index_in_quadgroup" => {
                let (index, last) = (self.thread_index.clone(), self.int(3));
                self.arithmetic(BinaryOperator::And, &index, &last)?
            }
            "threads_per_threadgroup" => self.three(size),
            "dispatch_threads_per_threadgroup" => self.three(self.options.dispatched),
            "threads_per_grid" | "grid_size" => self.grid(arguments),
            "grid_origin" => self.zero(&three),
            _ => return Err(self.error(format!("`{name}` is not known to threads"))),
        })
    }

    fn three(&mut self, numbers: [u32; 3]) -> Value {
        let parts = numbers.map(|n| self.constant(Scalar::Uint, Constant::Int(n.into())));
        self.composite(&Type::of(Scalar::Uint, 3), &parts)
    }

    /// Where a thread is in its group. Along an axis of one thread all are at the same place.
    fn own_position(&mut self) -> Value {
        let position = self.input(BuiltIn::LocalInvocationId, &Type::of(Scalar::Uint, 3));
        let size = self.options.threadgroup;
        let uniform_lanes = (0..3).filter(|&axis| size[axis] == 1).map(|axis| 1 << axis).sum();
        Value { uniform_lanes, is_uniform: size == [1; 3], ..position }
    }

    /// Where a group is in the grid.
    fn group(&mut self, arguments: Word) -> Value {
        let three = Type::of(Scalar::Uint, 3);
        let first = self.arguments_at(arguments, 4);
        let group = self.input(BuiltIn::WorkgroupId, &three);
        let position = self.emit(Op::IAdd, &three, &[&first, &group]);
        Value { is_uniform: true, ..position }
    }

    fn grid(&mut self, arguments: Word) -> Value {
        self.arguments_at(arguments, 1)
    }

    /// Three numbers that go with a dispatch.
    fn arguments_at(&mut self, arguments: Word, first: u32) -> Value {
        let parts = [0, 1, 2].map(|n| self.argument_at(arguments, first + n, &Type::UINT));
        self.composite(&Type::of(Scalar::Uint, 3), &parts)
    }

    fn index_divided(&mut self, by: u32, is_uniform: bool) -> Result<Value> {
        let index = self.thread_index.clone();
        let by = self.constant(Scalar::Uint, Constant::Int(by.into()));
        let result = self.arithmetic(BinaryOperator::Divide, &index, &by)?;
        Ok(Value { is_uniform, ..result })
    }
}
