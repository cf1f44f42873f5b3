//! SIMD: the widest instructions the machine has, chosen at run time.
//!
//! A [`Kernel`] is written once, over the operations of [`Isa`] on 16 lanes of float32, and
//! compiled for each instruction set. [`dispatch`] runs the version that the machine can run and
//! hands it a token of its instruction set; such a token exists only where its instructions were
//! detected, which is what makes its methods safe to call.
//!
//! This folder is the only place of the crate with `unsafe`: for intrinsics and for the `gemm`
//! crate's raw pointers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod gemm;
mod isa;
mod lanes;
mod portable;
pub(crate) mod quantized;
pub(crate) mod vector;

use std::sync::OnceLock;

pub(crate) use isa::Isa;
pub(crate) use lanes::Lanes;

/// Lanes of every instruction set's vector.
pub(crate) const LANES: usize = 16;

/// Instruction sets that kernels are compiled for, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What every machine of the target has.
    Portable,
    /// AVX2, FMA, F16C and BMI2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL besides.
    Avx512,
    /// AVX-512 BF16 besides.
    Avx512Bf16,
}

impl Level {
    /// The highest one whose instructions the machine has.
    fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512, is_x86_feature_detected!("avx512bf16")) {
                (true, true, true) => return Level::Avx512Bf16,
                (true, true, false) => return Level::Avx512,
                (true, false, _) => return Level::Avx2,
                _ => {}
            }
        }
        Level::Portable
    }

    /// The machine's, which is the best one for it.
    fn machine() -> Level {
        static MACHINE: OnceLock<Level> = OnceLock::new();
        *MACHINE.get_or_init(Level::detect)
    }
}

/// The level in use: the machine's, or what `MLX_CPU_SIMD` (`portable`, `avx2`, `avx512`,
/// `avx512bf16`) limits it to.
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let most = match std::env::var("MLX_CPU_SIMD").as_deref() {
            Ok("portable") => Level::Portable,
            Ok("avx2") => Level::Avx2,
            Ok("avx512") => Level::Avx512,
            _ => Level::Avx512Bf16,
        };
        most.min(Level::machine())
    })
}

/// A computation that is compiled for every instruction set.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// Whether it has a version of its own for instruction sets with products of bfloat16 pairs.
    const PAIRS: bool = false;

    /// Runs it. Implementations are `#[inline(always)]`, so that the body is compiled with the
    /// instructions of the function that [`dispatch`] calls it from. So must be what they call,
    /// and no operation of `isa` may stand in a closure: a closure is a function of its own,
    /// without those instructions.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// Runs a kernel with the instructions of [`level`].
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(level(), kernel)
}

/// Runs a kernel with the instructions of a level, at most those of the machine.
#[inline]
pub(crate) fn dispatch_at<K: Kernel>(at: Level, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match at.min(Level::machine()) {
        Level::Avx512Bf16 if K::PAIRS => {
            // SAFETY: the level is at most what was detected.
            return unsafe { avx512::run_pairs(kernel) };
        }
        // SAFETY: as above.
        Level::Avx512Bf16 | Level::Avx512 => return unsafe { avx512::run(kernel) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { avx2::run(kernel) },
        Level::Portable => {}
    }
    let _ = at;
    kernel.run(portable::Portable)
}

#[cfg(test)]
pub(crate) fn levels() -> impl Iterator<Item = Level> {
    let all = [Level::Portable, Level::Avx2, Level::Avx512, Level::Avx512Bf16];
    all.into_iter().filter(|l| *l <= Level::machine())
}
