//! Kernels with the types of what they take, so that nothing else can be given to them.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::Kernel;
use crate::runtime::raw::recorder::PUSH_BYTES;

/// The specialization constants of a source's kernels, by name.
pub(crate) trait SpecConstants {
    /// An array of words.
    type Words: AsRef<[u32]>;

    /// The bits of each constant at its id.
    fn words(&self) -> Self::Words;
}

/// A kernel that is specialized by `C` and takes push constants `P`.
#[derive(Debug)]
pub(crate) struct KernelOf<C, P> {
    kernel: Kernel,
    types: PhantomData<fn(C, P)>,
}

impl<C: SpecConstants, P: Pod> KernelOf<C, P> {
    /// For the generated table of kernels, which knows the types from the compiled module.
    pub(super) const fn new(kernel: Kernel) -> Self {
        const { assert!(size_of::<P>() <= PUSH_BYTES, "more push constants than a device has") };
        KernelOf { kernel, types: PhantomData }
    }
}

impl<C, P> KernelOf<C, P> {
    /// Which kernel it is.
    pub(crate) const fn kernel(self) -> Kernel {
        self.kernel
    }
}

impl<C, P> Clone for KernelOf<C, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, P> Copy for KernelOf<C, P> {}

impl<C, P> PartialEq for KernelOf<C, P> {
    fn eq(&self, other: &Self) -> bool {
        self.kernel == other.kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaders::layouts;

    #[test]
    fn push_constants_fit_on_every_device() {
        for &kernel in Kernel::ALL {
            let bytes = layouts::push_bytes(kernel);
            assert!(bytes <= PUSH_BYTES, "{}: {bytes} bytes", kernel.name());
            assert!(bytes > 0 && bytes.is_multiple_of(4), "{}: {bytes} bytes", kernel.name());
        }
    }

    #[test]
    fn constants_stand_at_their_ids() {
        let constants = layouts::norm::Constants { workgroup: 64, dtype: 9, flags: 1, subgroup: 8 };
        // Id 3 is no constant of this source.
        assert_eq!(constants.words(), [64, 9, 1, 0, 8]);
    }
}
