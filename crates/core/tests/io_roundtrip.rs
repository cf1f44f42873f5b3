//! What is saved is loaded again, bit for bit; and files of other programs are read as they are.

mod io_support;

use std::{collections::BTreeMap, io::Write, path::Path};

use half::f16;
use io_support::*;
use mlx_vulkan_core::{
    Array, Complex, Dtype, Error,
    dtype::Bool8,
    io::{self, Arrays, FileBytes, GgufArray, GgufValue, gguf, npy, npz, safetensors},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

const SHAPES: [&[usize]; 6] = [&[], &[1], &[23], &[0, 3], &[4, 6, 3, 1, 2], &[64, 32]];

fn assert_same(found: &Array, expected: &Array, what: &str) {
    assert_eq!(found.dtype(), expected.dtype(), "{what}");
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert_eq!(found.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{what}");
}

/// Every shape of the given dtypes, by name.
fn samples(dtypes: &[Dtype]) -> Arrays {
    let mut arrays = Arrays::new();
    for dtype in dtypes {
        for shape in SHAPES {
            arrays.insert(format!("{dtype}{shape:?}"), sample(*dtype, shape));
        }
    }
    arrays
}

fn assert_all_same(found: &Arrays, expected: &Arrays) {
    assert!(found.keys().eq(expected.keys()));
    for (name, array) in expected {
        assert_same(&found[name], array, name);
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn safetensors_keeps_every_dtype_and_the_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let arrays = samples(&Dtype::ALL);
    let metadata =
        BTreeMap::from([("format".into(), "mlx".into()), ("π\n\"".into(), "é\t".into())]);
    io::save_safetensors(folder.path().join("a"), &arrays, &metadata).unwrap();
    let path = folder.path().join("a.safetensors");
    let file = io::load_safetensors(&path).unwrap();
    assert_eq!(file.metadata, metadata);
    assert_all_same(&file.arrays, &arrays);
    assert_all_same(&io::load(&path).unwrap().into_arrays().unwrap(), &arrays);
    // Saving over the file that the arrays view changes nothing under them.
    io::save_safetensors(&path, &Arrays::new(), &BTreeMap::new()).unwrap();
    assert_all_same(&file.arrays, &arrays);
    assert!(io::load_safetensors(&path).unwrap().arrays.is_empty());
    assert_eq!(entries(folder.path()), 1);
}

#[test]
fn safetensors_of_others_are_read() {
    // Unaligned data, an odd order, bools that are not 0 or 1.
    let header = r#"{"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},
        "f":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},"__metadata__":null}"#;
    let mut bytes = safetensors_file(header, 0);
    bytes.extend([0, 7, 1]);
    bytes.extend(bytemuck::cast_slice(&[1.5f32, -2.0]));
    let file = safetensors::parse(&FileBytes::from_bytes("x", &bytes).unwrap()).unwrap();
    assert_eq!(file.arrays["f"].to_vec::<f32>().unwrap(), [1.5, -2.0]);
    assert_eq!(file.arrays["b"].to_vec::<Bool8>().unwrap(), [Bool8(0), Bool8(1), Bool8(1)]);
    // 8-bit floats are bytes.
    let header = r#"{"tensor":{"dtype":"F8_E4M3","shape":[10],"data_offsets":[0,10]}}       "#;
    let file = parse("safetensors", &safetensors_file(header, 10)).unwrap();
    assert_eq!(file["tensor"].dtype(), Dtype::Uint8);
    // The reference implementation reads what is written here.
    let bytes = valid("safetensors");
    let reference = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(reference.len(), 3);
    assert_eq!(reference.tensor("half").unwrap().shape(), [2, 1, 2]);
    let reserved = Arrays::from([("__metadata__".into(), sample(Dtype::Int8, &[1]))]);
    let mut out = Vec::new();
    assert!(safetensors::write(&mut out, Path::new("x"), &reserved, &BTreeMap::new()).is_err());
}

#[test]
fn npy_keeps_every_dtype() {
    let folder = tempfile::tempdir().unwrap();
    for (name, array) in samples(&Dtype::ALL) {
        io::save(folder.path().join("a"), &array).unwrap();
        let loaded = io::load(folder.path().join("a.npy")).unwrap().into_array().unwrap();
        assert_same(&loaded, &array, &name);
    }
    assert_eq!(entries(folder.path()), 1);
}

#[test]
fn npy_in_fortran_order_is_reordered() {
    let header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 2), }";
    let mut bytes = npy_file(header, 0);
    bytes.extend(bytemuck::cast_slice(&(0..12).collect::<Vec<i32>>()));
    let array = parse("npy", &bytes).unwrap().remove("array").unwrap();
    assert_eq!(array.shape(), [2, 3, 2]);
    // Element (i, j, k) is stored at i + 2 j + 6 k.
    let expected: Vec<i32> = (0..2)
        .flat_map(|i| (0..3).flat_map(move |j| (0..2).map(move |k| i + 2 * j + 6 * k)))
        .collect();
    assert_eq!(array.to_vec::<i32>().unwrap(), expected);
    let row = npy_file("{'descr': '<i2', 'fortran_order': True, 'shape': (1, 2), }", 4);
    assert_eq!(parse("npy", &row).unwrap()["array"].to_vec::<i16>().unwrap(), [256, 770]);
}

