//! Random bits equal to upstream's.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Dtype, random};
use serde_json::Value;

fn integers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect()
}

#[test]
fn bits_are_upstreams() {
    let data: Value = serde_json::from_str(include_str!("data/threefry.json")).unwrap();
    on_cpu(|| {
        for case in data["cases"].as_array().unwrap() {
            let key: Vec<u32> = integers(&case["key"]).iter().map(|&x| x as u32).collect();
            let shape: Vec<usize> = integers(&case["shape"]).iter().map(|&x| x as usize).collect();
            let width = case["width"].as_u64().unwrap() as usize;
            let key = Array::from_slice(&key, &[2]).unwrap();
            let got = random::bits(&shape, width, Some(&key)).unwrap();
            let want: Vec<f64> = integers(&case["bits"]).iter().map(|&x| x as f64).collect();
            assert_eq!(read(&got), want, "{} {} {width}", case["key"], case["shape"]);
        }
    });
}

/// Large outputs, filled on all cores, continue the same counters.
#[test]
fn many_words() {
    on_cpu(|| {
        let key = random::key(7).unwrap();
        let n = 100_001;
        let bits = random::bits(&[n], 4, Some(&key)).unwrap().to_vec::<u32>().unwrap();
        let bytes = random::bits(&[4 * n], 1, Some(&key)).unwrap().to_vec::<u8>().unwrap();
        let same = bits.iter().zip(bytes.chunks(4)).all(|(w, b)| w.to_le_bytes() == b);
        assert!(same, "bytes are the words' bytes");
        let mean = bits.iter().map(|&b| b as f64).sum::<f64>() / n as f64 / u32::MAX as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let mut distinct = bits.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > n - 10, "counters are distinct");
    });
}

#[test]
fn empty_and_strided_keys() {
    on_cpu(|| {
        let key = random::key(3).unwrap();
        assert!(read(&random::bits(&[0], 4, Some(&key)).unwrap()).is_empty());
        let (a, b) = random::split(&key).unwrap();
        let pair = random::bits(&[2, 2], 4, Some(&key)).unwrap();
        assert_eq!([read(&a), read(&b)].concat(), read(&pair));
        let column = array(&[0.0, 9.0, 3.0, 9.0], &[2, 2], Dtype::Uint32);
        let column = mlx_vulkan_core::ops::slice(&column, &[0, 0], &[2, 1], &[1, 1]).unwrap();
        let strided = mlx_vulkan_core::ops::squeeze(&column, &[1]).unwrap();
        let dense = random::bits(&[5], 4, Some(&key)).unwrap();
        assert_eq!(read(&random::bits(&[5], 4, Some(&strided)).unwrap()), read(&dense));
    });
}
