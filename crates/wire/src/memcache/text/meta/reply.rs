//! Replies to meta commands: a code, then the requested fields in the client's order.

use super::super::reply::decimal;
use super::super::{KEY_BYTES_MAX, expiry};
use super::base64::{ENCODED_BYTES_MAX, encode};
use super::{Fields, OPAQUE_BYTES_MAX};

/// Longest line: code and length, s, t, c, f, h, l, O, k and its b, W, X, Z, line end.
pub const LINE_BYTES_MAX: usize =
    14 + 12 + 12 + 22 + 12 + 3 + 12 + 1 + OPAQUE_BYTES_MAX + 4 + KEY_BYTES_MAX + 6 + 2;

const _: () = assert!(ENCODED_BYTES_MAX <= KEY_BYTES_MAX);

/// Success without a value; with a value the code is `VA`.
pub const DONE: &[u8] = b"HD";
/// mg and me: no such item.
pub const MISS: &[u8] = b"EN";
/// No such item.
pub const NOT_FOUND: &[u8] = b"NF";
/// The condition did not hold.
pub const NOT_STORED: &[u8] = b"NS";
/// The CAS value differs.
pub const EXISTS: &[u8] = b"EX";
/// ma: there is no space for the item.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";

/// Metadata of an item that replies can carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaItem {
    pub flags: u32,
    pub value_bytes: usize,
    pub cas: u64,
    /// Expiry before this request, in seconds; 0 = never.
    pub expiry_before_s: u32,
    /// This request created the item.
    pub created: bool,
    /// Seconds since the last access.
    pub access_age_s: u32,
    /// Another request accessed the item before.
    pub fetched: bool,
    /// The item was invalidated.
    pub stale: bool,
    /// This client won the token to recreate the item.
    pub won: bool,
    /// Another client holds the token.
    pub token_sent: bool,
}

/// A reply, without its code.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub fields: &'a Fields<'a>,
    pub key: &'a [u8],
    /// The request's key was base64.
    pub base64: bool,
    /// Time on the server's clock.
    pub now_s: u32,
}

/// A reply under construction.
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
    /// Writes the line of a get, without the value: `VA` if `value` is set, else `HD`.
    #[inline]
    pub fn got(&self, out: &mut [u8], value: bool, item: &MetaItem) -> usize {
        let mut line = self.found(out, value.then_some(item.value_bytes));
        let mut expiry_s = if item.created { 0 } else { item.expiry_before_s };
        for flag in self.fields.flags() {
            match flag {
                b'T' => expiry_s = self.expiry_s(self.fields.touch),
                b'N' if item.created => expiry_s = self.expiry_s(self.fields.vivify),
                b's' => line.number(b's', item.value_bytes as u64),
                b't' => self.time_left(&mut line, expiry_s),
                b'c' => line.number(b'c', item.cas),
                b'f' => line.number(b'f', item.flags.into()),
                b'l' => line.number(b'l', item.access_age_s.into()),
                b'h' => line.number(b'h', item.fetched.into()),
                _ => self.common(&mut line, *flag),
            }
        }
        let marks = [(item.token_sent, b'Z'), (item.stale, b'X'), (item.won, b'W')];
        for (is_so, mark) in marks {
            if is_so {
                line.flag(mark);
            }
        }
        line.end()
    }

    /// Writes the line of an increment or decrement, without the number.
    pub fn counted(&self, out: &mut [u8], value: Option<usize>, item: &MetaItem) -> usize {
        let mut line = self.found(out, value);
        let mut expiry_s = if item.created { 0 } else { item.expiry_before_s };
        for flag in self.fields.flags() {
            match flag {
                b'T' => expiry_s = self.expiry_s(self.fields.touch),
                b'N' if item.created => expiry_s = self.expiry_s(self.fields.vivify),
                b't' => self.time_left(&mut line, expiry_s),
                b'c' => line.number(b'c', item.cas),
                _ => self.common(&mut line, *flag),
            }
        }
        line.end()
    }

    /// Writes the line of a store, with any code.
    pub fn stored(&self, out: &mut [u8], code: &[u8], cas: u64, value_bytes: usize) -> usize {
        let mut line = Line { out, at: 0 };
        line.push(code);
        for flag in self.fields.flags() {
            match flag {
                b'c' => line.number(b'c', cas),
                b's' => line.number(b's', value_bytes as u64),
                _ => self.common(&mut line, *flag),
            }
        }
        line.end()
    }

    /// Writes the line of a delete, or of a miss.
    pub fn other(&self, out: &mut [u8], code: &[u8]) -> usize {
        let mut line = Line { out, at: 0 };
        line.push(code);
        for flag in self.fields.flags() {
            self.common(&mut line, *flag);
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

    /// Writes the fields that every reply can carry: opaque and key.
    #[inline]
    fn common(&self, line: &mut Line<'_>, flag: u8) {
        match flag {
            b'O' => {
                line.push(b" ");
                line.push(self.fields.opaque);
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

    fn expiry_s(&self, exptime: i64) -> u32 {
        expiry(exptime, self.now_s)
    }

    fn time_left(&self, line: &mut Line<'_>, expiry_s: u32) {
        if expiry_s == 0 {
            line.push(b" t-1");
        } else {
            line.number(b't', expiry_s.saturating_sub(self.now_s).into());
        }
    }
}
