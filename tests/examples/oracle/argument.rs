//! Arguments of a call, as this library takes them.

use mlx::{Array, Dtype, Error, Index, Result, Slice, io::Arrays, ops, ops::Operand};
use serde_json::{Map, Value};

/// The arguments of a call, or of a step of a program.
pub(crate) struct Args<'a> {
    /// By place.
    pub(crate) args: &'a [Value],
    /// By name.
    pub(crate) kwargs: &'a Map<String, Value>,
    /// What arguments name.
    pub(crate) arrays: &'a Arrays,
    /// What steps of a program read, by number.
    pub(crate) values: &'a [Array],
}

/// Which argument: by place or by name.
pub(crate) enum Key {
    Place(usize),
    Name(&'static str),
}

impl From<usize> for Key {
    fn from(place: usize) -> Self {
        Key::Place(place)
    }
}

impl From<&'static str> for Key {
    fn from(name: &'static str) -> Self {
        Key::Name(name)
    }
}

/// One argument; one that is missing is `None` in Python's sense.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    value: &'a Value,
    arrays: &'a Arrays,
    values: &'a [Array],
}

impl<'a> Args<'a> {
    /// An argument by place or name.
    pub(crate) fn at(&self, key: impl Into<Key>) -> Argument<'a> {
        let value = match key.into() {
            Key::Place(place) => self.args.get(place),
            Key::Name(name) => self.kwargs.get(name),
        };
        Argument { value: value.unwrap_or(&Value::Null), arrays: self.arrays, values: self.values }
    }

    /// An array argument.
    pub(crate) fn array(&self, key: impl Into<Key>) -> Result<Array> {
        self.at(key).array()
    }

    /// All positional arguments.
    pub(crate) fn all(&self) -> Vec<Argument<'a>> {
        (0..self.args.len()).map(|place| self.at(place)).collect()
    }

    /// All arguments by name, as arrays.
    pub(crate) fn named_arrays(&self) -> Result<Arrays> {
        let named = self.kwargs.iter().map(|(name, value)| {
            let array = Argument { value, arrays: self.arrays, values: self.values }.array()?;
            Ok((name.clone(), array))
        });
        named.collect()
    }

    /// All positional arguments, as arrays.
    pub(crate) fn all_arrays(&self) -> Result<Vec<Array>> {
        self.all().into_iter().map(Argument::array).collect()
    }
}

impl<'a> Argument<'a> {
    /// Whether it is missing or `None`.
    pub(crate) fn is_none(self) -> bool {
        self.value.is_null()
    }

    /// The argument unless it is missing.
    pub(crate) fn given(self) -> Option<Self> {
        (!self.is_none()).then_some(self)
    }

    /// A field of an object.
    pub(crate) fn field(self, name: &str) -> Self {
        Argument { value: &self.value[name], ..self }
    }

