//! Numbers in memory of the device: by addresses, with the sizes that they have there.

use rspirv::{
    dr::Operand,
    spirv::{Capability, MemoryAccess, Op, StorageClass, Word},
};

use super::{Lowering, memory::Place, value::Constant};
use crate::{
    error::Result,
    types::{Packing, Scalar, Type},
};

impl Lowering<'_> {
    /// What a number is in memory.
    pub(crate) fn memory_type(&mut self, scalar: Scalar) -> Word {
        match scalar {
            Scalar::Bool | Scalar::Char | Scalar::Uchar => {
                self.emitter.require(Capability::StorageBuffer8BitAccess);
                self.emitter.require(Capability::Int8);
                self.emitter.int(8)
            }
            Scalar::Short | Scalar::Ushort | Scalar::Bfloat => {
                self.emitter.require(Capability::StorageBuffer16BitAccess);
                self.emitter.require(Capability::Int16);
                self.emitter.int(16)
            }
            Scalar::Half => {
                self.emitter.require(Capability::StorageBuffer16BitAccess);
                self.scalar_type(scalar)
            }
            _ => self.scalar_type(scalar),
        }
    }

    fn device_pointer(&mut self, address: Word, of: Word) -> Word {
        let pointer = self.emitter.pointer(StorageClass::PhysicalStorageBuffer, of);
        self.emitter.op(Op::ConvertUToPtr, pointer, &[address])
    }

    /// A pointer to an atomic number.
    pub(crate) fn atomic_pointer(&mut self, place: &Place, scalar: Scalar) -> Result<Word> {
        match place {
            Place::Local { root, path, ty, .. } => Ok(self.chain(root, path, ty)),
            Place::Device { address, .. } => {
                let of = self.memory_type(scalar);
                Ok(self.device_pointer(*address, of))
            }
            _ => Err(self.error("this is no atomic number")),
        }
    }

    /// The value at an address.
    pub(super) fn load_device(&mut self, address: Word, ty: &Type) -> Word {
        match ty {
            Type::Scalar(scalar) | Type::Atomic(scalar) => self.load_numbers(address, *scalar, 1),
            Type::Vector(scalar, count, Packing::Aligned) if *count != 3 => {
                self.load_numbers(address, *scalar, *count)
            }
            Type::Pointer(..) => self.load_numbers(address, Scalar::Ulong, 1),
            _ => {
                let parts = self.memory_parts(ty);
                let ids: Vec<Word> = parts
                    .iter()
                    .map(|(offset, part)| {
                        let at = self.moved(address, *offset);
                        self.load_device(at, part)
                    })
                    .collect();
                let of = self.value_type(ty);
                self.emitter.op(Op::CompositeConstruct, of, &ids)
            }
        }
    }

    /// Stores a value at an address.
    pub(super) fn store_device(&mut self, address: Word, ty: &Type, value: Word) {
        match ty {
            Type::Scalar(scalar) | Type::Atomic(scalar) => {
                self.store_numbers(address, *scalar, 1, value);
            }
            Type::Vector(scalar, count, Packing::Aligned) if *count != 3 => {
                self.store_numbers(address, *scalar, *count, value);
            }
            Type::Pointer(..) => self.store_numbers(address, Scalar::Ulong, 1, value),
            _ => {
                for (number, (offset, part)) in (0..).zip(self.memory_parts(ty)) {
                    let of = self.value_type(&part);
                    let id = self.emitter.extract(of, value, number);
                    let at = self.moved(address, offset);
                    self.store_device(at, &part, id);
                }
            }
        }
    }

    /// What a composite has in memory, and where.
    fn memory_parts(&self, ty: &Type) -> Vec<(u64, Type)> {
        match ty {
            Type::Vector(scalar, count, _) => {
                let size = u64::from(scalar.size());
                (0..u64::from(*count)).map(|n| (n * size, Type::Scalar(*scalar))).collect()
            }
            Type::Array(of, count) => {
                let (size, _) = self.layout(of);
                (0..u64::from(*count)).map(|n| (n * size, (**of).clone())).collect()
            }
            Type::Struct(number) => {
                let fields = self.structs[*number].fields.iter().enumerate();
                fields.map(|(n, (_, ty))| (self.offset(*number, n), ty.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// An address some bytes further.
    pub(crate) fn moved(&mut self, address: Word, bytes: u64) -> Word {
        if bytes == 0 {
            return address;
        }
        let (ulong, bytes) = (self.emitter.int(64), self.emitter.ulong(bytes));
        self.emitter.op(Op::IAdd, ulong, &[address, bytes])
    }

    fn load_numbers(&mut self, address: Word, scalar: Scalar, count: u32) -> Word {
        let of = self.stored_type(scalar, count);
        let pointer = self.device_pointer(address, of);
        let operands = vec![
            Operand::IdRef(pointer),
            Operand::MemoryAccess(MemoryAccess::ALIGNED),
            Operand::LiteralBit32(scalar.size() * count),
        ];
        let loaded = self.emitter.op_of(Op::Load, of, operands);
        self.loaded(loaded, scalar, count)
    }

    /// What numbers in memory are as values.
    pub(super) fn loaded(&mut self, numbers: Word, scalar: Scalar, count: u32) -> Word {
        let of = self.value_type(&Type::of(scalar, count));
        match scalar {
            Scalar::Bool => {
                let stored = self.stored_type(scalar, count);
                let none = self.emitter.global(Op::ConstantNull, Some(stored), Vec::new());
                self.emitter.op(Op::INotEqual, of, &[numbers, none])
            }
            Scalar::Char | Scalar::Short => self.emitter.op(Op::SConvert, of, &[numbers]),
            Scalar::Uchar | Scalar::Ushort => self.emitter.op(Op::UConvert, of, &[numbers]),
            Scalar::Bfloat => {
                let word = Type::of(Scalar::Uint, count);
                let word_type = self.value_type(&word);
                let wide = self.emitter.op(Op::UConvert, word_type, &[numbers]);
                let sixteen = self.splat(&word, Constant::Int(16)).id;
                let bits = self.emitter.op(Op::ShiftLeftLogical, word_type, &[wide, sixteen]);
                self.emitter.op(Op::Bitcast, of, &[bits])
            }
            _ => numbers,
        }
    }

    fn store_numbers(&mut self, address: Word, scalar: Scalar, count: u32, value: Word) {
        let stored = self.stored(value, scalar, count);
        let of = self.stored_type(scalar, count);
        let pointer = self.device_pointer(address, of);
        let operands = vec![
            Operand::IdRef(pointer),
            Operand::IdRef(stored),
            Operand::MemoryAccess(MemoryAccess::ALIGNED),
            Operand::LiteralBit32(scalar.size() * count),
        ];
        self.emitter.act(Op::Store, operands);
    }

    /// What values are as numbers in memory.
    pub(super) fn stored(&mut self, value: Word, scalar: Scalar, count: u32) -> Word {
        let of = self.stored_type(scalar, count);
        let word = Type::of(Scalar::Uint, count);
        match scalar {
            Scalar::Bool => {
                let yes = self.splat(&word, Constant::Int(1)).id;
                let no = self.splat(&word, Constant::Int(0)).id;
                let word = self.value_type(&word);
                let wide = self.emitter.op(Op::Select, word, &[value, yes, no]);
                self.emitter.op(Op::UConvert, of, &[wide])
            }
            Scalar::Char | Scalar::Uchar | Scalar::Short | Scalar::Ushort => {
                self.emitter.op(Op::UConvert, of, &[value])
            }
            Scalar::Bfloat => {
                let word_type = self.value_type(&word);
                let bits = self.emitter.op(Op::Bitcast, word_type, &[value]);
                let sixteen = self.splat(&word, Constant::Int(16)).id;
                let high = self.emitter.op(Op::ShiftRightLogical, word_type, &[bits, sixteen]);
                self.emitter.op(Op::UConvert, of, &[high])
            }
            _ => value,
        }
    }

    /// The type of so many numbers in memory.
    pub(super) fn stored_type(&mut self, scalar: Scalar, count: u32) -> Word {
        let of = self.memory_type(scalar);
        self.emitter.vector(of, count)
    }
}
