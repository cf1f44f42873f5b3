//! Gates and knobs: every `MLX_VK_*` environment variable and upstream's, in one table, and those of the
//! seed that change nothing, in another.
//!
//! The table is declared once by `options!`; from it come the typed [`Config`], the parser and
//! the rows that `mlx-vulkan env` prints. Parsing is a pure function of `(name, value)` pairs.

use mlx_vulkan_core::notice;
use once_cell::sync::Lazy;

/// One row of the table of environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionRow {
    /// Name of the variable.
    pub name: &'static str,
    /// `switch`, `number` or `text`.
    pub kind: &'static str,
    /// Value when the variable is not set.
    pub default: String,
    /// What it does.
    pub meaning: &'static str,
}

/// A type that an environment variable can have.
trait Value: Sized {
    const KIND: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

impl Value for bool {
    const KIND: &'static str = "switch";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "true" | "yes" => Some(true),
            "0" | "off" | "false" | "no" | "" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        u8::from(*self).to_string()
    }
}

impl Value for Option<bool> {
    const KIND: &'static str = "switch";

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { bool::parse(text).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "unset".into(), Value::show)
    }
}

impl Value for u64 {
    const KIND: &'static str = "number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Option<u64> {
    const KIND: &'static str = "number";

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
    }

    fn show(&self) -> String {
        self.map_or_else(|| "unset".into(), |n| n.to_string())
    }
}

impl Value for Option<String> {
    const KIND: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_owned()))
    }

    fn show(&self) -> String {
        self.clone().unwrap_or_else(|| "unset".into())
    }
}

macro_rules! options {
    ($($field:ident: $type:ty = $default:expr, $name:literal, $meaning:literal;)*) => {
        /// The values of all gates and knobs; parsed once per process.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] pub $field: $type,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Config { $($field: $default,)* }
            }
        }

        /// The fields, for the test that they are read.
        #[cfg(test)]
        pub(crate) const FIELDS: &[&str] = &[$(stringify!($field)),*];

        const NAMES: &[&str] = &[$($name),*];

        impl Config {
            /// Sets the field of `name`; `None` if there is no such name, `Some(false)` if the
            /// value does not parse.
            fn set(&mut self, name: &str, text: &str) -> Option<bool> {
                match name {
                    $($name => Some(match <$type as Value>::parse(text.trim()) {
                        Some(value) => { self.$field = value; true }
                        None => false,
                    }),)*
                    _ => None,
                }
            }

            /// The table: one row per variable, in declaration order, the values
            /// being the defaults.
            pub fn rows() -> Vec<OptionRow> {
                let default = Config::default();
                vec![$(OptionRow {
                    name: $name,
                    kind: <$type as Value>::KIND,
                    default: default.$field.show(),
                    meaning: $meaning,
                },)*]
            }

            /// This configuration's values by name, in the order of [`Config::rows`].
            pub fn values(&self) -> Vec<(&'static str, String)> {
                vec![$(($name, self.$field.show()),)*]
            }
        }
    };
}

macro_rules! no_effect {
    ($($name:literal, $reason:literal;)*) => {
        const NO_EFFECT: &[(&str, &str)] = &[$(($name, $reason)),*];
    };
}

include!("config_table.rs");

impl Config {
    /// Names of the seed that change nothing here, each with the reason.
    pub fn without_effect() -> &'static [(&'static str, &'static str)] {
        NO_EFFECT
    }

    /// Parses environment variables; returns the configuration and a warning for every `MLX_VK_*` name
    /// that is unknown or without effect, and every value that does not parse. Other names are ignored.
    pub fn parse<N: AsRef<str>, V: AsRef<str>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let mut warnings = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref());
            if !name.starts_with("MLX_VK_") && !NAMES.contains(&name) {
                continue;
            }
            if let Some((_, reason)) = NO_EFFECT.iter().find(|(known, _)| *known == name) {
                warnings.push(format!("{name} has no effect: {reason}"));
                continue;
            }
            match config.set(name, value) {
                Some(true) => {}
                Some(false) => {
                    warnings.push(format!("{name}={value:?} is not understood; using the default"))
                }
                None => {
                    warnings.push(format!("{name} is not known; did you mean {}?", nearest(name)))
                }
            }
        }
        (config, warnings)
    }

    /// The process's configuration, read from the environment on first use. Warnings go to standard error.
    pub fn get() -> &'static Config {
        static CONFIG: Lazy<Config> = Lazy::new(|| {
            let variables = std::env::vars_os()
                .filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
            let (config, warnings) = Config::parse(variables);
            warnings.iter().for_each(notice::warn);
            config
        });
        &CONFIG
    }
}

/// The known name with the smallest edit distance.
fn nearest(name: &str) -> &'static str {
    NAMES.iter().copied().min_by_key(|known| strsim::levenshtein(name, known)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_what_was_measured() {
        let config = Config::default();
        assert_eq!(
            (config.max_ops_per_buffer, config.max_mb_per_buffer, config.max_inflight_sequences),
            (100, 50, 16)
        );
        assert!(config.enable_qmm_native && !config.enable_qmm_native_m1_reduce_subgroup_x2);
        assert_eq!(config.sdpa_splitk_target_chunk_decode, 32);
    }

    #[test]
    fn values_parse_and_bad_ones_keep_the_default_with_a_warning() {
        let (config, warnings) = Config::parse([
            ("MLX_VK_ENABLE_QMM_NATIVE", "0"),
            ("MLX_VK_MAX_OPS_PER_BUFFER", "7"),
            ("MLX_VK_MAX_MB_PER_BUFFER", "many"),
            ("MLX_VK_DEVICE", "llvmpipe"),
            ("PATH", "/bin"),
        ]);
        assert!(!config.enable_qmm_native);
        assert_eq!((config.max_ops_per_buffer, config.max_mb_per_buffer), (7, 50));
        assert_eq!(config.device.as_deref(), Some("llvmpipe"));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("MLX_VK_MAX_MB_PER_BUFFER"));
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let (_, warnings) = Config::parse([("MLX_VK_MAX_OP_PER_BUFER", "1")]);
        assert!(warnings[0].ends_with("did you mean MLX_VK_MAX_OPS_PER_BUFFER?"), "{warnings:?}");
    }

    #[test]
    fn names_without_effect_warn_with_the_reason() {
        let (config, warnings) = Config::parse([("MLX_VK_ENABLE_ADD_BF16", "0")]);
        assert_eq!(config, Config::default());
        assert!(warnings[0].starts_with("MLX_VK_ENABLE_ADD_BF16 has no effect: "), "{warnings:?}");
        let rows = Config::rows();
        let twice = |name: &str| rows.iter().any(|row| row.name == name);
        assert!(Config::without_effect().iter().all(|(name, _)| !twice(name)));
    }

    #[test]
    fn rows_and_values_name_every_variable_once() {
        let rows = Config::rows();
        assert_eq!(rows.len(), Config::default().values().len());
        let mut names: Vec<_> = rows.iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        let of_upstream = ["MLX_ENABLE_TF32"];
        assert!(names.iter().all(|n| n.starts_with("MLX_VK_") || of_upstream.contains(n)));
    }
}
