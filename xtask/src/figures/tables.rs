//! The Markdown tables made from the data.

use super::data::{Figure, Figures};
use crate::error::{Error, Result};
use std::fmt::Write;

/// Columns of a line.
pub(super) const COLUMNS: usize = 110;

/// The head of `docs/figures.md`.
const HEAD: &str = "# Figures

Made by `cargo xtask figures` from figures.json, which also names the commit of each figure; edit that file,
not this one. `cargo xtask bench --record MACHINE NAME …` runs a benchmark and puts its values in;
`cargo xtask figures merge --machine MACHINE [--under PREFIX] FILE…` takes what one printed elsewhere with
`--json`.

Models have random weights unless they are named SmolLM2. `ppN` reads a prompt of N tokens and `tgN` generates
N tokens, as llama-bench counts; values are means of the repeats of one process, with their standard
deviation. A value in bold misses its target. [N] is the command below the tables.
";

/// Where the table of README.md begins and ends.
const BEGIN: &str = "<!-- figures: begin; made by `cargo xtask figures` -->\n";
const END: &str = "<!-- figures: end -->\n";

/// Models of README.md's table: id, name.
const MODELS: [(&str, &str); 3] = [
    ("qwen3-0.6b-4bit", "Qwen3-0.6B 4-bit g64"),
    ("qwen3-0.6b-bf16", "Qwen3-0.6B bf16"),
    ("qwen3-8b-4bit", "Qwen3-8B 4-bit g64"),
];

/// Programs of README.md's table: the end of their figures' ids, name.
const PROGRAMS: [(&str, &str); 4] = [
    ("", "mlx-vulkan"),
    ("/llama.cpp-vulkan", "llama.cpp Vulkan"),
    ("/llama.cpp-cuda", "llama.cpp CUDA"),
    ("/mlx-cuda", "MLX CUDA"),
];

/// All of `docs/figures.md`.
pub(super) fn all(figures: &Figures) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Machines\n\n");
    for machine in &figures.machines {
        text.push_str(&item("- ", &format!("{}: {}.", machine.name, machine.about)));
    }
    let (mut commands, mut notes) = (Vec::new(), String::new());
    for section in in_order(figures.figures.iter().map(|figure| figure.section.as_str())) {
        let _ = writeln!(text, "\n## {section}\n");
        text.push_str("| what | value | target | machine | date | command |\n");
        text.push_str("| --- | ---: | ---: | --- | --- | --- |\n");
        for figure in figures.figures.iter().filter(|figure| figure.section == section) {
            let number = 1 + position(&mut commands, &figure.command);
            text.push_str(&row(figures, figure, number));
        }
    }
    text.push_str("\n## Commands\n\n");
    for (at, command) in commands.iter().enumerate() {
        text.push_str(&item(&format!("{}. ", at + 1), &format!("`{command}`")));
    }
    for figure in &figures.figures {
        if let Some(note) = &figure.note {
            let note = format!("{}, {}: {note}.", figure.what, name(figures, figure));
            notes.push_str(&item("- ", &note));
        }
    }
    text + "\n## Notes\n\n" + &notes
}

