//! Constants are followed through a module: into functions, through their variables, and along the branches
//! that they choose (sparse conditional constant propagation, after Wegman and Zadeck, across functions).
//!
//! A parameter is known if all calls that are reached agree on it. Variables count where they hold one value
//! all the time and only loads, stores and calls that load use them, as the compiler makes them for
//! arguments.

use rspirv::{
    dr::{Function, Instruction, Module, Operand},
    spirv::{Op, StorageClass, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    constants::Known,
    fold::{Value, fold},
    prune::Reached,
};

/// Where a block goes on.
enum Next {
    /// To each of these blocks, for all that is known.
    Any(Vec<Word>),
    /// Always to this one, though it might have gone elsewhere.
    Only(Word),
}

/// What is known of a module.
pub(super) struct Flow<'a> {
    known: &'a Known,
    functions: FxHashMap<Word, &'a Function>,
    /// Pointers of which what they hold is followed.
    followed: FxHashSet<Word>,
    /// Values by their ids; those of global ids that are not here vary.
    values: FxHashMap<Word, Value>,
    /// What pointers hold.
    held: FxHashMap<Word, Value>,
    /// What functions return.
    returned: FxHashMap<Word, Value>,
    globals: FxHashSet<Word>,
    /// Labels of the blocks that are reached.
    reached: FxHashSet<Word>,
    /// Functions that are.
    called: Vec<Word>,
    /// Conditions that nothing sets before they are asked.
    unset: FxHashSet<Word>,
    changed: bool,
}

impl<'a> Flow<'a> {
    /// Follows a module from its entry point.
    pub(super) fn of(module: &'a Module, known: &'a Known) -> Option<Self> {
        let functions: FxHashMap<_, _> =
            module.functions.iter().filter_map(|f| Some((f.def_id()?, f))).collect();
        let globals = module.types_global_values.iter().filter_map(|i| i.result_id);
        let mut flow = Flow {
            known,
            followed: followed(module, known),
            globals: globals.collect(),
            functions,
            values: FxHashMap::default(),
            held: FxHashMap::default(),
            returned: FxHashMap::default(),
            reached: FxHashSet::default(),
            called: Vec::new(),
            unset: FxHashSet::default(),
            changed: false,
        };
        let [entry] = &*module.entry_points else { return None };
        flow.call(entry.operands[1].id_ref_any()?)?;
        loop {
            flow.follow()?;
            if !flow.changed {
                return Some(flow);
            }
        }
    }

    /// What is reached.
    pub(super) fn reached(self) -> Option<Reached> {
        let mut ways = FxHashMap::default();
        for id in &self.called {
            for block in &self.functions.get(id)?.blocks {
                let label = block.label.as_ref()?.result_id?;
                if self.is_reached(label)
                    && let Next::Only(way) = self.next(block.instructions.last()?)?
                {
                    ways.insert(label, way);
                }
            }
        }
        Some(Reached { functions: self.called.into_iter().collect(), blocks: self.reached, ways })
    }

    fn is_reached(&self, label: Word) -> bool {
        self.reached.contains(&label)
    }

    /// Goes once through all that is reached, and through what that reaches.
    fn follow(&mut self) -> Option<()> {
        self.changed = false;
        let mut waiting = Vec::new();
        let mut i = 0;
        while let Some(&id) = self.called.get(i) {
            let function = *self.functions.get(&id)?;
            for block in &function.blocks {
                if self.is_reached(block.label.as_ref()?.result_id?) {
                    for instruction in &block.instructions {
                        self.meet(id, instruction)?;
                    }
                    self.leave(block.instructions.last()?, &mut waiting)?;
                }
            }
            i += 1;
        }
        if !self.changed && !waiting.is_empty() {
            self.unset.extend(waiting);
            self.changed = true;
        }
        Some(())
    }

