//! What a kernel family gets to work with.

use std::sync::Arc;

use bytemuck::Pod;
use mlx_vulkan_core::{
    Array, Error, Result, Stream,
    array::Data,
    backend::{Encoded, Output},
    buffer::Current,
    shape::Layout,
};

use super::{
    layouts::program::{Constants, PROGRAM, Push},
    program::{self, Form},
    steps::{Kind, Runs, Step, Steps},
    strided,
    team::Team,
};
use crate::{
    runtime::{
        capabilities::{Capabilities, vendor},
        commit::{Call, Work},
        config::Config,
        device::DeviceState,
        encoder::{Dispatch, Encoder, Region},
        linked::Wanted,
        pipelines::PipelineOf,
        streams, trace,
        transfer::{INLINE, memory},
        written::Written,
    },
    shaders::{KernelOf, SpecConstants},
};

/// Elements up to which a chain's operations one by one cost little more than their dispatches.
const LIGHT: u64 = 1 << 18;

/// An array as kernels see it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Operand {
    /// Address of the first element.
    pub address: u64,
    /// The memory that the array's elements span.
    pub region: Region,
}

impl Operand {
    /// Whether the first element lies on a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }
}

/// Encoding of one primitive on one stream.
pub(crate) struct Ctx<'a> {
    device: &'a Arc<DeviceState>,
    encoder: &'a mut Encoder,
    stream: Stream,
    op: &'static str,
}

impl<'a> Ctx<'a> {
    pub(crate) fn new(
        device: &'a Arc<DeviceState>,
        encoder: &'a mut Encoder,
        stream: Stream,
        op: &'static str,
    ) -> Self {
        Ctx { device, encoder, stream, op }
    }

