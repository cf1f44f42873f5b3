//! Reading files.
//!
//! A file is material from a stranger: every count is held against the bytes that are left, every id against
//! what was read before it, and what a primitive gives against what the file says it does.

use std::{collections::HashMap, fmt::Display};

use super::{
    IMPORT, ImportedFunction,
    argument::{Kind, dtype},
    bytes::{Bytes, Misfit},
    imported::{Entry, Function, Step},
    lower::Id,
    signature::Signature,
    table::{self, Operation, Specs},
};
use crate::{
    Array, Device, DeviceType, Result, Shape,
    io::{FileBytes, context::Context},
    primitives::{Primitive, Spec, SpecRef},
};

/// The oldest version whose files are laid out as they are now.
const OLDEST: [u32; 3] = [0, 32, 0];

/// Bytes of the smallest entry of a tape: an id and a flag.
const SMALLEST_ENTRY: usize = 9;

/// The functions of a file.
pub(super) fn parse(file: &FileBytes) -> Result<ImportedFunction> {
    let context = Context::new(IMPORT, file.name());
    let bytes = Bytes::new(file.as_slice());
    let mut reading = Reading { file, context, bytes, version: OLDEST, constants: HashMap::new() };
    let version = reading.field("version", Bytes::text)?;
    reading.version = reading.checked("version", known(&version))?;
    let count = reading.field("function count", |b| {
        let count = b.int()?;
        u32::try_from(count).map_err(|_| format!("{count} is negative"))
    })?;
    let shapeless = reading.field("shapeless", Bytes::flag)?;
    let metadata = reading.field("metadata", Bytes::text)?;
    let functions = (0..count).map(|_| reading.function(shapeless)).collect::<Result<_>>()?;
    Ok(ImportedFunction { shapeless, metadata, functions })
}

/// A version, if files of it can be read.
fn known(text: &str) -> Result<[u32; 3], Misfit> {
    let mut numbers = text.split('.').map(|part| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().ok()
    });
    let mut next = || numbers.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), patch) => {
            let version = [major, minor, patch.unwrap_or(0)];
            let [major, minor, _] = OLDEST;
            match version >= OLDEST {
                true => Ok(version),
                false => Err(format!("files of {text} are older than those of {major}.{minor}")),
            }
        }
        _ => Err(format!("{text:?} is no version")),
    }
}

struct Reading<'a> {
    file: &'a FileBytes,
    context: Context<'a>,
    bytes: Bytes<'a>,
    version: [u32; 3],
    /// Constants of all functions.
    constants: HashMap<Id, Array>,
}

/// The arrays of a function that were read: places of ids, and what is there.
#[derive(Default)]
struct Values {
    places: HashMap<Id, usize>,
    specs: Vec<Spec>,
}

impl Values {
    fn add(&mut self, id: Id, spec: Spec) -> Result<(), Misfit> {
        match self.places.insert(id, self.specs.len()) {
            None => self.specs.push(spec),
            Some(_) => return Err(format!("{id} is there twice")),
        }
        Ok(())
    }

    fn place(&self, id: Id) -> Result<usize, Misfit> {
        self.places.get(&id).copied().ok_or_else(|| format!("{id} was not there before"))
    }
}