    fn meet(&mut self, function: Word, instruction: &Instruction) -> Option<()> {
        let operands = &*instruction.operands;
        let value = match instruction.class.opcode {
            Op::Load => self.loaded(operands[0].id_ref_any()?),
            Op::Store => {
                let (pointer, object) = (operands[0].id_ref_any()?, operands[1].id_ref_any()?);
                self.hold(pointer, self.value(object));
                return Some(());
            }
            Op::FunctionCall => self.called_with(operands)?,
            Op::ReturnValue => {
                let value = self.value(operands[0].id_ref_any()?);
                self.changed |= joined(self.returned.entry(function), value);
                return Some(());
            }
            Op::Phi => {
                let ways = operands.chunks_exact(2).filter_map(|way| {
                    let (value, from) = (way[0].id_ref_any()?, way[1].id_ref_any()?);
                    self.is_reached(from).then(|| self.value(value))
                });
                ways.fold(Value::Unseen, Value::or)
            }
            op => {
                let values = operands.iter().map(|operand| match operand {
                    Operand::IdRef(id) => self.value(*id),
                    _ => Value::Varies,
                });
                fold(op, &values.collect::<Vec<_>>())
            }
        };
        let Some(id) = instruction.result_id else { return Some(()) };
        let is_tracked = instruction.result_type.is_some_and(|t| self.known.types.contains(&t));
        let value = if is_tracked { value } else { Value::Varies };
        self.changed |= joined(self.values.entry(id), value);
        Some(())
    }

    /// Reaches where a block goes on.
    fn leave(&mut self, last: &Instruction, waiting: &mut Vec<Word>) -> Option<()> {
        if let Some(condition) = condition(last)
            && self.value(condition) == Value::Unseen
            && !self.unset.contains(&condition)
        {
            waiting.push(condition);
            return Some(());
        }
        let labels = match self.next(last)? {
            Next::Only(label) => vec![label],
            Next::Any(labels) => labels,
        };
        for label in labels {
            self.changed |= self.reached.insert(label);
        }
        Some(())
    }

    /// Where a block goes on that ends with `last`.
    fn next(&self, last: &Instruction) -> Option<Next> {
        let known = match condition(last).map(|condition| self.value(condition)) {
            Some(Value::Is(bits)) => Some(bits),
            _ => None,
        };
        let operands = &*last.operands;
        Some(match (last.class.opcode, known) {
            (Op::BranchConditional, Some(bits)) => {
                Next::Only(operands[if bits != 0 { 1 } else { 2 }].id_ref_any()?)
            }
            (Op::Switch, Some(bits)) => {
                let mut cases = operands[2..].chunks_exact(2);
                let case = cases.find(|case| case[0] == Operand::LiteralBit32(bits));
                Next::Only(case.map_or(&operands[1], |case| &case[1]).id_ref_any()?)
            }
            _ => Next::Any(labels(last)),
        })
    }

    fn value(&self, id: Word) -> Value {
        match self.known.scalars.get(&id) {
            Some(&bits) => Value::Is(bits),
            None if self.globals.contains(&id) => Value::Varies,
            None => self.values.get(&id).copied().unwrap_or(Value::Unseen),
        }
    }

    fn loaded(&self, pointer: Word) -> Value {
        match self.followed.contains(&pointer) {
            true => self.held.get(&pointer).copied().unwrap_or(Value::Unseen),
            false => Value::Varies,
        }
    }

    fn hold(&mut self, pointer: Word, value: Value) {
        if self.followed.contains(&pointer) {
            self.changed |= joined(self.held.entry(pointer), value);
        }
    }

    /// Tells a function its arguments; what it returns.
    fn called_with(&mut self, operands: &[Operand]) -> Option<Value> {
        let callee = operands[0].id_ref_any()?;
        self.call(callee)?;
        let function = *self.functions.get(&callee)?;
        for (parameter, argument) in function.parameters.iter().zip(&operands[1..]) {
            let (parameter, argument) = (parameter.result_id?, argument.id_ref_any()?);
            if self.followed.contains(&parameter) {
                self.hold(parameter, self.loaded(argument));
            } else {
                let value = self.value(argument);
                self.changed |= joined(self.values.entry(parameter), value);
            }
        }
        Some(self.returned.get(&callee).copied().unwrap_or(Value::Unseen))
    }

