//! Repeating, turning round and lining up. Elements are compared by their bits.

use mlx::{Array, Dtype, ops};
use mlx_tests::{Layout, array, assert_gathered, assert_moved, on_each_device, random_bits, ravel};

const SIZES: [Dtype; 4] = [Dtype::Int8, Dtype::Bfloat16, Dtype::Float32, Dtype::Complex64];

/// Every layout with a dtype of each size in turn.
fn each(mut test: impl FnMut(&str, &Array)) {
    on_each_device(|device| {
        for (layout, dtype) in Layout::VIEWS.into_iter().flat_map(|l| SIZES.map(|d| (l, d))) {
            let a = layout.view(layout.shape(), |shape| random_bits(shape, dtype, 1));
            test(&format!("{dtype} {layout:?} on {device}"), &a);
        }
    });
}

#[test]
fn elements_are_turned_round_and_rolled() {
    each(|what, a| {
        let all = ops::flip(a, &[]).unwrap();
        assert_moved(what, &all, (a, &[3, 4, 5]), |i| vec![2 - i[0], 3 - i[1], 4 - i[2]]);
        let one = ops::flip(a, &[-1, 0]).unwrap();
        assert_moved(what, &one, (a, &[3, 4, 5]), |i| vec![2 - i[0], i[1], 4 - i[2]]);
        let rolled = ops::roll(a, &[1, -7], &[0, -1]).unwrap();
        assert_moved(what, &rolled, (a, &[3, 4, 5]), |i| {
            vec![(i[0] + 2) % 3, i[1], (i[2] + 7) % 5]
        });
        let both = ops::roll(a, &[2], &[1, 2]).unwrap();
        assert_moved(what, &both, (a, &[3, 4, 5]), |i| vec![i[0], (i[1] + 2) % 4, (i[2] + 3) % 5]);
        let flat = ops::roll(a, &[60, 7], &[]).unwrap();
        assert_gathered(what, &flat, &[a], |i| (0, (ravel(i, &[3, 4, 5]) + 53) % 60));
        assert!(ops::roll(a, &[1, 2], &[0, 1, 2]).is_err() && ops::roll(a, &[1], &[3]).is_err());
        assert!(ops::flip(a, &[3]).is_err());
    });
    on_each_device(|_| {
        let empty = array(&[], &[0, 3], Dtype::Float32);
        assert_eq!(ops::roll(&empty, &[1], &[0]).unwrap().shape(), [0, 3]);
        assert_eq!(ops::roll(&empty, &[1], &[]).unwrap().shape(), [0, 3]);
        assert_eq!(ops::flip(&empty, &[]).unwrap().shape(), [0, 3]);
    });
}

#[test]
fn elements_are_repeated_and_tiled() {
    each(|what, a| {
        let thrice = ops::repeat(a, 3, Some(-2)).unwrap();
        assert_moved(what, &thrice, (a, &[3, 12, 5]), |i| vec![i[0], i[1] / 3, i[2]]);
        let flat = ops::repeat(a, 2, None).unwrap();
        assert_gathered(what, &flat, &[a], |i| (0, i[0] / 2));
        assert_eq!((flat.shape(), ops::repeat(a, 0, Some(1)).unwrap().size()), (&[120][..], 0));
        assert!(ops::repeat(a, 2, Some(3)).is_err());
        let tiles = ops::tile(a, &[2, 1, 3]).unwrap();
        assert_moved(what, &tiles, (a, &[6, 4, 15]), |i| vec![i[0] % 3, i[1], i[2] % 5]);
        let last = ops::tile(a, &[2]).unwrap();
        assert_moved(what, &last, (a, &[3, 4, 10]), |i| vec![i[0], i[1], i[2] % 5]);
        let more = ops::tile(a, &[2, 1, 1, 1]).unwrap();
        assert_moved(what, &more, (a, &[2, 3, 4, 5]), |i| i[1..].to_vec());
        assert_eq!(ops::tile(a, &[0]).unwrap().shape(), [3, 4, 0]);
    });
}

#[test]
fn axes_are_taken_apart_and_added() {
    each(|what, a| {
        for (k, part) in ops::unstack(a, 1).unwrap().iter().enumerate() {
            assert_moved(what, part, (a, &[3, 5]), |i| vec![i[0], k, i[1]]);
        }
        let turned = ops::permute_dims(a, &[2, 0, 1]).unwrap();
        assert_moved(what, &turned, (a, &[5, 3, 4]), |i| vec![i[1], i[2], i[0]]);
        let swapped = ops::matrix_transpose(a).unwrap();
        assert_moved(what, &swapped, (a, &[3, 5, 4]), |i| vec![i[0], i[2], i[1]]);
        assert_eq!(ops::atleast_3d(a).unwrap().shape(), a.shape());
    });
    on_each_device(|_| {
        let of = |shape: &[usize]| ops::zeros(shape, Dtype::Float32).unwrap();
        let shapes = |a: &Array| {
            [ops::atleast_1d(a), ops::atleast_2d(a), ops::atleast_3d(a)]
                .map(|a| a.unwrap().shape().to_vec())
        };
        assert_eq!(shapes(&of(&[])), [vec![1], vec![1, 1], vec![1, 1, 1]]);
        assert_eq!(shapes(&of(&[4])), [vec![4], vec![1, 4], vec![1, 4, 1]]);
        assert_eq!(shapes(&of(&[2, 3])), [vec![2, 3], vec![2, 3], vec![2, 3, 1]]);
        assert!(ops::unstack(&of(&[]), 0).is_err() && ops::matrix_transpose(&of(&[3])).is_err());
        let joint = ops::broadcast_shapes(&[&[2, 1], &[3], &[1, 1, 1]]).unwrap();
        assert_eq!(joint.as_slice(), [1, 2, 3]);
        let error = ops::broadcast_shapes(&[]).unwrap_err().to_string();
        assert_eq!(error, "[broadcast_shapes] Must provide at least one shape.");
        assert!(ops::broadcast_shapes(&[&[2], &[3]]).is_err());
    });
}

#[test]
fn grids_repeat_coordinates() {
    on_each_device(|device| {
        let lists = [2, 3, 4].map(|n| random_bits(&[n], Dtype::Float16, n as u64));
        let lists: Vec<&Array> = lists.iter().collect();
        for (indexing, shape) in [("ij", [2, 3, 4]), ("xy", [3, 2, 4])] {
            let grids = ops::meshgrid(&lists, false, indexing).unwrap();
            let thin = ops::meshgrid(&lists, true, indexing).unwrap();
            for (k, (grid, thin)) in grids.iter().zip(&thin).enumerate() {
                let axis = if indexing == "xy" && k < 2 { 1 - k } else { k };
                let what = format!("{indexing} {k} on {device}");
                assert_moved(&what, grid, (lists[k], &shape), |i| vec![i[axis]]);
                let mut one = [1; 3];
                one[axis] = shape[axis];
                assert_moved(&what, thin, (lists[k], &one), |i| vec![i[axis]]);
            }
        }
        assert_eq!(ops::meshgrid(&lists[..1], false, "xy").unwrap()[0].shape(), [2]);
        assert!(ops::meshgrid(&lists, false, "yx").is_err());
    });
}
