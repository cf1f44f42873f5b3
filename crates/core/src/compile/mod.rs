//! Compiled functions: a function is traced once for each kind of arguments, and what it computes is built
//! from then on without running it.
//!
//! The trace becomes a `Template`: primitives and indices. Equal computations are done once, what no result
//! needs is left out (`simplify`), steps of the gated delta rule become one primitive (`delta`), and
//! elementwise operations become programs (`fuse`). A call makes a node for each step of the template.

mod delta;
mod dot;
mod fuse;
mod simplify;
mod template;

pub use dot::export_to_dot;
pub(crate) use {
    dot::letters,
    template::{Step, Template, cannot_infer},
};

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::Relaxed},
};

use once_cell::sync::Lazy;
use parking_lot::RwLock;

use template::Sizes;

use crate::{
    Array, Error, Result, Stream,
    primitives::Spec,
    stream,
    transforms::{trace::Tracing, walk::Graph},
};

/// How much compiling does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Nothing: functions run as they are.
    Disabled,
    /// It builds what was traced as it is.
    NoSimplify,
    /// It leaves out what is equal or not needed.
    NoFuse,
    /// It makes programs of elementwise operations besides.
    Enabled,
}

/// The mode of the process; `MLX_DISABLE_COMPILE` in the environment is where it begins.
static MODE: Lazy<AtomicU8> = Lazy::new(|| {
    let disabled = std::env::var_os("MLX_DISABLE_COMPILE").is_some();
    AtomicU8::new(if disabled { Mode::Disabled } else { Mode::Enabled } as u8)
});

/// How much compiling does in this process from now on.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Relaxed);
}

/// How much compiling does in this process.
pub fn mode() -> Mode {
    let modes = [Mode::Disabled, Mode::NoSimplify, Mode::NoFuse, Mode::Enabled];
    modes[usize::from(MODE.load(Relaxed))]
}

/// A function of arrays, with something besides that belongs to what it returned.
type Fun<X> = dyn Fn(&[Array]) -> Result<(Vec<Array>, X)> + Send + Sync;

/// A compiled function. It owns what it has traced, and may be called and dropped on any thread.
pub struct Compiled<X = ()> {
    fun: Box<Fun<X>>,
    traces: Traces<X>,
}

/// What a function has been traced to; the function itself comes with each call, and has to be the same. With
/// each trace there is something that the function returned besides its arrays.
pub struct Traces<X = ()> {
    shapeless: bool,
    traces: RwLock<Vec<Arc<Trace<X>>>>,
}

/// What a function computes for arguments of one kind.
struct Trace<X> {
    stream: Stream,
    inputs: Vec<Spec>,
    constants: Vec<u64>,
    template: Template,
    /// Of the arguments that a shapeless function had last, the newest last.
    sizes: RwLock<Vec<Arc<Sizes>>>,
    extra: X,
}

/// Sizes that a trace keeps.
const MOST_SIZES: usize = 8;

impl<X> Trace<X> {
    /// The arrays that the function returns.
    fn outputs(&self, inputs: &[Array], shapeless: bool) -> Result<Vec<Array>> {
        let sizes = if shapeless { Some(self.sizes_for(inputs)?) } else { None };
        Ok(self.template.instantiate(inputs, sizes.as_deref()))
    }

    /// The sizes of what is computed from `inputs`. Programs use few, over and over, and inferring takes
    /// longer than making nodes.
    fn sizes_for(&self, inputs: &[Array]) -> Result<Arc<Sizes>> {
        let known = self.sizes.read().iter().find(|sizes| sizes.are_of(inputs)).cloned();
        if let Some(sizes) = known {
            return Ok(sizes);
        }
        let sizes = Arc::new(self.template.sizes(inputs, &self.inputs)?);
        let mut all = self.sizes.write();
        let over = (all.len() + 1).saturating_sub(MOST_SIZES);
        all.drain(..over);
        all.push(sizes.clone());
        Ok(sizes)
    }
}

impl Compiled {
    /// `fun`, compiled. A `shapeless` one is traced once for arguments of any sizes, as long as their
    /// number of axes and dtypes stay.
    pub fn new(
        fun: impl Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync + 'static,
        shapeless: bool,
    ) -> Self {
        Compiled::with_extra(move |inputs| Ok((fun(inputs)?, ())), shapeless)
    }

    /// What the function returns for `inputs`.
    ///
    /// # Errors
    /// As of [`Compiled::call_with`].
    pub fn call(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        Ok(self.call_with(inputs, &[])?.0)
    }
}

impl<X: Clone> Compiled<X> {
    /// The same for a function that returns something besides its arrays. A call returns what the trace
    /// returned.
    pub fn with_extra(
        fun: impl Fn(&[Array]) -> Result<(Vec<Array>, X)> + Send + Sync + 'static,
        shapeless: bool,
    ) -> Self {
        Compiled { fun: Box::new(fun), traces: Traces::new(shapeless) }
    }

