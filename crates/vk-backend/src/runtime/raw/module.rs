//! The words of shader modules.

use mlx_vulkan_core::{Error, Result};
use rspirv::spirv::{Capability, Decoration, LoopControl, Op};
use vulkano::device::DeviceFeatures;

use crate::{
    runtime::capabilities::{Capabilities, Fragments},
    shaders::layouts::common::DEVICE_CONSTANT,
};

/// Words of a module before its first instruction.
const HEADER: usize = 5;

/// A capability that a module declares and the device lacks, of those that usable devices may lack.
pub(crate) fn lacks(
    words: &[u32],
    features: &DeviceFeatures,
    caps: &Capabilities,
) -> Option<Capability> {
    let (ops, fragments) = (&caps.subgroup_ops, &caps.fragments);
    let has = |capability: &Capability| match capability {
        Capability::Int8 => features.shader_int8,
        Capability::Int16 => features.shader_int16,
        Capability::Float16 => features.shader_float16,
        Capability::Int64Atomics => features.shader_buffer_int64_atomics,
        Capability::AtomicFloat32AddEXT => features.shader_buffer_float32_atomic_add,
        Capability::DotProduct => features.shader_integer_dot_product,
        Capability::VulkanMemoryModel => features.vulkan_memory_model,
        Capability::DenormPreserve => caps.float16_denormals,
        Capability::GroupNonUniformArithmetic => ops.arithmetic,
        Capability::GroupNonUniformBallot => ops.ballot,
        Capability::GroupNonUniformShuffle => ops.shuffle,
        Capability::CooperativeMatrixKHR => *fragments != Fragments::default(),
        Capability::BFloat16TypeKHR => fragments.bfloat16.is_some(),
        _ => true,
    };
    // They come first.
    let declared = words.get(HEADER..).unwrap_or_default().chunks_exact(2);
    let declared = declared.take_while(|i| i[0] == 2 << 16 | Op::Capability as u32);
    declared.filter_map(|i| Capability::from_u32(i[1])).find(|capability| !has(capability))
}

/// A module's bytes as words.
pub(crate) fn words(name: &str, bytes: &[u8]) -> Result<Vec<u32>> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    if words.len() * 4 != bytes.len() || words.first() != Some(&0x0723_0203) {
        return Err(Error::device("pipeline", format!("kernel {name}: not SPIR-V")));
    }
    Ok(words)
}

/// The instructions of a module: each with the word that it begins at.
fn instructions(words: &[u32]) -> impl Iterator<Item = (usize, &[u32])> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let length = (words.get(at)? >> 16).max(1) as usize;
        let found = (at, &words[at..words.len().min(at + length)]);
        at += length;
        Some(found)
    })
}

/// Says that the device packs halves as numbers are rounded; by default a module takes it that it does not.
pub(crate) fn packs_nearest(words: &mut [u32]) {
    let is = [Op::Decorate as u32 | 4 << 16, Decoration::SpecId as u32, DEVICE_CONSTANT];
    let decorates = |i: &[u32]| match *i {
        [op, id, decoration, number] => ([op, decoration, number] == is).then_some(id),
        _ => None,
    };
    let Some(constant) = instructions(words).find_map(|(_, i)| decorates(i)) else { return };
    let [no, yes] = [Op::SpecConstantFalse, Op::SpecConstantTrue].map(|op| op as u32 | 3 << 16);
    let declares = |i: &[u32]| i[0] == no && i.get(2) == Some(&constant);
    let found = instructions(words).find(|(_, i)| declares(i)).map(|(at, _)| at);
    if let Some(at) = found {
        words[at] = yes;
    }
}

/// Asks for loops as they are where a module asks for them written out.
pub(crate) fn keep_loops(words: &mut [u32]) {
    let is = |i: &[u32]| {
        i[0] & 0xffff == Op::LoopMerge as u32
            && i.get(3).is_some_and(|control| control & LoopControl::UNROLL.bits() != 0)
    };
    let found: Vec<_> = instructions(words).filter(|(_, i)| is(i)).map(|(at, _)| at + 3).collect();
    for at in found {
        words[at] ^= (LoopControl::UNROLL | LoopControl::DONT_UNROLL).bits();
    }
}

