//! Constants are followed through a module: into functions, through their variables, and along the branches
//! that they choose (sparse conditional constant propagation, after Wegman and Zadeck, across functions).
//!
//! A parameter is known if all calls that are reached agree on it, a variable if it holds one value all the
//! time and [`pointers`] can tell.

use rspirv::{
    dr::{Function, Instruction, Module, Operand},
    spirv::{Op, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    constants::Known,
    fold::{Value, fold_operands},
    pointers,
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
            followed: pointers::followed(module, known),
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
            op => fold_operands(op, operands, |id| self.value(id)),
        };
        let Some(id) = instruction.result_id else { return Some(()) };
        let value = if self.known.makes_scalar(instruction) { value } else { Value::Varies };
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
