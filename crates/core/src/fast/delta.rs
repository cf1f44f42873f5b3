//! The gated delta rule (Yang, Kautz and Hatamizadeh, Gated Delta Networks, 2024).

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype},
};

/// Runs the gated delta rule over time: for each value head a state `s` (values, keys) that decays,
/// forgets what it holds for a key and takes the value instead,
/// `s ← γ s; s ← s + β (v - s k) kᵀ; y = s q`.
///
/// `q`, `k` (batch, time, key heads, dk), `v` (batch, time, value heads, dv), `gamma`, `beta` (batch,
/// time, value heads); a group of value heads shares a key head. `initial_state` (batch, value heads,
/// dv, dk) is zero if not given. Where the bool `mask` (batch, time) is false, the state stays and the
/// output is zero. Returns the outputs, of the dtype of `v` and the shape of `v`, and the last state,
/// float32.
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
    let sizes = check([q, k, v], gamma, beta, initial_state, mask)?;
    let wide = [q, k, v, gamma, beta]
        .map(|a| a.dtype())
        .into_iter()
        .fold(Dtype::Float32, |joint, d| if d == Dtype::Float64 { d } else { joint });
    let widen = |a: &Array| astype(a, wide);
    let heads = |a: &Array| repeat_heads(&widen(a)?, sizes.group);
    let (queries, keys, values) = (heads(q)?, heads(k)?, widen(v)?);
    let (gamma, beta) = (widen(gamma)?, widen(beta)?);
    let mut state = match initial_state {
        Some(state) => widen(state)?,
        None => ops::zeros(&sizes.state, wide)?,
    };
    if sizes.time == 0 {
        return Ok((ops::zeros(v.shape(), v.dtype())?, astype(&state, Dtype::Float32)?));
    }
    let mut outputs = Vec::with_capacity(sizes.time);
    for t in 0..sizes.time as isize {
        let at = |a: &Array| ops::squeeze(&ops::slice_axis(a, 1, t, t + 1)?, &[1]);
        let row = |a: &Array| ops::expand_dims(&at(a)?, &[-2]);
        let column = |a: &Array| ops::expand_dims(&at(a)?, &[-1]);
        let key = row(&keys)?;
        let decayed = ops::multiply(&state, &ops::expand_dims(&column(&gamma)?, &[-1])?)?;
        let held = ops::sum(&ops::multiply(&decayed, &key)?, &[-1], true)?;
        let new = ops::subtract(&column(&values)?, &held)?;
        let change = ops::multiply(&new, &ops::expand_dims(&column(&beta)?, &[-1])?)?;
        let mut next = ops::add(&decayed, &ops::multiply(&change, &key)?)?;
        let mut output = ops::sum(&ops::multiply(&next, &row(&queries)?)?, &[-1], false)?;
        if let Some(mask) = mask {
            let seen = ops::expand_dims(&at(mask)?, &[-1, -2])?;
            output = ops::where_(&seen, &output, &ops::zeros_like(&output)?)?;
            next = ops::where_(&ops::expand_dims(&seen, &[-1])?, &next, &state)?;
        }
        state = next;
        outputs.push(output);
    }
    let outputs = ops::stack(&outputs.iter().collect::<Vec<_>>(), 1)?;
    Ok((astype(&outputs, v.dtype())?, astype(&state, Dtype::Float32)?))
}

struct Sizes {
    time: usize,
    /// Value heads that share a key head.
    group: usize,
    state: [usize; 4],
}

fn check(
    [q, k, v]: [&Array; 3],
    gamma: &Array,
    beta: &Array,
    state: Option<&Array>,
    mask: Option<&Array>,
) -> Result<Sizes> {
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
        && heads.is_multiple_of(q.dim(2))
        && [gamma, beta].iter().all(|a| a.shape() == [batch, time, heads]);
    if !fits {
        return invalid(format!(
            "Mismatching shapes, or value heads that are no multiple of the key heads: {}.",
            shapes()
        ));
    }
    if [q, k, v, gamma, beta].iter().any(|a| !a.dtype().is_floating()) {
        return invalid("q, k, v, gamma and beta must be floating.".into());
    }
    let sizes = Sizes { time, group: heads / q.dim(2), state: [batch, heads, width, q.dim(3)] };
    if let Some(state) = state.filter(|s| s.shape() != sizes.state) {
        return invalid(format!(
            "The initial state must have shape {:?} but has shape {:?}.",
            sizes.state,
            state.shape()
        ));
    }
    if mask.is_some_and(|m| m.shape() != [batch, time] || m.dtype() != Dtype::Bool) {
        return invalid(format!("The mask must be bool and have shape [{batch}, {time}]."));
    }
    Ok(sizes)
}

/// Each head of the third axis `group` times, one after the other.
fn repeat_heads(a: &Array, group: usize) -> Result<Array> {
    if group == 1 {
        return Ok(a.clone());
    }
    let [batch, time, heads, width] = a.shape()[..] else { unreachable!("four axes") };
    let spread =
        ops::broadcast_to(&ops::expand_dims(a, &[3])?, &[batch, time, heads, group, width])?;
    ops::flatten(&spread, 2, 3)
}