    /// What the device can do.
    pub(crate) fn capabilities(&self) -> &'a Capabilities {
        self.device.capabilities()
    }

    /// Gates and knobs.
    pub(crate) fn config(&self) -> &'static Config {
        self.device.config
    }

    /// The stream that is encoded.
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// The pipeline of `kernel` with its specialization constants: promised once, then found in a table. That
    /// the driver refuses it is an error of what is encoded with it.
    pub(crate) fn pipeline<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
    ) -> PipelineOf<P> {
        self.device.pipelines.get(kernel, constants, 0)
    }

    /// The same with a required subgroup size (a power of two that the device has).
    pub(crate) fn pipeline_with_subgroup<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
        size: u32,
    ) -> PipelineOf<P> {
        self.device.pipelines.get(kernel, constants, size)
    }

    /// A pipeline whose teams are subgroups of exactly the planned size: Intel's drivers choose another
    /// unless told.
    pub(crate) fn team_pipeline<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
        team: Team,
    ) -> PipelineOf<P> {
        let told = team.subgroups && self.capabilities().vendor_id == vendor::INTEL;
        self.device.pipelines.get(kernel, constants, if told { team.subgroup } else { 0 })
    }

    /// The pipeline of a program's module, once it was asked for often enough and is made. Nobody waits. What
    /// has many elements is asked for less often, because every time without it costs more.
    pub(crate) fn program(
        &self,
        form: &Form,
        elements: u64,
        constants: &Constants,
    ) -> Option<PipelineOf<Push>> {
        let mut key = form.key();
        key.extend(constants.words());
        let wanted = Wanted {
            library: PROGRAM,
            constants,
            key: &key,
            sightings: self.config().program_sightings,
            weight: 1 + elements / LIGHT,
        };
        let form = form.clone();
        self.device.linked.find(&self.device.pipelines, &wanted, move || program::link(&form))
    }

    /// The pipeline of a kernel that a user wrote, whose push constants are `P`.
    ///
    /// # Errors
    /// What is wrong with its source.
    pub(crate) fn written<P>(&self, written: Written) -> Result<PipelineOf<P>> {
        self.device.written.get(&self.device.pipelines, written)
    }

    /// Where an input is on the device. Contents that only the host has are uploaded; very small
    /// ones travel as arguments.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(crate) fn input(&mut self, array: &Array) -> Result<Operand> {
        let Data { buffer, layout } = array.evaluated();
        if buffer.current() == Current::Host
            && buffer.nbytes() <= INLINE
            && buffer.written().reached()
        {
            let address = self.encoder.args(&buffer.read())? + layout.offset as u64;
            self.encoder.hold(buffer);
            return Ok(Operand { address, region: Region { address, bytes: 0 } });
        }
        let memory = self.encoder.resident(buffer)?;
        self.encoder.hold(buffer);
        self.encoder.recent.written += usize::from(buffer.written() == self.encoder.open_tick());
        let base = memory.allocation().span().address();
        let (low, high) = strided::span(array.shape(), layout);
        let size = array.dtype().size() as u64;
        let address = base + layout.offset as u64;
        let first = address.wrapping_add_signed(low as i64 * size as i64);
        let bytes = if array.size() == 0 { 0 } else { (high - low + 1) as u64 * size };
        Ok(Operand { address, region: Region { address: first, bytes } })
    }

    /// Allocates a row-major output.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn output(&mut self, output: &mut Output) -> Result<Operand> {
        let layout = Layout::row_major(&output.shape);
        self.output_like(output, layout)
    }

    /// Allocates an output with a dense layout of offset 0, such as an input's.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn output_like(&mut self, output: &mut Output, layout: Layout) -> Result<Operand> {
        let nbytes = layout.data_size * output.dtype.size();
        let allocation = self.encoder.allocate(nbytes as u64)?;
        let address = allocation.span().address();
        let layout = Layout { offset: 0, ..layout };
        let buffer = self.device.buffer(allocation, nbytes);
        self.encoder.hold(&buffer);
        output.data = Some(Data { buffer, layout });
        Ok(Operand { address, region: Region { address, bytes: nbytes as u64 } })
    }

    /// Gives an input's memory to the output if MLX would: nobody else refers to it, it is dense
    /// and row-major, and its elements have the output's size. The kernel then writes in place.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn donate(&mut self, input: &Array, output: &mut Output) -> Result<Option<Operand>> {
        self.donate_among(input, 1, output)
    }

    /// [`Ctx::donate`] where the nodes that are encoded together refer to the input `references` times.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn donate_among(
        &mut self,
        input: &Array,
        references: usize,
        output: &mut Output,
    ) -> Result<Option<Operand>> {
        let Data { buffer, layout } = input.evaluated();
        let fits = layout.flags.row_contiguous
            && input.size() == output.size()
            && input.dtype().size() == output.dtype.size()
            && input.is_donatable_among(references, output.nbytes(), self.stream);
        // What a file holds gets a device copy to be taken over.
        if fits
            && buffer.current() == Current::Host
            && buffer.is_spare()
            && buffer.nbytes() > INLINE
        {
            self.input(input)?;
        }
        // Without a device copy there is nothing to take over; a host copy would be stale, and is given
        // up if nobody needs it beside the device's.
        let there = buffer.current() != Current::Host && buffer.device().is_some();
        if !(fits && there) {
            return Ok(None);
        }
        // What a stream of the CPU is still to compute is read from the host copy when it is there.
        let is_ours = || Ok(!memory(buffer)?.awaits_host() && buffer.remove_spare());
        if !(buffer.is_shared() || is_ours()?) {
            return Ok(None);
        }
        let (operand, open) = (self.input(input)?, self.encoder.open_tick());
        self.encoder.in_place = true;
        self.encoder.recent.overwritten |= buffer.reads().contains(&open);
        let layout = Layout { offset: layout.offset, ..Layout::row_major(&output.shape) };
        output.data = Some(Data { buffer: buffer.clone(), layout });
        buffer.set_current(Current::Device);
        Ok(Some(operand))
    }

    /// [`Ctx::donate`] from the first input that allows it, else [`Ctx::output`].
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(crate) fn output_or_donate(
        &mut self,
        inputs: &[&Array],
        output: &mut Output,
    ) -> Result<Operand> {
        for input in inputs {
            if let Some(operand) = self.donate(input, output)? {
                return Ok(operand);
            }
        }
        self.output(output)
    }

    /// Copies `bytes` to the argument ring; returns the address, a multiple of 16.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn args(&mut self, bytes: &[u8]) -> Result<u64> {
        self.encoder.args(bytes)
    }

    /// Temporary memory until this primitive has run.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn scratch(&mut self, bytes: u64) -> Result<Region> {
        self.encoder.scratch(bytes)
    }

    /// Zeroed words that kernels count in; each leaves them at zero.
    ///
    /// # Errors
    /// When memory is out or so many were never asked for.
    pub(crate) fn counters(&mut self, words: u64) -> Result<Region> {
        self.encoder.counters(words)
    }

    /// Records a dispatch of any grid.
    ///
    /// # Errors
    /// When the grid is over the device's limits, or the device fails.
    pub(crate) fn dispatch<P: Pod>(&mut self, dispatch: &Dispatch<'_, P>) -> Result<()> {
        self.encoder.dispatch(dispatch)
    }

    /// Encodes a dispatch that is described already, with a grid within the device's limits.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn encode(&mut self, call: Call, reads: &[Region], writes: &[Region]) -> Result<()> {
        self.encoder.encode_work(Work::new(call, reads, writes))
    }

    /// The same for a dispatch that [`Work::beside`] follows.
    ///
    /// # Errors
    /// When the device fails, or is known to refuse the kernel.
    pub(crate) fn encode_leading(
        &mut self,
        call: Call,
        reads: &[Region],
        writes: &[Region],
    ) -> Result<()> {
        self.encoder.encode_work(Work::new(call, reads, writes).leading())
    }

    /// Who makes runs of the stream's steps, if it has any.
    pub(crate) fn runs(&mut self) -> Option<&dyn Runs> {
        Steps::of(self.encoder).map(|steps| steps.runs())
    }

    /// Puts off a step that [`Ctx::runs`] serves until something else is encoded.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn put_off(
        &mut self,
        kind: impl Into<Kind>,
        reads: &[Region],
        writes: &[Region],
    ) -> Result<()> {
        Steps::put_off(self.encoder, Step::new(kind.into(), reads, writes, (self.stream, self.op)))
    }

    /// The operation's kernels so far, if statistics ask for them.
    pub(crate) fn used(&self) -> Option<&[&'static str]> {
        self.encoder.used()
    }

    /// Records a 1-D dispatch whose kernel walks `items` with `GRID_LOOP`, `per_group` of them per
    /// workgroup and round. Does nothing when there are none.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn run<P: Pod>(
        &mut self,
        pipeline: &PipelineOf<P>,
        push: &P,
        items: u64,
        per_group: u64,
        reads: &[Region],
        writes: &[Region],
    ) -> Result<()> {
        if items == 0 {
            return Ok(());
        }
        let groups = [self.capabilities().groups_1d(items, per_group), 1, 1];
        self.dispatch(&Dispatch { pipeline, push, groups, reads, writes })
    }

    /// The error for an input that the family does not run.
    pub(crate) fn unsupported(&self, input: &Array, reason: &'static str) -> Error {
        Error::Unsupported {
            op: self.op,
            backend: "vulkan",
            dtype: input.dtype(),
            shape: input.shape().into(),
            reason,
        }
    }

    /// The error for an output that the family does not make.
    pub(crate) fn unsupported_output(&self, output: &Output, reason: &'static str) -> Error {
        Error::Unsupported {
            op: self.op,
            backend: "vulkan",
            dtype: output.dtype,
            shape: output.shape.clone(),
            reason,
        }
    }
}

/// Encodes `count` operations that are done together, the first of them `name`. What that gave, if they are
/// encoded, and what the evaluation does then.
pub(crate) fn encode_operation<T>(
    at: Stream,
    name: &'static str,
    count: u64,
    encode: impl FnOnce(&mut Ctx<'_>) -> Result<T>,
) -> Result<(Option<T>, Encoded)> {
    let stream = streams::get(at)?;
    let device = stream.device();
    stream.work(|encoder| {
        let run = || {
            encoder.begin_op(name, count);
            encode(&mut Ctx::new(device, encoder, at, name))
        };
        if trace::is_on(device.config) { trace::encoding(name, at.index, run) } else { run() }
    })
}
