//! Parses the flags of a meta command.

use super::super::number::unsigned;
use super::super::refusal::BAD_FORMAT;
use super::base64::{self, DECODED_BYTES_MAX};
use super::{MetaLine, MetaVerb, OPAQUE_BYTES_MAX, WORDS_MAX};

const TOO_MANY: &str = "CLIENT_ERROR options flags are too long\r\n";
const DUPLICATE: &str = "CLIENT_ERROR duplicate flag\r\n";
const INVALID: &str = "CLIENT_ERROR invalid flag\r\n";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format\r\n";
const BAD_INITIAL: &str = "CLIENT_ERROR invalid numeric initial value\r\n";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta value\r\n";
const BAD_STORE_MODE: &str = "CLIENT_ERROR invalid mode for ms M token\r\n";
const BAD_ARITHMETIC_MODE: &str = "CLIENT_ERROR invalid mode for ma M token\r\n";
const BAD_KEY: &str = "CLIENT_ERROR error decoding key\r\n";
const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long\r\n";
pub(super) const BAD_ARITHMETIC: &str = "CLIENT_ERROR invalid or duplicate flag\r\n";

/// Refusal of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    pub reply: &'static str,
    /// The value of an ms follows and has to be skipped.
    pub skips_value: bool,
}

/// Parsed flags. Expiries are in wire form ([`super::super::expiry`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaFlags {
    /// b: the key is base64. Only for `me` is it unchecked.
    pub base64: bool,
    /// q: suppresses the usual reply.
    pub quiet: bool,
    /// v: the reply carries the value.
    pub value: bool,
    /// c: the reply carries the CAS value.
    pub cas: bool,
    /// l: the reply carries the seconds since the last access.
    pub access: bool,
    /// u: the request does not count as an access.
    pub unnoticed: bool,
    /// x: removes the value.
    pub empty: bool,
    /// I: invalidates the item, or stores a stale value.
    pub invalidate: bool,
    /// T: new expiry.
    pub touch: Option<i64>,
    /// N: expiry of an item that this request creates.
    pub vivify: Option<i64>,
    /// R: the client recaches an item that expires within this time.
    pub recache: Option<i64>,
    /// T stands before R.
    pub touch_before_recache: bool,
    /// T stands before N.
    pub touch_before_vivify: bool,
    /// F.
    pub client_flags: u32,
    /// C: required CAS value. For mg: the CAS value that the client has, whose value it does not
    /// want.
    pub compare: Option<u64>,
    /// E: new CAS value.
    pub new_cas: Option<u64>,
    /// D: amount to add or subtract.
    pub delta: Option<u64>,
    /// J: initial number.
    pub initial: u64,
    /// M: letter or sign of the mode; 0 without one.
    pub mode: u8,
}

impl MetaLine<'_> {
    /// Parses the flags.
    ///
    /// # Errors
    /// Returns the reply of memcached 1.6.45 to a wrong line.
    #[inline]
    pub fn flags(&self) -> Result<MetaFlags, Misuse> {
        let misuse = |reply, skips_value| Misuse { reply, skips_value };
        let mut flags = MetaFlags::default();
        if self.flag_words().next().is_none() {
            return Ok(flags);
        }
        if !self.has_flags_only() {
            return Err(misuse(BAD_FORMAT, false));
        }
        let before = if matches!(self.verb, MetaVerb::Store { .. }) { 3 } else { 2 };
        if self.verb == MetaVerb::Debug {
            flags.base64 = self.flag_words().any(|(flag, _)| flag == b'b');
            return Ok(flags);
        }
        if before + self.flag_words().count() > WORDS_MAX {
            return Err(misuse(TOO_MANY, true));
        }
        let read = flags.read(self).and_then(|()| flags.check(self));
        match read {
            Ok(()) => Ok(flags),
            Err(reply) => Err(misuse(reply, true)),
        }
    }

    /// Checks that every word after the key begins like a flag.
    #[inline]
    pub(super) fn has_flags_only(&self) -> bool {
        self.flag_words().all(|(flag, _)| is_flag(flag))
    }
}

/// Returns whether a key is valid base64.
#[cold]
fn is_base64(key: &[u8]) -> bool {
    base64::decode(key, &mut [0; DECODED_BYTES_MAX]).is_some()
}

/// Returns whether a byte may begin a flag: digits, letters, and the ASCII characters between `Z`
/// and `a`.
fn is_flag(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'A'..=b'z').contains(&byte)
}