    /// What it is in the generator's file.
    pub(crate) fn json(self) -> &'a Value {
        self.value
    }

    /// The items of a list.
    pub(crate) fn items(self) -> Vec<Self> {
        let items = self.value.as_array().expect("a list");
        items.iter().map(|value| Argument { value, ..self }).collect()
    }

    /// Whether it is an array.
    pub(crate) fn is_array(self) -> bool {
        self.value.get("array").is_some() || self.value.get("value").is_some()
    }

    /// Whether it is a list.
    pub(crate) fn is_list(self) -> bool {
        self.value.is_array()
    }

    /// Whether it is a string.
    pub(crate) fn is_text(self) -> bool {
        self.value.is_string()
    }

    /// Whether it is a dtype.
    pub(crate) fn is_dtype(self) -> bool {
        self.value.get("dtype").is_some()
    }

    /// An array in the layout that was drawn, or a value of a program.
    pub(crate) fn array(self) -> Result<Array> {
        if let Some(place) = self.value["value"].as_u64() {
            return Ok(self.values[place as usize].clone());
        }
        let name = self.value["array"].as_str().expect("an array");
        let steps = self.value["view"].as_array().expect("steps of a view");
        steps.iter().try_fold(self.arrays[name].clone(), |array, step| {
            let step = Argument { value: step, ..self }.items();
            match step[0].text() {
                "transpose" => ops::transpose(&array, &step[1].ints()),
                "broadcast" => ops::broadcast_to(&array, &step[1].sizes()?),
                _ => {
                    let slices = step[1].items().into_iter().map(|s| Index::Slice(s.slice()));
                    array.get_item(&slices.collect::<Vec<_>>())
                }
            }
        })
    }

    /// A list of arrays.
    pub(crate) fn arrays(self) -> Result<Vec<Array>> {
        self.items().into_iter().map(Argument::array).collect()
    }

    /// An array, or none.
    pub(crate) fn maybe_array(self) -> Result<Option<Array>> {
        self.given().map(Argument::array).transpose()
    }

    /// An array or a number.
    pub(crate) fn operand(self) -> Result<Box<dyn Operand>> {
        Ok(match self.value {
            Value::Bool(flag) => Box::new(*flag),
            Value::Number(n) if n.is_f64() => Box::new(self.real()),
            Value::Number(_) => Box::new(i32::try_from(self.int()).expect("a small integer")),
            _ if self.is_array() => Box::new(self.array()?),
            _ => Box::new(self.real()),
        })
    }

    /// An integer.
    pub(crate) fn int(self) -> isize {
        self.value.as_i64().unwrap_or_else(|| panic!("{} is no integer", self.value)) as isize
    }

    /// An integer, or none.
    pub(crate) fn maybe_int(self) -> Option<isize> {
        self.given().map(Argument::int)
    }

    /// An integer or a list of integers; none at all is an empty list, as axes are here.
    pub(crate) fn ints(self) -> Vec<isize> {
        match self.value {
            Value::Null => Vec::new(),
            Value::Array(_) => self.items().into_iter().map(Argument::int).collect(),
            _ => vec![self.int()],
        }
    }

    /// A number of things. A negative one is refused, as its type does in Rust.
    pub(crate) fn count(self) -> Result<usize> {
        let negative = |_| Error::invalid("oracle", format!("{} is negative", self.value));
        usize::try_from(self.int()).map_err(negative)
    }

    /// A shape, or any list of counts; a single one stands for itself.
    pub(crate) fn sizes(self) -> Result<Vec<usize>> {
        match self.value {
            Value::Array(_) => self.items().into_iter().map(Argument::count).collect(),
            _ => Ok(vec![self.count()?]),
        }
    }

    /// A flag; `false` if it is missing.
    pub(crate) fn flag(self) -> bool {
        self.given().is_some_and(|x| x.value.as_bool().expect("a flag"))
    }

    /// A real number.
    pub(crate) fn real(self) -> f64 {
        let special = self.value.get("float").and_then(Value::as_str);
        let real = special.map_or_else(|| self.value.as_f64(), |text| text.parse().ok());
        real.unwrap_or_else(|| panic!("{} is no number", self.value))
    }

    /// A real number in single precision.
    pub(crate) fn single(self) -> f32 {
        self.real() as f32
    }

    /// A string.
    pub(crate) fn text(self) -> &'a str {
        self.value.as_str().unwrap_or_else(|| panic!("{} is no string", self.value))
    }

    /// A dtype.
    pub(crate) fn dtype(self) -> Dtype {
        self.value["dtype"].as_str().and_then(|name| name.parse().ok()).expect("a dtype")
    }

    /// A dtype, or none.
    pub(crate) fn maybe_dtype(self) -> Option<Dtype> {
        self.given().map(Argument::dtype)
    }

    /// `[start, stop, step]`.
    fn slice(self) -> Slice {
        let parts: Vec<Option<isize>> = self.items().into_iter().map(Argument::maybe_int).collect();
        Slice::new(parts[0], parts[1], parts[2])
    }

    /// What stands between brackets: one part or a list of them.
    pub(crate) fn index(self) -> Result<Vec<Index>> {
        match self.value {
            Value::Array(_) => self.items().into_iter().map(Argument::part).collect(),
            _ => Ok(vec![self.part()?]),
        }
    }

    fn part(self) -> Result<Index> {
        if self.is_array() {
            return Ok(Index::Array(self.array()?));
        }
        Ok(match self.value {
            Value::Null => Index::NewAxis,
            Value::Number(_) => Index::Int(self.int()),
            value if value.get("ellipsis").is_some() => Index::Ellipsis,
            _ => Index::Slice(self.field("slice").slice()),
        })
    }
}