    /// What the function returns for `inputs`. Other `constants` are another kind of arguments: the function
    /// is traced anew for them.
    ///
    /// # Errors
    /// As of [`Traces::call`].
    pub fn call_with(&self, inputs: &[Array], constants: &[u64]) -> Result<(Vec<Array>, X)> {
        self.traces.call(inputs, constants, &self.fun)
    }
}

impl<X: Clone> Traces<X> {
    /// None yet. A `shapeless` function is traced once for arguments of any sizes.
    pub fn new(shapeless: bool) -> Self {
        Traces { shapeless, traces: RwLock::default() }
    }

    /// What `fun` returns for `inputs`. Other `constants`, and another stream to run on, are another kind of
    /// arguments: the function is traced anew for them.
    ///
    /// # Errors
    /// Those of the function; when it uses an argument that it was not given, or, if it is shapeless,
    /// primitives whose results have the sizes that were traced.
    pub fn call(
        &self,
        inputs: &[Array],
        constants: &[u64],
        fun: impl FnOnce(&[Array]) -> Result<(Vec<Array>, X)>,
    ) -> Result<(Vec<Array>, X)> {
        // A transform wants to see what the function does.
        if mode() == Mode::Disabled || inputs.iter().any(Array::is_tracer) {
            return fun(inputs);
        }
        let stream = stream::current_stream()?;
        let trace = match self.find(stream, inputs, constants) {
            Some(trace) => trace,
            None => self.trace(stream, inputs, constants, fun)?,
        };
        Ok((trace.outputs(inputs, self.shapeless)?, trace.extra.clone()))
    }

    fn find(&self, stream: Stream, inputs: &[Array], constants: &[u64]) -> Option<Arc<Trace<X>>> {
        let fits = |input: &Array, traced: &Spec| {
            input.dtype() == traced.dtype
                && match self.shapeless {
                    true => input.ndim() == traced.shape.len(),
                    false => input.shape() == traced.shape.as_slice(),
                }
        };
        let is = |trace: &&Arc<Trace<X>>| {
            trace.stream == stream
                && trace.constants == constants
                && trace.inputs.len() == inputs.len()
                && inputs.iter().zip(&trace.inputs).all(|(input, traced)| fits(input, traced))
        };
        self.traces.read().iter().find(is).cloned()
    }

    /// Runs the function on placeholders. Nothing is kept if it fails, and nothing is held while it runs: two
    /// threads may trace the same at once.
    fn trace(
        &self,
        stream: Stream,
        inputs: &[Array],
        constants: &[u64],
        fun: impl FnOnce(&[Array]) -> Result<(Vec<Array>, X)>,
    ) -> Result<Arc<Trace<X>>> {
        let (mut template, extra) = record(inputs, self.shapeless, fun)?;
        if mode() >= Mode::NoFuse {
            template = template.simplified();
        }
        if mode() >= Mode::Enabled {
            if !self.shapeless {
                let specs: Vec<Spec> = inputs.iter().map(|input| input.spec().to_spec()).collect();
                template = delta::recognized(template, &specs);
            }
            template = simplify::without_unused(fuse::fuse(template));
        }
        let trace = Arc::new(Trace {
            stream,
            inputs: inputs.iter().map(|input| input.spec().to_spec()).collect(),
            constants: constants.into(),
            template,
            sizes: RwLock::default(),
            extra,
        });
        let mut traces = self.traces.write();
        // Threads that call it have streams of their own, and end.
        let ended: Vec<_> = traces.extract_if(.., |trace| !stream::exists(trace.stream)).collect();
        traces.push(trace.clone());
        drop(traces);
        // Outside of the lock: what a trace has besides is the user's.
        drop(ended);
        Ok(trace)
    }
}

/// Runs a function on placeholders for `inputs`, and says what it computed.
pub(crate) fn record<X>(
    inputs: &[Array],
    shapeless: bool,
    fun: impl FnOnce(&[Array]) -> Result<(Vec<Array>, X)>,
) -> Result<(Template, X)> {
    let tracing = if shapeless { Tracing::shapeless() } else { Tracing::new() };
    let placeholder =
        |input: &Array| Array::placeholder(input.shape().into(), input.dtype(), tracing.mark());
    let placeholders: Vec<Array> = inputs.iter().map(placeholder).collect();
    let (outputs, extra) = fun(&placeholders)?;
    let graph = Graph::between(&placeholders, &outputs);
    expect_captured(&graph, inputs)?;
    Ok((Template::new(&graph, inputs.len()), extra))
}

/// An argument that a function reaches by another way would stay what it was at the first call.
fn expect_captured(graph: &Graph, inputs: &[Array]) -> Result<()> {
    let is_input = |value: &Array| inputs.iter().any(|input| input.is_same(value));
    if graph.values[inputs.len()..].iter().any(is_input) {
        let message = "Attempting to compile a function with uncaptured inputs is not allowed.";
        return Err(Error::invalid("compile", message));
    }
    Ok(())
}
