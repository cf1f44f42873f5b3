//! Kernels with their specialization constants put in, without what those rule out.
//!
//! A kernel is written once for many dtypes and layouts, most of which its constants rule out. A driver that
//! is given the module reads and inlines all of it before it drops most: lavapipe takes a third of the time
//! that it needs for a kernel for that. So the constants are followed through the module here, into the
//! functions that are called with them, and what they rule out is taken away: branches, functions and names.
//! What is computed stays as it is.

mod constants;
mod flow;
mod fold;
mod pointers;
mod prune;
#[cfg(test)]
pub(crate) mod whole;

use rspirv::{binary::Assemble, dr};

/// The words of a module whose specialization constant `i` is `constants[i]`, or `None` if it has something
/// that this does not know: then the driver specializes it.
pub(crate) fn specialized(words: &[u32], constants: &[u32]) -> Option<Vec<u32>> {
    let mut module = dr::load_words(words).ok()?;
    let known = constants::put_in(&mut module, constants)?;
    let reached = flow::Flow::of(&module, &known)?.reached()?;
    prune::prune(&mut module, &reached, &known)?;
    Some(module.assemble())
}

#[cfg(all(test, not(feature = "shader-macros")))]
mod tests {
    use rspirv::{dr::Module, spirv::Op};

    use super::{whole::check_whole, *};
    use crate::{runtime::raw::module::words, shaders::Kernel};

    fn both(kernel: Kernel, constants: &[u32]) -> (Module, Module) {
        let words = words(kernel.name(), kernel.spirv()).unwrap();
        let less = specialized(&words, constants).unwrap_or_else(|| panic!("{}", kernel.name()));
        let module = |words: &[u32]| dr::load_words(words).expect("a module");
        (module(&words), module(&less))
    }

    fn count(module: &Module, op: Op) -> usize {
        module.all_inst_iter().filter(|i| i.class.opcode == op).count()
    }

    /// Additions of int32 in order need no other function and no other layout.
    #[test]
    fn what_constants_rule_out_is_gone() {
        let (all, some) = both(Kernel::binary_int, &[64, 8, 0, 1, 0, 0]);
        assert!(some.functions.len() < all.functions.len() / 2);
        assert!(count(&all, Op::SMod) + count(&all, Op::SRem) + count(&all, Op::SDiv) > 0);
        assert_eq!(count(&some, Op::SMod) + count(&some, Op::SRem) + count(&some, Op::SDiv), 0);
        assert_eq!(count(&some, Op::SpecConstant), 0);
        assert!(count(&some, Op::IAdd) > 0);
    }

    /// A constant that is not given keeps its default, and each value leaves what it needs.
    #[test]
    fn constants_choose() {
        let division = |constants: &[u32]| {
            let (_, some) = both(Kernel::binary_float, constants);
            count(&some, Op::FDiv)
        };
        let add = mlx_vulkan_core::primitives::BinaryOp::Add as u32;
        let divide = mlx_vulkan_core::primitives::BinaryOp::Divide as u32;
        assert_eq!(division(&[64, 11, add]), 0);
        assert!(division(&[64, 11, divide]) > 0);
        assert_eq!(division(&[]), division(&[64, 11, 0]));
    }

    /// What is left of each kernel is whole.
    #[test]
    fn every_kernel_stays_whole() {
        for &kernel in Kernel::ALL {
            for constants in [&[][..], &[64; 16], &[32, 10, 4, 64, 8]] {
                let (all, some) = both(kernel, constants);
                let name = kernel.name();
                assert!(some.functions.len() <= all.functions.len(), "{name}");
                check_whole(&some, &format!("{name} {constants:?}"));
            }
        }
    }
}
