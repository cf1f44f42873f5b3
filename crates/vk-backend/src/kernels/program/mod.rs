//! Programs: elementwise operations that one kernel does together, linked while a process runs.
//!
//! `shaders/program/program.comp` is a library of every elementwise function for every class of registers,
//! made of the same GLSL as the kernels of single operations. A program's module is its entry point with a
//! function of our own in the middle, which loads, calls and stores, and copies of what that calls. So what
//! an operation means is written once, and results are those of the single kernels bit for bit: sums and
//! products are `precise`, and each result is rounded to its dtype before another step reads it.
//!
//! Which elements a thread takes, and how, is part of the module ([`Form`]): dense operands are loaded four
//! or eight elements at a time, others by a walk (`strided.rs`), whose last axis is what a thread follows.

mod body;
mod form;
mod library;
mod link;
mod rounding;

pub(crate) use form::{Form, Kind};

use link::Linker;

/// The words of the module of a program.
pub(crate) fn link(form: &Form) -> Vec<u32> {
    const WRITTEN: [&str; 2] = ["block(u641;", "single(u641;"];
    let [block, single] = [Linker::replacement(0), Linker::replacement(1)];
    let mut linker = Linker::new(&[(WRITTEN[0], block), (WRITTEN[1], single)]);
    body::write(&mut linker, form, form.lanes, block, WRITTEN[0]);
    body::write(&mut linker, form, 1, single, WRITTEN[1]);
    linker.finish()
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::{
        Dtype,
        primitives::{BinaryOp, CopyOp, Primitive, Program, ProgramStep, TernaryOp, UnaryOp},
    };
    use rspirv::{dr, spirv::Op};
    use smallvec::{SmallVec, smallvec};

    use super::*;
    use crate::shaders::specialize::whole::check_whole;

    /// A program of one step.
    fn single(primitive: Primitive, inputs: &[Dtype], output: Dtype, lanes: usize) -> Form {
        let step = ProgramStep { primitive, inputs: (0..inputs.len()).collect() };
        let kinds = [Kind::Dense, Kind::Row, Kind::Strided];
        Form {
            program: Program { inputs: inputs.len(), steps: vec![step], outputs: vec![0] },
            dtypes: inputs.iter().copied().chain([output]).collect(),
            kinds: kinds[..inputs.len()].into(),
            walks: (0..inputs.len().saturating_sub(1)).collect(),
            lanes,
            fold: lanes,
            reduced: 0,
        }
    }

    /// Expects a module to be whole, and each id to be defined once.
    fn check(form: &Form) {
        let module = dr::load_words(link(form)).unwrap();
        check_whole(&module, &format!("{form:?}"));
        let defined: Vec<u32> = module.all_inst_iter().filter_map(|i| i.result_id).collect();
        let distinct: rustc_hash::FxHashSet<u32> = defined.iter().copied().collect();
        assert_eq!(defined.len(), distinct.len(), "{form:?}");
        let switches = |op| module.all_inst_iter().filter(|i| i.class.opcode == op).count();
        assert_eq!(switches(Op::Switch), 0, "{form:?}: a case is chosen while linking");
    }

    const DTYPES: [Dtype; 6] =
        [Dtype::Bfloat16, Dtype::Int8, Dtype::Bool, Dtype::Int64, Dtype::Uint64, Dtype::Complex64];

    #[test]
    fn modules_are_whole() {
        for dtype in DTYPES {
            for lanes in [1, 8] {
                check(&single(UnaryOp::Square.into(), &[dtype], dtype, lanes));
                check(&single(BinaryOp::Add.into(), &[dtype, dtype], dtype, lanes));
                let equal = single(BinaryOp::Equal.into(), &[dtype, dtype], Dtype::Bool, lanes);
                check(&equal);
                let select = Primitive::Ternary(TernaryOp::Select);
                check(&single(select, &[Dtype::Bool, dtype, dtype], dtype, lanes));
                for to in DTYPES {
                    let convert = Primitive::Copy(CopyOp::AsType { dtype: to });
                    check(&single(convert, &[dtype], to, lanes));
                }
            }
        }
    }

    #[test]
    fn rows_may_be_shorter_than_what_a_thread_takes() {
        let whole = single(BinaryOp::Add.into(), &[Dtype::Bfloat16; 2], Dtype::Bfloat16, 8);
        for kind in [Kind::Repeat, Kind::Strided] {
            let kinds = smallvec![Kind::Dense, kind];
            let folded = Form { fold: 2, kinds, ..whole.clone() };
            check(&folded);
            assert_ne!(link(&folded), link(&Form { fold: 4, ..folded.clone() }));
        }
    }

    #[test]
    fn what_is_reduced_is_not_stored() {
        for lanes in [1, 4, 8] {
            let program = Program {
                inputs: 1,
                steps: vec![
                    ProgramStep { primitive: UnaryOp::Exp.into(), inputs: smallvec![0] },
                    ProgramStep { primitive: BinaryOp::Add.into(), inputs: smallvec![0, 1] },
                ],
                outputs: vec![0, 1],
            };
            let form = Form {
                program,
                dtypes: smallvec![Dtype::Bfloat16; 3],
                kinds: smallvec![Kind::Dense],
                walks: smallvec![],
                lanes,
                fold: lanes,
                reduced: 1,
            };
            check(&form);
            assert_ne!(link(&form), link(&Form { reduced: 0, ..form.clone() }));
        }
    }

    #[test]
    fn operands_share_their_walk() {
        let sum = |walks: [usize; 2]| {
            let step = ProgramStep { primitive: BinaryOp::Add.into(), inputs: smallvec![0, 1] };
            let form = Form {
                program: Program { inputs: 2, steps: vec![step], outputs: vec![0] },
                dtypes: smallvec![Dtype::Float32; 3],
                kinds: smallvec![Kind::Row, Kind::Repeat],
                walks: walks.into_iter().collect(),
                lanes: 4,
                fold: 4,
                reduced: 0,
            };
            check(&form);
            let module = dr::load_words(link(&form)).unwrap();
            module.all_inst_iter().filter(|i| i.class.opcode == Op::FunctionCall).count()
        };
        // One fewer in each of `block` and `single`.
        assert_eq!(sum([0, 0]) + 2, sum([0, 1]));
    }

    #[test]
    fn steps_share_what_they_call() {
        let exp = |count: usize| {
            let steps = (0..count)
                .map(|i| ProgramStep { primitive: UnaryOp::Exp.into(), inputs: smallvec![i] });
            let steps: Vec<ProgramStep> = steps.collect();
            let form = Form {
                program: Program { inputs: 1, steps, outputs: vec![count - 1] },
                dtypes: SmallVec::from_elem(Dtype::Float32, count + 1),
                kinds: smallvec![Kind::Dense],
                walks: smallvec![],
                lanes: 4,
                fold: 4,
                reduced: 0,
            };
            dr::load_words(link(&form)).unwrap().functions.len()
        };
        assert_eq!(exp(1), exp(3));
    }
}
