//! What the tests of the file formats share: files made by hand and damage done to them.
#![allow(dead_code)]

use std::collections::BTreeMap;

use mlx_vulkan_core::{
    Array, Dtype, dispatch_dtype,
    io::{Arrays, FileBytes, gguf, npy, npz, safetensors},
};

/// The formats, as names of their loaders.
pub(crate) const FORMATS: [&str; 4] = ["safetensors", "gguf", "npy", "npz"];

/// Loads bytes in a format and reads every element of what came out. The error is one line.
pub(crate) fn parse(format: &str, bytes: &[u8]) -> Result<Arrays, String> {
    let file = FileBytes::from_bytes(format!("hostile.{format}"), bytes).unwrap();
    let arrays = match format {
        "safetensors" => safetensors::parse(&file).map(|f| f.arrays),
        "gguf" => gguf::parse(&file).map(|f| f.tensors),
        "npy" => npy::parse(&file).map(|a| Arrays::from([("array".to_string(), a)])),
        _ => npz::parse(&file),
    };
    let read = |arrays: Arrays| {
        for array in arrays.values() {
            assert_eq!(array.to_bytes()?.len(), array.nbytes());
        }
        Ok(arrays)
    };
    arrays.and_then(read).map_err(|error| {
        let text = error.to_string();
        assert!(!text.contains('\n') && text.len() < 1500, "not one line: {text:?}");
        assert!(text.contains(&format!("hostile.{format}: ")), "does not name the file: {text}");
        text
    })
}

/// The error of loading bytes, which must contain `expected`.
pub(crate) fn refuse(format: &str, bytes: &[u8], expected: &str) {
    match parse(format, bytes) {
        Ok(arrays) => panic!("{format} was accepted, expected {expected:?}: {:?}", arrays.keys()),
        Err(error) => assert!(error.contains(expected), "expected {expected:?}, got {error}"),
    }
}

/// Recognizable elements of a dtype, all different where it has so many values.
pub(crate) fn sample(dtype: Dtype, shape: &[usize]) -> Array {
    let count = shape.iter().product::<usize>() * dtype.size();
    let bytes: Vec<u8> = match dtype {
        Dtype::Bool => (0..count).map(|i| (i % 3 == 0) as u8).collect(),
        // Bytes that are finite numbers in every float dtype.
        _ => (0..count).map(|i| (i * 37 % 113) as u8).collect(),
    };
    dispatch_dtype!(dtype, T => {
        let values: Vec<T> = bytemuck::pod_collect_to_vec(&bytes);
        Array::from_slice(&values, shape).unwrap()
    })
}

/// A small valid file of each format.
pub(crate) fn valid(format: &str) -> Vec<u8> {
    let arrays = Arrays::from([
        ("a.weight".to_string(), sample(Dtype::Float32, &[2, 3])),
        ("b".to_string(), sample(Dtype::Int8, &[5])),
        ("half".to_string(), sample(Dtype::Float16, &[2, 1, 2])),
    ]);
    let path = std::path::Path::new(format);
    let mut out = Vec::new();
    match format {
        "safetensors" => {
            let metadata = BTreeMap::from([("format".to_string(), "mlx".to_string())]);
            safetensors::write(&mut out, path, &arrays, &metadata).unwrap();
        }
        "gguf" => return gguf_with_blocks(),
        "npy" => npy::write(&mut out, path, &arrays["a.weight"]).unwrap(),
        _ => {
            let mut cursor = std::io::Cursor::new(Vec::new());
            npz::write(&mut cursor, path, &arrays, true).unwrap();
            out = cursor.into_inner();
        }
    }
    out
}

/// A GGUF file by parts, so that any of them can be wrong.
#[derive(Clone)]
pub(crate) struct GgufFile {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) tensor_count: Option<u64>,
    pub(crate) pair_count: Option<u64>,
    pub(crate) pairs: Vec<Vec<u8>>,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) data: Vec<u8>,
}

impl Default for GgufFile {
    fn default() -> Self {
        GgufFile {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            pair_count: None,
            pairs: Vec::new(),
            entries: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl GgufFile {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.entries.len() as u64).to_le_bytes());
        out.extend(self.pair_count.unwrap_or(self.pairs.len() as u64).to_le_bytes());
        self.pairs.iter().chain(&self.entries).for_each(|part| out.extend(part));
        if !self.entries.is_empty() {
            out.resize(out.len().next_multiple_of(32), 0);
        }
        out.extend(&self.data);
        out
    }

    pub(crate) fn pair(mut self, key: &str, id: u32, value: &[u8]) -> Self {
        let mut pair = gguf_string(key);
        pair.extend(id.to_le_bytes());
        pair.extend(value);
        self.pairs.push(pair);
        self
    }

    /// Adds a tensor; `dims` fastest first, as in the file.
    pub(crate) fn entry(mut self, name: &str, dims: &[u64], id: u32, offset: u64) -> Self {
        let mut entry = gguf_string(name);
        entry.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|d| entry.extend(d.to_le_bytes()));
        entry.extend(id.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.entries.push(entry);
        self
    }

    pub(crate) fn data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.data = bytes.into();
        self
    }
}

pub(crate) fn gguf_string(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

/// A GGUF file with metadata, a plain tensor and one of each quantized type.
fn gguf_with_blocks() -> Vec<u8> {
    let scale = half::f16::from_f32(0.5).to_le_bytes();
    let mut data = vec![0; 4 * 32];
    let block = |head: &[u8], codes: usize| {
        let mut block = head.to_vec();
        block.extend((0..codes).map(|i| (i * 29) as u8));
        block.resize(64, 0);
        block
    };
    data[..12].copy_from_slice(bytemuck::cast_slice(&[1f32, 2.0, 3.0]));
    data.extend(block(&scale, 16));
    data.extend(block(&[scale, scale].concat(), 16));
    data.extend(block(&[127], 16));
    data.extend(block(&scale, 32));
    let strings = [8u32.to_le_bytes().to_vec(), 2u64.to_le_bytes().to_vec()].concat();
    let strings = [strings, gguf_string("<s>"), gguf_string("é")].concat();
    GgufFile::default()
        .pair("general.architecture", 8, &gguf_string("llama"))
        .pair("general.alignment", 4, &32u32.to_le_bytes())
        .pair("tokenizer.ggml.tokens", 9, &strings)
        .entry("norm", &[3], 0, 0)
        .entry("q40.weight", &[32, 1], 2, 128)
        .entry("q41.weight", &[32, 1], 3, 192)
        .entry("mxfp4.weight", &[32, 1], 39, 256)
        .entry("q80.weight", &[32, 1], 8, 320)
        .data(data)
        .bytes()
}

/// A safetensors file with this header and `data` bytes of data.
pub(crate) fn safetensors_file(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend((0..data).map(|i| i as u8));
    out
}

/// A `.npy` file, version 1, with this dictionary.
pub(crate) fn npy_file(header: &str, data: usize) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend((0..data).map(|i| i as u8));
    out
}
