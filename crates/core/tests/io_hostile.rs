//! Files from strangers: whatever is in them, loading ends in arrays or in one line that names the
//! file and the field.

mod io_support;

use std::io::{Cursor, Write};

use io_support::*;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

#[test]
fn valid_files_load() {
    for format in FORMATS {
        let arrays = parse(format, &valid(format)).unwrap();
        let expected = match format {
            "npy" => 1,
            "gguf" => 12,
            _ => 3,
        };
        assert_eq!(arrays.len(), expected, "{format}");
    }
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    for format in FORMATS {
        let bytes = valid(format);
        for length in 0..bytes.len() {
            // GGUF pads the end of its data, which may be missing.
            let padding = format == "gguf" && length >= bytes.len() - 30;
            let result = parse(format, &bytes[..length]);
            assert!(result.is_err() || padding, "{format} of {length} bytes was accepted");
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    for format in FORMATS {
        let original = valid(format);
        // Every bit alone …
        for bit in 0..original.len() * 8 {
            let mut bytes = original.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = parse(format, &bytes);
        }
        // … and many together.
        let mut random = SmallRng::seed_from_u64(0x5eed);
        for _ in 0..4000 {
            let mut bytes = original.clone();
            for _ in 0..=random.random_range(0..12) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = match random.random_range(0..4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[at] ^ (1 << random.random_range(0..8)),
                    _ => random.random(),
                };
            }
            bytes.truncate(bytes.len() - random.random_range(0..8) * random.random_range(0..8));
            let _ = parse(format, &bytes);
        }
    }
}

#[test]
fn random_bytes_behind_a_valid_start_never_panic() {
    let mut random = SmallRng::seed_from_u64(7);
    for format in FORMATS {
        let original = valid(format);
        for _ in 0..2000 {
            let kept = random.random_range(0..original.len());
            let mut bytes = original[..kept].to_vec();
            bytes.extend((0..random.random_range(0..300)).map(|_| random.random::<u8>()));
            let _ = parse(format, &bytes);
        }
    }
}

#[test]
fn no_file_is_another_format() {
    for written in FORMATS {
        for read in FORMATS.into_iter().filter(|f| *f != written) {
            assert!(parse(read, &valid(written)).is_err(), "{written} as {read}");
        }
    }
}

#[test]
fn safetensors_headers_are_checked() {
    let entry = |name: &str, dtype: &str, shape: &str, from: u64, to: u64| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let one = |dtype: &str, shape: &str, from: u64, to: u64, data: usize| {
        safetensors_file(&format!("{{{}}}", entry("w", dtype, shape, from, to)), data)
    };
    let two = |first: String, second: String| safetensors_file(&format!("{{{first},{second}}}"), 8);
    assert!(parse("safetensors", &one("F32", "[2]", 0, 8, 8)).is_ok());
    assert!(parse("safetensors", &one("F32", "[0]", 0, 0, 0)).is_ok());
    assert!(parse("safetensors", &one("F8_E4M3", "[8]", 0, 8, 8)).is_ok());

    let refuse = |bytes: &[u8], expected: &str| refuse("safetensors", bytes, expected);
    refuse(&u64::MAX.to_le_bytes(), "header length");
    refuse(&(1u64 << 63).to_le_bytes(), "header length");
    refuse(&200_000_000u64.to_le_bytes(), "header length");
    refuse(&safetensors_file("{\"w\"", 0), "header");
    refuse(&safetensors_file("[]", 0), "header");
    refuse(&safetensors_file(&"[".repeat(100_000), 0), "nested too deep");
    refuse(&safetensors_file(&"{\"a\":".repeat(100_000), 0), "nested too deep");
    refuse(&safetensors_file(&format!("{{\"w\":[{}1]}}", "1,".repeat(100_000)), 0), "elements");
    refuse(&safetensors_file(r#"{"__metadata__":{"a":1}}"#, 0), "__metadata__");
    refuse(&safetensors_file(r#"{"w":{"shape":[1],"data_offsets":[0,4]}}"#, 4), "tensor \"w\"");
    refuse(&one("F32", "[2]", 0, 8, 7), "tensor \"w\"");
    refuse(&one("F32", "[2]", 0, 8, 9), "data");
    refuse(&one("F32", "[3]", 0, 8, 8), "tensor \"w\"");
    refuse(&one("F64", "[2]", 0, 8, 8), "tensor \"w\"");
    refuse(&one("F32", "[-2]", 0, 8, 8), "tensor \"w\"");
    refuse(&one("F31", "[2]", 0, 8, 8), "tensor \"w\"");
    refuse(&one("F8_E5M2", "[8]", 0, 8, 8), "F8_E5M2");
    refuse(&one("F32", "[2]", 8, 0, 8), "tensor \"w\"");
    refuse(&one("F32", "[2]", u64::MAX - 7, u64::MAX, 8), "tensor \"w\"");
    refuse(&one("F32", "[9223372036854775808]", 0, 8, 8), "too large");
    refuse(&one("F32", "[4611686018427387904,4]", 0, 0, 0), "too large");
    refuse(&one("F32", "[0,4611686018427387904,4]", 0, 0, 0), "too large");
    refuse(&two(entry("a", "U8", "[5]", 0, 5), entry("b", "U8", "[4]", 4, 8)), "overlap");
    refuse(&two(entry("a", "U8", "[8]", 0, 8), entry("b", "U8", "[8]", 0, 8)), "overlap");
    refuse(&two(entry("a", "U8", "[3]", 0, 3), entry("b", "U8", "[4]", 4, 8)), "hole");
    refuse(&two(entry("a", "U8", "[8]", 0, 8), entry("a", "U8", "[8]", 0, 8)), "duplicate key");
    let long = format!("{{{}}}", entry(&"n\\n".repeat(5000), "U8", "[2]", 0, 1));
    refuse(&safetensors_file(&long, 1), "tensor");
}

#[test]
fn gguf_heads_are_checked() {
    let file = GgufFile::default;
    let refuse = |file: GgufFile, expected: &str| refuse("gguf", &file.bytes(), expected);
    assert!(parse("gguf", &file().bytes()).unwrap().is_empty());
    assert!(parse("gguf", &GgufFile { version: 2, ..file() }.bytes()).is_ok());

    refuse(GgufFile { magic: *b"GGML", ..file() }, "magic");
    refuse(GgufFile { version: 1, ..file() }, "version");
    refuse(GgufFile { version: 3 << 24, ..file() }, "big-endian");
    refuse(GgufFile { tensor_count: Some(1 << 63), ..file() }, "tensor count");
    refuse(GgufFile { tensor_count: Some(1), ..file() }, "tensor count");
    refuse(GgufFile { pair_count: Some(u64::MAX), ..file() }, "metadata count");

    let gib = (1u64 << 30).to_le_bytes();
    refuse(file().pair("k", 8, &gib), "metadata \"k\"");
    refuse(file().pair("k", 8, &u64::MAX.to_le_bytes()), "metadata \"k\"");
    refuse(GgufFile { pairs: vec![[&gib[..], &[0; 100]].concat()], ..file() }, "metadata key 0");
    refuse(file().pair("k", 8, &[2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe]), "utf-8");
    refuse(file().pair("k", 13, &[0; 8]), "value type 13");
    refuse(file().pair("k", 7, &[2]), "boolean");
    refuse(file().pair("k", 4, &[0; 3]), "metadata \"k\"");
    refuse(file().pair("k", 0, &[1]).pair("k", 0, &[1]), "duplicate key");
    refuse(file().pair("a\u{1b}[31m\n", 13, &[0; 8]), "value type 13");

    let array = |id: u32, count: u64, rest: &[u8]| {
        [&id.to_le_bytes()[..], &count.to_le_bytes()[..], rest].concat()
    };
    refuse(file().pair("k", 9, &array(8, 1 << 61, &[])), "do not fit");
    refuse(file().pair("k", 9, &array(12, 1 << 61, &[0; 64])), "do not fit");
    refuse(file().pair("k", 9, &array(8, 2, &gguf_string("one"))), "metadata \"k\"");
    refuse(file().pair("k", 9, &array(77, 1, &[0; 8])), "array type 77");
    refuse(file().pair("k", 9, &array(9, 1, &[]).repeat(100_000)), "nest");
    for alignment in [0u32, 3, 33, 1 << 21, u32::MAX] {
        refuse(file().pair("general.alignment", 4, &alignment.to_le_bytes()), "general.alignment");
    }
    refuse(file().pair("general.alignment", 8, &gguf_string("32")), "general.alignment");
}

#[test]
fn a_gibibyte_string_that_is_there_is_refused_unread() {
    // A sparse file: its length is true, its contents cost nothing.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.gguf");
    let head = GgufFile::default().pair("k", 8, &(1u64 << 30).to_le_bytes()).bytes();
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    file.set_len(head.len() as u64 + (1 << 30)).unwrap();
    drop(file);
    let error = mlx_vulkan_core::io::load(&path).unwrap_err().to_string();
    assert!(error.contains("large.gguf") && error.contains("over the cap"), "{error}");
}

#[test]
fn gguf_directories_are_checked() {
    let file = || GgufFile::default().data([0; 128]);
    let refuse = |file: GgufFile, expected: &str| refuse("gguf", &file.bytes(), expected);
    let with = |dims: &[u64], id: u32, offset: u64| file().entry("w", dims, id, offset);
    assert!(parse("gguf", &with(&[32], 0, 0).bytes()).is_ok());
    assert!(parse("gguf", &with(&[], 0, 0).bytes()).is_ok());
    assert!(parse("gguf", &with(&[0, 5], 0, 0).bytes()).is_ok());

    refuse(with(&[1; 9], 0, 0), "n_dims");
    refuse(with(&[1 << 63], 0, 0), "too large");
    refuse(with(&[1 << 63, 2], 0, 0), "too large");
    refuse(with(&[0, 1 << 40, 1 << 40], 0, 0), "too large");
    refuse(with(&[u64::MAX; 4], 8, 0), "too large");
    refuse(with(&[1 << 62], 2, 0), "too large");
    refuse(with(&[33], 0, 0), "past the end");
    refuse(with(&[32], 0, 32), "past the end");
    refuse(with(&[32], 0, u64::MAX - 31), "tensor \"w\"");
    refuse(with(&[1], 0, 1 << 62), "past the end");
    refuse(with(&[1], 0, 4), "multiple of 32");
    refuse(with(&[32], 12, 0), "Q4_K");
    refuse(with(&[32], 1000, 0), "type unknown (1000)");
    for quantized in [2, 3, 8, 39] {
        refuse(with(&[31], quantized, 0), "multiple of 32");
        refuse(with(&[], quantized, 0), "multiple of 32");
        refuse(with(&[16, 2], quantized, 0), "multiple of 32");
    }
    refuse(file().entry("a", &[16], 0, 0).entry("b", &[16], 0, 32), "overlaps");
    refuse(file().entry("a", &[16], 0, 0).entry("b", &[16], 0, 0), "overlaps");
    refuse(file().entry("a", &[4], 0, 0).entry("a", &[4], 0, 32), "duplicate name");
    refuse(file().entry("a.weight", &[32], 2, 0).entry("a.scales", &[4], 0, 32), "duplicate name");
    let long = "n".repeat(5000);
    refuse(file().entry(&long, &[4], 0, 0), "tensor name 0");
    // Scales whose bias is not a float16.
    for bits in [0x7c00u16, 0x7e00, 0x7bff] {
        let mut data = vec![0; 128];
        data[..2].copy_from_slice(&bits.to_le_bytes());
        refuse(file().data(data.clone()).entry("w", &[32], 2, 0), "scale");
        refuse(file().data(data.clone()).entry("w", &[32], 8, 0), "scale");
        // Q4_1 stores its bias.
        assert!(parse("gguf", &file().data(data).entry("w", &[32], 3, 0).bytes()).is_ok());
    }
}

#[test]
fn npy_headers_are_checked() {
    let file = |descr: &str, shape: &str, data: usize| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': {shape}, }}\n");
        npy_file(&header, data)
    };
    let refuse = |bytes: &[u8], expected: &str| refuse("npy", bytes, expected);
    assert!(parse("npy", &file("<i2", "(2, 2)", 8)).is_ok());
    refuse(&file("<i2", "(2, 2)", 7), "data");
    assert!(parse("npy", &file(">i2", "(2, 2)", 8)).is_ok());
    refuse(&file(">i2", "(2, 2)", 7), "data");
    refuse(&file(">c16", "(1,)", 16), "descr");
    refuse(&file("<c16", "(1,)", 16), "descr");
    refuse(&file("|O", "(1,)", 16), "descr");
    refuse(&file("<i2", "(9223372036854775808,)", 8), "too large");
    refuse(&file("<i2", "(4294967296, 4294967296, 4294967296, 0)", 8), "too large");
    refuse(&file("<i2", "(18446744073709551616,)", 8), "shape");
    refuse(&file("<i2", &"(".repeat(60_000), 8), "shape");
    refuse(&file("<i2", &format!("({})", "1,".repeat(1000)), 8), "axes");
    refuse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "length");
    refuse(b"\x93NUMPY\x09\x00\x00\x00", "version");
    refuse(b"PK\x03\x04 no npy", "magic");
}

/// A zip archive of these entries.
fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        out.start_file(*name, options).unwrap();
        out.write_all(bytes).unwrap();
    }
    out.finish().unwrap().into_inner()
}

#[test]
fn npz_entries_are_checked() {
    let stored = |entries: &[(&str, &[u8])]| archive(entries, CompressionMethod::Stored);
    let refuse = |bytes: &[u8], expected: &str| refuse("npz", bytes, expected);
    let npy = valid("npy");
    assert!(parse("npz", &stored(&[("../../etc/x.npy", &npy), ("plain", &npy)])).is_ok());
    refuse(&stored(&[("a.npy", b"no npy at all")]), "entry \"a.npy\"");
    refuse(&stored(&[("a.npy", &npy), ("a", &npy)]), "same name");
    let longer = [&npy[..], b"tail"].concat();
    refuse(&stored(&[("a.npy", &longer)]), "bytes, not");
    refuse(&stored(&[("a.npy", &npy[..npy.len() - 1])]), "bytes, not");
    // A changed byte of data is found by the checksum.
    let mut bytes = stored(&[("a.npy", &npy)]);
    let data = bytes.windows(4).position(|w| w == npy.last_chunk::<4>().unwrap()).unwrap();
    bytes[data] ^= 1;
    refuse(&bytes, "data");
}

#[test]
fn zip_bombs_are_refused() {
    // A header that promises 4 TiB, in an entry that says so too.
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4398046511104,)}";
    let bytes = archive(&[("a.npy", &npy_file(header, 1000))], CompressionMethod::Deflated);
    refuse("npz", &bytes, "bytes, not");

    // Sizes in the directory that the compressed bytes cannot unpack to.
    let npy = valid("npy");
    let mut bytes = archive(&[("a.npy", &npy)], CompressionMethod::Deflated);
    let size = (npy.len() as u32).to_le_bytes();
    for at in (0..bytes.len() - 4).rev() {
        if bytes[at..at + 4] == size {
            bytes[at..at + 4].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
        }
    }
    refuse("npz", &bytes, "cannot unpack");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let missing = folder.path().join(format!("missing.{format}"));
        let error = mlx_vulkan_core::io::load(&missing).unwrap_err().to_string();
        assert!(error.contains("missing.") && error.contains("file"), "{error}");
        let directory = folder.path().join(format!("directory.{format}"));
        std::fs::create_dir(&directory).unwrap();
        assert!(mlx_vulkan_core::io::load(&directory).is_err());
        let empty = folder.path().join(format!("empty.{format}"));
        std::fs::write(&empty, []).unwrap();
        assert!(mlx_vulkan_core::io::load(&empty).is_err());
    }
    assert!(mlx_vulkan_core::io::load(folder.path().join("no_extension")).is_err());
    assert!(mlx_vulkan_core::io::load(folder.path().join("a.pickle")).is_err());
}
