//! `mlx-vulkan ops`: the support table, primitive × dtype × backend.

use mlx::{
    backend::Support,
    support::{Entry, table},
};
use mlx_vulkan_lm::Result;
use serde_json::json;

use super::print_line;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print a JSON array with one object per cell
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let entries = table()?;
    if args.json {
        let cells: Vec<_> = entries.iter().map(as_json).collect();
        return print_line(&serde_json::Value::from(cells).to_string());
    }
    for line in lines(&entries) {
        print_line(&line)?;
    }
    Ok(())
}

fn parts(support: Support) -> (&'static str, Option<&'static str>) {
    match support {
        Support::Native => ("native", None),
        Support::Fallback(reason) => ("fallback", Some(reason)),
        Support::Refused(reason) => ("refused", Some(reason)),
    }
}

fn as_json(entry: &Entry) -> serde_json::Value {
    let (support, reason) = parts(entry.support);
    json!({
        "primitive": entry.primitive.name(), "dtype": entry.dtype.name(), "backend": entry.backend,
        "support": support, "reason": reason,
    })
}

/// One line per primitive, backend and kind of support, with the dtypes it holds for.
fn lines(entries: &[Entry]) -> Vec<String> {
    let mut groups: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for entry in entries {
        let same = |other: &Entry| {
            other.primitive.name() == entry.primitive.name()
                && other.backend == entry.backend
                && other.support == entry.support
        };
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, dtypes)) => dtypes.push(entry.dtype.name()),
            None => groups.push((entry, vec![entry.dtype.name()])),
        }
    }
    groups.into_iter().map(|(entry, dtypes)| line(entry, &dtypes)).collect()
}

fn line(entry: &Entry, dtypes: &[&str]) -> String {
    let (support, reason) = parts(entry.support);
    let (primitive, backend, dtypes) = (entry.primitive.name(), entry.backend, dtypes.join(" "));
    let reason = reason.map(|text| format!(" ({text})")).unwrap_or_default();
    format!("{primitive:26} {backend:7} {support:8} {dtypes}{reason}")
}

#[cfg(test)]
mod tests {
    use mlx::{
        Dtype,
        primitives::{BinaryOp, Primitive},
    };

    use super::*;

    #[test]
    fn equal_cells_share_a_line() {
        let entry = |dtype, support| Entry {
            primitive: Primitive::Binary(BinaryOp::Add),
            dtype,
            backend: "cpu",
            support,
        };
        let table = [
            entry(Dtype::Float32, Support::Native),
            entry(Dtype::Float64, Support::Refused("no")),
            entry(Dtype::Float16, Support::Native),
        ];
        let lines = lines(&table);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("native   float32 float16"), "{}", lines[0]);
        assert!(lines[1].ends_with("refused  float64 (no)"), "{}", lines[1]);
    }
}
