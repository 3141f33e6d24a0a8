//! Lines of text and the numbers in them, without an allocation per line.

use std::io::{BufRead, ErrorKind};
use std::ops::Range;

use memchr::memchr;

use crate::trace::Failure;

/// A longer line is none of any format.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 4 * LINE_BYTES_MAX;

/// A file line by line: borrowed from a buffer, with the end of line taken off.
pub(crate) struct Lines {
    from: Box<dyn BufRead>,
    name: String,
    buffer: Box<[u8]>,
    filled: Range<usize>,
    line: Range<usize>,
    number: u64,
    is_last: bool,
}

impl Lines {
    /// `name` is for messages.
    pub fn new(from: Box<dyn BufRead>, name: String) -> Self {
        Self {
            from,
            name,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            filled: 0..0,
            line: 0..0,
            number: 0,
            is_last: false,
        }
    }

    /// Goes on to the next line that is not empty; whether there is one.
    pub fn advance(&mut self) -> Result<bool, Failure> {
        let mut searched = 0;
        loop {
            let found = memchr(b'\n', &self.buffer[self.filled.start + searched..self.filled.end]);
            let (end, next) = match found {
                Some(at) => (self.filled.start + searched + at, self.filled.start + searched + at + 1),
                None if self.is_last => (self.filled.end, self.filled.end),
                None => {
                    searched = self.filled.len();
                    self.fill()?;
                    continue;
                }
            };
            if self.filled.is_empty() {
                return Ok(false);
            }
            self.number += 1;
            self.line = self.filled.start..end;
            self.filled.start = next;
            if self.line().last() == Some(&b'\r') {
                self.line.end -= 1;
            }
            if !self.line.is_empty() {
                return Ok(true);
            }
            searched = 0;
        }
    }

    pub fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// Number of the line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name that messages give.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads more behind what there is of a line.
    fn fill(&mut self) -> Result<(), Failure> {
        if self.filled.len() > LINE_BYTES_MAX {
            let (name, number) = (&self.name, self.number + 1);
            return Err(Failure::new(format!(
                "{name}: line {number} is longer than {LINE_BYTES_MAX} bytes: this is not a text of one \
                 request per line"
            )));
        }
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        loop {
            match self.from.read(&mut self.buffer[self.filled.end..]) {
                Ok(bytes) => {
                    self.is_last = bytes == 0;
                    self.filled.end += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("{}: {error}", self.name))),
            }
        }
    }
}

/// A decimal number; nothing if it is none or too large.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    // 19 digits always fit, 20 may.
    match digits.len() {
        0 => None,
        1..20 => digits.iter().try_fold(0, |number: u64, digit| {
            let digit = digit.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + u64::from(digit))
        }),
        _ => digits.iter().try_fold(0, |number: u64, digit| {
            let digit = digit.wrapping_sub(b'0');
            let number = (digit < 10).then(|| number.checked_mul(10))??;
            number.checked_add(u64::from(digit))
        }),
    }
}

/// A decimal number of 32 bits.
pub(crate) fn number_u32(digits: &[u8]) -> Option<u32> {
    number(digits).and_then(|number| u32::try_from(number).ok())
}

/// Lines that are none of the format, after the first: counted, told at the end.
#[derive(Default)]
pub(crate) struct Unreadable {
    lines: u64,
    first: u64,
}

impl Unreadable {
    pub fn count(&mut self, line_number: u64) {
        if self.lines == 0 {
            self.first = line_number;
        }
        self.lines += 1;
    }

    /// Says how many there were.
    pub fn remark(&self, what: &str) -> Option<String> {
        let Self { lines, first } = self;
        match lines {
            0 => None,
            1 => Some(format!("left out line {first}: {what}")),
            _ => Some(format!("left out {lines} lines: {what}; the first is line {first}")),
        }
    }
}

/// The lines of a text, each of which is a request with the same columns.
pub(crate) struct Rows {
    pub lines: Lines,
    /// The columns, for messages.
    columns: &'static str,
    is_begun: bool,
    unreadable: Unreadable,
}

impl Rows {
    pub fn new(lines: Lines, columns: &'static str) -> Self {
        Self { lines, columns, is_begun: false, unreadable: Unreadable::default() }
    }

    /// The next line that is a request, as `parse` reads it. Nothing later than a first line that is none
    /// is an error: a file may have been cut, and the large traces have a few lines that were.
    pub fn next<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Option<T>,
        is_passed_over: impl Fn(&[u8], u64) -> bool,
    ) -> Result<Option<T>, Failure> {
        while self.lines.advance()? {
            let (line, number) = (self.lines.line(), self.lines.number());
            if let Some(parsed) = parse(line) {
                self.is_begun = true;
                return Ok(Some(parsed));
            }
            if is_passed_over(line, number) {
                continue;
            }
            if !self.is_begun {
                let (name, columns) = (self.lines.name(), self.columns);
                return Err(Failure::new(format!("{name}: line {number} is no {columns}")));
            }
            self.unreadable.count(number);
        }
        Ok(None)
    }

    /// Says how many lines were no requests.
    pub fn remarks(&self) -> Vec<String> {
        let remark = self.unreadable.remark(&format!("not {}", self.columns));
        remark.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Lines {
        Lines::new(Box::new(std::io::Cursor::new(text.to_vec())), "x".to_owned())
    }

    #[test]
    fn lines_are_those_of_the_text_whatever_their_length() {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for length in (0..70).chain([1_000, 65_535, 65_536, 5, 65_536, 65_536, 65_536, 65_536, 1]) {
            let line = vec![b'a' + (length % 26) as u8; length];
            text.extend(&line);
            text.extend(if length % 3 == 0 { &b"\r\n"[..] } else { b"\n" });
            if length > 0 {
                expected.push(line);
            }
        }
        text.pop();
        let mut lines = lines(&text);
        for line in &expected {
            assert!(lines.advance().unwrap());
            assert_eq!(lines.line(), line);
        }
        assert!(!lines.advance().unwrap() && !lines.advance().unwrap());
        assert_eq!(lines.number(), 79);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = lines(&[b'9'; 4 * BUFFER_BYTES]);
        assert!(lines.advance().unwrap_err().reason.contains("line 1 is longer"));
    }

    #[test]
    fn numbers_fit_or_are_none() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"00000000000000000000000007"), Some(7));
        for none in [&b""[..], b"-1", b"1 ", b"18446744073709551616", b"99999999999999999999999", b"1a"] {
            assert_eq!(number(none), None);
        }
        assert_eq!(number_u32(b"4294967296"), None);
    }
}
