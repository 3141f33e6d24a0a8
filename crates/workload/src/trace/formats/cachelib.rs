//! CacheLib's kvcache traces: CSV whose first line names the columns. Needed are `key`, `op` and
//! `size` (of the value); `op_time`, `key_size`, `op_count`, `cache_hits` and `ttl` are used where
//! they are there.
//!
//! A line stands for `op_count` requests within its second. Lines that are no request are counted, and so are
//! lines that stand for more than the file allows ([`REQUESTS_OF_LINE`]).

use std::io::BufRead;
use std::ops::Range;

use super::lines::{Lines, Unreadable, number, number_u32};
use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

/// Later seconds than this (2001) are since 1970.
const DATED_S_MIN: u64 = 1_000_000_000;

/// Requests that each line allows, for itself or a later one: the work is in proportion to the file.
const REQUESTS_OF_LINE: u64 = 1000;
/// Requests that the file allows beside them.
const REQUESTS_OF_FILE: u64 = 1_000_000;

/// Places of the columns that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    key: usize,
    op: usize,
    size: usize,
    op_time: Option<usize>,
    key_size: Option<usize>,
    op_count: Option<usize>,
    cache_hits: Option<usize>,
    ttl: Option<usize>,
}

impl Columns {
    fn of(heading: &[u8]) -> Option<Self> {
        let place = |name: &str| fields(heading).position(|field| field == name.as_bytes());
        Some(Self {
            key: place("key")?,
            op: place("op")?,
            size: place("size")?,
            op_time: place("op_time"),
            key_size: place("key_size"),
            op_count: place("op_count"),
            cache_hits: place("cache_hits"),
            ttl: place("ttl"),
        })
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns whether a file begins like this.
pub(crate) fn is_one(first: &[u8]) -> bool {
    let heading = first.split(|byte| *byte == b'\n').next();
    heading.is_some_and(|heading| Columns::of(heading).is_some())
}

/// Reason why a line is no request.
#[derive(Clone, Copy)]
enum Broken {
    Unreadable,
    Operation,
    NoCount,
    TooMany,
}

#[derive(Default)]
struct Line {
    time_s: u64,
    key: Range<usize>,
    key_bytes: u32,
    size: u32,
    is_set: bool,
    is_delete: bool,
    count: u32,
    hits: Option<u32>,
    ttl_s: Option<u32>,
}

impl Line {
    fn parse(line: &[u8], columns: &Columns) -> Result<Self, Broken> {
        let mut parsed = Self { count: 1, ..Self::default() };
        let (mut operation, mut is_sized) = (&b""[..], false);
        let mut key_bytes = None;
        for (place, field) in fields(line).enumerate() {
            let place = Some(place);
            if place == Some(columns.key) {
                let start = field.as_ptr() as usize - line.as_ptr() as usize;
                parsed.key = start..start + field.len();
            } else if place == Some(columns.op) {
                operation = field;
            } else if place == Some(columns.size) {
                parsed.size = number_u32(field).ok_or(Broken::Unreadable)?;
                is_sized = true;
            } else if place == columns.op_time {
                parsed.time_s = number(field).ok_or(Broken::Unreadable)?;
            } else if place == columns.key_size {
                key_bytes = Some(number_u32(field).ok_or(Broken::Unreadable)?);
            } else if place == columns.op_count {
                parsed.count = number_u32(field).ok_or(Broken::Unreadable)?;
            } else if place == columns.cache_hits {
                parsed.hits = number_u32(field);
            } else if place == columns.ttl {
                parsed.ttl_s = number_u32(field);
            }
        }
        if parsed.key.is_empty() || !is_sized || operation.is_empty() {
            return Err(Broken::Unreadable);
        }
        match operation {
            b"GET" | b"GET_LEASE" => {}
            b"SET" | b"SET_LEASE" => parsed.is_set = true,
            b"DELETE" => parsed.is_delete = true,
            _ => return Err(Broken::Operation),
        }
        parsed.key_bytes = key_bytes.unwrap_or(parsed.key.len() as u32);
        if parsed.count == 0 {
            return Err(Broken::NoCount);
        }
        Ok(parsed)
    }

    fn request<'a>(&self, line: &'a [u8], time_ms: u64) -> Request<'a> {
        let (operation, value_bytes, outcome) = if self.is_set {
            (Operation::Set, Some(self.size), Outcome::Unknown)
        } else if self.is_delete {
            (Operation::Delete, None, Outcome::Unknown)
        } else {
            // The trace does not tell which of several requests were the hits.
            let outcome = match self.hits {
                Some(0) => Outcome::Miss,
                Some(hits) if hits >= self.count => Outcome::Hit,
                _ => Outcome::Unknown,
            };
            let has_size = outcome != Outcome::Miss && self.size > 0;
            (Operation::Get, has_size.then_some(self.size), outcome)
        };
        Request {
            time_ms,
            key: Key::Text(&line[self.key.clone()]),
            operation,
            key_bytes: self.key_bytes,
            value_bytes,
            expiry_s: self.ttl_s.filter(|_| self.is_set),
            outcome,
        }
    }
}

