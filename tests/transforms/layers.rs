//! Random functions under layers of transforms, against what the transforms mean: a loop for `vmap`,
//! derivatives along cotangents for those along tangents, and nothing for `compile` and `checkpoint`.

use std::sync::Arc;

use mlx::{
    Array, Device, Dtype, Result,
    compile::Compiled,
    ops,
    transforms::{checkpoint, jvp, vjp, vmap},
};
use mlx_tests::{cases, filled, noise, values};
use proptest::{prelude::*, test_runner::TestRunner};

use crate::programs::{INPUTS, SHAPE, Step, Way, run, step};

type Fun = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;

/// A transform of a function, which makes another one.
#[derive(Debug, Clone)]
enum Layer {
    Jvp,
    Vjp,
    /// Over this axis of those inputs that are mapped, at least one.
    Vmap {
        axis: usize,
        mapped: u8,
    },
    Checkpoint,
    Compile,
}

/// How many indices are mapped.
const COUNT: usize = 2;

fn layer() -> impl Strategy<Value = Layer> {
    prop_oneof![
        Just(Layer::Jvp),
        Just(Layer::Vjp),
        (0..3usize, 1..1u8 << INPUTS).prop_map(|(axis, mapped)| Layer::Vmap { axis, mapped }),
        Just(Layer::Checkpoint),
        Just(Layer::Compile),
    ]
}

/// Numbers like some arrays'.
fn like(arrays: &[Array], seed: u64) -> Vec<Array> {
    let random = |(a, i): (&Array, u64)| filled(a.shape(), a.dtype(), noise(seed + i, -1.0, 1.0));
    arrays.iter().zip(0..).map(random).collect()
}

/// The sum of all products of two lists of arrays.
fn inner(a: &[Array], b: &[Array]) -> Result<Array> {
    let terms = a.iter().zip(b).map(|(a, b)| ops::sum(&ops::multiply(a, b)?, &[], false));
    let zero = Array::scalar_of(0.0, a[0].dtype())?;
    terms.into_iter().try_fold(zero, |sum, term| ops::add(&sum, &term?))
}

/// A function, the same written in another way, and arguments.
struct Case {
    fun: Fun,
    plain: Fun,
    inputs: Vec<Array>,
}

impl Case {
    fn new(program: Vec<Step>) -> Self {
        let inputs = (0..INPUTS as u64)
            .map(|seed| filled(&SHAPE, Dtype::Float64, noise(seed, -2.0, 2.0)))
            .collect();
        let stream = mlx::current_stream().unwrap();
        let fun: Fun = Arc::new(move |x: &[Array]| run(&program, x, Way::default(), stream));
        Case { plain: fun.clone(), fun, inputs }
    }

    fn under(self, layer: &Layer) -> Self {
        let Case { fun, plain, inputs } = self;
        match *layer {
            Layer::Jvp => {
                let along = like(&inputs, 50);
                let outputs = fun(&inputs).unwrap();
                let (tangents, any) = (along.clone(), like(&outputs, 60));
                let fun = move |x: &[Array]| Ok(jvp(&*fun, x, &tangents)?.1);
                // What is linear in the cotangents: its derivative by them does not depend on them.
                let plain = move |x: &[Array]| {
                    let change = |cotangents: &[Array]| {
                        let (_, by) = vjp(&*plain, x, cotangents)?;
                        Ok(vec![inner(&by, &along)?])
                    };
                    let one = Array::scalar_of(1.0, along[0].dtype())?;
                    Ok(vjp(change, &any, &[one])?.1)
                };
                Case { fun: Arc::new(fun), plain: Arc::new(plain), inputs }
            }
            Layer::Vjp => {
                let cotangents = like(&fun(&inputs).unwrap(), 70);
                let of = |fun: Fun| -> Fun {
                    let cotangents = cotangents.clone();
                    Arc::new(move |x: &[Array]| Ok(vjp(&*fun, x, &cotangents)?.1))
                };
                Case { fun: of(fun), plain: of(plain), inputs }
            }
            Layer::Vmap { axis, mapped } => mapped_over(axis, mapped, fun, plain, inputs),
            Layer::Checkpoint => {
                let fun = checkpoint(move |x: &Vec<Array>| fun(x));
                Case { fun: Arc::new(move |x: &[Array]| fun(&x.to_vec())), plain, inputs }
            }
            Layer::Compile => {
                let compiled = Compiled::new(move |x: &[Array]| fun(x), false);
                Case { fun: Arc::new(move |x: &[Array]| compiled.call(x)), plain, inputs }
            }
        }
    }
}

fn mapped_over(axis: usize, mapped: u8, fun: Fun, plain: Fun, inputs: Vec<Array>) -> Case {
    let axes: Vec<Option<isize>> =
        (0..inputs.len()).map(|i| (mapped & (1 << i) != 0).then_some(axis as isize)).collect();
    let stack = |a: &Array, axis: isize| {
        let others = (1..COUNT).map(|i| ops::multiply(a, 1.0 - 0.25 * i as f64).unwrap());
        let all: Vec<Array> = std::iter::once(a.clone()).chain(others).collect();
        ops::stack(&all.iter().collect::<Vec<_>>(), axis).unwrap()
    };
    let stacked = inputs.iter().zip(&axes);
    let inputs = stacked.map(|(a, axis)| axis.map_or_else(|| a.clone(), |x| stack(a, x))).collect();
    let by_loop = {
        let axes = axes.clone();
        move |x: &[Array]| {
            let at = |i: usize| -> Result<Vec<Array>> {
                let pick = |(a, axis): (&Array, &Option<isize>)| match *axis {
                    Some(axis) => {
                        let one = ops::slice_axis(a, axis, i as isize, i as isize + 1)?;
                        ops::squeeze(&one, &[axis])
                    }
                    None => Ok(a.clone()),
                };
                plain(&x.iter().zip(&axes).map(pick).collect::<Result<Vec<_>>>()?)
            };
            let all: Vec<Vec<Array>> = (0..COUNT).map(at).collect::<Result<_>>()?;
            let of = |output: usize| {
                let each: Vec<&Array> = all.iter().map(|outputs| &outputs[output]).collect();
                ops::stack(&each, -1)
            };
            (0..all[0].len()).map(of).collect()
        }
    };
    let fun = move |x: &[Array]| vmap(&*fun, x, &axes, |n| Ok(vec![Some(-1); n]));
    Case { fun: Arc::new(fun), plain: Arc::new(by_loop), inputs }
}

#[test]
fn layers_of_transforms_are_what_they_mean() {
    mlx_tests::init();
    let programs = (prop::collection::vec(step(), 1..7), prop::collection::vec(layer(), 1..4));
    let check = |(program, layers): (Vec<Step>, Vec<Layer>)| {
        let case = layers.iter().fold(Case::new(program), Case::under);
        // What is compiled is traced by the first call.
        for _ in 0..2 {
            let (got, want) =
                ((case.fun)(&case.inputs).unwrap(), (case.plain)(&case.inputs).unwrap());
            prop_assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                prop_assert_eq!(got.spec(), want.spec());
                let want = values(want);
                let most = want.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
                for (got, want) in values(got).iter().zip(&want) {
                    prop_assert!((got - want).abs() <= 1e-9 * most, "{} instead of {}", got, want);
                }
            }
        }
        Ok(())
    };
    let run = || TestRunner::new(cases(96)).run(&programs, check).unwrap();
    mlx::with_device(Device::CPU, run).unwrap();
}
