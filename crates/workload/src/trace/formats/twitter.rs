//! Twitter's production traces: `timestamp_s,key,key_size,value_size,client_id,op,TTL`, no heading.
//!
//! Keys are anonymised, their namespaces are not, and they may contain commas: the fields behind
//! the key are counted from the end.

use std::io::BufRead;
use std::ops::Range;

use memchr::memchr;

use super::lines::{Lines, Rows, number_u32};
use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

/// The columns, for messages.
const COLUMNS: &str = "'timestamp,key,key size,value size,client id,operation,TTL'";

pub(crate) struct Twitter {
    rows: Rows,
    time_ms: u64,
}

struct Line {
    time_s: u32,
    key: Range<usize>,
    key_bytes: u32,
    value_bytes: u32,
    operation: Operation,
    ttl_s: u32,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let comma = memchr(b',', line)?;
        let (rest, ttl) = split_last_comma(line)?;
        let (rest, operation) = split_last_comma(rest)?;
        let (rest, _client) = split_last_comma(rest)?;
        let (rest, value_bytes) = split_last_comma(rest)?;
        let (rest, key_bytes) = split_last_comma(rest)?;
        Some(Self {
            time_s: number_u32(&line[..comma])?,
            key: (comma < rest.len()).then_some(comma + 1..rest.len())?,
            key_bytes: number_u32(key_bytes)?,
            value_bytes: number_u32(value_bytes)?,
            operation: operation_named(operation)?,
            ttl_s: number_u32(ttl)?,
        })
    }
}

/// Splits a line at its last comma: the fields at the end are short.
fn split_last_comma(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().rposition(|byte| *byte == b',')?;
    Some((&line[..at], &line[at + 1..]))
}

/// The operation of a name; these traces have none that touch.
fn operation_named(name: &[u8]) -> Option<Operation> {
    let operation = Operation::named(std::str::from_utf8(name).ok()?)?;
    (!matches!(operation, Operation::Touch | Operation::GetAndTouch)).then_some(operation)
}

/// Returns whether a file begins like this.
pub(crate) fn is_one(first: &[u8]) -> bool {
    let line = first.split(|byte| *byte == b'\n').find(|line| !line.is_empty());
    line.is_some_and(|line| Line::parse(line.trim_ascii_end()).is_some())
}

impl Twitter {
    pub fn new(bytes: Box<dyn BufRead>, name: String) -> Self {
        Self { rows: Rows::new(Lines::new(bytes, name), COLUMNS), time_ms: 0 }
    }
}

impl Reader for Twitter {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        let Some(line) = self.rows.next(Line::parse, |_, _| false)? else {
            return Ok(None);
        };
        let Line { operation, value_bytes, .. } = line;
        self.time_ms = self.time_ms.max(u64::from(line.time_s) * 1000);
        // A read without a size found nothing, or its size was not logged.
        let has_size = operation.stores() || operation.reads() && value_bytes > 0;
        Ok(Some(Request {
            time_ms: self.time_ms,
            key: Key::Text(&self.rows.lines.line()[line.key]),
            operation,
            key_bytes: line.key_bytes,
            value_bytes: has_size.then_some(value_bytes),
            expiry_s: operation.stores().then_some(line.ttl_s),
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

    fn reader(text: &str) -> Twitter {
        let bytes = text.as_bytes().to_vec();
        Twitter::new(Box::new(std::io::Cursor::new(bytes)), "x".to_owned())
    }

    #[test]
    fn lines_are_read() {
        let mut reader = reader(
            "0,nz:u:eeW5,23,0,1,get,0\r\n7,a,b,,4,500,12,set,3600\n5,q,1,9,3,delete,0\n6,q,1,4,3,gets,0\n",
        );
        let request = reader.next().unwrap().unwrap();
        assert_eq!(request.key, Key::Text(b"nz:u:eeW5"));
        assert_eq!((request.key_bytes, request.value_bytes), (23, None));
        assert_eq!((request.operation, request.expiry_s), (Operation::Get, None));
        let request = reader.next().unwrap().unwrap();
        assert_eq!(request.key, Key::Text(b"a,b,"));
        assert_eq!((request.time_ms, request.payload_bytes()), (7000, Some(504)));
        assert_eq!(request.expiry_s, Some(3600));
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.time_ms, request.value_bytes), (7000, None));
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.operation, request.value_bytes), (Operation::Gets, Some(4)));
        assert!(reader.next().unwrap().is_none() && reader.remarks().is_empty());
    }

    #[test]
    fn broken_lines_are_counted_but_the_first() {
        let mut reader = reader("1,k,1,2,3,get,0\n1,k,1,2,3,fetch,0\n2,k,1,2,3,get,0\n3,k,1,");
        assert!(reader.next().unwrap().is_some());
        assert_eq!(reader.next().unwrap().unwrap().time_ms, 2000);
        assert!(reader.next().unwrap().is_none());
        let remarks = reader.remarks();
        assert!(remarks[0].starts_with("left out 2 lines") && remarks[0].ends_with("line 2"));
        let error = super::Twitter::next(&mut self::reader("no trace\n")).unwrap_err();
        assert!(error.reason.contains("line 1"));
    }

    #[test]
    fn files_are_known_by_their_first_line() {
        assert!(is_one(b"0,key,3,4,5,get,0\n1,k"));
        assert!(!is_one(b"0,3,4\n") && !is_one(b"") && !is_one(b"0,key,3,4,5,put,0\n"));
    }
}