impl<'a> Reading<'a> {
    /// Reads something that errors call `field`.
    fn field<T>(
        &mut self,
        field: impl Display,
        read: impl FnOnce(&mut Bytes<'a>) -> Result<T, Misfit>,
    ) -> Result<T> {
        let value = read(&mut self.bytes);
        self.checked(field, value)
    }

    fn checked<T>(&self, field: impl Display, value: Result<T, Misfit>) -> Result<T> {
        value.map_err(|what| self.context.error(field, what))
    }

    fn ids(&mut self, field: &str) -> Result<Vec<Id>> {
        self.field(field, |b| b.list(8, Bytes::size))
    }

    /// A shape of which arrays can be.
    fn shape(&mut self, field: &str, item: usize) -> Result<(Shape, usize)> {
        let sizes = self.field(field, |b| {
            b.list(4, |b| {
                let size = b.int()?;
                u64::try_from(size).map_err(|_| format!("the size {size} is negative"))
            })
        })?;
        self.context.shape(field, &sizes, item)
    }

    /// Shape and dtype of an array.
    fn spec(&mut self, field: &str) -> Result<Spec> {
        let (shape, _) = self.shape(field, 1)?;
        let dtype = self.field(field, dtype)?;
        let sizes: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
        self.context.shape(field, &sizes, dtype.size())?;
        Ok(Spec { shape, dtype })
    }

    fn function(&mut self, shapeless: bool) -> Result<Function> {
        let keywords = self.field("keywords", |b| b.list(8, Bytes::text))?;
        let in_order = keywords.windows(2).all(|pair| pair[0] < pair[1]);
        let in_order = in_order.then_some(()).ok_or_else(|| "are not in order".into());
        self.checked("keywords", in_order)?;
        let ids = self.ids("input ids")?;
        // A shape and a dtype have at least 13 bytes.
        let count = self.field("inputs", |b| b.count(13))?;
        let mut specs = (0..count).map(|_| self.spec("inputs")).collect::<Result<Vec<_>>>()?;
        if ids.len() != count || keywords.len() > count {
            let what = format!("{} ids and {} names for {count}", ids.len(), keywords.len());
            return Err(self.context.error("inputs", what));
        }
        let mut values = Values::default();
        for (id, spec) in ids.into_iter().zip(&specs) {
            let added = values.add(id, spec.clone());
            self.checked("input ids", added)?;
        }
        let outputs = self.ids("output ids")?;
        let named = specs.split_off(count - keywords.len());
        let keywords = keywords.into_iter().zip(named).collect();
        let signature = Signature { positional: specs, keywords };
        let length = self.field("tape", |b| b.count(SMALLEST_ENTRY))?;
        let mut entries = Vec::new();
        for _ in 0..length {
            entries.extend(self.entry(&mut values, shapeless)?);
        }
        let place = |id: Id| self.checked("output ids", values.place(id));
        let outputs = outputs.into_iter().map(place).collect::<Result<_>>()?;
        Ok(Function { signature, entries, outputs })
    }

    /// An array of the tape; `None` for an argument, which is known.
    fn entry(&mut self, values: &mut Values, shapeless: bool) -> Result<Option<Entry>> {
        let id = self.field("id", Bytes::size)?;
        if self.field("has primitive", Bytes::flag)? {
            return self
                .step(id, values, shapeless)
                .map(|step| Entry::Step(Box::new(step)))
                .map(Some);
        }
        if !self.field("is constant", Bytes::flag)? {
            self.checked("id of an argument", values.place(id))?;
            return Ok(None);
        }
        let constant = match self.constants.get(&id) {
            Some(constant) => constant.clone(),
            None => self.constant(id)?,
        };
        let added = values.add(id, constant.spec().to_spec());
        self.checked("id of a constant", added)?;
        Ok(Some(Entry::Constant(constant)))
    }

    fn constant(&mut self, id: Id) -> Result<Array> {
        let spec = self.spec("constant")?;
        let elements: usize = spec.shape.iter().product();
        let nbytes = elements * spec.dtype.size();
        let start = self.bytes.position();
        self.field("constant", |b| b.take(nbytes))?;
        let range = start..start + nbytes;
        let array = self.file.array(self.context, "constant", range, spec.shape, spec.dtype)?;
        self.constants.insert(id, array.clone());
        Ok(array)
    }

    fn step(&mut self, id: Id, values: &mut Values, shapeless: bool) -> Result<Step> {
        let ids = self.ids("inputs of a primitive")?;
        let places = ids.into_iter().map(|id| values.place(id)).collect::<Result<Vec<_>, _>>();
        let inputs = self.checked("inputs of a primitive", places)?;
        let device = self.device()?;
        let name = self.field("name of a primitive", Bytes::text)?;
        let Some(kinds) = table::arguments(&name, self.version) else {
            let what = format!("Unable to deserialize primitive {name}");
            return Err(self.context.error("name of a primitive", what));
        };
        let read = |b: &mut Bytes<'_>| kinds.iter().map(|kind: &Kind| kind.read(b)).collect();
        let arguments: Vec<_> = self.field(format_args!("state of {name}"), read)?;
        let outputs = self.outputs(id, &name)?;
        let specs: Vec<SpecRef<'_>> = inputs.iter().map(|&i| values.specs[i].as_ref()).collect();
        let declared: Vec<Spec> = outputs.iter().map(|(_, spec)| spec.clone()).collect();
        let specs = Specs { inputs: &specs, outputs: &declared };
        let operation = table::meaning(&name, &arguments, specs);
        let operation = operation.ok_or_else(|| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            format!("({}) fits no such inputs and outputs", arguments.join(", "))
        });
        let operation = self.checked(format_args!("state of {name}"), operation)?;
        let fixed = match &operation {
            Operation::Primitive(primitive) => {
                let agrees = agrees(primitive, specs, shapeless);
                self.checked(format_args!("outputs of {name}"), agrees)?;
                primitive.has_sizes().then(|| Shape::from(specs.inputs[0].shape))
            }
            Operation::Function(_) => None,
        };
        for (id, spec) in outputs {
            let added = values.add(id, spec);
            self.checked(format_args!("ids of {name}"), added)?;
        }
        Ok(Step { name, operation, device, inputs, outputs: declared, fixed })
    }

