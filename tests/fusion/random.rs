//! Random chains of norms, products, gates and residuals: the numbers of the CPU, with and without groups.

use std::cell::Cell;

use mlx::{Array, Device, Dtype, Result, fast, ops};
use mlx_tests::{cases, in_child};
use proptest::{prelude::*, test_runner::TestRunner};

use super::{Linear, assert_close, fusing, noise, run, turn};

const WIDTH: usize = 256;

/// A link of a chain. Matrices are picked by number.
#[derive(Debug, Clone)]
enum Link {
    Norm,
    Product(usize),
    /// Two products of the same rows, of which one gates the other.
    Gated(usize, usize),
    /// A product is added to its own rows.
    Residual(usize),
    /// Also a result: what somebody else needs cannot disappear into a group.
    Kept,
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let matrix = || 0usize..4;
    let link = prop_oneof![
        2 => Just(Link::Norm),
        2 => matrix().prop_map(Link::Product),
        1 => (matrix(), matrix()).prop_map(|(a, b)| Link::Gated(a, b)),
        2 => matrix().prop_map(Link::Residual),
        1 => Just(Link::Kept),
    ];
    prop::collection::vec(link, 1..7)
}

fn chain(links: &[Link], x: &Array, weight: &Array, matrices: &[Linear]) -> Result<Vec<Array>> {
    let mut x = x.clone();
    let mut results = Vec::new();
    for link in links {
        x = match link {
            Link::Norm => fast::rms_norm(&x, Some(weight), 1e-5)?,
            Link::Product(m) => matrices[*m].forward(&x)?,
            Link::Gated(a, b) => {
                let gate = matrices[*a].forward(&x)?;
                let silu = ops::multiply(&gate, &ops::sigmoid(&gate)?)?;
                ops::multiply(&silu, &matrices[*b].forward(&x)?)?
            }
            Link::Residual(m) => ops::add(&x, &matrices[*m].forward(&x)?)?,
            Link::Kept => {
                results.push(x.clone());
                x
            }
        };
    }
    results.push(x);
    Ok(results)
}

/// Runs the same random chains on both devices, and counts what was fused.
fn compare() -> u64 {
    let _turn = turn();
    let fused = Cell::new(0);
    let dtype = Dtype::Float32;
    let formats = [Some((4, 64)), Some((8, 32)), None, Some((4, 64))];
    let matrices: Vec<Linear> =
        (0..4).map(|i| Linear::new(100 + i, WIDTH, WIDTH, formats[i as usize], dtype)).collect();
    let weight = noise(99, &[WIDTH], dtype);
    let mut runner = TestRunner::new(cases(24));
    let outcome = runner.run(&(links(), 1usize..3), |(links, rows)| {
        let x = noise(98, &[rows, WIDTH], dtype);
        let graph = || chain(&links, &x, &weight, &matrices);
        let (want, _) = run(Device::CPU, &graph);
        let (got, count) = run(Device::GPU, &graph);
        fused.set(fused.get() + count);
        for (want, got) in want.iter().zip(&got) {
            assert_close(&format!("{links:?}, {rows} rows"), dtype, want, got);
        }
        Ok(())
    });
    outcome.unwrap();
    fused.get()
}

#[test]
fn random_chains_agree_with_and_without_groups() {
    let test = "random::random_chains_agree_with_and_without_groups";
    let without = ("MLX_VK_ENABLE_FUSION", "0");
    let alone = || assert_eq!(compare(), 0, "groups are off");
    if in_child(test, &[without], alone).is_some() && fusing() {
        assert!(compare() > 0, "nothing was fused");
    }
}
