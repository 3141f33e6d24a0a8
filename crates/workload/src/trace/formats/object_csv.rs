//! `time_s, object, size_bytes`, further columns ignored: the samples that libCacheSim comes with.

use std::io::BufRead;

use super::lines::{Lines, Rows, number, number_u32};
use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

/// The columns, for messages.
const COLUMNS: &str = "'time, object, size'";

pub(crate) struct ObjectCsv {
    rows: Rows,
    time_ms: u64,
}

/// Returns whether a file begins like this.
pub(crate) fn is_one(first: &[u8]) -> bool {
    let line =
        first.split(|byte| *byte == b'\n').find(|line| !line.starts_with(b"#") && !line.starts_with(b"time"));
    line.is_some_and(|line| fields(line).is_some())
}

/// Time, object, size.
fn fields(line: &[u8]) -> Option<(u64, u64, u32)> {
    let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let time_s = number_u32(fields.next()?)?;
    let object = number(fields.next()?)?;
    let size = number_u32(fields.next()?)?;
    Some((u64::from(time_s) * 1000, object, size))
}

/// Returns whether a line is a comment, a heading or blank.
fn is_no_request(line: &[u8], number: u64) -> bool {
    line.starts_with(b"#") || number == 1 && line.starts_with(b"time") || line.trim_ascii().is_empty()
}

impl ObjectCsv {
    pub fn new(bytes: Box<dyn BufRead>, name: String) -> Self {
        Self { rows: Rows::new(Lines::new(bytes, name), COLUMNS), time_ms: 0 }
    }
}

impl Reader for ObjectCsv {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        let Some((time_ms, object, size)) = self.rows.next(fields, is_no_request)? else {
            return Ok(None);
        };
        self.time_ms = self.time_ms.max(time_ms);
        Ok(Some(Request {
            time_ms: self.time_ms,
            key: Key::Number(object),
            operation: Operation::Get,
            key_bytes: 0,
            value_bytes: Some(size),
            expiry_s: None,
            outcome: Outcome::Unknown,
        }))
    }

    fn remarks(&self) -> Vec<String> {
        self.rows.remarks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &'static str) -> ObjectCsv {
        ObjectCsv::new(Box::new(text.as_bytes()), "x.csv".to_owned())
    }

    #[test]
    fn lines_are_read() {
        let mut reader = reader("# time, object, size, next\n3, 70, 100, -1\n\n4,8,20\n4,8\n5,8,20\n5,");
        let first = reader.next().unwrap().unwrap();
        assert_eq!((first.key, first.payload_bytes()), (Key::Number(70), Some(100)));
        assert_eq!(reader.next().unwrap().unwrap().time_ms, 4000);
        assert_eq!(reader.next().unwrap().unwrap().time_ms, 5000);
        assert!(reader.next().unwrap().is_none());
        assert!(reader.remarks()[0].starts_with("left out 2 lines"));
        let error = self::reader("time,object,size\n4,8\n").next().unwrap_err();
        assert!(error.reason.contains("line 2 is no"), "{error}");
    }

    #[test]
    fn a_long_line_ends_it() {
        let text: &'static str = Box::leak("9".repeat(100_000).into_boxed_str());
        assert!(reader(text).next().is_err());
    }

    #[test]
    fn files_are_known_by_their_first_line() {
        assert!(is_one(b"time_s,object,size\n1,2,3\n"));
        assert!(is_one(b"# heading\n1, 2, 3, -1\n"));
        assert!(!is_one(b"0,key,3,4,5,get,0\n"));
        assert!(!is_one(b"\x01\x02"));
    }
}