#[test]
fn npy_of_big_endian_numbers_is_turned() {
    let mut bytes = npy_file("{'descr': '>c8', 'fortran_order': False, 'shape': (2,), }", 0);
    bytes.extend([1.5f32, -2.0, 3.0, 0.25].map(f32::to_be_bytes).concat());
    let array = parse("npy", &bytes).unwrap().remove("array").unwrap();
    let expected = [Complex::new(1.5, -2.0), Complex::new(3.0, 0.25)];
    assert_eq!(array.to_vec::<Complex>().unwrap(), expected);
    let mut bytes = npy_file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }", 0);
    bytes.extend([1i16, 2, 3, 400].map(i16::to_be_bytes).concat());
    let array = parse("npy", &bytes).unwrap().remove("array").unwrap();
    assert_eq!(array.to_vec::<i16>().unwrap(), [1, 3, 2, 400]);
}

#[test]
fn npz_keeps_every_dtype_compressed_and_not() {
    let folder = tempfile::tempdir().unwrap();
    let arrays = samples(&Dtype::ALL);
    io::savez(folder.path().join("a"), &arrays).unwrap();
    io::savez_compressed(folder.path().join("b.npz"), &arrays).unwrap();
    let mut sizes = Vec::new();
    for name in ["a.npz", "b.npz"] {
        let path = folder.path().join(name);
        assert_all_same(&npz::load(&path).unwrap(), &arrays);
        sizes.push(std::fs::metadata(path).unwrap().len());
    }
    assert!(sizes[1] < sizes[0]);
    assert_eq!(entries(folder.path()), 2);
}

#[test]
fn gguf_keeps_its_dtypes_and_all_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let dtypes = [
        Dtype::Float32,
        Dtype::Float16,
        Dtype::Bfloat16,
        Dtype::Float64,
        Dtype::Int8,
        Dtype::Int16,
        Dtype::Int32,
        Dtype::Int64,
    ];
    let arrays = samples(&dtypes);
    let nested = GgufArray::Array(vec![
        GgufArray::Uint8(vec![1, 2]),
        GgufArray::Array(vec![GgufArray::String(vec!["deep".into(), String::new()])]),
    ]);
    let tokens: Vec<String> = (0..150_000).map(|i| format!("token {i} é")).collect();
    let metadata = gguf::Metadata::from([
        ("u8".into(), 200u8.into()),
        ("i8".into(), (-3i8).into()),
        ("u16".into(), 60_000u16.into()),
        ("i16".into(), (-300i16).into()),
        ("u32".into(), u32::MAX.into()),
        ("i32".into(), i32::MIN.into()),
        ("u64".into(), u64::MAX.into()),
        ("i64".into(), i64::MIN.into()),
        ("f32".into(), 1.5f32.into()),
        ("f64".into(), 1e300f64.into()),
        ("bool".into(), true.into()),
        ("bools".into(), vec![true, false].into()),
        ("f64s".into(), vec![0.1f64, 0.2].into()),
        ("i16s".into(), vec![1i16, -1].into()),
        ("text".into(), "naïve".into()),
        ("empty".into(), Vec::<u32>::new().into()),
        ("nested".into(), GgufValue::Array(nested)),
        ("tokenizer.ggml.tokens".into(), tokens.into()),
        ("general.alignment".into(), 64u32.into()),
    ]);
    io::save_gguf(folder.path().join("a"), &arrays, &metadata).unwrap();
    let path = folder.path().join("a.gguf");
    let file = io::load_gguf(&path).unwrap();
    assert_eq!(file.metadata, metadata);
    assert_all_same(&file.tensors, &arrays);
    assert_eq!(gguf::load_metadata(&path).unwrap(), metadata);
    assert_eq!(entries(folder.path()), 1);
    assert_eq!(file.metadata["tokenizer.ggml.tokens"].as_strings().unwrap().len(), 150_000);
    assert_eq!(file.metadata["u32"].as_u64(), Some(u64::from(u32::MAX)));
    assert_eq!(file.metadata["i8"].as_u64(), None);
    assert_eq!(file.metadata["i8"].as_f64(), Some(-3.0));
}

