//! `mlx-vulkan env`.

use mlx::vulkan::Config;
use mlx_vulkan_lm::Result;
use serde_json::json;

use super::print_line;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let rows = Config::rows();
    let values = Config::get().values();
    let table = rows.iter().zip(values.into_iter().map(|(_, value)| value));
    if args.json {
        let mut list: Vec<_> = table
            .map(|(row, value)| {
                json!({
                    "name": row.name,
                    "type": row.kind,
                    "default": row.default,
                    "value": value,
                    "meaning": row.meaning,
                })
            })
            .collect();
        let unused = Config::without_effect();
        list.extend(unused.iter().map(|(name, reason)| json!({"name": name, "no effect": reason})));
        return print_line(&serde_json::Value::from(list).to_string());
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    print_line(&format!(
        "{:width$}  {:6}  {:>12}  {:>12}  meaning",
        "name", "type", "default", "value"
    ))?;
    for (row, value) in table {
        let (name, kind, default, meaning) = (row.name, row.kind, &row.default, row.meaning);
        print_line(&format!("{name:width$}  {kind:6}  {default:>12}  {value:>12}  {meaning}"))?;
    }
    print_line("\nKnown names without effect:")?;
    for (name, reason) in Config::without_effect() {
        print_line(&format!("{name:width$}  no effect: {reason}"))?;
    }
    Ok(())
}
