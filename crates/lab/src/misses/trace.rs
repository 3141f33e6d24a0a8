//! Traces of requests: read from files or made, with dense object numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::Result;

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes of one oracleGeneral record: u32 time, u64 object, u32 size, i64 next access.
const ORACLE_RECORD_BYTES: usize = 24;

/// Requests for objects that are numbered from zero in the order of their first request. An
/// object keeps the size of its first request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub name: String,
    /// Object numbers, in the order of the requests.
    pub requests: Vec<u32>,
    /// Key and value bytes of each object.
    pub sizes: Vec<u32>,
    /// The name by which the trace calls each object.
    pub names: Vec<u64>,
    numbers: HashMap<u64, u32>,
}

impl Trace {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub fn push(&mut self, name: u64, size: u32) {
        let next = self.sizes.len() as u32;
        let number = match self.numbers.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.sizes.push(size);
                self.names.push(name);
                *new.insert(next)
            }
        };
        self.requests.push(number);
    }

    /// The sum of the sizes of all objects.
    pub fn footprint_bytes(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }

    /// A share of the footprint, in whole bytes.
    pub fn share_bytes(&self, percent: f64) -> u64 {
        (self.footprint_bytes() as f64 * percent / 100.0) as u64
    }

    /// Reads a file: CSV `time, object, size[, next access]` or, when its name says
    /// oracleGeneral, packed records; each also compressed by zstd.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut trace = Self::new(file_name.split('.').next().unwrap_or_default());
        let mut file = BufReader::new(File::open(path).map_err(|error| failed(&error))?);
        let compressed = file
            .fill_buf()
            .map_err(|error| failed(&error))?
            .starts_with(&ZSTD_MAGIC);
        let mut bytes: Box<dyn BufRead> = if compressed {
            let decoder = ruzstd::decoding::StreamingDecoder::new(file);
            Box::new(BufReader::new(decoder.map_err(|error| failed(&error))?))
        } else {
            Box::new(file)
        };
        let read = if file_name.contains("oracleGeneral") {
            trace.read_oracle(&mut bytes)
        } else {
            trace.read_csv(&mut bytes)
        };
        read.map_err(|error| failed(&error))?;
        if trace.requests.is_empty() {
            return Err(failed(&"no request in it").into());
        }
        Ok(trace)
    }

    fn read_csv(&mut self, from: &mut impl BufRead) -> Result<()> {
        let mut line = String::new();
        let mut number = 0;
        while from.read_line(&mut line)? > 0 {
            number += 1;
            if !line.starts_with('#') {
                let mut fields = line.trim_end().split(',').skip(1).map(str::trim);
                let object = fields.next().and_then(|field| field.parse().ok());
                let size = fields.next().and_then(|field| field.parse().ok());
                match (object, size) {
                    (Some(object), Some(size)) => self.push(object, size),
                    _ => return Err(format!("line {number} has no object and size").into()),
                }
            }
            line.clear();
        }
        Ok(())
    }

    fn read_oracle(&mut self, from: &mut impl Read) -> Result<()> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let (records, rest) = bytes.as_chunks::<ORACLE_RECORD_BYTES>();
        if !rest.is_empty() {
            return Err(format!("{} bytes after the last whole record", rest.len()).into());
        }
        for record in records {
            let (_, rest) = record.split_first_chunk::<4>().expect("24 bytes");
            let (object, rest) = rest.split_first_chunk::<8>().expect("20 bytes");
            let (size, _) = rest.split_first_chunk::<4>().expect("12 bytes");
            self.push(u64::from_le_bytes(*object), u32::from_le_bytes(*size));
        }
        Ok(())
    }
}