impl MetaFlags {
    #[inline]
    fn read(&mut self, line: &MetaLine<'_>) -> Result<(), &'static str> {
        let mut seen = 0u128;
        // The last wrong word decides the reply, but an unknown flag takes precedence.
        let mut wrong = None;
        for (flag, word) in line.flag_words() {
            if seen >> flag & 1 == 1 {
                return Err(arithmetic_reply(line, DUPLICATE));
            }
            seen |= 1 << flag;
            if flag == b'b' && !is_base64(line.key) {
                wrong = Some(BAD_KEY);
            }
            match self.take(flag, &word[1..]) {
                Taken::Fine => {}
                Taken::Wrong(reply) => wrong = Some(reply),
                // A wrong flags number is reported as a wrong line, with the lowest precedence.
                Taken::WrongFlags => wrong = wrong.or(Some(BAD_FORMAT)),
                Taken::Unknown => return Err(arithmetic_reply(line, INVALID)),
            }
        }
        wrong.map_or(Ok(()), |reply| Err(arithmetic_reply(line, reply)))
    }

    #[inline]
    fn take(&mut self, flag: u8, rest: &[u8]) -> Taken {
        match flag {
            b'b' => self.base64 = true,
            b'q' => self.quiet = true,
            b'v' => self.value = true,
            b'c' => self.cas = true,
            b'l' => self.access = true,
            b'u' => self.unnoticed = true,
            b'x' => self.empty = true,
            b'I' => self.invalidate = true,
            b'k' | b's' | b't' | b'f' | b'h' | b'O' | b'P' | b'L' => {}
            b'T' => {
                self.touch_before_recache = self.recache.is_none();
                self.touch_before_vivify = self.vivify.is_none();
                return expiry_into(&mut self.touch, rest);
            }
            b'N' => return expiry_into(&mut self.vivify, rest),
            b'R' => return expiry_into(&mut self.recache, rest),
            b'C' => return number_into(&mut self.compare, rest, BAD_TOKEN),
            b'E' => return number_into(&mut self.new_cas, rest, BAD_TOKEN),
            b'D' => return number_into(&mut self.delta, rest, BAD_DELTA),
            b'J' => {
                let mut initial = None;
                let taken = number_into(&mut initial, rest, BAD_INITIAL);
                self.initial = initial.unwrap_or(0);
                return taken;
            }
            b'F' => match plain(rest).map(u32::try_from) {
                Some(Ok(flags)) => self.client_flags = flags,
                _ => return Taken::WrongFlags,
            },
            b'M' => self.mode = rest.first().copied().unwrap_or(b'\r'),
            _ => return Taken::Unknown,
        }
        Taken::Fine
    }

    /// Checks modes and lengths after each flag was parsed.
    #[inline]
    fn check(&self, line: &MetaLine<'_>) -> Result<(), &'static str> {
        match line.verb {
            MetaVerb::Store { .. } if !b"\0EAPRS".contains(&self.mode) => {
                return Err(BAD_STORE_MODE);
            }
            MetaVerb::Arithmetic if !b"\0ID+-".contains(&self.mode) => {
                return Err(BAD_ARITHMETIC_MODE);
            }
            _ => {}
        }
        let mut words = line.flag_words();
        if words.any(|(flag, word)| flag == b'O' && word.len() > OPAQUE_BYTES_MAX) {
            return Err(OPAQUE_TOO_LONG);
        }
        Ok(())
    }
}

/// Result of parsing one flag.
enum Taken {
    Fine,
    Wrong(&'static str),
    WrongFlags,
    Unknown,
}

/// Returns ma's single reply for all errors in its flags.
fn arithmetic_reply(line: &MetaLine<'_>, reply: &'static str) -> &'static str {
    if line.verb == MetaVerb::Arithmetic { BAD_ARITHMETIC } else { reply }
}

/// Parses digits, without a sign.
fn plain(digits: &[u8]) -> Option<u64> {
    digits.first().filter(|byte| byte.is_ascii_digit())?;
    unsigned(digits)
}

fn number_into(field: &mut Option<u64>, digits: &[u8], wrong: &'static str) -> Taken {
    *field = plain(digits);
    match field {
        Some(_) => Taken::Fine,
        None => Taken::Wrong(wrong),
    }
}

/// Parses an expiry. A minus sign alone means zero.
fn expiry_into(field: &mut Option<i64>, word: &[u8]) -> Taken {
    match expiry_number(word) {
        Some(number) => {
            *field = Some(number);
            Taken::Fine
        }
        None => Taken::Wrong(BAD_TOKEN),
    }
}

/// Parses the number of an expiry: a signed 32-bit number.
pub(super) fn expiry_number(word: &[u8]) -> Option<i64> {
    let number = match word.strip_prefix(b"-".as_slice()) {
        Some(b"") => 0,
        Some(digits) => i64::try_from(plain(digits)?).ok()?.checked_neg()?,
        None => i64::try_from(plain(word)?).ok()?,
    };
    i32::try_from(number).ok().map(i64::from)
}
