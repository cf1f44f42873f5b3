//! Which kernels the families that matter most use, for which shapes, and what was not used and
//! why: `MLX_VK_QMM_STATS`, `MLX_VK_SDPA_STATS` and `MLX_VK_STATS`.

use std::collections::{BTreeMap, btree_map::Entry};

use mlx_vulkan_core::notice;
use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::runtime::config::Config;

/// Shapes that the report lists for each family: the most frequent ones.
const LISTED: usize = 20;

/// How often something happened.
type Counts = BTreeMap<String, u64>;

/// What one family was used for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uses {
    /// Evaluations.
    pub total: u64,
    /// By the kernels that ran, joined by ` + `.
    pub kernels: Counts,
    /// By rows: of the left matrix for `qmm`, queries for `sdpa`.
    pub rows: Counts,
    /// By shape.
    pub shapes: Counts,
    /// By the reason for which a kernel or an input was refused.
    pub rejected: Counts,
}

static USES: Lazy<Mutex<BTreeMap<&'static str, Uses>>> = Lazy::new(Mutex::default);
/// What debug gates have logged, so that each line is logged once.
static LOGGED: Lazy<Mutex<Counts>> = Lazy::new(Mutex::default);

/// Whether the uses of `family` are counted.
pub(crate) fn is_counted(family: &str, config: &Config) -> bool {
    config.stats
        || match family {
            "qmm" => config.qmm_stats,
            "sdpa" => config.sdpa_stats,
            _ => false,
        }
}

/// Whether rejections of `family` are logged.
pub(crate) fn is_logged(family: &str, config: &Config) -> bool {
    match family {
        "rope" => config.debug_rope_reject,
        "sdpa" => config.debug_sdpa_reject,
        "argreduce" => config.debug_argreduce_reject,
        "binary" => config.debug_binary_fallback,
        "bitwise" => config.debug_bitwise_fallback,
        "quantize" => config.debug_fast_quantize_fallback,
        "gather" => config.debug_gather_fallback,
        _ => false,
    }
}

/// The bucket of a number of rows: those that kernels are made for.
pub(crate) fn row_bucket(rows: usize) -> &'static str {
    match rows {
        0..=1 => "1",
        2 => "2",
        3..=4 => "3-4",
        5..=8 => "5-8",
        9..=16 => "9-16",
        17..=64 => "17-64",
        _ => "65-",
    }
}

/// Counts one evaluation of `family` if that was asked for.
pub(crate) fn used(
    config: &Config,
    family: &'static str,
    kernels: &[&str],
    (rows, shape): (usize, &str),
) {
    if !is_counted(family, config) {
        return;
    }
    let mut all = USES.lock();
    let uses = all.entry(family).or_default();
    uses.total += 1;
    let count = |counts: &mut Counts, key: String| *counts.entry(key).or_default() += 1;
    count(&mut uses.kernels, kernels.join(" + "));
    count(&mut uses.rows, row_bucket(rows).to_owned());
    count(&mut uses.shapes, shape.to_owned());
}

/// Notes why a kernel of `family` was not used: counted with the family's statistics, and logged
/// once with its debug gate (`MLX_VK_DEBUG_SDPA_REJECT` and its kin). Without either the reason is
/// not even made.
pub(crate) fn reject(config: &Config, family: &'static str, reason: impl FnOnce() -> String) {
    let (counted, logged) = (is_counted(family, config), is_logged(family, config));
    if !counted && !logged {
        return;
    }
    let reason = reason();
    if logged && first(family, &reason) {
        notice::write(&format!("mlx: {family}: not used: {reason}\n"));
    }
    if counted {
        *USES.lock().entry(family).or_default().rejected.entry(reason).or_default() += 1;
    }
}

/// Whether this is the first time.
fn first(family: &str, reason: &str) -> bool {
    match LOGGED.lock().entry(format!("{family}: {reason}")) {
        Entry::Occupied(_) => false,
        Entry::Vacant(entry) => {
            entry.insert(1);
            true
        }
    }
}

/// The uses counted so far, by family.
pub fn uses() -> BTreeMap<&'static str, Uses> {
    USES.lock().clone()
}

/// The report of all families; empty when nothing was counted.
pub(super) fn report() -> String {
    uses().iter().map(|(family, uses)| family_report(family, uses)).collect()
}

fn family_report(family: &str, uses: &Uses) -> String {
    let mut text = format!("mlx vulkan: {family}: {} evaluations\n", uses.total);
    let parts = [
        ("kernel", &uses.kernels),
        ("rows", &uses.rows),
        ("shape", &uses.shapes),
        ("rejected", &uses.rejected),
    ];
    for (what, counts) in parts {
        let mut rows: Vec<_> = counts.iter().collect();
        rows.sort_by_key(|&(_, n)| std::cmp::Reverse(*n));
        for (key, n) in rows.iter().take(LISTED) {
            let share = 100.0 * **n as f64 / uses.total.max(1) as f64;
            text += &format!("  {n:>10} {share:>5.1}% {what:<8} {key}\n");
        }
        if rows.len() > LISTED {
            text += &format!("  {:>10} more of {what}\n", rows.len() - LISTED);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_list_the_most_frequent_first() {
        let counts = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, n)| ((*k).into(), *n)).collect();
        let uses = Uses {
            total: 4,
            kernels: counts(&[("gemm", 1), ("qmv", 3)]),
            rejected: counts(&[("MLX_VK_ENABLE_QMM_NATIVE_M2=0", 1)]),
            ..Uses::default()
        };
        let text = family_report("qmm", &uses);
        assert!(text.find("75.0% kernel   qmv") < text.find("25.0% kernel   gemm"), "{text}");
        assert!(text.contains("rejected MLX_VK_ENABLE_QMM_NATIVE_M2=0"), "{text}");
    }

    #[test]
    fn what_nobody_asked_for_is_not_made() {
        assert!(!is_counted("qmm", &Config::default()) && !is_logged("sdpa", &Config::default()));
        reject(&Config::default(), "no such family", || unreachable!("nobody asked"));
    }

    #[test]
    fn every_debug_gate_reaches_its_family() {
        for (name, family) in [
            ("MLX_VK_DEBUG_ROPE_REJECT", "rope"),
            ("MLX_VK_DEBUG_SDPA_REJECT", "sdpa"),
            ("MLX_VK_DEBUG_ARGREDUCE_REJECT", "argreduce"),
            ("MLX_VK_DEBUG_BINARY_FALLBACK", "binary"),
            ("MLX_VK_DEBUG_BITWISE_FALLBACK", "bitwise"),
            ("MLX_VK_DEBUG_FAST_QUANTIZE_FALLBACK", "quantize"),
            ("MLX_VK_DEBUG_GATHER_FALLBACK", "gather"),
        ] {
            assert!(is_logged(family, &Config::parse([(name, "1")]).0), "{name}");
        }
    }
}
