//! The data behind the tables.

use crate::error::{Context, Result};
use serde::{Deserialize, Serialize, Serializer};
use std::fs;
use std::path::Path;

/// `docs/figures.json`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    pub(crate) machines: Vec<Machine>,
    pub(crate) figures: Vec<Figure>,
}

/// A machine that figures were measured on.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) id: String,
    /// The short name in tables.
    pub(crate) name: String,
    /// Hardware, driver and build.
    pub(crate) about: String,
}

/// One figure.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What, on which machine, and by which program, if it is not ours.
    pub(crate) id: String,
    /// The table that it stands in.
    pub(crate) section: String,
    pub(crate) what: String,
    /// The program, if it is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The machine's id.
    pub(crate) machine: String,
    #[serde(serialize_with = "whole_as_integer")]
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// Standard deviation, in the value's unit.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_whole_as_integer"
    )]
    pub(crate) spread: Option<f64>,
    /// A target that larger values reach.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_whole_as_integer"
    )]
    pub(crate) at_least: Option<f64>,
    /// A target that smaller values reach.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_whole_as_integer"
    )]
    pub(crate) at_most: Option<f64>,
    /// What was typed, without `--json`.
    pub(crate) command: String,
    /// Where the value stands in the JSON that the command prints (RFC 6901).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read: Option<String>,
    /// The day (or month) of the measurement.
    pub(crate) date: String,
    /// The commit that was measured, or that first stated the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// What else is known of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// Writes whole numbers as people do, so that a file changes only where a value does.
fn whole_as_integer<S: Serializer>(value: &f64, to: S) -> std::result::Result<S::Ok, S::Error> {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => to.serialize_i64(*value as i64),
        false => to.serialize_f64(*value),
    }
}

fn some_whole_as_integer<S: Serializer>(
    value: &Option<f64>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    match value {
        Some(value) => whole_as_integer(value, to),
        None => to.serialize_none(),
    }
}

impl Figures {
    /// The data of a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no such data.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = super::read(path)?;
        serde_json::from_str(&text).context(|| format!("cannot use {}", path.display()))
    }

    /// Writes the data, one field a line.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context(|| "cannot write figures".into())?;
        fs::write(path, text + "\n").context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.id == id)
    }

    pub(crate) fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

impl Figure {
    /// Whether the target is reached; none if there is no target.
    pub(crate) fn reached(&self) -> Option<bool> {
        let least = self.at_least.map(|least| self.value >= least);
        least.or_else(|| self.at_most.map(|most| self.value <= most))
    }
}