#[cfg(all(test, not(feature = "shader-macros")))]
mod tests {
    use rspirv::{binary::Assemble, dr};

    use super::*;
    use crate::{runtime::capabilities::Fragment, shaders::Kernel};

    #[test]
    fn a_device_is_asked_for_what_a_module_needs() {
        let of = |kernel: Kernel| words(kernel.name(), kernel.spirv()).unwrap();
        let none = DeviceFeatures::empty();
        let some = DeviceFeatures { shader_int8: true, shader_int16: true, ..none };
        let caps = Capabilities::default();
        let modules = [of(Kernel::arange_long), of(Kernel::scatter_fold_wide)];
        assert!(modules.iter().all(|module| lacks(module, &none, &caps).is_some()));
        assert_eq!(lacks(&modules[0], &some, &caps), None);
        assert_eq!(lacks(&modules[1], &some, &caps), Some(Capability::Int64Atomics));
    }

    #[test]
    fn matrices_are_asked_for_by_their_dtype() {
        let none = DeviceFeatures::empty();
        let features = DeviceFeatures { shader_int16: true, shader_float16: true, ..none };
        let features = DeviceFeatures { shader_int8: true, vulkan_memory_model: true, ..features };
        let of = |kernel: Kernel, fragments| {
            let caps = Capabilities { fragments, ..Capabilities::default() };
            lacks(&words(kernel.name(), kernel.spirv()).unwrap(), &features, &caps)
        };
        let square = Some(Fragment { m: 16, n: 16, k: 16 });
        let (none, half) = (Fragments::default(), Fragments { float16: square, bfloat16: None });
        let [halves, brains] = [Kernel::matmul_matrix_float16, Kernel::matmul_matrix_bfloat16];
        assert_eq!(of(halves, none), Some(Capability::CooperativeMatrixKHR));
        assert_eq!(of(halves, half), None);
        assert_eq!(of(brains, half), Some(Capability::BFloat16TypeKHR));
        assert_eq!(of(brains, Fragments { bfloat16: square, ..half }), None);
    }

    #[test]
    fn a_module_is_told_how_the_device_packs() {
        let kernel = Kernel::copy_float;
        let asked = words(kernel.name(), kernel.spirv()).unwrap();
        let mut told = asked.clone();
        packs_nearest(&mut told);
        let changed: Vec<_> = asked.iter().zip(&told).filter(|(a, b)| a != b).collect();
        let [before, after] =
            [Op::SpecConstantFalse, Op::SpecConstantTrue].map(|op| op as u32 | 3 << 16);
        assert_eq!(changed, [(&before, &after)]);
    }

    /// What each loop of a module asks for, and the module without that.
    fn controls(words: &[u32]) -> (Vec<LoopControl>, Vec<u32>) {
        let mut module = dr::load_words(words).expect("a module");
        let mut controls = Vec::new();
        for instruction in module.all_inst_iter_mut() {
            if instruction.class.opcode == Op::LoopMerge
                && let dr::Operand::LoopControl(control) = &mut instruction.operands[2]
            {
                controls.push(std::mem::replace(control, LoopControl::NONE));
            }
        }
        (controls, module.assemble())
    }

    #[test]
    fn loops_are_kept_and_nothing_else_changes() {
        let kernel = Kernel::attention_subgroup;
        let asked = words(kernel.name(), kernel.spirv()).unwrap();
        let mut kept = asked.clone();
        keep_loops(&mut kept);
        let ((before, others), (after, same)) = (controls(&asked), controls(&kept));
        assert_eq!(others, same);
        assert!(before.contains(&LoopControl::UNROLL));
        let swapped = |c: &LoopControl| match *c {
            LoopControl::UNROLL => LoopControl::DONT_UNROLL,
            other => other,
        };
        assert_eq!(after, before.iter().map(swapped).collect::<Vec<_>>());
    }
}