#[test]
fn gguf_metadata_values_are_arrays_for_mlx() {
    for dtype in Dtype::ALL {
        for shape in [&[][..], &[2]] {
            let array = sample(dtype, shape);
            let kept = match dtype {
                Dtype::Float16 | Dtype::Bfloat16 | Dtype::Complex64 => {
                    let error = GgufValue::from_array(&array).unwrap_err();
                    assert!(matches!(error, Error::Invalid { .. }));
                    continue;
                }
                // As in MLX.
                Dtype::Float64 => Dtype::Float32,
                other => other,
            };
            let value = GgufValue::from_array(&array).unwrap();
            let back = value.to_array().unwrap().unwrap();
            assert_eq!((back.dtype(), back.shape()), (kept, shape));
            if kept == dtype {
                assert_same(&back, &array, dtype.name());
            }
        }
    }
    assert!(GgufValue::from_array(&sample(Dtype::Int8, &[0])).is_err());
    assert!(GgufValue::from_array(&sample(Dtype::Int8, &[1, 1])).is_err());
    assert!(GgufValue::from("text").to_array().is_none());
}

/// Blocks of `codes` with one scale each (and a minimum, for Q4_1) as ggml lays them out.
fn blocks(kind: u32, scales: &[f16], minimum: f16, codes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (scale, codes) in scales.iter().zip(codes.chunks(32)) {
        out.extend(scale.to_le_bytes());
        match kind {
            8 => out.extend(codes.iter().map(|&q| q.wrapping_sub(128))),
            _ => {
                if kind == 3 {
                    out.extend(minimum.to_le_bytes());
                }
                out.extend((0..16).map(|j| codes[j] | codes[j + 16] << 4));
            }
        }
    }
    out
}

#[test]
fn quantized_gguf_becomes_the_affine_form_without_loss() {
    // More blocks than one job of the repacking has, and not a multiple of them.
    let (rows, columns) = (37, 32 * 1000);
    let groups = rows * columns / 32;
    let mut random = SmallRng::seed_from_u64(3);
    let scales: Vec<f16> = (0..groups)
        .map(|_| f16::from_f32(random.random_range(0..2000) as f32 / 512.0 - 2.0))
        .collect();
    let minimum = f16::from_f32(-1.25);
    for (kind, bits, factor) in [(2, 4, Some(-8.0)), (3, 4, None), (8, 8, Some(-128.0))] {
        let codes: Vec<u8> =
            (0..rows * columns).map(|_| random.random_range(0..1u32 << bits) as u8).collect();
        let bytes = GgufFile::default()
            .entry("x.weight", &[columns as u64, rows as u64], kind, 0)
            .entry("norm", &[], 0, 1 << 25)
            .data([blocks(kind, &scales, minimum, &codes), vec![0; 1 << 26]].concat())
            .bytes();
        let tensors = parse("gguf", &bytes).unwrap();
        let weights = &tensors["x.weight"];
        assert_eq!(
            (weights.dtype(), weights.shape()),
            (Dtype::Uint32, &[rows, columns * bits / 32][..])
        );
        let unpacked: Vec<u8> = weights
            .to_vec::<u32>()
            .unwrap()
            .iter()
            .flat_map(|w| {
                (0..32 / bits).map(move |i| (w >> (i * bits)) as u8 & ((1u16 << bits) - 1) as u8)
            })
            .collect();
        assert!(unpacked == codes, "codes of type {kind}");
        let found = tensors["x.scales"].to_vec::<f16>().unwrap();
        assert_eq!(tensors["x.scales"].shape(), [rows, columns / 32]);
        assert!(found == scales, "scales of type {kind}");
        let biases = tensors["x.biases"].to_vec::<f16>().unwrap();
        for (bias, scale) in biases.iter().zip(&scales) {
            let expected = factor.map_or(minimum.to_f64(), |f: f64| f * scale.to_f64());
            assert_eq!(bias.to_f64(), expected);
        }
        assert_eq!(tensors["norm"].shape(), [0usize; 0]);
    }
}

