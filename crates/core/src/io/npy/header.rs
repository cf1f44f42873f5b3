//! The header of a `.npy` file: a Python dictionary literal of three known keys.
//!
//! Parsed here and not with `npyz`, whose header reader allocates what a length field says, recurses
//! as deep as brackets nest and multiplies the shape unchecked.

use std::io::Read;

use super::descr;
use crate::{Dtype, io::context::MAX_RANK};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Cap of the dictionary in bytes; an array of 64 axes needs less than 2 KiB.
const MAX_TEXT: usize = 1 << 16;

/// What a header says.
#[derive(Debug)]
pub(in crate::io) struct Header {
    pub(in crate::io) dtype: Dtype,
    /// Whether the first byte of a number is its highest.
    pub(in crate::io) big_endian: bool,
    pub(in crate::io) fortran: bool,
    pub(in crate::io) shape: Vec<u64>,
    /// Bytes before the data.
    pub(in crate::io) nbytes: usize,
}

impl Header {
    /// Reads a header; the reader then stands at the data.
    pub(in crate::io) fn read(reader: &mut dyn Read) -> Result<Header, String> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(|e| format!("magic: {e}"))?;
        if !start.starts_with(MAGIC) {
            return Err("magic: this is not a .npy file".into());
        }
        let on_error = |e: std::io::Error| format!("length: {e}");
        let (length, fields) = match start[6] {
            1 => {
                let mut field = [0; 2];
                reader.read_exact(&mut field).map_err(on_error)?;
                (u16::from_le_bytes(field) as usize, 10)
            }
            2 | 3 => {
                let mut field = [0; 4];
                reader.read_exact(&mut field).map_err(on_error)?;
                (u32::from_le_bytes(field) as usize, 12)
            }
            version => return Err(format!("version: {version} is not supported")),
        };
        if length > MAX_TEXT {
            return Err(format!("length: {length} is over the cap of {MAX_TEXT}"));
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(on_error)?;
        let text = std::str::from_utf8(&text).map_err(|e| e.to_string())?;
        let mut header = Parser { rest: text }.header()?;
        header.nbytes = fields + length;
        Ok(header)
    }

    /// Whether the data must be reordered: Fortran order is C order with at most one long axis.
    pub(in crate::io) fn is_column_major(&self) -> bool {
        self.fortran && self.shape.iter().filter(|&&d| d != 1).count() > 1
    }
}

/// The header of an array in C order: magic, version 1, length, and the dictionary padded so that
/// the data is aligned to 64 bytes. Version 1 holds any rank that arrays have.
pub(super) fn text(dtype: Dtype, shape: &[usize]) -> Vec<u8> {
    let dims: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let dims = if shape.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut text =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({dims}), }}", descr(dtype));
    let padding = (10 + text.len() + 1).next_multiple_of(64) - (10 + text.len() + 1);
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// A parser of the dictionaries that NumPy and others write; it does not recurse.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut dtype, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.take('}') {
            let key = self.string()?;
            self.expect(':')?;
            let twice = match key {
                "descr" => dtype.replace(self.dtype()?).is_some(),
                "fortran_order" => fortran.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => return Err(format!("unknown key {key:?}")),
            };
            if twice {
                return Err(format!("duplicate key {key:?}"));
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err("text after the dictionary".into());
        }
        let (dtype, big_endian) = dtype.ok_or("descr: missing")?;
        Ok(Header {
            dtype,
            big_endian,
            fortran: fortran.ok_or("fortran_order: missing")?,
            shape: shape.ok_or("shape: missing")?,
            nbytes: 0,
        })
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(format!("expected {wanted:?}")) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        for quote in ['\'', '"'] {
            if self.take(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or("a string does not end")?;
                self.rest = rest;
                return Ok(text);
            }
        }
        Err("expected a string".into())
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err("fortran_order: expected True or False".into())
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut dims = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            if dims.len() == MAX_RANK {
                return Err(format!("shape: more than {MAX_RANK} axes"));
            }
            self.rest = self.rest.trim_start();
            let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(digits);
            let dim = number.parse().map_err(|e| format!("shape: {number:?}: {e}"))?;
            dims.push(dim);
            // Python 2 wrote long integers as 3L.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(dims)
    }

    /// The dtype, and whether its numbers are big-endian.
    fn dtype(&mut self) -> Result<(Dtype, bool), String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['[', '(']) {
            return Err("descr: structured dtypes are not supported".into());
        }
        let text = self.string()?;
        let kind = text.trim_start_matches(['<', '>', '|', '=']);
        let dtype = Dtype::ALL.into_iter().find(|&d| descr(d)[1..] == *kind);
        match dtype {
            Some(dtype) => Ok((dtype, text.starts_with('>') && dtype.size() > 1)),
            None => Err(format!("descr: {text:?} is not supported")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header, String> {
        Parser { rest: text }.header()
    }

    #[test]
    fn headers_of_numpy_are_read() {
        let header = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }    \n");
        let header = header.unwrap();
        assert_eq!(
            (header.dtype, header.fortran, &header.shape[..]),
            (Dtype::Float32, false, &[3][..])
        );
        let header = parse("{\"shape\":(2, 3L),\"fortran_order\":True,\"descr\":\"|b1\"}").unwrap();
        assert_eq!((header.dtype, header.is_column_major()), (Dtype::Bool, true));
        for (descr, big_endian) in [(">i8", true), ("<i8", false), ("=i8", false), (">i1", false)] {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ()}}");
            assert_eq!(parse(&text).unwrap().big_endian, big_endian, "{descr}");
        }
        assert!(
            parse("{'descr': '=i8', 'fortran_order': True, 'shape': ()}").unwrap().shape.is_empty()
        );
    }

    #[test]
    fn refusals_name_the_field() {
        let with = |descr: &str, shape: &str| {
            parse(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"))
        };
        for (descr, shape, expected) in [
            ("'>f16'", "(1,)", "descr"),
            ("'<c16'", "(1,)", "descr"),
            ("'<f16'", "(1,)", "descr"),
            ("'|O'", "(1,)", "descr"),
            ("[('a', '<f4')]", "(1,)", "structured"),
            ("'<f4'", "(-1,)", "shape"),
            ("'<f4'", "(99999999999999999999999,)", "shape"),
            ("'<f4'", "((((", "shape"),
        ] {
            let error = with(descr, shape).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse("{'descr': '<f4', 'shape': ()}").unwrap_err().contains("fortran_order"));
        assert!(parse("{'descr': '<f4', 'descr': '<f4'}").unwrap_err().contains("duplicate"));
    }

    #[test]
    fn written_headers_are_read_back_aligned() {
        for dtype in Dtype::ALL {
            for shape in [&[][..], &[0], &[7], &[2, 3], &[1; 60]] {
                let bytes = text(dtype, shape);
                let header = Header::read(&mut &bytes[..]).unwrap();
                assert_eq!(header.nbytes, bytes.len());
                assert_eq!(bytes.len() % 64, 0);
                assert_eq!(header.dtype, dtype);
                assert!(header.shape.iter().map(|&d| d as usize).eq(shape.iter().copied()));
            }
        }
    }
}
