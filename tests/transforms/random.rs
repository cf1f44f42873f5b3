//! Random numbers mapped over their keys, and the state that compiled functions draw from.

use mlx::{Array, Dtype, compile::Compiled, ops, random};
use mlx_tests::{array, integers, on_each_device};

use crate::{common::gradient, mapping};

#[test]
fn mapped_keys() {
    let inputs = |seed| vec![random::key(seed).unwrap()];
    mapping::check_function("split", inputs, |x| {
        let (first, second) = random::split(&x[0])?;
        Ok(vec![first, second, random::split_n(&x[0], 3)?])
    });
    for width in [1, 2, 4] {
        // Odd numbers of bytes end within a word.
        let bits = |x: &[Array]| Ok(vec![random::bits(&[3, 3], width, Some(&x[0]))?]);
        mapping::check_function("bits", inputs, bits);
    }
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Complex64] {
        mapping::check_function("normal", inputs, |x| {
            Ok(vec![random::normal(&[2, 3], dtype, 0.5, 2.0, Some(&x[0]))?])
        });
    }
    mapping::check_function("uniform", inputs, |x| {
        Ok(vec![random::uniform(0.0f32, 2.0f32, &[5], Dtype::Float32, Some(&x[0]))?])
    });
}

#[test]
fn bits_have_no_derivative() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let key = ops::astype(x, Dtype::Uint32)?;
            let noise = random::uniform(0.0f32, 1.0f32, &[2], Dtype::Float32, Some(&key))?;
            ops::add(x, &noise)
        };
        assert_eq!(gradient(&[1.0, 2.0], fun), [1.0, 1.0]);
    });
}

#[test]
fn the_state_of_a_thread_is_put_back() {
    on_each_device(|device| {
        let draw = || integers(&random::bits(&[4], 4, None).unwrap());
        random::seed(7).unwrap();
        let state = random::state().unwrap();
        assert_eq!(integers(&state), integers(&random::key(7).unwrap()), "{device}");
        let drawn = [draw(), draw()];
        let other = std::thread::spawn(move || {
            random::seed(8).unwrap();
            random::set_state(state).unwrap();
            random::bits(&[4], 4, None).unwrap().to_vec::<u32>().unwrap()
        });
        let other: Vec<i128> = other.join().unwrap().into_iter().map(i128::from).collect();
        assert_eq!(other, drawn[0], "a thread goes on where another one was");
        // What the other thread does is not this one's affair.
        assert_ne!(draw(), drawn[0], "{device}");
        for wrong in [array(&[1.0], &[1], Dtype::Uint32), array(&[1.0; 2], &[2], Dtype::Int32)] {
            assert!(random::set_state(wrong).is_err());
        }
        random::seed(7).unwrap();
        assert_eq!([draw(), draw()], drawn);

        // A compiled function draws other numbers with each call: the state is its input and output.
        let fun = Compiled::new(
            |x| {
                random::set_state(x[0].clone())?;
                let drawn = random::bits(&[4], 4, None)?;
                Ok(vec![drawn, random::state()?])
            },
            false,
        );
        random::seed(7).unwrap();
        for want in &drawn {
            let [got, left] = fun.call(&[random::state().unwrap()]).unwrap().try_into().unwrap();
            random::set_state(left).unwrap();
            assert_eq!(&integers(&got), want, "{device}");
        }
    });
}
