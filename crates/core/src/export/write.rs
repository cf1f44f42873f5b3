//! Writing files.

use std::{collections::HashSet, io::Write, path::Path};

use super::{
    EXPORT, VERSION,
    argument::{Argument, write_dtype, write_size, write_text},
    lower::{Entry, Id, Names, Node, Trace},
};
use crate::{
    Array, Device, DeviceType, Error, Result, Stream,
    io::{self, context::Context},
    primitives::Spec,
};

/// What a file has besides its functions.
pub(super) struct Header {
    pub(super) shapeless: bool,
    pub(super) metadata: String,
}

/// Writes a file of these functions, atomically.
pub(super) fn file(path: &Path, header: &Header, traces: &[Trace], names: &Names) -> Result<()> {
    io::write_file(EXPORT, path, |out, context| {
        let mut writing = Writing { out, context, names, written: HashSet::new() };
        writing.header(header, traces.len())?;
        traces.iter().try_for_each(|trace| writing.trace(trace))
    })
}

struct Writing<'a> {
    out: &'a mut dyn Write,
    context: Context<'a>,
    names: &'a Names,
    /// Constants that the file has.
    written: HashSet<Id>,
}

impl Writing<'_> {
    fn header(&mut self, header: &Header, functions: usize) -> Result<()> {
        let mut bytes = Vec::new();
        write_text(&mut bytes, VERSION);
        push(&mut bytes, Argument::int(functions))?;
        bytes.push(u8::from(header.shapeless));
        write_text(&mut bytes, &header.metadata);
        self.write("header", &bytes)
    }

    fn trace(&mut self, trace: &Trace) -> Result<()> {
        let mut bytes = Vec::new();
        write_size(&mut bytes, trace.signature.keywords.len() as u64);
        trace.signature.names().for_each(|name| write_text(&mut bytes, name));
        ids(&mut bytes, trace.inputs.iter().copied());
        let keywords = trace.signature.keywords.iter().map(|(_, spec)| spec);
        let inputs: Vec<&Spec> = trace.signature.positional.iter().chain(keywords).collect();
        write_size(&mut bytes, inputs.len() as u64);
        inputs.into_iter().try_for_each(|spec| push_spec(&mut bytes, spec))?;
        ids(&mut bytes, trace.outputs.iter().map(|(id, _)| *id));
        write_size(&mut bytes, trace.tape.len() as u64);
        self.write("function", &bytes)?;
        trace.tape.iter().try_for_each(|entry| match entry {
            Entry::Constant(id) => self.constant(*id),
            Entry::Node(node) => self.node(node),
        })
    }

    fn constant(&mut self, id: Id) -> Result<()> {
        let mut bytes = id.to_le_bytes().to_vec();
        // No primitive, and no argument.
        bytes.extend([0, 1]);
        if !self.written.insert(id) {
            return self.write("constant", &bytes);
        }
        let array = self.names.array(id);
        push_spec(&mut bytes, &array.spec().to_spec())?;
        self.write("constant", &bytes)?;
        self.write("constant", &array.to_bytes()?)
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let mut bytes = node.outputs[0].0.to_le_bytes().to_vec();
        bytes.push(1);
        ids(&mut bytes, node.inputs.iter().map(|(id, _)| *id));
        push_stream(&mut bytes, node.stream)?;
        write_text(&mut bytes, node.name);
        node.arguments.iter().try_for_each(|argument| push(&mut bytes, argument.clone()))?;
        let siblings = node.outputs.len() - 1;
        write_size(&mut bytes, siblings as u64);
        match node.outputs.as_slice() {
            [(_, spec)] => push_spec(&mut bytes, spec)?,
            several => {
                ids(&mut bytes, several.iter().map(|(id, _)| *id));
                write_size(&mut bytes, several.len() as u64);
                several
                    .iter()
                    .try_for_each(|(_, spec)| push(&mut bytes, Argument::shape(&spec.shape)))?;
                write_size(&mut bytes, several.len() as u64);
                several.iter().for_each(|(_, spec)| write_dtype(&mut bytes, spec.dtype));
            }
        }
        self.write(node.name, &bytes)
    }

    fn write(&mut self, field: &str, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(self.context.on_write(field))
    }
}

impl Names {
    /// A constant.
    fn array(&self, id: Id) -> &Array {
        let place = self.constants.binary_search_by_key(&id, |(id, _)| *id);
        &self.constants[place.expect("it was named here")].1
    }
}

fn ids(bytes: &mut Vec<u8>, ids: impl ExactSizeIterator<Item = Id>) {
    write_size(bytes, ids.len() as u64);
    ids.for_each(|id| write_size(bytes, id));
}

fn push(bytes: &mut Vec<u8>, argument: Argument) -> Result<()> {
    argument.write(bytes).map_err(|value| {
        Error::invalid(
            EXPORT,
            format!("{value} does not fit into the 32 bits that files have for it."),
        )
    })
}

fn push_spec(bytes: &mut Vec<u8>, spec: &Spec) -> Result<()> {
    push(bytes, Argument::shape(&spec.shape))?;
    write_dtype(bytes, spec.dtype);
    Ok(())
}

/// Appends index, kind of device and its index; a stream that is not here has an index that none has.
fn push_stream(bytes: &mut Vec<u8>, stream: Option<Stream>) -> Result<()> {
    let device = stream.map_or(Device::GPU, |stream| stream.device);
    let kind = match device.kind {
        DeviceType::Cpu => 0,
        DeviceType::Gpu => 1,
    };
    let index = stream.map_or(-1, |stream| i64::from(stream.index));
    let numbers = [index, kind, i64::from(device.index)];
    numbers.into_iter().try_for_each(|number| push(bytes, Argument::Int(number)))
}
