//! Finds operations of a window that one kernel can do together.

use mlx_core::Result;
use rustc_hash::FxHashMap;

use super::{
    Work,
    graph::Graph,
    set::Set,
    step::{Function, Map, MatVec, RmsNorm, Step},
};
use crate::{
    device::DeviceState,
    hazards::Region,
    kernels::matvec::{self, After, Fused},
    stats,
};

/// The kernels that replace groups, by their first member; the groups are joined in the graph.
pub(super) fn fuse(
    works: &[Work],
    graph: &mut Graph,
    device: &DeviceState,
) -> Result<FxHashMap<usize, Work>> {
    let mut fuser = Fuser { works, graph, device, taken: Set::default(), made: FxHashMap::default() };
    for i in 0..works.len() {
        if let Some(Step::MatVec(first)) = works[i].step()
            && !fuser.taken.contains(i)
        {
            fuser.mat_vec(i, first)?;
        }
    }
    Ok(fuser.made)
}

struct Fuser<'a> {
    works: &'a [Work],
    graph: &'a mut Graph,
    device: &'a DeviceState,
    taken: Set,
    made: FxHashMap<usize, Work>,
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
        let alone = Plan {
            fused: Fused::of(first),
            members: Set::of(i),
            kept: Set::of(i),
        };
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
        if best.members.len() > 1 { self.replace(&best) } else { Ok(()) }
    }

    /// Other products of the same rows: q, k and v, or gate and up.
    fn with_siblings(&self, mut plan: Plan, i: usize, first: &MatVec) -> Plan {
        for (j, work) in self.works.iter().enumerate().skip(i + 1) {
            let Some(Step::MatVec(other)) = work.step() else { continue };
            let same = other.x == first.x
                && (other.rows, other.inner, other.format) == (first.rows, first.inner, first.format);
            let fits = same && !self.taken.contains(j) && self.graph.source(j, 0) == self.graph.source(i, 0);
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
        [(a, b), (b, a)].into_iter().find_map(|(gate, up)| self.gate(&plan, gate, up)).unwrap_or(plan)
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
        fused.norm = Some(RmsNorm { ..*norm });
        fused.x = norm.x;
        let members = plan.members.iter().chain([source]).collect();
        Some(Plan { fused, members, kept: plan.kept })
    }

    /// The operation whose whole result is the `read`-th operand of `i`.
    fn source(&self, i: usize, read: usize) -> Option<usize> {
        let source = self.graph.source(i, read)?;
        (self.works[source].writes.first() == self.works[i].reads.get(read)).then_some(source)
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
        let owned = self.works[i].meaning.as_ref().is_none_or(|m| m.result.is_owned());
        !(owned && self.graph.remains(i))
    }

    /// Replaces the members by one kernel, unless it would write what it still reads elsewhere.
    fn replace(&mut self, plan: &Plan) -> Result<()> {
        let mut reads: Vec<Region> = Vec::new();
        for i in plan.members.iter() {
            for (k, read) in self.works[i].reads.iter().enumerate() {
                let own = self.graph.source(i, k).is_some_and(|s| plan.members.contains(s));
                if !own && !reads.contains(read) {
                    reads.push(*read);
                }
            }
        }
        let writes: Vec<Region> =
            plan.kept.iter().flat_map(|i| self.works[i].writes.iter().copied()).collect();
        let in_place = |read: &Region| matches!(plan.fused.after, After::Residual(_, r) if r == *read);
        let clash = reads.iter().any(|r| !in_place(r) && writes.iter().any(|w| w.overlaps(*r)));
        if clash || !self.graph.join(&plan.members) {
            return Ok(());
        }
        self.taken.add(&plan.members);
        let work = matvec::encode(self.device, &plan.fused, &reads, &writes)?;
        stats::hit("fused", || plan.fused.describe());
        self.made.extend(plan.members.iter().next().map(|leader| (leader, work)));
        Ok(())
    }
}
