//! `mlx-vulkan ops`: the support table, primitive × dtype × backend.

use mlx::{
    backend::Support,
    primitives::Example,
    support::{Entry, table},
    transforms::Transform,
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
        let cells = entries.iter().map(as_json).collect::<Result<Vec<_>>>()?;
        return print_line(&serde_json::Value::from(cells).to_string());
    }
    for line in lines(&entries)? {
        print_line(&line)?;
    }
    Ok(())
}

fn parts(support: Support) -> (&'static str, Option<&'static str>) {
    match support {
        Support::Native => ("native", None),
        Support::Refused(reason) => ("refused", Some(reason)),
    }
}

/// The transforms that an example's primitive has a rule of, by name.
fn transforms(example: &Example) -> Result<Vec<&'static str>> {
    let mut names = Vec::new();
    for transform in Transform::ALL {
        names.extend(transform.refusal(example)?.is_none().then_some(transform.name()));
    }
    Ok(names)
}

fn as_json(entry: &Entry) -> Result<serde_json::Value> {
    let (support, reason) = parts(entry.support);
    Ok(json!({
        "primitive": entry.example.primitive.name(), "dtype": entry.example.dtype.name(),
        "backend": entry.backend,
        "support": support, "reason": reason,
        "transforms": transforms(&entry.example)?,
    }))
}

/// One line per primitive, backend and kind of support, with the transforms that it has rules of and the
/// dtypes it holds for.
fn lines(entries: &[Entry]) -> Result<Vec<String>> {
    let mut groups: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for entry in entries {
        let same = |other: &Entry| {
            other.example.primitive.name() == entry.example.primitive.name()
                && other.backend == entry.backend
                && other.support == entry.support
        };
        let dtype = entry.example.dtype.name();
        match groups.iter_mut().find(|(first, _)| same(first)) {
            // Several examples may have one name.
            Some((_, dtypes)) if dtypes.contains(&dtype) => {}
            Some((_, dtypes)) => dtypes.push(dtype),
            None => groups.push((entry, vec![dtype])),
        }
    }
    groups.into_iter().map(|(entry, dtypes)| line(entry, &dtypes)).collect()
}

fn line(entry: &Entry, dtypes: &[&str]) -> Result<String> {
    let (support, reason) = parts(entry.support);
    let (primitive, backend) = (entry.example.primitive.name(), entry.backend);
    let dtypes = dtypes.join(" ");
    let reason = reason.map(|text| format!(" ({text})")).unwrap_or_default();
    let rules = transforms(&entry.example)?;
    let rule = |name: &&'static str| if rules.contains(name) { *name } else { "-" };
    let [vjp, jvp, vmap] = [&"vjp", &"jvp", &"vmap"].map(rule);
    Ok(format!("{primitive:26} {backend:7} {support:8} {vjp:3} {jvp:3} {vmap:4} {dtypes}{reason}"))
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
        let entry = |dtype, support| {
            let is = |e: &Example| e.primitive == BinaryOp::Add.into() && e.dtype == dtype;
            let example = Primitive::examples().into_iter().find(is).expect("there is one");
            Entry { example, backend: "cpu", support }
        };
        let table = [
            entry(Dtype::Float32, Support::Native),
            entry(Dtype::Float64, Support::Refused("no")),
            entry(Dtype::Float16, Support::Native),
        ];
        mlx::init();
        let lines = lines(&table).unwrap();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("native   vjp jvp vmap float32 float16"), "{}", lines[0]);
        assert!(lines[1].ends_with("refused  vjp jvp vmap float64 (no)"), "{}", lines[1]);
    }
}
