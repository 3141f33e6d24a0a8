//! Reads our own format: recordings, as [`crate::recording`] specifies them.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::recording::{End, HEADER_BYTES, MAGIC, NAMES_PREFIX, RECORD_BYTES, Record, Seen, TELLS_SEEN};
use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Request};

pub struct RecordingReader {
    bytes: Box<dyn BufRead>,
    name: String,
    start_unix_ms: u64,
    hash_max: u64,
    time_ms: u32,
    prefixes: HashMap<u16, Vec<u8>>,
    prefix: u16,
    seen: Option<Seen>,
    end: Option<End>,
    is_cut: bool,
}

impl RecordingReader {
    /// Begins to read one; `name` is for messages.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(mut bytes: Box<dyn BufRead>, name: String) -> Result<Self, Failure> {
        let mut header = [0; HEADER_BYTES];
        let read = bytes.read_exact(&mut header);
        if read.is_err() || header[..8] != MAGIC {
            return Err(Failure::new(format!("{name}: it does not begin like a recording")));
        }
        let u64_at = |at: usize| {
            let (_, rest) = header.split_at(at);
            rest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Ok(Self {
            bytes,
            name,
            start_unix_ms: u64_at(8),
            hash_max: u64_at(16),
            time_ms: 0,
            prefixes: HashMap::new(),
            prefix: 0,
            seen: None,
            end: None,
            is_cut: false,
        })
    }

    /// A whole record, or nothing at the end.
    fn record(&mut self) -> Result<Option<[u8; RECORD_BYTES]>, Failure> {
        let mut record = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.bytes.read(&mut record[filled..]) {
                Ok(0) => {
                    self.is_cut = filled > 0;
                    return Ok(None);
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("{}: {error}", self.name))),
            }
        }
        Ok(Some(record))
    }

    /// Reads the counts of all keys, whose first record has been read.
    fn read_seen(&mut self, first: &[u8; RECORD_BYTES]) -> Result<(), Failure> {
        let mut bytes = [0; Seen::BYTES];
        for part in bytes.as_chunks_mut::<RECORD_BYTES>().0 {
            match self.record()? {
                Some(record) => *part = record,
                None => {
                    self.is_cut = true;
                    return Ok(());
                }
            }
        }
        self.seen = Some(Seen::from_bytes(&bytes));
        self.end = End::numbered(first[22]);
        Ok(())
    }

    /// The text of a prefix whose naming record has been read.
    fn read_prefix(&mut self, naming: &[u8; RECORD_BYTES]) -> Result<(), Failure> {
        let number = u16::from_le_bytes([naming[20], naming[21]]);
        let mut text = Vec::new();
        for _ in 0..usize::from(naming[22]).div_ceil(RECORD_BYTES) {
            match self.record()? {
                Some(part) => text.extend(part),
                None => {
                    self.is_cut = true;
                    return Ok(());
                }
            }
        }
        text.truncate(usize::from(naming[22]));
        self.prefixes.insert(number, text);
        Ok(())
    }
}

impl Reader for RecordingReader {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        loop {
            let Some(bytes) = self.record()? else {
                return Ok(None);
            };
            if bytes[23] == NAMES_PREFIX {
                self.read_prefix(&bytes)?;
                continue;
            }
            if bytes[23] == TELLS_SEEN {
                self.read_seen(&bytes)?;
                continue;
            }
            let Some(record) = Record::from_bytes(&bytes) else {
                return Err(Failure::new(format!("{}: a record with an unknown operation", self.name)));
            };
            self.time_ms = self.time_ms.max(record.time_ms);
            self.prefix = record.prefix;
            return Ok(Some(Request {
                time_ms: self.start_unix_ms.saturating_add(u64::from(self.time_ms)),
                key: Key::Number(record.key_hash),
                operation: record.operation,
                key_bytes: u32::from(record.key_bytes),
                value_bytes: record.value_bytes,
                expiry_s: record.expiry_s,
                outcome: record.outcome,
            }));
        }
    }

    fn is_dated(&self) -> bool {
        self.start_unix_ms > 0
    }

    fn prefix(&self) -> Option<&[u8]> {
        self.prefixes.get(&self.prefix).map(Vec::as_slice)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_cut {
            remarks.push("it ends within a record: the recording was cut off".to_owned());
        } else if self.end.is_none() {
            remarks.push("it has no end: the server was killed, or records still".to_owned());
        }
        if let Some(end) = self.end.filter(|end| *end == End::Failed) {
            remarks.push(format!("the recording ended {}", end.text()));
        }
        let seen = self.seen.unwrap_or_default();
        if seen.dropped > 0 {
            let dropped = seen.dropped;
            remarks.push(format!(
                "{dropped} requests of recorded keys are missing: they came faster than the server could \
                 write"
            ));
        }
        if seen.unnamed > 0 {
            let unnamed = seen.unnamed;
            remarks.push(format!("{unnamed} requests have no prefix, because there were more than 65,535"));
        }
        remarks
    }

    fn seen(&self) -> Option<Seen> {
        self.seen
    }

    fn sampled_fraction(&self) -> f64 {
        (self.hash_max as f64 + 1.0) / 2f64.powi(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::RecordingWriter;
    use crate::trace::{Operation, Outcome};

    fn record(key_hash: u64, operation: Operation) -> Record {
        Record {
            key_hash,
            time_ms: 7,
            value_bytes: None,
            expiry_s: Some(0),
            prefix: 3,
            key_bytes: 20,
            operation,
            outcome: Outcome::Miss,
        }
    }

    #[test]
    fn a_recording_is_read_as_written() {
        let mut bytes = Vec::new();
        let mut writer = RecordingWriter::new(&mut bytes, 1_700_000_000_000, u64::MAX >> 1, 5).unwrap();
        writer.name_prefix(3, &[b'x'; 60]).unwrap();
        writer.write(&record(9, Operation::Set)).unwrap();
        let seen = Seen { requests: 9, reads: 8, read_hits: 7, dropped: 6, unnamed: 5 };
        writer.tell_seen(&seen, 8, Some(End::Bytes)).unwrap();
        writer.flush().unwrap();
        assert_eq!(bytes.len() % 24, 32 % 24);
        bytes.extend([1; 5]);
        let mut reader = RecordingReader::new(Box::new(io::Cursor::new(bytes)), "x".to_owned()).unwrap();
        assert!((reader.sampled_fraction() - 0.5).abs() < 1e-9 && reader.is_dated());
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.key, request.time_ms), (Key::Number(9), 1_700_000_000_007));
        assert_eq!((request.value_bytes, request.expiry_s), (None, Some(0)));
        assert_eq!(reader.prefix(), Some(&[b'x'; 60][..]));
        assert!(reader.next().unwrap().is_none() && reader.remarks().len() == 3);
        assert_eq!(reader.seen(), Some(seen));
        assert!(RecordingReader::new(Box::new(&b"MICAREC0"[..]), "x".to_owned()).is_err());
    }
}
