//! Functions with derivatives and mappings of their own, and those that are computed twice to save memory.

use std::sync::Arc;

use super::{
    derivative::{self, stream_of},
    trace::Mark,
    tree::{Tree, flat},
    vmap::vmap,
};
use crate::{
    Array, Result, graph, ops,
    primitives::{Custom, CustomRules, PassOp},
    stream::with_stream,
};

/// A function that is called.
type Function<P, O> = dyn Fn(&P) -> Result<O> + Send + Sync;
/// From primals, cotangents and outputs to the derivatives by the primals.
type Vjp<P, O> = dyn Fn(&P, &O, &O) -> Result<P> + Send + Sync;
/// From primals and their tangents to the tangents of the outputs.
type Jvp<P, O> = dyn Fn(&P, &[Option<Array>]) -> Result<O> + Send + Sync;
/// From inputs and their mapped axes to outputs and theirs.
type Vmap<P, O> = dyn Fn(&P, &[Option<usize>]) -> Result<(O, Vec<Option<usize>>)> + Send + Sync;

/// A function of trees, to which transforms do what it says instead of what its operations say; made by
/// [`custom_function`]. What is not said follows from its operations.
pub struct CustomFunction<P, O> {
    fun: Arc<Function<P, O>>,
    vjp: Option<Arc<Vjp<P, O>>>,
    jvp: Option<Arc<Jvp<P, O>>>,
    vmap: Option<Arc<Vmap<P, O>>>,
}

/// `fun`, of which derivatives and mappings can be said.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops, transforms::{custom_function, grad}};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// // Rounds, but lets derivatives pass.
/// let round = custom_function(|x: &Array| ops::round(x, 0))
///     .vjp(|_x, cotangent, _rounded| Ok(cotangent.clone()));
/// let x = Array::scalar(2.6f32)?;
/// assert_eq!(round.call(&x)?.item::<f32>()?, 3.0);
/// let by_x = grad(|x| ops::square(&round.call(x)?), &x)?;
/// assert_eq!(by_x.item::<f32>()?, 6.0);
/// # Ok(()) }
/// ```
///
/// Arrays that it captures are constants to derivatives.
pub fn custom_function<P: Tree, O: Tree>(
    fun: impl Fn(&P) -> Result<O> + Send + Sync + 'static,
) -> CustomFunction<P, O> {
    CustomFunction { fun: Arc::new(fun), vjp: None, jvp: None, vmap: None }
}

/// `fun`, whose intermediate results derivatives do not keep but compute again: less memory for more time.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops, transforms::{checkpoint, grad}};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let layer = checkpoint(|x: &Array| ops::exp(&ops::sin(x)?));
/// let x = Array::scalar(0.5f32)?;
/// let by_x = grad(|x| layer(&layer(x)?), &x)?;
/// # Ok(()) }
/// ```
pub fn checkpoint<P, O>(
    fun: impl Fn(&P) -> Result<O> + Send + Sync + 'static,
) -> impl Fn(&P) -> Result<O> + Send + Sync + Clone
where
    P: Tree + Send + Sync + 'static,
    O: Tree + Send + Sync + 'static,
{
    let fun: Arc<Function<P, O>> = Arc::new(fun);
    let again = fun.clone();
    let vjp = move |primals: &P, cotangents: &O, outputs: &O| {
        let after = ops::depends(&primals.arrays(), &outputs.arrays())?;
        let fun = |arrays: &[Array]| called(&*again, primals, arrays);
        primals.with_arrays(derivative::pullback(fun, &after, &flat(cotangents))?)
    };
    let function =
        CustomFunction { fun, vjp: Some(Arc::new(vjp) as Arc<Vjp<P, O>>), jvp: None, vmap: None };
    move |inputs: &P| function.call(inputs)
}

/// What `fun` returns for a tree like `like` with other arrays.
fn called<P: Tree, O: Tree>(
    fun: &Function<P, O>,
    like: &P,
    arrays: &[Array],
) -> Result<Vec<Array>> {
    Ok(flat(&fun(&like.with_arrays(arrays.iter().cloned())?)?))
}

