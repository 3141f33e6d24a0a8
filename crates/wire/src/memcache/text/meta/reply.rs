//! Replies to meta commands: a code, then what the client asked for, in its order.

use super::super::reply::decimal;
use super::super::{KEY_BYTES_MAX, expiry};
use super::base64::{ENCODED_BYTES_MAX, encode};
use super::flags::expiry_number;
use super::{FlagWords, OPAQUE_BYTES_MAX};

/// The longest line: code and length, s, t, c, f, h, l, O, k and its b, W, X, Z, line end.
pub const LINE_BYTES_MAX: usize =
    14 + 12 + 12 + 22 + 12 + 3 + 12 + 1 + OPAQUE_BYTES_MAX + 4 + KEY_BYTES_MAX + 6 + 2;

const _: () = assert!(ENCODED_BYTES_MAX <= KEY_BYTES_MAX);

/// Found, stored, done; with a value it is `VA`.
pub const DONE: &[u8] = b"HD";
/// mg and me: no such item.
pub const MISS: &[u8] = b"EN";
/// No such item.
pub const NOT_FOUND: &[u8] = b"NF";
/// The condition did not hold.
pub const NOT_STORED: &[u8] = b"NS";
/// The CAS value is another one.
pub const EXISTS: &[u8] = b"EX";
/// ma: there is no space for the item.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";

/// What is known of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaItem {
    /// Client flags.
    pub flags: u32,
    /// Length of the value.
    pub value_bytes: usize,
    /// CAS value.
    pub cas: u64,
    /// The second at which it ended before this request; 0 = never.
    pub expiry_before_s: u32,
    /// Whether the request has created it.
    pub created: bool,
    /// Seconds since the last access.
    pub access_age_s: u32,
    /// Whether it was requested before.
    pub fetched: bool,
    /// Invalidated.
    pub stale: bool,
    /// This client is to recreate it.
    pub won: bool,
    /// Another one is.
    pub token_sent: bool,
}

/// What a reply is made of, beside its code.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The flags of the request.
    pub words: FlagWords<'a>,
    /// The key, decoded.
    pub key: &'a [u8],
    /// The key was base64.
    pub base64: bool,
    /// The server's clock.
    pub now_s: u32,
}

/// Where a reply goes.
struct Line<'o> {
    out: &'o mut [u8],
    at: usize,
}

impl Line<'_> {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline]
    fn flag(&mut self, flag: u8) {
        self.push(&[b' ', flag]);
    }

    #[inline]
    fn number(&mut self, flag: u8, number: u64) {
        self.flag(flag);
        self.at += decimal(&mut self.out[self.at..], number);
    }

    fn end(mut self) -> usize {
        self.push(b"\r\n");
        self.at
    }
}

impl Reply<'_> {
    /// The line of an item that was got, its value not included: `VA` with `value`, else `HD`.
    #[inline]
    pub fn got(&self, out: &mut [u8], value: bool, item: &MetaItem) -> usize {
        let mut line = self.found(out, value.then_some(item.value_bytes));
        let mut expiry_s = if item.created {
            0
        } else {
            item.expiry_before_s
        };
        for (flag, word) in self.words {
            match flag {
                b'T' => expiry_s = self.expiry_s(word),
                b'N' if item.created => expiry_s = self.expiry_s(word),
                b's' => line.number(b's', item.value_bytes as u64),
                b't' => self.time_left(&mut line, expiry_s),
                b'c' => line.number(b'c', item.cas),
                b'f' => line.number(b'f', item.flags.into()),
                b'l' => line.number(b'l', item.access_age_s.into()),
                b'h' => line.number(b'h', item.fetched.into()),
                _ => self.common(&mut line, flag, word),
            }
        }
        let marks = [
            (item.token_sent, b'Z'),
            (item.stale, b'X'),
            (item.won, b'W'),
        ];
        for (is_so, mark) in marks {
            if is_so {
                line.flag(mark);
            }
        }
        line.end()
    }

    /// The line of a number that was changed, the number itself not included.
    pub fn counted(&self, out: &mut [u8], value: Option<usize>, item: &MetaItem) -> usize {
        let mut line = self.found(out, value);
        let mut expiry_s = if item.created {
            0
        } else {
            item.expiry_before_s
        };
        for (flag, word) in self.words {
            match flag {
                b'T' => expiry_s = self.expiry_s(word),
                b'N' if item.created => expiry_s = self.expiry_s(word),
                b't' => self.time_left(&mut line, expiry_s),
                b'c' => line.number(b'c', item.cas),
                _ => self.common(&mut line, flag, word),
            }
        }
        line.end()
    }

    /// The line of a store, however it ended.
    pub fn stored(&self, out: &mut [u8], code: &[u8], cas: u64, value_bytes: usize) -> usize {
        let mut line = Line { out, at: 0 };
        line.push(code);
        for (flag, word) in self.words {
            match flag {
                b'c' => line.number(b'c', cas),
                b's' => line.number(b's', value_bytes as u64),
                _ => self.common(&mut line, flag, word),
            }
        }
        line.end()
    }

    /// The line of a delete, or of what was not there.
    pub fn other(&self, out: &mut [u8], code: &[u8]) -> usize {
        let mut line = Line { out, at: 0 };
        line.push(code);
        for (flag, word) in self.words {
            self.common(&mut line, flag, word);
        }
        line.end()
    }

    #[inline]
    fn found<'o>(&self, out: &'o mut [u8], value: Option<usize>) -> Line<'o> {
        let mut line = Line { out, at: 0 };
        match value {
            Some(value_bytes) => {
                line.push(b"VA ");
                line.at += decimal(&mut line.out[line.at..], value_bytes as u64);
            }
            None => line.push(DONE),
        }
        line
    }

    /// What every reply repeats.
    #[inline]
    fn common(&self, line: &mut Line<'_>, flag: u8, word: &[u8]) {
        match flag {
            b'O' => {
                line.push(b" ");
                line.push(word);
            }
            b'k' => {
                line.flag(b'k');
                if self.base64 {
                    line.at += encode(self.key, &mut line.out[line.at..]);
                    line.flag(b'b');
                } else {
                    line.push(self.key);
                }
            }
            _ => {}
        }
    }

    fn expiry_s(&self, word: &[u8]) -> u32 {
        expiry(expiry_number(&word[1..]).unwrap_or(0), self.now_s)
    }

    fn time_left(&self, line: &mut Line<'_>, expiry_s: u32) {
        if expiry_s == 0 {
            line.push(b" t-1");
        } else {
            line.number(b't', expiry_s.saturating_sub(self.now_s).into());
        }
    }
}
