//! Reading what the generator wrote.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mlx::{
    Array,
    io::{Arrays, load_safetensors},
};
use serde_json::{Map, Value};

/// The calls of one family, with their arrays.
pub(crate) struct Family {
    /// Its name.
    pub(crate) name: String,
    /// Where its calls are.
    pub(crate) folder: PathBuf,
    /// Its calls, in the order in which they were drawn.
    pub(crate) calls: Vec<Call>,
    /// Arguments and results by name.
    pub(crate) arrays: Arrays,
}

/// One call.
pub(crate) struct Call(Map<String, Value>);

/// A result of upstream's.
pub(crate) struct Output<'a> {
    /// Name of the dtype.
    pub(crate) dtype: &'a str,
    /// Sizes of the axes.
    pub(crate) shape: Vec<usize>,
    /// The values, in a dtype at least as wide.
    pub(crate) values: &'a Array,
    /// What each element may be off.
    pub(crate) error: Option<&'a Array>,
    /// What is right too: upstream's result in its own dtype.
    pub(crate) own: Option<&'a Array>,
}

impl Call {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().expect("a string")
    }

    /// Name of the function, without `mx.`.
    pub(crate) fn function(&self) -> &str {
        self.text("function")
    }

    /// Positional arguments.
    pub(crate) fn args(&self) -> &[Value] {
        self.0["args"].as_array().expect("a list")
    }

    /// Arguments by name.
    pub(crate) fn kwargs(&self) -> &Map<String, Value> {
        self.0["kwargs"].as_object().expect("an object")
    }

    /// How far an element may be off, in units in the last place.
    pub(crate) fn ulps(&self) -> f64 {
        self.0["ulps"].as_f64().expect("a number")
    }

    /// What upstream raised, if it did.
    pub(crate) fn raised(&self) -> Option<&str> {
        self.0.get("raised")?.as_str()
    }

    /// Upstream's results.
    pub(crate) fn outputs<'a>(&'a self, arrays: &'a Arrays) -> Vec<Output<'a>> {
        let outputs = self.0["outputs"].as_array().expect("a list");
        outputs.iter().map(|output| Output::new(output, arrays)).collect()
    }

    /// Names of the arrays among the arguments.
    pub(crate) fn inputs(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.args().iter().chain(self.kwargs().values()).for_each(|x| list_inputs(x, &mut names));
        names
    }

    /// Whether an argument is the dtype float64.
    pub(crate) fn names_float64(&self) -> bool {
        let is_it = |value: &Value| value["dtype"].as_str() == Some("float64");
        self.args().iter().chain(self.kwargs().values()).any(is_it)
    }

    /// The call as one would type it, and how to have it again.
    pub(crate) fn shown(&self, arrays: &Arrays) -> String {
        let inputs = self.inputs();
        let array = |(i, name): (usize, &&str)| {
            let array = &arrays[*name];
            format!("a{i}: {} {:?}", array.dtype(), array.shape())
        };
        let inputs: Vec<String> = inputs.iter().enumerate().map(array).collect();
        let (family, seed, number) = (self.text("family"), &self.0["seed"], &self.0["number"]);
        let again = format!("--family {family} --first {seed} --seeds 1, number {number}");
        format!("{}\n    where {}  ({again})", self.text("text"), inputs.join(", "))
    }
}

impl<'a> Output<'a> {
    fn new(output: &'a Value, arrays: &'a Arrays) -> Self {
        let array = |field: &str| output[field].as_str().map(|name| &arrays[name]);
        let shape = output["shape"].as_array().expect("a shape");
        Output {
            dtype: output["dtype"].as_str().expect("a dtype"),
            shape: shape.iter().map(|d| d.as_u64().expect("a size") as usize).collect(),
            values: array("array").expect("values"),
            error: array("error"),
            own: array("own"),
        }
    }
}

/// Names of the arrays in an argument.
pub(crate) fn list_inputs<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| list_inputs(item, names)),
        Value::Object(fields) => match fields.get("array") {
            Some(name) => names.extend(name.as_str()),
            None => fields.values().for_each(|field| list_inputs(field, names)),
        },
        _ => {}
    }
}

/// Every family in the folder.
pub(crate) fn families(folder: &Path) -> impl Iterator<Item = Family> {
    let entries = fs::read_dir(folder).expect("the generator's folder");
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.join("calls.jsonl").is_file());
    folders.sort();
    folders.into_iter().map(|path| read(&path))
}

fn read(folder: &Path) -> Family {
    let text = fs::read_to_string(folder.join("calls.jsonl")).expect("the generator's calls");
    let call = |line: &str| Call(serde_json::from_str(line).expect("a JSON object a line"));
    let file = load_safetensors(folder.join("arrays.safetensors")).expect("the generator's arrays");
    Family {
        folder: folder.into(),
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        calls: text.lines().map(call).collect(),
        arrays: file.arrays,
    }
}

/// Upstream's functions that no family draws; known only when all families were drawn.
pub(crate) fn uncovered(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("uncovered.json")).unwrap_or_else(|_| "[]".into());
    serde_json::from_str(&text).expect("a list of names")
}
