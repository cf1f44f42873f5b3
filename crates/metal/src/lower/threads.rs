//! What threads do together: barriers, and functions of simdgroups.

use rspirv::{
    dr::Operand,
    spirv::{Capability, GroupOperation, MemorySemantics, Op, Scope, StorageClass},
};

use super::{
    Lowering, Simd,
    memory::Place,
    names::Binding,
    value::{Constant, Root, Value},
};
use crate::{
    ast::BinaryOperator,
    error::Result,
    types::{Scalar, Type},
};

/// Threads of a simdgroup: every Apple GPU has so many, and kernels take it for granted.
pub(crate) const WIDTH: u32 = 32;

/// What threads of a simdgroup make of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
    Xor,
}

impl Reduction {
    fn named(name: &str) -> Option<Reduction> {
        Some(match name {
            "sum" => Reduction::Sum,
            "product" => Reduction::Product,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            "and" => Reduction::And,
            "or" => Reduction::Or,
            "xor" => Reduction::Xor,
            _ => return None,
        })
    }

    /// Whether many times the same value give that value.
    fn is_of_one_as_of_many(self) -> bool {
        matches!(self, Reduction::Max | Reduction::Min | Reduction::And | Reduction::Or)
    }

    /// The function of the prelude.
    fn function(self) -> &'static str {
        match self {
            Reduction::Sum => "__simd_sum",
            Reduction::Product => "__simd_product",
            Reduction::Max => "__simd_max",
            Reduction::Min => "__simd_min",
            Reduction::And => "__simd_and",
            Reduction::Or => "__simd_or",
            Reduction::Xor => "__simd_xor",
        }
    }

    /// The instruction of a subgroup.
    fn instruction(self, scalar: Scalar) -> Op {
        let is_signed = scalar.is_signed();
        match self {
            Reduction::Sum if scalar.is_float() => Op::GroupNonUniformFAdd,
            Reduction::Sum => Op::GroupNonUniformIAdd,
            Reduction::Product if scalar.is_float() => Op::GroupNonUniformFMul,
            Reduction::Product => Op::GroupNonUniformIMul,
            Reduction::Max if scalar.is_float() => Op::GroupNonUniformFMax,
            Reduction::Max if is_signed => Op::GroupNonUniformSMax,
            Reduction::Max => Op::GroupNonUniformUMax,
            Reduction::Min if scalar.is_float() => Op::GroupNonUniformFMin,
            Reduction::Min if is_signed => Op::GroupNonUniformSMin,
            Reduction::Min => Op::GroupNonUniformUMin,
            Reduction::And => Op::GroupNonUniformBitwiseAnd,
            Reduction::Or => Op::GroupNonUniformBitwiseOr,
            Reduction::Xor => Op::GroupNonUniformBitwiseXor,
        }
    }
}