#[test]
fn small_floats_of_gguf_keep_their_codes_and_exponents() {
    let (rows, columns) = (3, 96);
    let mut random = SmallRng::seed_from_u64(4);
    let codes: Vec<u8> = (0..rows * columns).map(|_| random.random_range(0..16)).collect();
    let exponents: Vec<u8> = (0..rows * columns / 32).map(|_| random.random()).collect();
    let mut data = Vec::new();
    for (exponent, codes) in exponents.iter().zip(codes.chunks(32)) {
        data.push(*exponent);
        data.extend((0..16).map(|j| codes[j] | codes[j + 16] << 4));
    }
    let file =
        GgufFile::default().entry("x.weight", &[columns as u64, rows as u64], 39, 0).data(data);
    let tensors = parse("gguf", &file.bytes()).unwrap();
    let words = tensors["x.weight"].to_vec::<u32>().unwrap();
    let unpacked: Vec<u8> =
        words.iter().flat_map(|w| (0..8).map(move |i| (w >> (4 * i) & 15) as u8)).collect();
    assert_eq!(unpacked, codes);
    assert_eq!(tensors["x.weight"].shape(), [rows, columns / 8]);
    assert_eq!(tensors["x.scales"].shape(), [rows, columns / 32]);
    assert_eq!(tensors["x.scales"].to_vec::<u8>().unwrap(), exponents);
    assert_eq!(tensors.len(), 2, "small floats have no biases");
}

/// A writer on a disk with `room` bytes left.
struct FullDisk {
    room: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.room == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for FullDisk {
    fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_full_disk_is_one_line_that_names_the_file() {
    let arrays = Arrays::from([("w".to_string(), sample(Dtype::Float32, &[64, 64]))]);
    let name = Path::new("model.bin");
    // Less than the smallest of the files, which is the compressed one.
    for room in [0, 4, 200, 300] {
        let disk = || FullDisk { room };
        for result in [
            npy::write(&mut disk(), name, &arrays["w"]),
            npz::write(&mut disk(), name, &arrays, false),
            npz::write(&mut disk(), name, &arrays, true),
            gguf::write(&mut disk(), name, &arrays, &gguf::Metadata::new()),
            safetensors::write(&mut disk(), name, &arrays, &BTreeMap::new()),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("model.bin: ") && error.contains("cannot be written"),
                "{error}"
            );
            assert!(!error.contains('\n'));
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let arrays = Arrays::from([("w".to_string(), sample(Dtype::Complex64, &[4]))]);
    assert!(io::save(gone.join("a"), &arrays["w"]).is_err());
    assert!(io::savez(gone.join("a"), &arrays).is_err());
    assert!(io::save_safetensors(gone.join("a"), &arrays, &BTreeMap::new()).is_err());
    assert!(io::save_gguf(gone.join("a"), &arrays, &gguf::Metadata::new()).is_err());
    // A dtype that the format lacks is found with the file half-way made.
    let error = io::save_gguf(folder.path().join("a"), &arrays, &gguf::Metadata::new());
    assert!(error.unwrap_err().to_string().contains("complex64 is not supported"));
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn the_smollm2_file_loads_when_it_is_here() {
    let Some(path) = std::env::var_os("MLX_TEST_GGUF") else { return };
    let start = std::time::Instant::now();
    let file = io::load_gguf(Path::new(&path)).unwrap();
    println!("{} arrays in {:?}", file.tensors.len(), start.elapsed());
    assert_eq!(file.tensors.len(), 61 + 3 * 211);
    assert_eq!(file.metadata["general.architecture"].as_str(), Some("llama"));
    assert_eq!(file.tensors["token_embd.weight"].shape(), [49152, 576 / 4]);
}