pub(crate) struct CacheLib {
    lines: Lines,
    columns: Columns,
    line: Line,
    /// Requests of the line that are still to come.
    left: u32,
    /// Requests that the lines so far allow, and that none of them stood for.
    allowed: u64,
    time_ms: u64,
    is_dated: bool,
    unreadable: Unreadable,
    other_operations: Unreadable,
    no_counts: Unreadable,
    too_many: Unreadable,
}

impl CacheLib {
    /// # Errors
    /// When the first line names no columns.
    pub fn new(bytes: Box<dyn BufRead>, name: String) -> Result<Self, Failure> {
        let mut lines = Lines::new(bytes, name);
        lines.advance()?;
        let Some(columns) = Columns::of(lines.line()) else {
            return Err(Failure::new(format!(
                "{}: its first line does not name the columns 'key', 'op' and 'size'",
                lines.name()
            )));
        };
        let mut reader = Self {
            lines,
            columns,
            line: Line::default(),
            left: 0,
            allowed: REQUESTS_OF_FILE,
            time_ms: 0,
            is_dated: false,
            unreadable: Unreadable::default(),
            other_operations: Unreadable::default(),
            no_counts: Unreadable::default(),
            too_many: Unreadable::default(),
        };
        reader.advance()?;
        reader.is_dated = reader.line.time_s >= DATED_S_MIN;
        Ok(reader)
    }

    /// Goes on to the next line that is a request; if there is none, nothing is left.
    fn advance(&mut self) -> Result<(), Failure> {
        while self.lines.advance()? {
            self.allowed += REQUESTS_OF_LINE;
            let broken = match self.parse() {
                Ok(line) => {
                    self.allowed -= u64::from(line.count);
                    self.left = line.count;
                    self.time_ms = self.time_ms.max(line.time_s.saturating_mul(1000));
                    self.line = line;
                    return Ok(());
                }
                Err(Broken::Unreadable) => &mut self.unreadable,
                Err(Broken::Operation) => &mut self.other_operations,
                Err(Broken::NoCount) => &mut self.no_counts,
                Err(Broken::TooMany) => &mut self.too_many,
            };
            broken.count(self.lines.number());
        }
        Ok(())
    }

    fn parse(&self) -> Result<Line, Broken> {
        let line = Line::parse(self.lines.line(), &self.columns)?;
        let fits = u64::from(line.count) <= self.allowed;
        if fits { Ok(line) } else { Err(Broken::TooMany) }
    }
}

