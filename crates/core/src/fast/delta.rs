//! The gated delta rule (Yang, Kautz and Hatamizadeh, Gated Delta Networks, 2024).

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype},
    primitives::GatedDelta,
};

/// Runs the gated delta rule over time: for each value head a state `s` (values, keys) that decays,
/// forgets what it holds for a key and takes the value instead,
/// `s ← γ s; s ← s + β (v - s k) kᵀ; y = s q`.
///
/// `q`, `k` (batch, time, key heads, dk), `v` (batch, time, value heads, dv), `gamma`, `beta` (batch,
/// time, value heads), `gamma` also for each key feature (batch, time, value heads, dk); a group of value
/// heads shares a key head. `initial_state` (batch, value heads, dv, dk) is zero if not given. Where the
/// bool `mask` (batch, time) is false, the output is zero, and a finite state stays. Returns the outputs,
/// of the dtype of `v` and the shape of `v`, and the last state, float32.
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn gated_delta_update(
    [q, k, v]: [&Array; 3],
    gamma: &Array,
    beta: &Array,
    initial_state: Option<&Array>,
    mask: Option<&Array>,
) -> Result<(Array, Array)> {
    let state_shape = check([q, k, v], gamma, beta, initial_state, mask)?;
    let dtype = [q, k].into_iter().fold(v.dtype(), |joint, a| joint.promote(a.dtype()));
    let wide = dtype.promote(Dtype::Float32);
    let state = match initial_state {
        Some(state) => astype(state, wide)?,
        None => ops::zeros(&state_shape, wide)?,
    };
    let gate =
        |gate: &Array| if gate.dtype() == dtype { Ok(gate.clone()) } else { astype(gate, wide) };
    let masked = |a: &Array, hidden: f64| match mask {
        Some(mask) => {
            let axes: Vec<isize> = (2..a.ndim() as isize).collect();
            ops::where_(&ops::expand_dims(mask, &axes)?, a, &Array::scalar_of(hidden, a.dtype())?)
        }
        None => Ok(a.clone()),
    };
    let inputs = [
        astype(q, dtype)?,
        masked(&astype(k, dtype)?, 0.0)?,
        masked(&astype(v, dtype)?, 0.0)?,
        masked(&gate(gamma)?, 1.0)?,
        masked(&gate(beta)?, 0.0)?,
        state,
    ];
    let [y, state] = ops::nodes(GatedDelta, inputs)?;
    Ok((astype(&masked(&y, 0.0)?, v.dtype())?, astype(&state, Dtype::Float32)?))
}

/// The shape of the state.
fn check(
    [q, k, v]: [&Array; 3],
    gamma: &Array,
    beta: &Array,
    state: Option<&Array>,
    mask: Option<&Array>,
) -> Result<[usize; 4]> {
    let invalid = |message: String| Err(Error::invalid("gated_delta_update", message));
    if [q, k, v].iter().any(|a| a.ndim() != 4) {
        return invalid("q, k and v must have 4 dimensions.".into());
    }
    let (batch, time, heads, width) = (v.dim(0), v.dim(1), v.dim(2), v.dim(3));
    let shapes = || {
        format!(
            "q {:?}, k {:?}, v {:?}, gamma {:?}, beta {:?}",
            q.shape(),
            k.shape(),
            v.shape(),
            gamma.shape(),
            beta.shape()
        )
    };
    let fits = q.shape() == k.shape()
        && q.shape()[..2] == v.shape()[..2]
        && q.dim(2) != 0
        && q.dim(3) != 0
        && heads.is_multiple_of(q.dim(2))
        && (gamma.shape() == [batch, time, heads]
            || gamma.shape() == [batch, time, heads, q.dim(3)])
        && beta.shape() == [batch, time, heads];
    if !fits {
        return invalid(format!(
            "Mismatching shapes, or value heads that are no multiple of the key heads: {}.",
            shapes()
        ));
    }
    if [q, k, v, gamma, beta].iter().any(|a| !a.dtype().is_floating()) {
        return invalid("q, k, v, gamma and beta must be floating.".into());
    }
    let state_shape = [batch, heads, width, q.dim(3)];
    if let Some(state) = state.filter(|s| s.shape() != state_shape) {
        return invalid(format!(
            "The initial state must have shape {state_shape:?} but has shape {:?}.",
            state.shape()
        ));
    }
    if mask.is_some_and(|m| m.shape() != [batch, time] || m.dtype() != Dtype::Bool) {
        return invalid(format!("The mask must be bool and have shape [{batch}, {time}]."));
    }
    Ok(state_shape)
}
