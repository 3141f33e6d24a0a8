//! libCacheSim's oracleGeneral: packed little-endian records of u32 time in seconds, u64 object, u32
//! size, i64 next access.

use std::io::BufRead;

use super::read_record;
use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

const RECORD_BYTES: usize = 24;

pub(crate) struct OracleGeneral {
    bytes: Box<dyn BufRead>,
    name: String,
    time_ms: u64,
}

impl OracleGeneral {
    pub fn new(bytes: Box<dyn BufRead>, name: String) -> Self {
        Self { bytes, name, time_ms: 0 }
    }
}

impl Reader for OracleGeneral {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        let mut record = [0; RECORD_BYTES];
        if !read_record(&mut *self.bytes, &mut record, &self.name)? {
            return Ok(None);
        }
        let u32_at =
            |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let object = u64::from(u32_at(4)) | u64::from(u32_at(8)) << 32;
        self.time_ms = self.time_ms.max(u64::from(u32_at(0)) * 1000);
        Ok(Some(Request {
            time_ms: self.time_ms,
            key: Key::Number(object),
            operation: Operation::Get,
            key_bytes: 0,
            value_bytes: Some(u32_at(12)),
            expiry_s: None,
            outcome: Outcome::Unknown,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let mut bytes = Vec::new();
        for (time_s, object, size) in [(5u32, u64::MAX, 100u32), (4, 7, 20)] {
            bytes.extend(time_s.to_le_bytes());
            bytes.extend(object.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend((-1i64).to_le_bytes());
        }
        bytes.push(0);
        let mut reader = OracleGeneral::new(Box::new(std::io::Cursor::new(bytes)), "x".to_owned());
        let first = reader.next().unwrap().unwrap();
        assert_eq!((first.key, first.time_ms), (Key::Number(u64::MAX), 5000));
        let second = reader.next().unwrap().unwrap();
        assert_eq!((second.payload_bytes(), second.time_ms), (Some(20), 5000), "time never goes back");
        assert!(reader.next().unwrap_err().reason.contains("1 bytes after"));
    }
}
