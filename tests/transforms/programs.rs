//! Random functions of a few operations: evaluations in the middle, streams, checkpoints, compiling and
//! poisoned memory change no bit of their gradients.

use std::{
    cell::RefCell,
    hash::{DefaultHasher, Hash, Hasher},
};

use mlx::{
    Array, Dtype, Result, Stream,
    compile::Compiled,
    current_stream, eval, new_stream, ops,
    transforms::{checkpoint, vjp},
    with_stream,
};
use mlx_tests::{cases, filled, in_child, noise, on_each_device};
use proptest::{prelude::*, test_runner::TestRunner};

/// An operation of a program, on earlier values.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    kind: usize,
    operands: [usize; 2],
    /// Whether its result is evaluated at once, where programs are.
    is_evaluated: bool,
    /// Whether it runs on another stream, where programs use several.
    is_elsewhere: bool,
}

/// How a program runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Way {
    evaluates: bool,
    uses_streams: bool,
    checkpoints: bool,
    compiles: bool,
}

impl Way {
    /// All there are. What is compiled cannot be evaluated in the middle.
    fn all() -> impl Iterator<Item = Way> {
        let way = |bits: u8| {
            let has = |bit: u8| bits & bit != 0;
            let (evaluates, uses_streams) = (has(1), has(2));
            Way { evaluates, uses_streams, checkpoints: has(4), compiles: has(8) }
        };
        (0..16).map(way).filter(|way| !(way.evaluates && way.compiles))
    }
}

pub(crate) const SHAPE: [usize; 2] = [6, 4];
pub(crate) const INPUTS: usize = 3;

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let operands = [any::<prop::sample::Index>(), any::<prop::sample::Index>()];
    (0..9usize, operands, any::<bool>(), any::<bool>()).prop_map(
        |(kind, operands, is_evaluated, is_elsewhere)| {
            let operands = operands.map(|index| index.index(usize::MAX));
            Step { kind, operands, is_evaluated, is_elsewhere }
        },
    )
}

/// It reads its argument once, so that derivatives are added in the same order inside of a checkpoint.
fn layer(x: &Array) -> Result<Array> {
    let y = ops::sin(x)?;
    ops::multiply(&ops::tanh(&y)?, &y)
}

fn apply(kind: usize, a: &Array, b: &Array, way: Way) -> Result<Array> {
    match kind {
        0 => ops::add(a, b),
        1 => ops::multiply(a, &ops::tanh(b)?),
        2 => ops::where_(&ops::greater(a, b)?, a, b),
        3 => ops::sin(a),
        4 => ops::exp(&ops::negative(&ops::square(a)?)?),
        5 => {
            let turned = ops::transpose(&ops::reshape(a, &[4, 6])?, &[1, 0])?;
            ops::subtract(&turned, b)
        }
        6 => {
            let parts = ops::split(a, 3, 0)?;
            ops::concatenate(&[&parts[2], &parts[0], &parts[1]], 0)
        }
        7 => ops::multiply(a, &ops::stop_gradient(b)?),
        _ if way.checkpoints => checkpoint(layer)(a),
        _ => layer(a),
    }
}

pub(crate) fn run(
    program: &[Step],
    inputs: &[Array],
    way: Way,
    elsewhere: Stream,
) -> Result<Vec<Array>> {
    let mut values = inputs.to_vec();
    for step in program {
        let [a, b] = step.operands.map(|operand| values[operand % values.len()].clone());
        let value = match way.uses_streams && step.is_elsewhere {
            true => with_stream(elsewhere, || apply(step.kind, &a, &b, way))?,
            false => apply(step.kind, &a, &b, way)?,
        };
        if way.evaluates && step.is_evaluated {
            eval(&[&value])?;
        }
        values.push(value);
    }
    values.pop().map_or_else(|| unreachable!("there are inputs"), |last| Ok(vec![last]))
}

/// The bytes of the result and of the gradient.
fn bits(program: &[Step], way: Way, elsewhere: Stream) -> Vec<Vec<u8>> {
    let random = |seed| filled(&SHAPE, Dtype::Float32, noise(seed, -2.0, 2.0));
    let inputs: Vec<Array> = (0..INPUTS as u64).map(random).collect();
    let (program, along) = (program.to_vec(), random(9));
    let both = move |inputs: &[Array]| {
        let fun = |inputs: &[Array]| run(&program, inputs, way, elsewhere);
        let (result, by) = vjp(fun, inputs, std::slice::from_ref(&along))?;
        Ok([result, by].concat())
    };
    let all = match way.compiles {
        true => Compiled::new(both, false).call(&inputs),
        false => both(&inputs),
    };
    all.unwrap().iter().map(|a| a.to_bytes().unwrap()).collect()
}

/// Runs random programs in all ways on each device. A number that their bits make.
fn check() -> u64 {
    let mut hasher = DefaultHasher::new();
    on_each_device(|_| {
        let elsewhere = new_stream(current_stream().unwrap().device).unwrap();
        let programs = prop::collection::vec(step(), 1..16);
        let all = RefCell::new(Vec::new());
        let check = |program: Vec<Step>| {
            let plain = bits(&program, Way::default(), elsewhere);
            for way in Way::all() {
                prop_assert_eq!(&bits(&program, way, elsewhere), &plain, "{:?}", way);
            }
            all.borrow_mut().push(plain);
            Ok(())
        };
        TestRunner::new(cases(48)).run(&programs, check).unwrap();
        all.into_inner().hash(&mut hasher);
    });
    hasher.finish()
}

#[test]
fn gradients_do_not_depend_on_how_a_program_runs() {
    check();
}

/// Who read memory that was freed would read something else there.
#[test]
fn gradients_do_not_depend_on_freed_memory() {
    let test = "programs::gradients_do_not_depend_on_freed_memory";
    let poison = [("MLX_VK_POISON", "1")];
    let Some(printed) = in_child(test, &poison, || println!("bits {:x}.", check())) else { return };
    let here = format!("bits {:x}.", check());
    assert!(printed.contains(&here), "not {here}\n{printed}");
}
