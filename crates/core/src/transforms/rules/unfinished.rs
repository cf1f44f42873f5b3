//! Families whose rules are not written yet.

use super::*;
use crate::primitives::*;

macro_rules! unfinished {
    ($($family:ty),* $(,)?) => {$(
        impl Rules for $family {
            fn vjp(&self, _: &Applied<'_>, _: &[Array], _: &[usize]) -> Result<Inputs> {
                refused(Transform::Vjp, self.clone())
            }

            fn jvp(&self, _: &Applied<'_>, _: &[Option<Array>]) -> Result<Outputs> {
                refused(Transform::Jvp, self.clone())
            }

            fn vmap(&self, _: &[Array], _: &[Option<usize>]) -> Result<Mapped> {
                refused(Transform::Vmap, self.clone())
            }
        }
    )*};
}

unfinished!(Box<Convolution>, Rope, Attention, Fft, Hadamard, Linalg,);
