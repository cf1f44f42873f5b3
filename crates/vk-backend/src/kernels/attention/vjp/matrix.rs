//! Derivatives of attention on cooperative matrices: rows that a workgroup keeps and walks.

use super::super::planner::Sizes;
use crate::{
    kernels::layouts::attention_derivatives::{KEYS_PASS, QUERIES_PASS, ROWS_PASS},
    runtime::capabilities::{Capabilities, Fragment},
};

/// What `attention/vjp_matrix.comp` multiplies.
const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

/// Features that a head may have: kept rows and sums stay in registers.
const WIDEST: usize = 128;

/// How a pass runs on cooperative matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// Threads of a subgroup.
    pub(crate) subgroup: u32,
    /// Fragments of rows that a workgroup keeps, each a subgroup's.
    pub(crate) blocks: u32,
    /// Rows that it walks at a time.
    pub(crate) walked: u32,
    /// The next rows are asked for while these are multiplied, which takes registers.
    pub(crate) prefetch: bool,
}

/// Chooses for a pass; `None` where `vjp.comp` has to serve. `fragment` is what products of the dtype may
/// use.
pub(crate) fn plan(
    sizes: &Sizes,
    pass: u32,
    fragment: Option<Fragment>,
    caps: &Capabilities,
) -> Option<Matrix> {
    let widths = [sizes.key_width, sizes.value_width];
    let fits = fragment == Some(SQUARE)
        && caps.subgroup_ops.ballot
        && sizes.queries.min(sizes.keys) >= SQUARE.m as usize
        && widths.iter().all(|w| w.is_multiple_of(16) && (16..=WIDEST).contains(w));
    if !fits {
        return None;
    }
    let narrow = widths[0].max(widths[1]) <= 64;
    let (walked, prefetch) = match pass {
        ROWS_PASS => (64, true),
        _ if narrow => (32, true),
        QUERIES_PASS => (16, true),
        _ => (16, false),
    };
    let subgroup = caps.subgroup_size;
    let wanted = Matrix { subgroup, blocks: 4, walked, prefetch };
    let small = Matrix { blocks: 2, walked: 16, ..wanted };
    [wanted, small].into_iter().find(|plan| plan.runs(sizes, pass, caps))
}

impl Matrix {
    /// Rows that a workgroup keeps.
    pub(crate) const fn rows(self) -> u32 {
        self.blocks * SQUARE.m
    }

    /// Threads of a workgroup.
    pub(crate) const fn threads(self) -> u32 {
        self.blocks * self.subgroup
    }

    /// Bytes of shared memory: `tile` and `row_of` of the shader.
    fn shared(self, sizes: &Sizes, pass: u32) -> u32 {
        let [x, y] = [sizes.key_width, sizes.value_width].map(|width| width as u32 / 8 + 1);
        let sums = self.blocks * SQUARE.m * SQUARE.n / 4;
        let walk = match pass {
            ROWS_PASS => self.walked * x,
            _ => self.walked * (x + y) + sums * self.walked / SQUARE.n,
        };
        let rows = if pass == KEYS_PASS { self.walked } else { self.rows() };
        16 * (walk.max(self.rows() * x.max(y)).max(2 * sums) + rows)
    }

    /// Whether the device can run it.
    pub(crate) fn runs(self, sizes: &Sizes, pass: u32, caps: &Capabilities) -> bool {
        self.threads() <= caps.max_workgroup
            && self.walked <= self.threads()
            && self.shared(sizes, pass) <= caps.shared_memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(queries: usize, width: usize) -> Sizes {
        Sizes {
            batches: 1,
            heads: 4,
            kv_heads: 2,
            queries,
            keys: queries,
            key_width: width,
            value_width: width,
        }
    }

    #[test]
    fn shapes_and_the_device_decide() {
        let caps = Capabilities { shared_memory: 48 << 10, ..Capabilities::default() };
        let found = |queries, width, caps: &Capabilities| {
            [ROWS_PASS, QUERIES_PASS, KEYS_PASS].map(|pass| {
                plan(&sizes(queries, width), pass, Some(SQUARE), caps).map(|p| p.walked)
            })
        };
        assert!(found(512, 64, &caps).iter().all(Option::is_some));
        assert!(found(512, 128, &caps).iter().all(Option::is_some));
        assert_eq!(found(512, 72, &caps), [None; 3]);
        assert_eq!(found(512, 256, &caps), [None; 3]);
        assert_eq!(found(8, 64, &caps), [None; 3]);
        assert_eq!(plan(&sizes(512, 64), KEYS_PASS, None, &caps), None);
        let small = Capabilities { shared_memory: 16 << 10, ..caps };
        assert_eq!(found(512, 128, &small), [Some(16), Some(16), Some(16)]);
    }
}
