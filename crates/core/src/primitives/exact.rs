//! Constants of primitives.

use std::hash::{Hash, Hasher};

/// A floating point constant that equals another one when all of its bits do: NaN equals itself,
/// and 0 is not -0. So equal primitives compute the same, bit for bit.
#[derive(Clone, Copy)]
pub struct Exact<T>(pub T);

macro_rules! exact {
    ($($float:ty),*) => {$(
        impl PartialEq for Exact<$float> {
            fn eq(&self, other: &Self) -> bool {
                self.0.to_bits() == other.0.to_bits()
            }
        }

        impl Eq for Exact<$float> {}

        impl Hash for Exact<$float> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.to_bits().hash(state);
            }
        }

        impl From<$float> for Exact<$float> {
            fn from(value: $float) -> Self {
                Exact(value)
            }
        }
    )*};
}

exact!(f32, f64);

impl<T: std::fmt::Debug> std::fmt::Debug for Exact<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