    fn device(&mut self) -> Result<Device> {
        let field = "stream";
        let _index = self.field(field, Bytes::int)?;
        let (kind, index) = (self.field(field, Bytes::int)?, self.field(field, Bytes::int)?);
        let kind = match kind {
            0 => Ok(DeviceType::Cpu),
            1 => Ok(DeviceType::Gpu),
            other => Err(format!("{other} is no kind of device")),
        };
        let kind = self.checked(field, kind)?;
        let index = u32::try_from(index).map_err(|_| format!("there is no device {index}"));
        Ok(Device { kind, index: self.checked(field, index)? })
    }

    /// Ids, shapes and dtypes of what a primitive gives.
    fn outputs(&mut self, id: Id, name: &str) -> Result<Vec<(Id, Spec)>> {
        let field = format!("outputs of {name}");
        let siblings = self.field(&field, Bytes::size)?;
        if siblings == 0 {
            return Ok(vec![(id, self.spec(&field)?)]);
        }
        let ids = self.ids(&field)?;
        let shapes = self.field(&field, |b| b.count(8))?;
        let shapes =
            (0..shapes).map(|_| Ok(self.shape(&field, 1)?.0)).collect::<Result<Vec<_>>>()?;
        let dtypes = self.field(&field, |b| b.list(5, dtype))?;
        let fits = ids.len() as u64 == siblings + 1
            && ids.contains(&id)
            && [shapes.len(), dtypes.len()] == [ids.len(); 2];
        if !fits {
            let counts = [ids.len(), shapes.len(), dtypes.len()];
            let what = format!("{counts:?} ids, shapes and dtypes for {id} and {siblings} others");
            return Err(self.context.error(&field, what));
        }
        let specs = shapes.into_iter().zip(dtypes).map(|(shape, dtype)| Spec { shape, dtype });
        Ok(ids.into_iter().zip(specs).collect())
    }
}

/// Whether a primitive gives what the file says. The sizes of a shapeless function's arrays follow from those
/// of its arguments.
fn agrees(primitive: &Primitive, specs: Specs<'_>, shapeless: bool) -> Result<(), Misfit> {
    let given = primitive.output_specs(specs.inputs).map_err(|error| error.to_string())?;
    if !specs.are_taken_by(primitive) {
        return Err(format!("{} is not for inputs of this dtype", primitive.name()));
    }
    let same = |given: &Spec, declared: &Spec| {
        given.dtype == declared.dtype && (shapeless || given.shape == declared.shape)
    };
    let agrees = given.len() == specs.outputs.len()
        && given.iter().zip(specs.outputs).all(|(given, declared)| same(given, declared));
    agrees.then_some(()).ok_or_else(|| {
        let list = |specs: &[Spec]| {
            let specs: Vec<String> = specs.iter().map(|spec| spec.as_ref().to_string()).collect();
            specs.join(", ")
        };
        format!("({}) would be ({})", list(specs.outputs), list(&given))
    })
}