    fn call(&mut self, function: Word) -> Option<()> {
        let first = self.functions.get(&function)?.blocks.first()?.label.as_ref()?.result_id?;
        if self.reached.insert(first) {
            self.called.push(function);
            self.changed = true;
        }
        Some(())
    }
}

/// What the end of a block asks for.
fn condition(last: &Instruction) -> Option<Word> {
    let asks = matches!(last.class.opcode, Op::BranchConditional | Op::Switch);
    asks.then(|| last.operands[0].id_ref_any()).flatten()
}

/// The blocks that the end of a block names.
pub(super) fn labels(last: &Instruction) -> Vec<Word> {
    let behind = match last.class.opcode {
        Op::Branch => 0,
        Op::BranchConditional | Op::Switch => 1,
        _ => return Vec::new(),
    };
    last.operands[behind..].iter().filter_map(Operand::id_ref_any).collect()
}

/// Joins `value` to what is there; whether that is something else then.
fn joined(entry: std::collections::hash_map::Entry<'_, Word, Value>, value: Value) -> bool {
    let here = entry.or_insert(Value::Unseen);
    let before = std::mem::replace(here, here.or(value));
    before != *here
}

/// Pointers to scalars that nothing but loads, stores and calls use, of which the latter load.
fn followed(module: &Module, known: &Known) -> FxHashSet<Word> {
    let scalars: FxHashSet<Word> = module
        .types_global_values
        .iter()
        .filter(|i| i.class.opcode == Op::TypePointer && is_local(&i.operands[0]))
        .filter(|i| i.operands[1].id_ref_any().is_some_and(|to| known.types.contains(&to)))
        .filter_map(|i| i.result_id)
        .collect();
    let is_scalar = |i: &&Instruction| i.result_type.is_some_and(|t| scalars.contains(&t));
    let parameters = module.functions.iter().flat_map(|f| &f.parameters);
    let mut followed: FxHashSet<Word> =
        parameters.filter(is_scalar).filter_map(|i| i.result_id).collect();
    // Parameters that are only loaded, before the variables that are given for them.
    for instruction in module.functions.iter().flat_map(Function::all_inst_iter) {
        let loads = usize::from(instruction.class.opcode == Op::Load);
        for used in instruction.operands[loads..].iter().filter_map(Operand::id_ref_any) {
            followed.remove(&used);
        }
    }
    let loaded = followed.clone();
    let all = || module.functions.iter().flat_map(Function::all_inst_iter);
    let variables =
        all().filter(|i| i.class.opcode == Op::Variable && i.operands.len() == 1).filter(is_scalar);
    followed.extend(variables.filter_map(|i| i.result_id));
    let callees: FxHashMap<Word, &Function> =
        module.functions.iter().filter_map(|f| Some((f.def_id()?, f))).collect();
    for instruction in all() {
        let operands = instruction.operands.iter().map(Operand::id_ref_any);
        let is_harmless = |place: usize| match instruction.class.opcode {
            Op::Load | Op::Store => place == 0,
            Op::FunctionCall => {
                let callee = instruction.operands[0].id_ref_any().and_then(|id| callees.get(&id));
                let parameter = callee.and_then(|f| f.parameters.get(place.checked_sub(1)?));
                parameter.and_then(|p| p.result_id).is_some_and(|id| loaded.contains(&id))
            }
            _ => false,
        };
        for (place, used) in operands.enumerate() {
            if let Some(used) = used
                && !is_harmless(place)
            {
                followed.remove(&used);
            }
        }
    }
    followed
}

fn is_local(class: &Operand) -> bool {
    *class == Operand::StorageClass(StorageClass::Function)
}
