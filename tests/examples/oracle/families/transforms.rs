//! Programs of several calls in layers of transforms.

use std::sync::Arc;

use mlx::{Array, Error, Result, compile::Compiled, io::Arrays, ops, transforms};
use serde_json::{Map, Value};

use super::{Function, Table, lookup, one};
use crate::{
    argument::{Args, Argument},
    calls::list_inputs,
};

/// A function of several arrays with several results.
type Fun = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;

pub(super) const TABLE: Table = &[
    ("grad", transformed),
    ("value_and_grad", transformed),
    ("vjp", transformed),
    ("jvp", transformed),
    ("vmap", transformed),
    ("compile", transformed),
    ("checkpoint", transformed),
    ("stop_gradient", |x| one(ops::stop_gradient(&x.array(0)?))),
];

/// The results for each list of inputs, one after the other.
fn transformed(x: &Args<'_>) -> Result<Vec<Array>> {
    let program = Program::new(x)?;
    let innermost: Fun = Arc::new(move |inputs| program.run(inputs));
    let fun = x.at("layers").items().into_iter().try_fold(innermost, around)?;
    let calls = x.all().into_iter().map(|inputs| fun(&inputs.arrays()?));
    Ok(calls.collect::<Result<Vec<_>>>()?.concat())
}

/// Calls of functions on some inputs, one after the other.
struct Program {
    steps: Vec<Step>,
    /// Which values it results in.
    results: Vec<usize>,
    /// Those that its steps name.
    arrays: Arrays,
}

/// A call whose arguments may be inputs of the program, or what earlier steps gave.
struct Step {
    function: Function,
    args: Vec<Value>,
    kwargs: Map<String, Value>,
}

impl Program {
    fn new(x: &Args<'_>) -> Result<Self> {
        let mut names = Vec::new();
        list_inputs(x.at("steps").json(), &mut names);
        let arrays = names.iter().map(|&name| (name.to_owned(), x.arrays[name].clone()));
        Ok(Program {
            arrays: arrays.collect(),
            steps: x.at("steps").items().into_iter().map(Step::new).collect::<Result<_>>()?,
            results: x.at("results").sizes()?,
        })
    }

    fn run(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        let mut values = inputs.to_vec();
        for Step { function, args, kwargs } in &self.steps {
            let given = function(&Args { args, kwargs, arrays: &self.arrays, values: &values })?;
            values.extend(given);
        }
        Ok(self.results.iter().map(|&result| values[result].clone()).collect())
    }
}

impl Step {
    fn new(step: Argument<'_>) -> Result<Self> {
        let name = step.field("function").text();
        let missing = || Error::invalid("oracle", format!("no function {name}"));
        Ok(Step {
            function: lookup(name).ok_or_else(missing)?,
            args: step.field("args").json().as_array().expect("a list").clone(),
            kwargs: step.field("kwargs").json().as_object().expect("an object").clone(),
        })
    }
}

/// The function in one more layer.
fn around(fun: Fun, layer: Argument<'_>) -> Result<Fun> {
    let part = |name| layer.field(name);
    Ok(match part("kind").text() {
        "dot" => {
            let weights = part("weights").arrays()?;
            Arc::new(move |x| dot(&fun(x)?, &weights))
        }
        "grad" => {
            let arguments = part("arguments").ints();
            Arc::new(move |x| Ok(transforms::value_and_grad_of(|x| fun(x), x, &arguments)?.1))
        }
        "value_and_grad" => {
            let arguments = part("arguments").ints();
            Arc::new(move |x| transforms::value_and_grad_of(|x| fun(x), x, &arguments).map(joined))
        }
        "vjp" => {
            let cotangents = part("cotangents").arrays()?;
            Arc::new(move |x| transforms::vjp(|x| fun(x), x, &cotangents).map(joined))
        }
        "jvp" => {
            let tangents = part("tangents").arrays()?;
            Arc::new(move |x| transforms::jvp(|x| fun(x), x, &tangents).map(joined))
        }
        "vmap" => {
            let axes = |name| part(name).items().into_iter().map(Argument::maybe_int).collect();
            let (in_axes, out_axes): (Vec<_>, Vec<_>) = (axes("in_axes"), axes("out_axes"));
            Arc::new(move |x| transforms::vmap(|x| fun(x), x, &in_axes, |_| Ok(out_axes.clone())))
        }
        "compile" => {
            let compiled = Compiled::new(move |x| fun(x), part("shapeless").flag());
            Arc::new(move |x| compiled.call(x))
        }
        "checkpoint" => {
            let checkpoint = transforms::checkpoint(move |x: &Vec<Array>| fun(x));
            Arc::new(move |x| checkpoint(&x.to_vec()))
        }
        kind => return Err(Error::invalid("oracle", format!("no transform {kind}"))),
    })
}

/// Results, then their derivatives.
fn joined((mut results, derivatives): (Vec<Array>, Vec<Array>)) -> Vec<Array> {
    results.extend(derivatives);
    results
}

/// The sum of all results times weights.
fn dot(results: &[Array], weights: &[Array]) -> Result<Vec<Array>> {
    let part = |(x, weight): (&Array, &Array)| {
        let product = ops::multiply(x, weight)?;
        let is_complex = product.dtype() == mlx::Dtype::Complex64;
        let product = if is_complex { ops::real(&product)? } else { product };
        ops::sum(&product, &[], false)
    };
    let mut parts = results.iter().zip(weights).map(part);
    let first = parts.next().expect("a program has results")?;
    one(parts.try_fold(first, |sum, part| ops::add(&sum, part?)))
}