impl Reader for CacheLib {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        if self.left == 0 {
            self.advance()?;
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(self.line.request(self.lines.line(), self.time_ms)))
    }

    fn is_dated(&self) -> bool {
        self.is_dated
    }

    fn remarks(&self) -> Vec<String> {
        let no_times =
            self.columns.op_time.is_none().then(|| "it has no column op_time: all times are 0".to_owned());
        [
            self.unreadable.remark("their fields cannot be read"),
            self.other_operations.remark("op is none of GET, GET_LEASE, SET, SET_LEASE, DELETE"),
            self.no_counts.remark("op_count is 0"),
            self.too_many.remark(&format!(
                "op_count is too large: lines stand for at most {REQUESTS_OF_FILE} requests and \
                 {REQUESTS_OF_LINE} for each line before"
            )),
            no_times,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &str) -> Result<CacheLib, Failure> {
        let bytes = text.as_bytes().to_vec();
        CacheLib::new(Box::new(std::io::Cursor::new(bytes)), "x".to_owned())
    }

    #[test]
    fn columns_are_found_by_name() {
        let mut reader = reader(
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase\r\n\
             1700000001,k1,40,GET,3,7,0,0,a\r\n1700000002,k2,41,GET_LEASE,2,9,2,0,a\n\
             1700000002,k2,41,GET,2,9,1,0,a\n1700000001,k3,5,SET_LEASE,1,0,0,60,a\n\
             1700000003,k3,5,DELETE,1,4,0,0,a\n",
        )
        .unwrap();
        assert!(reader.is_dated());
        for _ in 0..3 {
            let request = reader.next().unwrap().unwrap();
            assert_eq!(request.key, Key::Text(b"k1"));
            assert_eq!((request.key_bytes, request.value_bytes), (40, None));
            assert_eq!(request.outcome, Outcome::Miss);
        }
        for _ in 0..2 {
            let request = reader.next().unwrap().unwrap();
            assert_eq!((request.outcome, request.payload_bytes()), (Outcome::Hit, Some(50)));
        }
        for _ in 0..2 {
            assert_eq!(reader.next().unwrap().unwrap().outcome, Outcome::Unknown);
        }
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.operation, request.expiry_s), (Operation::Set, Some(60)));
        assert_eq!((request.time_ms, request.value_bytes), (1_700_000_002_000, Some(0)));
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.operation, request.value_bytes), (Operation::Delete, None));
        assert!(reader.next().unwrap().is_none() && reader.remarks().is_empty());
    }

    #[test]
    fn lines_that_are_no_request_are_counted() {
        let mut reader = reader(
            "key,op,size,op_count\nk,GET,1,1\nk,INCR,1,1\nk,GET,1,0\nk,GET,x,1\n,GET,1,1\nk,GET\nk,SET,2,1\n",
        )
        .unwrap();
        assert_eq!(reader.next().unwrap().unwrap().key_bytes, 1);
        assert_eq!(reader.next().unwrap().unwrap().operation, Operation::Set);
        assert!(reader.next().unwrap().is_none() && !reader.is_dated());
        let remarks = reader.remarks();
        assert_eq!(remarks.len(), 4);
        assert!(remarks[0].contains("left out 3 lines") && remarks[0].contains("line 5"));
        assert!(remarks[1].contains("line 3") && remarks[2].contains("line 4"));
    }

    /// A short file is not hours of work.
    #[test]
    fn the_number_of_requests_is_in_proportion_to_the_file() {
        let heading = "key,op,size,op_count\n";
        let requests = |lines: &str| {
            let mut reader = reader(&format!("{heading}{lines}")).unwrap();
            let mut requests = 0;
            while reader.next().unwrap().is_some() {
                requests += 1;
            }
            (requests, reader.remarks().iter().filter(|it| it.contains("op_count is too large")).count())
        };
        assert_eq!(requests("k,GET,1,4294967295\nk,GET,1,2\n"), (2, 1));
        assert_eq!(requests("k,GET,1,1001000\nk,GET,1,1000\nk,GET,1,1\n"), (1_002_001, 0));
        assert_eq!(requests(&"k,GET,1,900000\n".repeat(100)), (900_000, 1));
    }

    #[test]
    fn files_are_known_by_their_heading() {
        assert!(is_one(b"key,op,size,op_count,key_size\n"));
        assert!(!is_one(b"key,op\n") && !is_one(b""));
        assert!(reader("key,op\n1,2\n").err().unwrap().reason.contains("'size'"));
        assert!(reader("key,op,size").unwrap().next().unwrap().is_none());
    }
}
