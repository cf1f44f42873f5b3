//! Trees of arrays, and transforms of functions of them.

use std::collections::BTreeMap;

use mlx::{
    Array, Dtype, Result, Tree, ops,
    transforms::{
        grad,
        tree::{Axes, jvp, vjp, vmap},
        value_and_grad,
    },
};
use mlx_tests::{array, on_each_device, values};

fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

#[derive(Tree, Clone)]
struct Linear<W = Array> {
    weight: W,
    bias: Option<Array>,
    #[tree(skip)]
    name: &'static str,
}

#[derive(Tree)]
struct Pair(Array, [Array; 2]);

#[derive(Tree)]
struct Nothing;

#[derive(Tree)]
enum Layer {
    Linear(Linear),
    Scale { r#type: Array },
    Nothing,
}

#[derive(Tree)]
struct Model<const N: usize> {
    layers: Vec<Layer>,
    pair: Box<Pair>,
    named: BTreeMap<String, (Array, Nothing)>,
    wide: [Linear<Vec<Array>>; N],
}

fn model() -> Model<1> {
    let linear = |x: f32| Linear { weight: scalar(x), bias: Some(scalar(x + 1.0)), name: "l" };
    let named = |x| (scalar(x), Nothing);
    Model {
        layers: vec![
            Layer::Linear(linear(1.0)),
            Layer::Nothing,
            Layer::Scale { r#type: scalar(3.0) },
            Layer::Linear(Linear { bias: None, ..linear(4.0) }),
        ],
        pair: Box::new(Pair(scalar(5.0), [scalar(6.0), scalar(7.0)])),
        named: BTreeMap::from([("b".into(), named(9.0)), ("a".into(), named(8.0))]),
        wide: [Linear { weight: vec![scalar(10.0), scalar(11.0)], bias: None, name: "w" }],
    }
}

#[test]
fn arrays_come_in_order_with_their_paths() {
    on_each_device(|_| {
        let model = model();
        let named = model.named_arrays();
        let paths: Vec<&str> = named.iter().map(|(path, _)| path.as_str()).collect();
        let want = [
            "layers.0.0.weight",
            "layers.0.0.bias",
            "layers.2.type",
            "layers.3.0.weight",
            "pair.0",
            "pair.1.0",
            "pair.1.1",
            "named.a.0",
            "named.b.0",
            "wide.0.weight.0",
            "wide.0.weight.1",
        ];
        assert_eq!(paths, want);
        let numbers: Vec<f64> = named.iter().map(|(_, a)| values(a)[0]).collect();
        assert_eq!(numbers, (1..=11).map(f64::from).collect::<Vec<_>>());
    });
}

#[test]
fn a_tree_is_rebuilt_with_other_arrays() {
    on_each_device(|_| {
        let doubled = model().map_arrays(|_, a| ops::multiply(a, 2.0f32)).unwrap();
        let numbers: Vec<f64> = doubled.arrays().into_iter().map(|a| values(a)[0]).collect();
        assert_eq!(numbers, (1..=11).map(|i| f64::from(2 * i)).collect::<Vec<_>>());
        let Layer::Linear(Linear { name, bias: None, .. }) = &doubled.layers[3] else {
            panic!("the structure changed");
        };
        assert_eq!((*name, doubled.wide[0].name), ("l", "w"));
    });
}

#[test]
fn a_tree_takes_as_many_arrays_as_it_holds() {
    on_each_device(|_| {
        let tree = (scalar(1.0), vec![scalar(2.0)]);
        let with = |count| tree.with_arrays((0..count).map(|i| scalar(i as f32)));
        assert_eq!(values(&with(2).unwrap().1[0]), [1.0]);
        let few = with(1).map(drop).unwrap_err().to_string();
        assert_eq!(few, "[tree] There is no array for 1.0.");
        let many = with(3).map(drop).unwrap_err().to_string();
        assert_eq!(many, "[tree] There are more arrays than the tree holds.");
    });
}

#[test]
fn gradients_are_trees_like_the_parameters() {
    on_each_device(|_| {
        let linear = Linear { weight: scalar(3.0), bias: Some(scalar(1.0)), name: "l" };
        let loss = |l: &Linear| {
            let y = ops::add(&ops::multiply(&l.weight, 2.0f32)?, l.bias.as_ref().unwrap())?;
            Ok((ops::square(&y)?, BTreeMap::from([(l.name.to_string(), y)])))
        };
        let ((loss, others), gradient) = value_and_grad(loss, &linear).unwrap();
        assert_eq!((values(&loss), values(&others["l"])), (vec![49.0], vec![7.0]));
        assert_eq!(values(&gradient.weight), [28.0]);
        assert_eq!(values(&gradient.bias.unwrap()), [14.0]);
    });
}

#[test]
fn an_array_that_stands_twice_in_a_tree_has_two_derivatives() {
    on_each_device(|_| {
        let a = scalar(2.0);
        let by = grad(|p: &Vec<Array>| ops::multiply(&p[0], &p[2]), &vec![a.clone(), a.clone(), a]);
        let by: Vec<f64> = by.unwrap().iter().flat_map(values).collect();
        assert_eq!(by, [2.0, 0.0, 2.0]);
    });
}

#[test]
fn no_gradient_goes_through_other_results() {
    on_each_device(|_| {
        let constant = scalar(7.0);
        let fun = |x: &Array| Ok((ops::square(x)?, [ops::exp(x)?, x.clone(), constant.clone()]));
        let ((_, others), by) = value_and_grad(fun, &scalar(0.0)).unwrap();
        let others: Vec<f64> = others.iter().flat_map(values).collect();
        assert_eq!((values(&by), others), (vec![0.0], vec![1.0, 0.0, 7.0]));
    });
}

#[test]
fn a_gradient_needs_a_scalar_and_an_argument() {
    on_each_device(|_| {
        let x = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let error = grad(ops::square, &x).map(drop).unwrap_err().to_string();
        assert_eq!(error, "[vjp] Output shape [2] does not match cotangent shape [].");
        let x = array(&[1.0], &[1, 1], Dtype::Float32);
        let error = grad(ops::square, &x).map(drop).unwrap_err().to_string();
        assert!(
            error.ends_with("If you are using grad your function must return a scalar."),
            "{error}"
        );
        let error = grad(|()| Ok(scalar(1.0)), &()).map(drop).unwrap_err().to_string();
        assert_eq!(error, "[grad] Must specify at least one argument.");
    });
}

#[test]
fn products_with_derivatives_are_trees() {
    on_each_device(|_| {
        type Results = (Array, BTreeMap<String, Array>);
        let fun = |[x, y, z]: &[Array; 3]| -> Result<Results> {
            Ok((ops::multiply(x, y)?, BTreeMap::from([("yz".into(), ops::multiply(y, z)?)])))
        };
        let primals = [2.0, 4.0, 6.0].map(scalar);
        let (_, along) = jvp(fun, &primals, &[1.0, 3.0, 1.0].map(scalar)).unwrap();
        assert_eq!((values(&along.0), values(&along.1["yz"])), (vec![10.0], vec![22.0]));
        let (results, by) = vjp(fun, &primals, &(scalar(1.0), [scalar(3.0)])).unwrap();
        assert_eq!(values(&results.1["yz"]), [24.0]);
        assert_eq!(by.map(|a| values(&a)[0]), [4.0, 20.0, 12.0]);
    });
}

#[test]
fn axes_are_trees_that_may_end_before_the_arrays_do() {
    on_each_device(|_| {
        let noise = |shape: &[usize]| array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape, Dtype::Float32);
        let fun = |(a, [b, c]): &(Array, [Array; 2])| {
            Ok([ops::multiply(&ops::add(a, b)?, c)?, ops::add(a, b)?])
        };
        let tree = (noise(&[2, 3]), [noise(&[2, 3]), noise(&[2, 3])]);
        let [want, _] = fun(&tree).unwrap();
        for axes in [Axes::from(0), [0, 0].into(), (0, [-2, 0]).into()] {
            let [got, _] = vmap(fun, &tree, axes, 0).unwrap();
            assert_eq!((got.shape(), values(&got)), (&[2, 3][..], values(&want)));
        }
        let tree =
            (noise(&[2, 3]), [noise(&[3, 2]), array(&[1.0, 2.0, 3.0], &[3], Dtype::Float32)]);
        let got = vmap(fun, &tree, (0, [Some(1), None]), [1, -1]).unwrap();
        let turned = |a: &Array| ops::transpose(a, &[]).unwrap();
        let sum = ops::add(&tree.0, turned(&tree.1[0])).unwrap();
        let want = ops::multiply(&sum, &tree.1[1]).unwrap();
        assert_eq!(got.each_ref().map(|a| a.shape().to_vec()), [[3, 2], [3, 2]]);
        assert_eq!(values(&turned(&got[0])), values(&want));
        assert_eq!(values(&turned(&got[1])), values(&sum));
    });
}

#[test]
fn results_that_are_not_mapped_are_repeated() {
    on_each_device(|_| {
        let rows = array(&[1.0, 2.0, 3.0], &[3, 1], Dtype::Float32);
        let same = array(&[4.0, 5.0], &[2], Dtype::Float32);
        let both = |x: &Array| Ok((x.clone(), same.clone()));
        let (_, last) = vmap(both, &rows, 0, (0, None::<isize>)).unwrap();
        assert_eq!(last.shape(), [2, 3]);
        assert_eq!(values(&last), [4.0, 4.0, 4.0, 5.0, 5.0, 5.0]);
        let (_, first) = vmap(both, &rows, 0, 0).unwrap();
        assert_eq!(values(&first), [4.0, 5.0, 4.0, 5.0, 4.0, 5.0]);
        let error = vmap(both, &rows, 0, (None::<isize>, 0)).map(drop).unwrap_err().to_string();
        assert_eq!(error, "[vmap] Axis -1 invalid for output with 2 dimensions.");
    });
}

#[test]
fn axes_that_do_not_fit_are_refused() {
    on_each_device(|_| {
        let rows = || array(&[1.0, 2.0], &[2], Dtype::Float32);
        let inputs = (rows(), [rows(), rows()]);
        let error = |in_axes: Axes, out_axes: Axes| {
            let fun = |(a, [b, c]): &(Array, [Array; 2])| ops::add(&ops::add(a, b)?, c);
            vmap(fun, &inputs, in_axes, out_axes).map(drop).unwrap_err().to_string()
        };
        let deeper = error((0, ([0, 0], 0)).into(), 0.into());
        assert_eq!(deeper, "[vmap] axis must be int or None but there are several for 1.0.");
        let few = error([0].into(), 0.into());
        assert_eq!(few, "[vmap] axis must be int or None but there is none for 1.0.");
        let many = error([0, 0, 0].into(), 0.into());
        assert_eq!(many, "[vmap] There are axes for what is no part of the tree.");
        let out = error(0.into(), [0, 1].into());
        assert_eq!(out, "[vmap] axis must be int or None but there are several for the array.");
        let none = error(None.into(), 0.into());
        assert_eq!(none, "[vmap] At least one of in_axes must be non-None.");
    });
}
