//! Replies of any protocol, and whether they are right.

use micanite_workload::Items;

use super::in_flight::Pending;
use crate::run::recorder::Recorder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element<'a> {
    /// A value. Where the protocol repeats keys, misses are what is left out.
    Hit {
        key: Option<&'a [u8]>,
        value: &'a [u8],
    },
    /// The next key is not there.
    Miss,
    /// Says nothing by itself.
    Header,
    /// The reply is complete; keys that were not mentioned are not there.
    End,
    /// The value has been stored, or removed, or was not there to be removed.
    Done,
    Refused(&'a [u8]),
}

/// An element and its length; nothing while it has not arrived completely.
pub(crate) type Parsed<'a> = Result<Option<(Element<'a>, usize)>, String>;

/// A protocol's way to write requests and to read replies.
pub(crate) trait Format {
    /// Appends a request for the keys of these items.
    fn push_read(output: &mut Vec<u8>, keys: &Items, items: &[u64]);

    /// Appends a request that stores.
    fn push_write(output: &mut Vec<u8>, item: u64, version: u32, checks: &Checks);

    /// Appends a request that removes.
    fn push_delete(output: &mut Vec<u8>, item: u64, keys: &Items);

    /// Reads the element that `input` begins with.
    fn parse<'a>(input: &'a [u8], pending: &Pending) -> Parsed<'a>;
}

/// The keys and values of a run, and the time that values live.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    pub items: Items,
    pub expiry_s: u32,
}

impl Checks {
    /// Notes an element of a request's reply; returns whether the reply is complete.
    #[inline]
    pub fn settle(
        &self,
        pending: &mut Pending,
        items: &[u64],
        element: &Element<'_>,
        recorder: &mut Recorder,
    ) -> bool {
        match *element {
            Element::Header => false,
            Element::Hit { key, value } => {
                let item = match key {
                    Some(key) => self.find(pending, items, key),
                    None => {
                        pending.settled += 1;
                        items.get(pending.settled as usize - 1).copied()
                    }
                };
                match item {
                    Some(item) if self.items.values(item).verify(item, value) => pending.answer.hits += 1,
                    _ => pending.answer.wrong_values += 1,
                }
                key.is_none() && pending.settled as usize >= items.len()
            }
            Element::Miss => {
                pending.settled += 1;
                pending.settled as usize >= items.len()
            }
            Element::End | Element::Done => true,
            Element::Refused(line) => {
                recorder.note_refusal(line);
                pending.answer.refused = true;
                true
            }
        }
    }

    /// The item that has this key. Values come in the order of the keys, except that datagrams may
    /// overtake each other.
    #[inline]
    fn find(&self, pending: &mut Pending, items: &[u64], key: &[u8]) -> Option<u64> {
        let is_it = |item: &&u64| self.items.has_key(**item, key);
        let open = items.get(pending.settled as usize..).unwrap_or_default();
        match open.iter().position(|item| is_it(&item)) {
            Some(skipped) => {
                pending.settled += skipped as u32 + 1;
                open.get(skipped).copied()
            }
            None => items.iter().find(is_it).copied(),
        }
    }
}

/// The beginning of what a server sent, as one line of text.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(60)].escape_ascii().to_string()
}

/// Returns the beginning of what a server sent in quotes, for an error message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    format!("'{}'", escaped(bytes))
}

/// The line that `input` begins with (its end included), or nothing while it is incomplete.
pub(super) fn line(input: &[u8]) -> Result<Option<&[u8]>, String> {
    const LINE_BYTES_MAX: usize = 4096;
    match memchr::memchr(b'\n', input) {
        Some(end) => Ok(Some(&input[..=end])),
        None if input.len() > LINE_BYTES_MAX => Err(format!("no end of a line behind {}", excerpt(input))),
        None => Ok(None),
    }
}

pub(super) fn decimal(bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() || bytes.len() > 10 {
        return None;
    }
    bytes.iter().try_fold(0usize, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + usize::from(digit))
    })
}

pub(crate) fn push_decimal(output: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    output.extend_from_slice(&digits[at..]);
}

/// Helpers of the tests of formats.
#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::run::recorder::{Answer, Kind};

    pub fn pending(kind: Kind, operations: u32) -> Pending {
        Pending { answer: Answer { kind, operations, ..Answer::default() }, ..Pending::default() }
    }

    pub fn checks(data_set: &str, expiry_s: u32) -> Checks {
        Checks { items: Items::from(data_set.parse::<micanite_workload::DataSet>().unwrap()), expiry_s }
    }

    /// Parses the reply to a read of items 1, 2 and 3 in pieces of every length; returns hits and wrong
    /// values.
    pub fn parse_in_pieces<F: Format>(reply: &[u8], checks: &Checks) -> (u32, u32) {
        let mut recorder = Recorder::new(0..1);
        let mut pending = pending(Kind::Read, 3);
        let (mut start, mut complete) = (0, false);
        for end in 0..=reply.len() {
            while let Some((element, length)) = F::parse(&reply[start..end], &pending).unwrap() {
                complete = checks.settle(&mut pending, &[1, 2, 3], &element, &mut recorder);
                start += length;
            }
            assert_eq!(complete, end == reply.len());
        }
        (pending.answer.hits, pending.answer.wrong_values)
    }

    /// Asserts which replies say that something was removed: line, kind of the request, whether it is one.
    pub fn assert_removals<F: Format>(replies: &[(&str, Kind, bool)]) {
        for (line, kind, done) in replies {
            let parsed = F::parse(line.as_bytes(), &pending(*kind, 1));
            let expected = Some((Element::Done, line.len()));
            assert_eq!(parsed == Ok(expected), *done, "{kind:?} {line:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_reverses_push_decimal() {
        for number in [0, 9, 10, 1152, 65_535] {
            let mut text = Vec::new();
            push_decimal(&mut text, number as u64);
            assert_eq!(text, number.to_string().into_bytes());
            assert_eq!(decimal(&text), Some(number));
        }
        for text in ["", "-1", "1x", "12345678901"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn lines_end_with_their_newline() {
        assert_eq!(line(b"END\r\nEND"), Ok(Some(b"END\r\n".as_slice())));
        assert_eq!(line(b"EN"), Ok(None));
        assert!(line(&[b'x'; 5000]).is_err());
    }
}
