//! Kernels of users, of which nothing is known.

use super::{Applied, Mapped, Outputs, Rules, refused};
use crate::{Array, Result, graph::Inputs, primitives::CustomKernel, transforms::Transform};

impl Rules for Box<CustomKernel> {
    fn vjp(&self, _node: &Applied<'_>, _cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        refused(Transform::Vjp, self.clone())
    }

    fn jvp(&self, _node: &Applied<'_>, _tangents: &[Option<Array>]) -> Result<Outputs> {
        refused(Transform::Jvp, self.clone())
    }

    fn vmap(&self, _inputs: &[Array], _axes: &[Option<usize>]) -> Result<Mapped> {
        refused(Transform::Vmap, self.clone())
    }
}
