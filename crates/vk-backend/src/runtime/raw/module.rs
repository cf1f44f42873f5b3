//! The words of shader modules.

use mlx_vulkan_core::{Error, Result};
use rspirv::spirv::{LoopControl, Op};

/// Words of a module before its first instruction.
const HEADER: usize = 5;

/// A module's bytes as words.
pub(crate) fn words(name: &str, bytes: &[u8]) -> Result<Vec<u32>> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    if words.len() * 4 != bytes.len() || words.first() != Some(&0x0723_0203) {
        return Err(Error::device("pipeline", format!("kernel {name}: not SPIR-V")));
    }
    Ok(words)
}

/// Asks for loops as they are where a module asks for them written out.
pub(crate) fn keep_loops(words: &mut [u32]) {
    let mut at = HEADER;
    while let Some(&first) = words.get(at) {
        let (length, op) = ((first >> 16) as usize, first & 0xffff);
        if op == Op::LoopMerge as u32
            && let Some(control) = words.get_mut(at + 3)
            && *control & LoopControl::UNROLL.bits() != 0
        {
            *control ^= (LoopControl::UNROLL | LoopControl::DONT_UNROLL).bits();
        }
        at += length.max(1);
    }
}

#[cfg(all(test, not(feature = "shader-macros")))]
mod tests {
    use rspirv::{binary::Assemble, dr};

    use super::*;
    use crate::shaders::Kernel;

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
