//! Parts of a graph that was built before are evaluated while the rest of it is built again.

use std::{mem, thread};

use mlx::{
    Array, Device, DeviceType, Dtype, EarlyParts, Result, fast, fast::Mask, ops, transforms,
};
use mlx_tests::{array, expect_valid, in_child, init, noise, on_each_device};

/// Some 700 nodes.
const LAYERS: usize = 24;
const WIDTH: usize = 64;
/// Rows of a cache.
const ROWS: usize = 16;
const GROUP: usize = 64;
const BITS: usize = 4;

/// A model of attention and a gate, as language models have them, with one head.
struct Model {
    weights: Vec<[Weight; 6]>,
    caches: Vec<[Array; 2]>,
    /// Rows that are in the caches.
    rows: usize,
}

/// A matrix of 4 bits, with scales and biases.
struct Weight(Array, Array, Array);

/// What a program does with an array that a layer makes.
type Keep<'a> = &'a mut dyn FnMut(&Array);

impl Weight {
    fn times(&self, x: &Array) -> Result<Array> {
        let Weight(words, scales, biases) = self;
        ops::quantized_matmul(x, words, scales, biases, true, GROUP, BITS)
    }
}

impl Model {
    fn new() -> Model {
        let weight = |seed| {
            let values = (0..WIDTH * WIDTH).map(noise(seed, -0.2, 0.2));
            let dense = array(&values.collect::<Vec<_>>(), &[WIDTH, WIDTH], Dtype::Bfloat16);
            let (words, scales, biases) = ops::quantize(&dense, GROUP, BITS).unwrap();
            mlx::eval(&[&words, &scales, &biases]).unwrap();
            Weight(words, scales, biases)
        };
        let of_layer = |layer| std::array::from_fn(|i| weight(6 * layer + i as u64));
        Model { weights: (0..LAYERS as u64).map(of_layer).collect(), caches: caches(), rows: 0 }
    }

    /// One row through the layers; the last one's output.
    fn row(&mut self, x: &Array, end: Keep<'_>, inside: Keep<'_>) -> Result<Array> {
        let mut x = x.clone();
        for (weights, cache) in self.weights.iter().zip(&mut self.caches) {
            x = layer(&x, weights, cache, self.rows, inside)?;
            end(&x);
        }
        self.rows += 1;
        Ok(x)
    }

    /// Forgets what was written.
    fn rewind(&mut self) {
        (self.caches, self.rows) = (caches(), 0);
    }
}

fn caches() -> Vec<[Array; 2]> {
    let cache = || array(&[0.0; ROWS * WIDTH], &[1, 1, ROWS, WIDTH], Dtype::Bfloat16);
    (0..LAYERS).map(|_| [cache(), cache()]).collect()
}

fn layer(
    x: &Array,
    [query, key, value, out, up, down]: &[Weight; 6],
    caches: &mut [Array; 2],
    row: usize,
    keep: Keep<'_>,
) -> Result<Array> {
    let normed = fast::rms_norm(x, None, 1e-5)?;
    let head = |weight: &Weight| ops::reshape(&weight.times(&normed)?, &[1, 1, 1, WIDTH as isize]);
    let rotated = |head: &Array| fast::rope(head, WIDTH, false, Some(1e4), 1.0, row as i32, None);
    let (query, key, value) = (rotated(&head(query)?)?, rotated(&head(key)?)?, head(value)?);
    let [keys, values] = caches;
    let x = ops::add(x, out.times(&attention(&query, [keys, values], [&key, &value], row)?)?)?;
    let wide = up.times(&fast::rms_norm(&x, None, 1e-5)?)?;
    let branch = down.times(&ops::multiply(&wide, &ops::sigmoid(&wide)?)?)?;
    keep(&branch);
    ops::add(&x, &branch)
}

/// A query's attention to the rows of two caches, to which a row is written first.
fn attention(
    query: &Array,
    caches: [&mut Array; 2],
    rows: [&Array; 2],
    row: usize,
) -> Result<Array> {
    let (row, width) = (row as isize, WIDTH as isize);
    let mut seen = Vec::new();
    for (cache, new) in caches.into_iter().zip(rows) {
        *cache = ops::slice_update(cache, new, &[0, 0, row, 0], &[1, 1, row + 1, width], &[1; 4])?;
        seen.push(ops::slice_axis(cache, 2, 0, row + 1)?);
    }
    let scale = (WIDTH as f32).powf(-0.5);
    let mixed = fast::scaled_dot_product_attention(query, &seen[0], &seen[1], scale, Mask::None)?;
    ops::reshape(&mixed, &[1, 1, WIDTH as isize])
}

fn input() -> Array {
    array(
        &(0..WIDTH).map(noise(77, -1.0, 1.0)).collect::<Vec<_>>(),
        &[1, 1, WIDTH],
        Dtype::Bfloat16,
    )
}

fn nothing(_: &Array) {}