/// README.md's table: prompt and generation of the same models by all programs, on the H200.
pub(super) fn peers(figures: &Figures) -> String {
    let value = |model: &str, test: &str, program: &str| {
        let figure = figures.figure(&format!("{model}/{test}/h200{program}"));
        figure.map_or("–".to_owned(), |figure| grouped(figure.value))
    };
    let names = PROGRAMS.map(|(_, name)| name).join(" | ");
    let mut text = format!("| model, random weights | {names} |\n|{}\n", " --- |".repeat(5));
    for (model, name) in MODELS {
        let cells = PROGRAMS.map(|(program, _)| {
            let test = |test| value(model, test, program);
            format!("{} / {}", test("pp512"), test("tg128"))
        });
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

/// `document` with `table` between its markers.
///
/// # Errors
/// When a marker is missing.
pub(super) fn insert(document: &str, table: &str) -> Result<String> {
    let missing = || Error::new("README.md has no place for the table of figures");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn row(figures: &Figures, figure: &Figure, command: usize) -> String {
    let by = figure.by.as_ref().map_or(String::new(), |by| format!("{by}: "));
    let mut value = grouped(figure.value);
    if let Some(spread) = figure.spread {
        let _ = write!(value, " ± {}", grouped(spread));
    }
    if !figure.unit.is_empty() {
        let _ = write!(value, " {}", figure.unit);
    }
    if figure.reached() == Some(false) {
        value = format!("**{value}**");
    }
    let target = match (figure.at_least, figure.at_most) {
        (Some(least), _) => format!("≥ {}", grouped(least)),
        (None, Some(most)) => format!("≤ {}", grouped(most)),
        (None, None) => String::new(),
    };
    let (what, machine, date) = (&figure.what, name(figures, figure), &figure.date);
    format!("| {by}{what} | {value} | {target} | {machine} | {date} | [{command}] |\n")
}

fn name<'a>(figures: &'a Figures, figure: &'a Figure) -> &'a str {
    figures.machine(&figure.machine).map_or(&figure.machine, |machine| &machine.name)
}

/// An item of a list, in lines of at most [`COLUMNS`].
fn item(mark: &str, text: &str) -> String {
    let (mut lines, mut length) = (mark.to_owned(), mark.len());
    for (at, word) in text.split(' ').enumerate() {
        let count = word.chars().count() + usize::from(at > 0);
        if at > 0 && length + count > COLUMNS {
            lines = lines + "\n" + &" ".repeat(mark.len()) + word;
            length = mark.len() + count - 1;
        } else {
            lines = lines + if at > 0 { " " } else { "" } + word;
            length += count;
        }
    }
    lines + "\n"
}

/// The place of `item` in `list`, where it is put if it is new.
fn position<'a>(list: &mut Vec<&'a str>, item: &'a str) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

/// Each of them once.
fn in_order<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut list = Vec::new();
    items.for_each(|item| {
        position(&mut list, item);
    });
    list
}

/// A number with commas between thousands.
fn grouped(value: f64) -> String {
    let text = value.to_string();
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut digits = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            digits.push(',');
        }
        digits.push(digit);
    }
    fraction.map_or(digits.clone(), |fraction| format!("{digits}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let figure = |id: &str, value: f64, least: f64| {
            format!(
                r#"{{"id": "{id}", "section": "s", "what": "{id}", "machine": "m", "value": {value},
                "unit": "tokens/s", "at_least": {least}, "command": "bench", "date": "2026-11-01"}}"#
            )
        };
        let all = [figure("qwen3-8b-4bit/pp512/h200", 14241.0, 14000.0), figure("b", 570.6, 650.0)];
        let text = format!(
            r#"{{"machines": [{{"id": "m", "name": "M", "about": "a machine"}}], "figures": [{}]}}"#,
            all.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_missed_target_is_bold_and_commands_are_listed_once() {
        let text = all(&figures());
        assert!(text.contains("| 14,241 tokens/s | ≥ 14,000 | M | 2026-11-01 | [1] |"), "{text}");
        assert!(text.contains("| **570.6 tokens/s** | ≥ 650 |"), "{text}");
        assert_eq!(text.matches("`bench`").count(), 1, "{text}");
    }

    #[test]
    fn a_table_goes_between_its_markers() {
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        let table = peers(&figures());
        assert!(table.contains("| Qwen3-8B 4-bit g64 | 14,241 / – | – / – |"), "{table}");
        assert_eq!(insert(&document, &table).unwrap(), format!("a\n{BEGIN}{table}{END}b\n"));
        assert!(insert("no markers", &table).is_err());
    }

    #[test]
    fn long_items_are_broken_between_words() {
        let text = item("- ", &"word ".repeat(30));
        let lines: Vec<&str> = text.trim_end().lines().collect();
        assert!(
            lines.len() == 2 && lines[0].len() > COLUMNS - 5 && lines[0].len() <= COLUMNS,
            "{text}"
        );
        assert!(lines[1].starts_with("  word"), "{text}");
    }

    #[test]
    fn thousands_are_parted_by_commas() {
        assert_eq!(
            [0.3, 999.0, 1000.0, 1234567.5].map(grouped),
            ["0.3", "999", "1,000", "1,234,567.5"]
        );
    }
}
