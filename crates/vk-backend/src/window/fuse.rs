//! Finds operations of a window that one kernel can do together.

use mlx_core::{Dtype, Result};
use rustc_hash::FxHashMap;

use super::{
    Call, Work,
    graph::Graph,
    set::Set,
    step::{Angle, Attention, Function, Map, MatVec, RmsNorm, Step},
};
use crate::{
    device::DeviceState,
    hazards::Region,
    kernels::{
        decode::{self, Projections},
        matvec::{self, After, Fused},
    },
    stats::{self, uses},
};

/// A kernel that does the work of several operations.
pub(super) struct Replacement {
    pub(super) work: Work,
    /// Number of those operations.
    replaces: u64,
    /// What it is, if statistics ask.
    what: Option<String>,
}

impl Replacement {
    /// Counts it; it is recorded.
    pub(super) fn count(&self) {
        stats::FUSED.add(self.replaces - 1);
        if let Some(what) = &self.what {
            stats::hit("fused", || what.clone());
        }
    }
}

/// The kernels that replace groups, by their first member; the groups are joined in the graph. Of groups
/// that reach to operation `tail` or beyond only that is known: they wait for what follows.
pub(super) fn fuse(
    works: &[Box<Work>],
    graph: &mut Graph,
    device: &DeviceState,
    tail: usize,
) -> Result<FxHashMap<usize, Replacement>> {
    let (taken, made) = (Set::default(), FxHashMap::default());
    let mut fuser = Fuser { works, graph, device, tail, taken, made };
    for (i, work) in works.iter().enumerate() {
        if let Some(Step::Attention(step)) = work.step()
            && device.config.enable_fused_attention
        {
            fuser.attention(i, step)?;
        }
    }
    for (i, work) in works.iter().enumerate() {
        if let Some(Step::MatVec(first)) = work.step()
            && !fuser.taken.contains(i)
        {
            fuser.mat_vec(i, first)?;
        }
    }
    Ok(fuser.made)
}

struct Fuser<'a> {
    works: &'a [Box<Work>],
    graph: &'a mut Graph,
    device: &'a DeviceState,
    /// Operations from here on are not recorded now.
    tail: usize,
    taken: Set,
    made: FxHashMap<usize, Replacement>,
}

/// Where heads come from before norm and rotation, with the operations in between.
type Rotated = (u64, Option<RmsNorm>, Angle, Set);

/// Bytes of an element.
fn element(dtype: u32) -> u64 {
    if dtype == Dtype::Float32 as u32 { 4 } else { 2 }
}

/// A fused mat-vec in the making.
struct Plan {
    fused: Fused,
    /// The operations that it replaces.
    members: Set,
    /// Those of them whose results it stores.
    kept: Set,
}