/// The bits of all rows, each of which is computed from the one before and waited for.
fn rows(model: &mut Model) -> Vec<Vec<u8>> {
    model.rewind();
    let mut x = input();
    let row = |_| {
        x = model.row(&x, &mut nothing, &mut nothing).unwrap();
        x.to_bytes().unwrap()
    };
    (0..ROWS).map(row).collect()
}

/// Builds a row, waits at each layer's end for what was handed over, and looks which ends are evaluated.
fn evaluated_early(model: &mut Model) -> Vec<bool> {
    let mut ends = Vec::new();
    let mut end = |end: &Array| {
        ends.push(end.clone());
        mlx::settle().unwrap();
    };
    let out = model.row(&input(), &mut end, &mut nothing).unwrap();
    let evaluated = ends.iter().map(|end| end.data().is_some()).collect();
    out.eval().unwrap();
    evaluated
}

/// What `f` gives where nothing is begun early.
fn whole<T>(f: impl FnOnce() -> T) -> T {
    mlx::begin_while_building(false);
    let given = f();
    mlx::begin_while_building(true);
    given
}

/// Runs a test in a process of its own, where nobody else has the turn to evaluate, on each device, with
/// evaluations that begin early. Kernels of chains are there at once: until they are, bits are others.
fn alone(test: &str, variables: &[(&str, &str)], body: impl FnMut(Device)) {
    let variables = [&[("MLX_VK_PROGRAM_SIGHTINGS", "0")], variables].concat();
    in_child(&format!("ahead::{test}"), &variables, || {
        init();
        mlx::begin_while_building(true);
        on_each_device(body);
        expect_valid();
    });
}

#[test]
fn parts_are_evaluated_while_the_rest_is_built() {
    alone("parts_are_evaluated_while_the_rest_is_built", &[], |device| {
        let mut model = Model::new();
        let mut ends = [0; LAYERS];
        // It may take some builds until a cut is found before which the program holds nothing.
        for _ in 0..12 {
            let evaluated = evaluated_early(&mut model);
            ends.iter_mut()
                .zip(evaluated)
                .for_each(|(end, evaluated)| *end += u32::from(evaluated));
        }
        let [first, second] = [ends[1] > 0, ends[LAYERS / 3] > 0];
        assert_eq!([first, second], [device.kind == DeviceType::Gpu; 2], "{device}: {ends:?}");
        assert_eq!(ends[LAYERS - 2], 0, "{device}: the rest is evaluated as it was");
    });
}

#[test]
fn nothing_is_begun_where_that_is_left_out() {
    let test = "nothing_is_begun_where_that_is_left_out";
    alone(test, &[("MLX_DISABLE_EARLY_EVALUATIONS", "1")], |device| {
        let mut model = Model::new();
        for _ in 0..4 {
            assert_eq!(evaluated_early(&mut model), [false; LAYERS], "{device}");
        }
    });
}

#[test]
fn results_have_the_bits_of_whole_evaluations() {
    alone("results_have_the_bits_of_whole_evaluations", &[], |device| {
        let mut model = Model::new();
        let whole = whole(|| rows(&mut model));
        let [evaluated, left] = parts(|| {
            for time in 0..3 {
                assert_eq!(rows(&mut model), whole, "{device}, {time}");
            }
        });
        let expected = if device.kind == DeviceType::Gpu { ROWS as u64 } else { 0 };
        assert!(evaluated >= expected && left <= 8, "{device}: {evaluated} parts, {left} left");
    });
}

/// Rows that nobody waits for until the next one is built, as generating text has them.
#[test]
fn results_that_nobody_waits_for_have_them_too() {
    alone("results_that_nobody_waits_for_have_them_too", &[], |device| {
        let mut model = Model::new();
        let whole = whole(|| rows(&mut model));
        for time in 0..3 {
            model.rewind();
            let (mut x, mut before) = (input(), None::<Array>);
            let mut got = Vec::new();
            for _ in 0..ROWS {
                x = model.row(&x, &mut nothing, &mut nothing).unwrap();
                mlx::async_eval_detached(&[&x]).unwrap();
                got.extend(before.replace(x.clone()).map(|before| before.to_bytes().unwrap()));
            }
            got.push(x.to_bytes().unwrap());
            assert_eq!(got, whole, "{device}, {time}");
        }
    });
}

/// Parts that were evaluated early, and that were left, while `f` ran.
fn parts(f: impl FnOnce()) -> [u64; 2] {
    let before = mlx::early_parts();
    f();
    mlx::settle().unwrap();
    let EarlyParts { evaluated, left } = mlx::early_parts();
    [evaluated - before.evaluated, left - before.left]
}

