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

    /// Reads so many requests from a file: CSV `time, object, size[, next access]` or, when its
    /// name says oracleGeneral, packed records; each also compressed by zstd.
    pub fn read(path: &Path, requests_max: usize) -> Result<Self> {
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
            trace.read_oracle(&mut bytes, requests_max)
        } else {
            trace.read_csv(&mut bytes, requests_max)
        };
        read.map_err(|error| failed(&error))?;
        if trace.requests.is_empty() {
            return Err(failed(&"no request in it").into());
        }
        Ok(trace)
    }

    fn read_csv(&mut self, from: &mut impl BufRead, requests_max: usize) -> Result<()> {
        let mut line = String::new();
        let mut number = 0;
        while self.requests.len() < requests_max && from.read_line(&mut line)? > 0 {
            number += 1;
            if !line.starts_with('#') {
                let mut fields = line.trim_end().split(',').skip(1).map(str::trim);
                let object = fields.next().and_then(|field| field.parse().ok());
                let size = fields.next().and_then(|field| field.parse().ok());
                let (Some(object), Some(size)) = (object, size) else {
                    return Err(format!("line {number} has no object and size").into());
                };
                self.push(object, size);
            }
            line.clear();
        }
        Ok(())
    }

    fn read_oracle(&mut self, from: &mut impl Read, requests_max: usize) -> Result<()> {
        let mut record = [0; ORACLE_RECORD_BYTES];
        while self.requests.len() < requests_max {
            let mut filled = 0;
            while filled < record.len() {
                match from.read(&mut record[filled..])? {
                    0 if filled == 0 => return Ok(()),
                    0 => return Err(format!("{filled} bytes after the last whole record").into()),
                    bytes => filled += bytes,
                }
            }
            let (_, rest) = record.split_first_chunk::<4>().expect("24 bytes");
            let (object, rest) = rest.split_first_chunk::<8>().expect("20 bytes");
            let (size, _) = rest.split_first_chunk::<4>().expect("12 bytes");
            self.push(u64::from_le_bytes(*object), u32::from_le_bytes(*size));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: [(u64, u32); 4] = [(70, 100), (8, 20), (70, 100), (u64::MAX, 3)];

    fn csv() -> String {
        let lines = REQUESTS.map(|(object, size)| format!("0, {object}, {size}, -1\n"));
        "# time, object, size, next_access_vtime\n".to_owned() + &lines.concat()
    }

    fn expect(trace: &Trace, requests: usize) {
        assert_eq!(trace.requests, [0, 1, 0, 2][..requests]);
        let objects = trace.sizes.len();
        assert_eq!(trace.sizes, [100, 20, 3][..objects]);
        assert_eq!(trace.names, [70, 8, u64::MAX][..objects]);
    }

    #[test]
    fn csv_is_read() {
        for requests in [4, 2] {
            let mut trace = Trace::default();
            trace
                .read_csv(&mut csv().as_bytes(), requests)
                .expect("well formed");
            expect(&trace, requests);
        }
        let mut trace = Trace::default();
        trace.read_csv(&mut csv().as_bytes(), 9).expect("all");
        assert_eq!(trace.footprint_bytes(), 123);
        assert_eq!(trace.share_bytes(10.0), 12);
        let error = trace.read_csv(&mut "0, 1, 2\n0, 1\n".as_bytes(), 9);
        assert!(error.is_err_and(|error| error.to_string().contains("line 2")));
    }

    #[test]
    fn oracle_general_is_read() {
        let mut bytes = Vec::new();
        for (object, size) in REQUESTS {
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(object.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend((-1i64).to_le_bytes());
        }
        for requests in [4, 2] {
            let mut trace = Trace::default();
            trace
                .read_oracle(&mut &bytes[..], requests)
                .expect("whole records");
            expect(&trace, requests);
        }
        bytes.pop();
        assert!(Trace::default().read_oracle(&mut &bytes[..], 4).is_err());
    }

    #[test]
    fn a_file_says_by_its_first_bytes_whether_it_is_compressed() {
        let folder = std::env::temp_dir().join(format!("micanite-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("small.csv");
        std::fs::write(&path, csv()).expect("a file");
        let plain = Trace::read(&path, 4).expect("a trace");
        assert_eq!(plain.name, "small");
        expect(&plain, 4);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let packed = ruzstd::encoding::compress_to_vec(csv().as_bytes(), level);
        std::fs::write(&path, packed).expect("a file");
        expect(&Trace::read(&path, 4).expect("a trace"), 4);
        std::fs::write(&path, "# nothing\n").expect("a file");
        assert!(Trace::read(&path, 4).is_err());
        std::fs::remove_dir_all(&folder).expect("it was there");
        assert!(Trace::read(&path, 4).is_err());
    }
}