impl Fuser<'_> {
    fn mat_vec(&mut self, i: usize, first: &MatVec) -> Result<()> {
        let alone = Plan { fused: Fused::of(first), members: Set::of(i), kept: Set::of(i) };
        let config = self.device.config;
        let mut best = alone;
        if config.enable_fused_siblings {
            best = self.with_siblings(best, i, first);
        }
        if config.enable_fused_gate {
            best = self.with_gate(best);
        }
        if config.enable_fused_residual {
            best = self.with_residual(best);
        }
        if config.enable_fused_norm {
            best = self.with_norm(best, i);
        }
        if best.members.len() > 1 { self.product(&best) } else { Ok(()) }
    }

    /// Other products of the same rows: q, k and v, or gate and up.
    fn with_siblings(&self, mut plan: Plan, i: usize, first: &MatVec) -> Plan {
        for (j, work) in self.works.iter().enumerate().skip(i + 1) {
            let Some(Step::MatVec(other)) = work.step() else { continue };
            let same = other.x == first.x
                && (other.rows, other.inner, other.format)
                    == (first.rows, first.inner, first.format);
            let fits = same
                && !self.taken.contains(j)
                && self.graph.source(j, 0) == self.graph.source(i, 0);
            if fits && plan.fused.push(other.matrix) {
                plan.members.insert(j);
                plan.kept.insert(j);
            }
        }
        plan
    }

    /// `silu(gate) * up`, written as `gate * sigmoid(gate) * up` in any order.
    fn with_gate(&self, plan: Plan) -> Plan {
        let pair: Vec<usize> = plan.kept.iter().collect();
        let [a, b] = pair[..] else { return plan };
        [(a, b), (b, a)]
            .into_iter()
            .find_map(|(gate, up)| self.gate(&plan, gate, up))
            .unwrap_or(plan)
    }

    fn gate(&self, plan: &Plan, gate: usize, up: usize) -> Option<Plan> {
        let of_gate: Vec<usize> = self.graph.readers(gate).iter().collect();
        let [_, _] = of_gate[..] else { return None };
        let dtype = plan.fused.format.dtype;
        let is = |i: usize, f: Function| {
            self.map(i).is_some_and(|m| m.function == f && m.dtype == dtype)
        };
        let sigmoid = of_gate.iter().copied().find(|&i| is(i, Function::Sigmoid))?;
        let silu = of_gate.iter().copied().find(|&i| is(i, Function::Multiply))?;
        let product = self.graph.readers(silu).only().filter(|&i| is(i, Function::Multiply))?;
        let once = self.graph.readers(sigmoid).only() == Some(silu)
            && self.graph.readers(up).only() == Some(product)
            && self.sources(product) == [silu, up].into_iter().collect()
            && self.sources(silu) == [gate, sigmoid].into_iter().collect();
        let inside = [gate, up, sigmoid, silu];
        if !once || inside.into_iter().any(|i| !self.is_gone(i)) {
            return None;
        }
        let (Step::MatVec(g), Step::MatVec(u)) = (self.works[gate].step()?, self.works[up].step()?)
        else {
            return None;
        };
        let mut fused = Fused::of(g);
        (fused.push(u.matrix) && g.matrix.outputs == u.matrix.outputs).then_some(())?;
        fused.after = After::Gate;
        fused.matrices[0].result = self.map(product)?.result;
        let members = plan.members.iter().chain([sigmoid, silu, product]).collect();
        Some(Plan { fused, members, kept: Set::of(product) })
    }

    /// A sum with something else, of the only result.
    fn with_residual(&self, plan: Plan) -> Plan {
        self.residual(&plan).unwrap_or(plan)
    }

    fn residual(&self, plan: &Plan) -> Option<Plan> {
        let product = plan.kept.only().filter(|_| plan.fused.after == After::Nothing)?;
        let sum = self.graph.readers(product).only()?;
        let map = self.map(sum).filter(|m| m.function == Function::Add)?;
        let at = (0..2).find(|&k| self.source(sum, k) == Some(product))?;
        let other = self.works[sum].reads.get(1 - at)?;
        let same = other.overlaps(*self.works[product].writes.first()?);
        let fits = self.is_gone(product) && !same && map.dtype == plan.fused.format.dtype;
        fits.then_some(())?;
        let mut fused = plan.fused.clone();
        fused.after = After::Residual(map.operands[1 - at], *other);
        fused.matrices[0].result = map.result;
        let members = plan.members.iter().chain([sum]).collect();
        Some(Plan { fused, members, kept: Set::of(sum) })
    }

    /// The norm of the rows, if nobody else wants it.
    fn with_norm(&self, plan: Plan, i: usize) -> Plan {
        self.norm(&plan, i).unwrap_or(plan)
    }

    fn norm(&self, plan: &Plan, i: usize) -> Option<Plan> {
        let source = self.source(i, 0).filter(|&s| !self.taken.contains(s))?;
        let Some(Step::RmsNorm(norm)) = self.works[source].step() else { return None };
        let fits = norm.width == plan.fused.inner
            && norm.rows == plan.fused.rows
            && norm.dtype == plan.fused.format.dtype;
        let ours = self.graph.readers(source).is_within(&plan.members);
        (fits && ours && self.is_gone(source)).then_some(())?;
        let mut fused = plan.fused.clone();
        fused.norm = Some(*norm);
        fused.x = norm.x;
        let members = plan.members.iter().chain([source]).collect();
        Some(Plan { fused, members, kept: plan.kept })
    }

    /// The operation whose whole result is the `read`-th operand of `i`.
    fn source(&self, i: usize, read: usize) -> Option<usize> {
        let source = self.graph.source(i, read)?;
        (self.works[source].writes.first() == self.works[i].reads.get(read)).then_some(source)
    }

    /// Norms and rotations of the new query and key, and the cache's new row, before an attention.
    fn attention(&mut self, i: usize, step: &Attention) -> Result<()> {
        let Some((projections, members, kept)) = self.projections(i, step) else { return Ok(()) };
        // The new row is written to the cache that is read: by the workgroup that reads it.
        let cache: Vec<Region> = self.works[i].reads.iter().skip(1).copied().collect();
        let encode = |device: &DeviceState| decode::encode(device, step, Some(&projections));
        self.replace(&members, &kept, &cache, encode, || {
            let norm = if projections.norms.is_some() { "norm " } else { "" };
            format!("{norm}rope cache attention {}:{}x{}", step.heads, step.kv_heads, step.width)
        })
    }

    fn projections(&self, i: usize, step: &Attention) -> Option<(Projections, Set, Set)> {
        let last = |row: u32| u64::from(step.count - 1) * u64::from(row) * element(step.dtype);
        let key_row = self.cache_row(i, step, step.keys + last(step.steps[1]), step.steps[0])?;
        let value_row =
            self.cache_row(i, step, step.values + last(step.steps[3]), step.steps[2])?;
        let (q, q_norm, q_angle, of_q) = self.rotated(i, step.heads, step)?;
        let (key, k_norm, k_angle, of_key) = self.rotated(key_row, step.kv_heads, step)?;
        let norms = match (q_norm, k_norm) {
            (Some(q), Some(k)) if q.eps == k.eps => Some(([q.weight, k.weight], q.eps)),
            (None, None) => None,
            _ => return None,
        };
        let value = self.works[value_row].reads.first()?.address;
        let mut members: Set = [i, key_row, value_row].into_iter().collect();
        members.add(&of_q);
        members.add(&of_key);
        let angle = q_angle;
        let kept = [i, key_row, value_row].into_iter().collect();
        let same = q_angle.same(&k_angle);
        same.then_some((Projections { q, key, value, norms, angle }, members, kept))
    }

    /// The operation that writes a cache's row at `to` before `i`.
    fn cache_row(&self, i: usize, attention: &Attention, to: u64, head: u32) -> Option<usize> {
        (0..i).rev().find(|&j| match self.works[j].step() {
            Some(Step::Move(row)) => {
                row.to == to
                    && (row.heads, row.width) == (attention.kv_heads, attention.width)
                    && (row.step, row.dtype) == (u64::from(head), attention.dtype)
                    && self.graph.readers(j).contains(i)
                    && !self.taken.contains(j)
            }
            _ => false,
        })
    }

    /// What the first operand of `user` was before its norm, if there is one, and its rotation.
    fn rotated(&self, user: usize, heads: u32, step: &Attention) -> Option<Rotated> {
        let rope = self.only_for(user)?;
        let Some(Step::Rope(r)) = self.works[rope].step() else { return None };
        let fits = (r.heads, r.width, r.dtype) == (heads, step.width, step.dtype);
        fits.then_some(())?;
        let norm = self.only_for(rope).and_then(|n| match self.works[n].step() {
            Some(Step::RmsNorm(norm)) if (norm.rows, norm.width) == (heads, step.width) => {
                Some((n, *norm))
            }
            _ => None,
        });
        match norm {
            Some((n, norm)) => Some((norm.x, Some(norm), r.angle, [rope, n].into_iter().collect())),
            None => Some((r.x, None, r.angle, Set::of(rope))),
        }
    }

    /// The operation whose result is the first operand of `user` and of nobody else.
    fn only_for(&self, user: usize) -> Option<usize> {
        let source = self.source(user, 0)?;
        let ours = self.graph.readers(source).only() == Some(user);
        (ours && self.is_gone(source) && !self.taken.contains(source)).then_some(source)
    }

    /// The rows that a fused product starts from: the first operand of its first member that takes
    /// them from outside.
    fn rows_of(&self, members: &Set) -> Option<Region> {
        let outside = |i: &usize| self.graph.source(*i, 0).is_none_or(|s| !members.contains(s));
        let starts =
            |i: &usize| matches!(self.works[*i].step(), Some(Step::MatVec(_) | Step::RmsNorm(_)));
        let first = members.iter().filter(starts).find(outside)?;
        self.works[first].reads.first().copied()
    }

    /// What the members read of memory that none of them wrote.
    fn outer_reads(&self, members: &Set) -> Vec<Region> {
        let mut reads: Vec<Region> = Vec::new();
        for i in members.iter() {
            for (k, read) in self.works[i].reads.iter().enumerate() {
                let own = self.graph.source(i, k).is_some_and(|s| members.contains(s));
                if !own && !reads.contains(read) {
                    reads.push(*read);
                }
            }
        }
        reads
    }

    fn map(&self, i: usize) -> Option<&Map> {
        match self.works[i].step() {
            Some(Step::Map(map)) if !self.taken.contains(i) => Some(map),
            _ => None,
        }
    }

    /// The operations whose whole results are operands of `i`.
    fn sources(&self, i: usize) -> Set {
        (0..self.works[i].reads.len()).filter_map(|k| self.source(i, k)).collect()
    }

    /// Nobody can see the result of `i` once the window is over.
    fn is_gone(&self, i: usize) -> bool {
        let end = self.works.last().map_or(0, |work| work.number);
        !(self.works[i].is_wanted_after(end) && self.graph.remains(i))
    }

    /// A fused product, unless it would write the rows: they are read everywhere, also where they are
    /// the residual too, which is read only where it is written.
    fn product(&mut self, plan: &Plan) -> Result<()> {
        let writes = self.writes(&plan.kept);
        let written = |rows: Region| writes.iter().any(|w| w.overlaps(rows));
        if self.rows_of(&plan.members).is_none_or(written) {
            return Ok(());
        }
        let residual = match plan.fused.after {
            After::Residual(_, region) => Some(region),
            After::Nothing | After::Gate => None,
        };
        let encode = |device: &DeviceState| matvec::encode(device, &plan.fused);
        let describe = || plan.fused.describe();
        self.replace(&plan.members, &plan.kept, residual.as_slice(), encode, describe)
    }

    /// Replaces the members by one kernel, unless it would write what it still reads elsewhere.
    /// What it reads `in_place` it may write.
    fn replace(
        &mut self,
        members: &Set,
        kept: &Set,
        in_place: &[Region],
        encode: impl FnOnce(&DeviceState) -> Result<Call>,
        describe: impl FnOnce() -> String,
    ) -> Result<()> {
        let (reads, writes) = (self.outer_reads(members), self.writes(kept));
        let elsewhere = reads.iter().filter(|r| !in_place.contains(r));
        let clash = elsewhere.into_iter().any(|r| writes.iter().any(|w| w.overlaps(*r)));
        if clash || !self.graph.join(members) {
            return Ok(());
        }
        self.taken.add(members);
        if members.iter().any(|i| i >= self.tail) {
            return Ok(());
        }
        let replacement = Replacement {
            work: Work::new(encode(self.device)?, &reads, &writes),
            replaces: members.len() as u64,
            what: uses::is_counted("fused", self.device.config).then(describe),
        };
        self.made.extend(members.iter().next().map(|leader| (leader, replacement)));
        Ok(())
    }

    /// What these operations write.
    fn writes(&self, of: &Set) -> Vec<Region> {
        of.iter().flat_map(|i| self.works[i].writes.iter().copied()).collect()
    }
}
