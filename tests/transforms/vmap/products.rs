//! Products, convolutions and inverses of matrices.

use mlx::{Array, Dtype, linalg, ops, transforms::tree::vmap};
use mlx_tests::on_each_device;

use super::{assert_same, random};

#[test]
fn products_of_matrices_share_what_is_not_mapped() {
    on_each_device(|_| {
        let product = |[a, b]: &[Array; 2]| ops::matmul(a, b);
        let moved = |a: &Array, axis| ops::moveaxis(a, axis, 0).unwrap();
        let (a, b) = (random(&[2, 3, 4], 1), random(&[4, 3], 2));
        let both = [a.clone(), b.clone()];
        assert_same(
            &vmap(product, &both, [Some(0), None], 0).unwrap(),
            &ops::matmul(&a, &b).unwrap(),
        );
        let (c, d) = (random(&[4, 2], 3), random(&[4, 2, 3], 4));
        let want = ops::moveaxis(&ops::matmul(&moved(&a, 1), &c).unwrap(), 0, 1).unwrap();
        assert_same(&vmap(product, &[a.clone(), c], [Some(1), None], 1).unwrap(), &want);
        let want = ops::matmul(&a, &moved(&d, 1)).unwrap();
        assert_same(&vmap(product, &[a.clone(), d.clone()], [0, 1], 0).unwrap(), &want);
        let sum = |[c, a, b]: &[Array; 3]| ops::addmm(c, a, b, 1.0, 1.0);
        let c = random(&[3, 3, 2], 5);
        let want = ops::add(moved(&c, 2), &want).unwrap();
        assert_same(&vmap(sum, &[c, a.clone(), d], [2, 0, 1], 0).unwrap(), &want);
        let row = random(&[3], 6);
        let want = ops::add(ops::matmul(&a, &b).unwrap(), &row).unwrap();
        assert_same(&vmap(sum, &[row, a, b], [None, Some(0), None], 0).unwrap(), &want);
    });
}

#[test]
fn convolutions_share_what_is_not_mapped() {
    on_each_device(|_| {
        let convolve = |[x, w]: &[Array; 2]| ops::conv1d(x, w, [1], [0], [1], 1);
        let moved = |a: &Array, to| ops::moveaxis(a, 0, to).unwrap();
        let (xs, ws) = (random(&[3, 2, 5, 4], 1), random(&[3, 8, 3, 4], 2));
        let (x, w) = (random(&[2, 5, 4], 3), random(&[8, 3, 4], 4));
        let each = |pick: &dyn Fn(i32) -> [Array; 2]| {
            let each: Vec<Array> = (0..3).map(|i| convolve(&pick(i)).unwrap()).collect();
            ops::stack(&each.iter().collect::<Vec<_>>(), 0).unwrap()
        };
        let at = |a: &Array, i: i32| a.get_item(&[i.into()]).unwrap();
        let inputs = each(&|i| [at(&xs, i), w.clone()]);
        assert_same(
            &vmap(convolve, &[xs.clone(), w.clone()], [Some(0), None], 0).unwrap(),
            &inputs,
        );
        assert_same(&vmap(convolve, &[moved(&xs, 2), w], [Some(2), None], 0).unwrap(), &inputs);
        let weights = each(&|i| [x.clone(), at(&ws, i)]);
        assert_same(
            &vmap(convolve, &[x.clone(), ws.clone()], [None, Some(0)], 0).unwrap(),
            &weights,
        );
        assert_same(&vmap(convolve, &[x, moved(&ws, 1)], [None, Some(1)], 0).unwrap(), &weights);
        let both = each(&|i| [at(&xs, i), at(&ws, i)]);
        assert_same(&vmap(convolve, &[xs.clone(), ws.clone()], 0, 0).unwrap(), &both);
        assert_same(&vmap(convolve, &[moved(&xs, 1), moved(&ws, 3)], [1, 3], 0).unwrap(), &both);
    });
}

#[test]
fn matrices_are_inverted_along_any_axis() {
    mlx_tests::init();
    mlx::with_device(mlx::Device::CPU, || {
        let a =
            ops::add(random(&[3, 4, 4], 1), ops::eye(4, 4, 0, Dtype::Float32).unwrap()).unwrap();
        let moved = ops::moveaxis(&a, 0, 1).unwrap();
        let want = linalg::inv(&a).unwrap();
        assert_same(&vmap(linalg::inv, &a, 0, 0).unwrap(), &want);
        assert_same(&vmap(linalg::inv, &moved, 1, 0).unwrap(), &want);
    })
    .unwrap();
}