/// A product and its sum are one group, but not while the program holds the product.
#[test]
fn a_part_with_other_groups_than_in_the_whole_stays_lazy() {
    alone("a_part_with_other_groups_than_in_the_whole_stays_lazy", &[], |device| {
        let is_gpu = device.kind == DeviceType::Gpu;
        let mut model = Model::new();
        let holding = |model: &mut Model| {
            let (mut held, mut ends) = (Vec::new(), Vec::new());
            let mut hold = |branch: &Array| held.push(branch.clone());
            let out = model.row(&input(), &mut |end| ends.push(end.clone()), &mut hold).unwrap();
            mlx::settle().unwrap();
            assert!(ends.iter().all(|end| end.data().is_none()), "{device}");
            drop((held, mem::take(&mut ends)));
            out.eval().unwrap();
        };
        let [evaluated, left] = parts(|| (0..8).for_each(|_| holding(&mut model)));
        let expected = if is_gpu { 1..=4 } else { 0..=0 };
        assert!(evaluated == 0 && expected.contains(&left), "{device}: {evaluated}, {left}");
        let [evaluated, _] = parts(|| (0..8).for_each(|_| drop(evaluated_early(&mut model))));
        assert_eq!(evaluated > 0, is_gpu, "{device}: it is looked at anew");
        model.rewind();
        let [evaluated, left] = parts(|| (0..ROWS).for_each(|_| holding(&mut model)));
        assert!(evaluated == 0 && left <= 4, "{device}: {left} times one after the other");
    });
}

/// Caches that the program holds until the row is there cannot be written in place by attention's kernel.
#[test]
fn caches_that_the_program_holds_are_not_written_early() {
    alone("caches_that_the_program_holds_are_not_written_early", &[], |device| {
        let mut model = Model::new();
        let mut holding = || {
            model.rewind();
            let mut x = input();
            let mut got = Vec::new();
            for _ in 0..ROWS {
                let held = model.caches.clone();
                x = model.row(&x, &mut |_| mlx::settle().unwrap(), &mut nothing).unwrap();
                drop(held);
                got.push(x.to_bytes().unwrap());
            }
            got
        };
        let whole = whole(&mut holding);
        let [evaluated, left] = parts(|| {
            for time in 0..3 {
                assert_eq!(holding(), whole, "{device}, {time}");
            }
        });
        let is_left = evaluated == 0 && (left > 0) == (device.kind == DeviceType::Gpu);
        assert!(is_left, "{device}: {evaluated} parts, {left} left");
    });
}

#[test]
fn a_graph_that_goes_on_otherwise_is_evaluated_as_it_is() {
    alone("a_graph_that_goes_on_otherwise_is_evaluated_as_it_is", &[], |device| {
        let mut model = Model::new();
        let [first, second, ..] = &whole(|| rows(&mut model))[..] else {
            panic!("there are {ROWS} rows")
        };
        rows(&mut model);
        rows(&mut model);
        model.rewind();
        // Of this row only the norm of its end is asked for, and nothing before the next one.
        let x = model.row(&input(), &mut nothing, &mut nothing).unwrap();
        let norm = ops::sum(&ops::square(&x).unwrap(), &[], false).unwrap();
        let next = model.row(&x, &mut nothing, &mut nothing).unwrap();
        norm.eval().unwrap();
        assert_eq!(&next.to_bytes().unwrap(), second, "{device}");
        assert_eq!(&x.to_bytes().unwrap(), first, "{device}");
    });
}

#[test]
fn what_goes_wrong_in_a_part_is_told_to_who_reads() {
    alone("what_goes_wrong_in_a_part_is_told_to_who_reads", &[], |device| {
        let mut model = Model::new();
        let row = model.row(&input(), &mut nothing, &mut nothing).unwrap();
        row.eval().unwrap();
        for time in 0..5 {
            model.rewind();
            let huge = ops::broadcast_to(&input(), &[1 << 44, 1, WIDTH]).unwrap();
            let huge = ops::add(&huge, &huge).unwrap();
            let first = ops::slice_axis(&huge, 0, 0, 1).unwrap();
            let out = model.row(&first, &mut nothing, &mut nothing).unwrap();
            assert!(out.eval().is_err(), "{device}, {time}");
        }
        assert!(rows(&mut model).iter().all(|row| !row.is_empty()), "{device}");
    });
}

#[test]
fn threads_begin_their_own_graphs() {
    alone("threads_begin_their_own_graphs", &[], |device| {
        let whole = whole(|| rows(&mut Model::new()));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    mlx::with_device(device, || {
                        let mut model = Model::new();
                        for time in 0..3 {
                            assert_eq!(rows(&mut model), whole, "{device}, {time}");
                        }
                    })
                });
            }
        });
    });
}

#[test]
fn nothing_is_begun_while_a_function_is_traced() {
    alone("nothing_is_begun_while_a_function_is_traced", &[], |device| {
        let mut model = Model::new();
        for _ in 0..4 {
            model.rewind();
            let mut ends = Vec::new();
            let loss = |x: &[Array]| {
                let out = model.row(&x[0], &mut |end| ends.push(end.clone()), &mut nothing)?;
                Ok(vec![ops::sum(&out, &[], false)?])
            };
            let (outputs, cotangents) =
                transforms::vjp(loss, &[input()], &[Array::scalar(mlx::bf16::ONE).unwrap()])
                    .unwrap();
            mlx::settle().unwrap();
            assert!(ends.iter().all(|end| end.data().is_none()), "{device}");
            mlx::eval(&[&outputs[0], &cotangents[0]]).unwrap();
        }
    });
}
