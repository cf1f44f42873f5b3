//! Where a program's values come from and go to: loads of its inputs, stores of its outputs, and what a
//! reduction takes.

use mlx_vulkan_core::Dtype;
use rspirv::spirv::{Op, Word};
use smallvec::SmallVec;

use super::{Body, Elements, Value};
use crate::kernels::{
    elementwise::Class,
    program::{
        form::Kind,
        library::Type,
        rounding::{Rounding, is_half},
    },
};

impl Body<'_> {
    /// An index that is `by` further.
    fn further(&mut self, index: Word, by: usize) -> Word {
        if by == 0 {
            return index;
        }
        let by = self.linker.constant(Type::Long, by as u64);
        self.ids(Op::IAdd, Type::Long, &[index, by])
    }

    fn address(&mut self, operand: usize) -> Word {
        let number = self.uint(operand as u32);
        self.call(Type::Ulong, "operand(u1;", None, &[number])
    }

    fn index(&mut self) -> Word {
        self.ids(Op::Bitcast, Type::Long, &[self.at])
    }

    /// Loads the inputs.
    pub(super) fn load(&mut self) {
        let mut walks = self.form.walks.iter();
        // Offsets by the strides of the walk: operands that share some share those.
        let mut offsets: SmallVec<[Option<Word>; 8]> = SmallVec::new();
        for (operand, &kind) in self.form.kinds.iter().enumerate() {
            let dtype = self.form.dtypes[operand];
            let base = self.address(operand);
            let walk = if kind.is_walked() { walks.next().copied() } else { None };
            let strides = self.uint(walk.unwrap_or_default() as u32);
            let index = match walk {
                None if kind == Kind::Dense => self.index(),
                None if kind == Kind::Column => {
                    self.call(Type::Long, "column_offset(u1;", None, &[self.lane])
                }
                None => self.linker.constant(Type::Long, 0),
                Some(walk) => {
                    offsets.resize(offsets.len().max(walk + 1), None);
                    let known = offsets[walk].take();
                    let offset = known.unwrap_or_else(|| {
                        self.call(Type::Long, "walked(u1;u641;", None, &[strides, self.at])
                    });
                    offsets[walk] = Some(offset);
                    offset
                }
            };
            let computed = match kind {
                Kind::Dense | Kind::Row | Kind::Column => self.load_together(dtype, base, index),
                Kind::Scalar => {
                    let one = self.load_one(dtype, base, index);
                    SmallVec::from_elem(one, self.lanes)
                }
                Kind::Repeat | Kind::Strided => {
                    self.load_rows(dtype, base, index, strides, kind == Kind::Repeat)
                }
            };
            let (rounding, rounded) = (Rounding::Exact, Some(computed.clone()));
            self.values.push(Value { dtype, rounding, computed, rounded });
        }
    }

    fn load_one(&mut self, dtype: Dtype, base: Word, index: Word) -> Word {
        let class = Class::from(dtype);
        let (like, number) = (self.linker.null(class.element()), self.dtype(dtype));
        let name = format!("load_one({}u1;u641;i641;", class.code());
        self.call(class.element(), &name, None, &[like, number, base, index])
    }

    /// Neighbours from an index on.
    fn load_together(&mut self, dtype: Dtype, base: Word, index: Word) -> Elements {
        let class = Class::from(dtype);
        let Some(four) = class.four().filter(|_| self.lanes > 1) else {
            return (0..self.lanes)
                .map(|lane| {
                    let index = self.further(index, lane);
                    self.load_one(dtype, base, index)
                })
                .collect();
        };
        let number = self.dtype(dtype);
        let mut elements = Elements::new();
        if self.lanes == 8 && is_half(dtype) {
            let all =
                self.call(Type::Matrix, "load_eight(u1;u641;i641;", None, &[number, base, index]);
            for lane in 0..8 {
                elements.push(self.extract(class.element(), all, &[lane / 4, lane % 4]));
            }
            return elements;
        }
        let (like, name) =
            (self.linker.null(class.element()), format!("load_four({}u1;u641;i641;", class.code()));
        for first in (0..self.lanes).step_by(4) {
            let index = self.further(index, first);
            let loaded = self.call(four, &name, None, &[like, number, base, index]);
            for lane in 0..4 {
                elements.push(self.extract(class.element(), loaded, &[lane]));
            }
        }
        elements
    }

    /// Elements from an index on, by the last two strides of the walk; a row may have one element alone.
    fn load_rows(
        &mut self,
        dtype: Dtype,
        base: Word,
        mut index: Word,
        strides: Word,
        repeat: bool,
    ) -> Elements {
        let (of_row, rows) = (self.form.fold.min(self.lanes), self.lanes / self.form.fold.max(1));
        let apart =
            (rows > 1).then(|| self.call(Type::Long, "stride_of_rows(u1;", None, &[strides]));
        let mut elements = Elements::new();
        while elements.len() < self.lanes {
            if let (Some(apart), false) = (apart, elements.is_empty()) {
                index = self.ids(Op::IAdd, Type::Long, &[index, apart]);
            }
            match repeat {
                true => {
                    let one = self.load_one(dtype, base, index);
                    elements.extend(std::iter::repeat_n(one, of_row));
                }
                false => elements.extend(self.load_row(dtype, base, index, strides, of_row)),
            }
        }
        elements
    }

    /// So many elements from an index on with the last stride of the walk between them.
    fn load_row(
        &mut self,
        dtype: Dtype,
        base: Word,
        index: Word,
        strides: Word,
        count: usize,
    ) -> Elements {
        let first = self.load_one(dtype, base, index);
        let mut elements = Elements::from_slice(&[first]);
        if count > 1 {
            let stride = self.call(Type::Long, "stride(u1;", None, &[strides]);
            let mut index = index;
            for _ in 1..count {
                index = self.ids(Op::IAdd, Type::Long, &[index, stride]);
                elements.push(self.load_one(dtype, base, index));
            }
        }
        elements
    }

    /// Stores the outputs, but for those that are reduced.
    pub(super) fn store(&mut self) {
        for nth in 0..self.form.stored() {
            let base = self.address(self.form.kinds.len() + nth);
            let Value { dtype, computed, rounded, .. } = &self.values[self.form.output(nth)];
            let (dtype, exact) = (*dtype, u32::from(rounded.is_some()));
            let elements = rounded.as_ref().unwrap_or(computed).clone();
            let index = self.index();
            self.store_one_value(dtype, exact, &elements, base, index);
        }
    }

    /// Gives the reduction what is reduced.
    pub(super) fn take(&mut self) {
        for nth in 0..self.form.reduced {
            let elements = self.rounded(self.form.output(self.form.stored() + nth));
            let first = (nth * self.form.lanes) as u32;
            let [one] = elements[..] else {
                for (at, four) in (first..).step_by(4).zip(elements.chunks_exact(4)) {
                    let four = self.ids(Op::CompositeConstruct, Type::Vector(4), four);
                    let at = self.uint(at);
                    self.call(Type::Void, "take_four(u1;vf4;", None, &[at, four]);
                }
                continue;
            };
            let at = self.uint(first);
            self.call(Type::Void, "take_one(u1;u1;f1;", None, &[at, self.lane, one]);
        }
    }

    fn store_one_value(
        &mut self,
        dtype: Dtype,
        exact: u32,
        elements: &[Word],
        base: Word,
        index: Word,
    ) {
        let class = Class::from(dtype);
        let (number, exact) = (self.dtype(dtype), self.uint(exact));
        let Some(four) = class.four().filter(|_| self.lanes > 1) else {
            let name = format!("store_one(u1;u641;i641;{}", class.code());
            for (lane, &element) in elements.iter().enumerate() {
                let index = self.further(index, lane);
                self.call(Type::Void, &name, None, &[number, base, index, element]);
            }
            return;
        };
        let fours: SmallVec<[Word; 2]> = elements
            .chunks_exact(4)
            .map(|elements| self.ids(Op::CompositeConstruct, four, elements))
            .collect();
        if let (true, &[low, high]) = (is_half(dtype), &fours[..]) {
            let name = "store_eight(u1;u1;u641;i641;vf4;vf4;";
            self.call(Type::Void, name, None, &[number, exact, base, index, low, high]);
            return;
        }
        for (nth, &elements) in fours.iter().enumerate() {
            let index = self.further(index, 4 * nth);
            let (name, arguments): (_, SmallVec<[Word; 5]>) = match class {
                Class::Float => (
                    "store_floats(u1;u1;u641;i641;vf4;",
                    SmallVec::from_slice(&[number, exact, base, index, elements]),
                ),
                Class::Int => (
                    "store_four(u1;u641;i641;vi4;",
                    SmallVec::from_slice(&[number, base, index, elements]),
                ),
                _ => (
                    "store_four(u1;u641;i641;vu4;",
                    SmallVec::from_slice(&[number, base, index, elements]),
                ),
            };
            self.call(Type::Void, name, None, &arguments);
        }
    }
}