impl<P, O> CustomFunction<P, O>
where
    P: Tree + Send + Sync + 'static,
    O: Tree + Send + Sync + 'static,
{
    /// Derivatives by the primals are what `rule` returns for primals, cotangents of the outputs, and
    /// outputs.
    #[must_use]
    pub fn vjp(self, rule: impl Fn(&P, &O, &O) -> Result<P> + Send + Sync + 'static) -> Self {
        CustomFunction { vjp: Some(Arc::new(rule)), ..self }
    }

    /// Derivatives of the outputs are what `rule` returns for primals and the tangents of their arrays, in
    /// order; without one where the array does not depend on what is differentiated by.
    #[must_use]
    pub fn jvp(
        self,
        rule: impl Fn(&P, &[Option<Array>]) -> Result<O> + Send + Sync + 'static,
    ) -> Self {
        CustomFunction { jvp: Some(Arc::new(rule)), ..self }
    }

    /// Over an axis, outputs are what `rule` returns for inputs and the mapped axis of each of their arrays,
    /// in order, if it has one; with the mapped axis of each output's array.
    #[must_use]
    pub fn vmap(
        self,
        rule: impl Fn(&P, &[Option<usize>]) -> Result<(O, Vec<Option<usize>>)> + Send + Sync + 'static,
    ) -> Self {
        CustomFunction { vmap: Some(Arc::new(rule)), ..self }
    }

    /// What the function returns.
    ///
    /// # Errors
    /// Those of the function.
    pub fn call(&self, inputs: &P) -> Result<O> {
        let outputs = (self.fun)(inputs)?;
        let is_custom = self.vjp.is_some() || self.jvp.is_some() || self.vmap.is_some();
        let Some(first) = outputs.arrays().first().copied().filter(|_| is_custom) else {
            return Ok(outputs);
        };
        let stream = stream_of(first)?;
        let stopped = outputs.arrays().into_iter().map(ops::stop_gradient);
        let stopped = stopped.collect::<Result<Vec<_>>>()?;
        let call =
            Call { function: self.clone(), inputs: hollow(inputs)?, outputs: hollow(&outputs)? };
        let custom = Custom::new(stopped.len(), Arc::new(call));
        let nodes = flat(inputs).into_iter().chain(stopped).collect();
        let passed = with_stream(stream, || graph::apply(PassOp::Custom(custom).into(), nodes))?;
        outputs.with_arrays(passed)
    }
}

impl<P, O> Clone for CustomFunction<P, O> {
    fn clone(&self) -> Self {
        let CustomFunction { fun, vjp, jvp, vmap } = self;
        CustomFunction { fun: fun.clone(), vjp: vjp.clone(), jvp: jvp.clone(), vmap: vmap.clone() }
    }
}

/// The tree with arrays that hold nothing: what is kept of it must keep no memory.
fn hollow<T: Tree>(tree: &T) -> Result<T> {
    tree.map_arrays(|_, a| Ok(Array::placeholder(a.shape().into(), a.dtype(), Mark::NONE)))
}

/// A call of a function, with the structure of its arguments and results.
struct Call<P, O> {
    function: CustomFunction<P, O>,
    inputs: P,
    outputs: O,
}

impl<P: Tree, O: Tree> Call<P, O> {
    fn inputs(&self, arrays: &[Array]) -> Result<P> {
        self.inputs.with_arrays(arrays.iter().cloned())
    }

    fn outputs(&self, arrays: &[Array]) -> Result<O> {
        self.outputs.with_arrays(arrays.iter().cloned())
    }

    /// The function itself.
    fn run(&self, arrays: &[Array]) -> Result<Vec<Array>> {
        called(&*self.function.fun, &self.inputs, arrays)
    }
}

impl<P, O> CustomRules for Call<P, O>
where
    P: Tree + Send + Sync,
    O: Tree + Send + Sync,
{
    fn vjp(
        &self,
        primals: &[Array],
        cotangents: &[Array],
        outputs: &[Array],
    ) -> Result<Vec<Array>> {
        match &self.function.vjp {
            Some(rule) => {
                let (primals, outputs) = (self.inputs(primals)?, self.outputs(outputs)?);
                Ok(flat(&rule(&primals, &self.outputs(cotangents)?, &outputs)?))
            }
            None => derivative::pullback(|arrays| self.run(arrays), primals, cotangents),
        }
    }

    fn jvp(&self, primals: &[Array], tangents: &[Option<Array>]) -> Result<Vec<Array>> {
        match &self.function.jvp {
            Some(rule) => Ok(flat(&rule(&self.inputs(primals)?, tangents)?)),
            None => derivative::pushforward(|arrays| self.run(arrays), primals, tangents),
        }
    }

    fn vmap(
        &self,
        inputs: &[Array],
        axes: &[Option<usize>],
    ) -> Result<(Vec<Array>, Vec<Option<usize>>)> {
        if let Some(rule) = &self.function.vmap {
            let (outputs, axes) = rule(&self.inputs(inputs)?, axes)?;
            return Ok((flat(&outputs), axes));
        }
        let in_axes: Vec<_> = axes.iter().map(|axis| axis.map(|axis| axis as isize)).collect();
        let first = |outputs| Ok(vec![Some(0); outputs]);
        let outputs = vmap(|arrays| self.run(arrays), inputs, &in_axes, first)?;
        let axes = vec![Some(0); outputs.len()];
        Ok((outputs, axes))
    }
}