impl Lowering<'_> {
    /// `threadgroup_barrier` and `simdgroup_barrier`, which are given no heed to which memory is meant.
    pub(crate) fn barrier(&mut self, name: &str) -> Result<Value> {
        let scope = match name {
            "threadgroup_barrier" => Scope::Workgroup,
            "simdgroup_barrier" if self.options.simd == Simd::Native => Scope::Subgroup,
            "simdgroup_barrier" => {
                self.expect_all("simdgroup_barrier")?;
                Scope::Workgroup
            }
            _ => return Err(self.error(format!("there is no `{name}`"))),
        };
        self.wait(scope);
        Ok(Value::new(Type::Void, 0, true))
    }

    fn wait(&mut self, scope: Scope) {
        let semantics = MemorySemantics::ACQUIRE_RELEASE
            | MemorySemantics::UNIFORM_MEMORY
            | MemorySemantics::WORKGROUP_MEMORY;
        let memory = if scope == Scope::Subgroup { Scope::Subgroup } else { Scope::Workgroup };
        let ids = [scope as u32, memory as u32, semantics.bits()].map(|n| self.emitter.uint(n));
        self.emitter.act(Op::ControlBarrier, ids.map(Operand::IdRef).into());
    }

    /// Where subgroups have another width, threads exchange values through memory of the group, for which all
    /// of them have to be there.
    fn expect_all(&self, name: &str) -> Result<()> {
        if self.flow.is_uniform {
            return Ok(());
        }
        let message = "in code that some threads of a group may not reach wants a device whose subgroups \
                       have 32 threads, and this one has others";
        Err(self.error(format!("`{name}` {message}")))
    }

    /// A function of a simdgroup, or of a quadgroup: four threads that follow each other in one.
    pub(crate) fn group_call(&mut self, name: &str, values: &[Value]) -> Result<Value> {
        let missing = || self.error(format!("`{name}` is not supported"));
        let (Some((group, what)), Some(value)) = (name.split_once('_'), values.first()) else {
            return Err(missing());
        };
        let is_quad = group == "quad";
        if self.options.simd == Simd::Emulated {
            self.expect_all(name)?;
        }
        match (Reduction::named(what), values) {
            (Some(reduction), [value]) if is_quad => {
                self.each_part(value, |this, part| this.reduced_by_quad(reduction, part))
            }
            (Some(reduction), [value]) => {
                self.each_part(value, |this, part| this.reduced(reduction, part))
            }
            (_, [value]) if !is_quad => self.of_simdgroup(name, what, value),
            (_, [_, by]) => {
                let by = self.convert(by, &Type::UINT)?;
                let lane = if is_quad {
                    self.partner_in_quad(name, what, &by)?
                } else {
                    self.partner(name, what, &by)?
                };
                self.each_part(value, |this, part| this.of_lane(part, &lane))
            }
            _ => Err(missing()),
        }
    }

    /// A function of a simdgroup of one value that is no reduction.
    fn of_simdgroup(&mut self, name: &str, what: &str, value: &Value) -> Result<Value> {
        if let "all" | "any" = what {
            let truth = self.truth(value)?;
            let number = self.convert(&truth, &Type::UINT)?;
            let of = if what == "all" { Reduction::Min } else { Reduction::Max };
            let number = self.reduced(of, &number)?;
            return self.convert(&number, &Type::BOOL);
        }
        if what == "broadcast_first" {
            let first = self.constant(Scalar::Uint, Constant::Int(0));
            return self.each_part(value, |this, part| this.of_lane(part, &first));
        }
        let (reduction, with_own) = match what {
            "prefix_inclusive_sum" => (Reduction::Sum, true),
            "prefix_exclusive_sum" => (Reduction::Sum, false),
            "prefix_inclusive_product" => (Reduction::Product, true),
            "prefix_exclusive_product" => (Reduction::Product, false),
            _ => return Err(self.error(format!("`{name}` is not supported"))),
        };
        self.each_part(value, |this, part| this.prefix(reduction, part, with_own))
    }

    /// What the threads of a quadgroup make of their values: neighbours first, then pairs of them.
    fn reduced_by_quad(&mut self, reduction: Reduction, value: &Value) -> Result<Value> {
        let own = self.lane();
        [1, 2].into_iter().try_fold(value.clone(), |sum, by| {
            let by = self.constant(Scalar::Uint, Constant::Int(by));
            let lane = self.arithmetic(BinaryOperator::Xor, &own, &by)?;
            let other = self.of_lane(&sum, &lane)?;
            self.joined(reduction, &sum, &other)
        })
    }

    fn joined(&mut self, reduction: Reduction, a: &Value, b: &Value) -> Result<Value> {
        let operator = match reduction {
            Reduction::Max | Reduction::Min => {
                return self.extreme(reduction == Reduction::Max, a, b);
            }
            Reduction::Sum => BinaryOperator::Add,
            Reduction::Product => BinaryOperator::Multiply,
            Reduction::And => BinaryOperator::And,
            Reduction::Or => BinaryOperator::Or,
            Reduction::Xor => BinaryOperator::Xor,
        };
        self.arithmetic(operator, a, b)
    }

    /// Which thread of its simdgroup a thread takes a value from.
    fn partner(&mut self, name: &str, what: &str, by: &Value) -> Result<Value> {
        use BinaryOperator as B;
        let own = self.lane();
        let last = self.constant(Scalar::Uint, Constant::Int((WIDTH - 1).into()));
        let within = |this: &mut Self, lane: &Value| this.arithmetic(B::And, lane, &last);
        match what {
            "shuffle" | "broadcast" => within(self, by),
            "shuffle_xor" => {
                let lane = self.arithmetic(B::Xor, &own, by)?;
                within(self, &lane)
            }
            "shuffle_rotate_up" => {
                let lane = self.arithmetic(B::Subtract, &own, by)?;
                within(self, &lane)
            }
            "shuffle_rotate_down" => {
                let lane = self.arithmetic(B::Add, &own, by)?;
                within(self, &lane)
            }
            // What would come from outside stays as it is.
            "shuffle_up" => {
                let lane = self.arithmetic(B::Subtract, &own, by)?;
                let is_inside = self.arithmetic(B::LessEqual, by, &own)?;
                self.select(&own, &lane, &is_inside)
            }
            "shuffle_down" => {
                let lane = self.arithmetic(B::Add, &own, by)?;
                let is_inside = self.arithmetic(B::LessEqual, &lane, &last)?;
                self.select(&own, &lane, &is_inside)
            }
            _ => Err(self.error(format!("`{name}` is not supported"))),
        }
    }

    /// Which thread of its quadgroup a thread takes a value from.
    fn partner_in_quad(&mut self, name: &str, what: &str, by: &Value) -> Result<Value> {
        use BinaryOperator as B;
        let own = self.lane();
        let [rest, quad] = [3, !3].map(|n| self.constant(Scalar::Uint, Constant::Int(n)));
        let by = self.arithmetic(B::And, by, &rest)?;
        match what {
            "broadcast" | "shuffle" => {
                let first = self.arithmetic(B::And, &own, &quad)?;
                self.arithmetic(B::Or, &first, &by)
            }
            "shuffle_xor" => self.arithmetic(B::Xor, &own, &by),
            _ => Err(self.error(format!("`{name}` is not supported"))),
        }
    }

    /// A thread's place in its simdgroup.
    pub(crate) fn lane(&mut self) -> Value {
        let index = self.thread_index.clone();
        let last = self.constant(Scalar::Uint, Constant::Int((WIDTH - 1).into()));
        self.emit(Op::BitwiseAnd, &Type::UINT, &[&index, &last])
    }

    /// Does something with each number of a vector, as 32 bits.
    fn each_part(
        &mut self,
        value: &Value,
        function: impl Fn(&mut Self, &Value) -> Result<Value>,
    ) -> Result<Value> {
        if value.ty.numbers().is_none() {
            return Err(self.error(format!("`{}` is no number", value.ty.name())));
        }
        let mut parts = Vec::new();
        for part in self.parts(value) {
            let wide = match part.ty {
                Type::Scalar(Scalar::Half | Scalar::Bfloat) => Type::Scalar(Scalar::Float),
                Type::Scalar(Scalar::Bool) => Type::UINT,
                _ => part.ty.clone(),
            };
            let converted = self.convert(&part, &wide)?;
            let result = function(self, &converted)?;
            parts.push(self.convert(&result, &part.ty)?);
        }
        Ok(self.composite(&value.ty.clone(), &parts))
    }

    fn expect_word(&self, value: &Value) -> Result<Scalar> {
        match value.ty {
            Type::Scalar(scalar) if scalar.size() == 4 => Ok(scalar),
            _ => {
                Err(self.error(format!("no such function of a simdgroup of `{}`", value.ty.name())))
            }
        }
    }

    fn is_one_simdgroup(&self) -> bool {
        self.threads() <= WIDTH
    }

    fn threads(&self) -> u32 {
        self.options.threadgroup.iter().product()
    }

    fn reduced(&mut self, reduction: Reduction, value: &Value) -> Result<Value> {
        let scalar = self.expect_word(value)?;
        let result = match self.options.simd {
            Simd::Native => {
                self.emitter.require(Capability::GroupNonUniformArithmetic);
                self.subgroup(reduction.instruction(scalar), GroupOperation::Reduce, value)
            }
            Simd::Emulated => self.by_prelude(reduction.function(), &[value])?,
        };
        // The last simdgroup may be smaller, and its sums of the same value with it.
        let is_alike = self.threads().is_multiple_of(WIDTH) || reduction.is_of_one_as_of_many();
        let is_uniform =
            value.is_uniform && is_alike || self.is_one_simdgroup() && self.flow.is_uniform;
        Ok(Value { is_uniform, ..result })
    }

    /// What a function of the prelude gives.
    pub(super) fn by_prelude(&mut self, name: &str, values: &[&Value]) -> Result<Value> {
        let Some(number) = self.program.functions.iter().rposition(|f| f.name == name) else {
            return Err(self.error(format!("`{name}` is not supported")));
        };
        let given = values.iter().map(|&value| Place::Value(value.clone())).collect();
        self.call_function(number, given)
    }

    /// Sums of the threads before, and of the thread itself.
    fn prefix(&mut self, reduction: Reduction, value: &Value, with_own: bool) -> Result<Value> {
        let scalar = self.expect_word(value)?;
        if self.options.simd == Simd::Native {
            self.emitter.require(Capability::GroupNonUniformArithmetic);
            let operation = if with_own {
                GroupOperation::InclusiveScan
            } else {
                GroupOperation::ExclusiveScan
            };
            return Ok(self.subgroup(reduction.instruction(scalar), operation, value));
        }
        let name = match (reduction, with_own) {
            (Reduction::Sum, true) => "__simd_prefix_inclusive_sum",
            (Reduction::Sum, false) => "__simd_prefix_exclusive_sum",
            (_, true) => "__simd_prefix_inclusive_product",
            (_, false) => "__simd_prefix_exclusive_product",
        };
        self.by_prelude(name, &[value])
    }

    fn subgroup(&mut self, op: Op, operation: GroupOperation, value: &Value) -> Value {
        let of = self.value_type(&value.ty);
        let scope = self.emitter.uint(Scope::Subgroup as u32);
        let operands = vec![
            Operand::IdScope(scope),
            Operand::GroupOperation(operation),
            Operand::IdRef(value.id),
        ];
        let id = self.emitter.op_of(op, of, operands);
        Value::new(value.ty.clone(), id, false)
    }

    /// The value of another thread of the simdgroup.
    fn of_lane(&mut self, value: &Value, lane: &Value) -> Result<Value> {
        if let Type::Scalar(scalar @ (Scalar::Long | Scalar::Ulong)) = value.ty {
            return self.long_of_lane(value, lane, scalar);
        }
        self.expect_word(value)?;
        let result = match self.options.simd {
            Simd::Native => {
                self.emitter.require(Capability::GroupNonUniformShuffle);
                let of = self.value_type(&value.ty);
                let scope = self.emitter.uint(Scope::Subgroup as u32);
                let operands = vec![
                    Operand::IdScope(scope),
                    Operand::IdRef(value.id),
                    Operand::IdRef(lane.id),
                ];
                let id = self.emitter.op_of(Op::GroupNonUniformShuffle, of, operands);
                Value::new(value.ty.clone(), id, false)
            }
            Simd::Emulated => self.by_prelude("__simd_lane", &[value, lane])?,
        };
        Ok(Value { is_uniform: false, ..result })
    }

    fn long_of_lane(&mut self, value: &Value, lane: &Value, scalar: Scalar) -> Result<Value> {
        let pair = Type::of(Scalar::Uint, 2);
        let words = self.emit(Op::Bitcast, &pair, &[value]);
        let mut parts = Vec::new();
        for part in self.parts(&words) {
            parts.push(self.of_lane(&part, lane)?);
        }
        let words = self.composite(&pair, &parts);
        Ok(self.emit(Op::Bitcast, &Type::Scalar(scalar), &[&words]))
    }

    /// Memory in which each thread of a group has a word.
    fn words_of_threads(&mut self) -> Root {
        if let Some(root) = &self.exchange {
            return root.clone();
        }
        let ty = Type::Array(Box::new(Type::UINT), self.threads());
        let of = self.value_type(&ty);
        let id = self.emitter.module_variable(StorageClass::Workgroup, of, None);
        self.shared += u64::from(4 * self.threads());
        let root = Root { id, class: StorageClass::Workgroup, ty, number: 0 };
        self.exchange = Some(root.clone());
        root
    }

    /// What functions of the prelude know of threads.
    pub(crate) fn bind_threads(&mut self) {
        if self.options.simd == Simd::Emulated {
            let root = self.words_of_threads();
            let ty = root.ty.clone();
            let words = Place::Local { root, path: Vec::new(), ty, is_uniform: true };
            self.bind("__words", Binding::Place(words));
        }
        let index = self.thread_index.clone();
        self.bind("__index", Binding::Value(index));
        let threads = self.constant(Scalar::Uint, Constant::Int(self.threads().into()));
        self.bind("__threads", Binding::Value(threads));
    }
}
