//! The flags of a meta command, all at once.

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

/// Why a meta command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// What to say.
    pub reply: &'static str,
    /// Whether the value of an ms still belongs to it, and has to be skipped.
    pub skips_value: bool,
}

/// What the flags say. Expiries are as on the wire ([`super::super::expiry`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaFlags {
    /// b: the key is base64. Only `me` has not checked that it can be decoded.
    pub base64: bool,
    /// q: the usual answer is not sent.
    pub quiet: bool,
    /// v: the value is wanted.
    pub value: bool,
    /// c: the CAS value is wanted.
    pub cas: bool,
    /// l: the seconds since the last access are wanted.
    pub access: bool,
    /// u: the request is not to be noted.
    pub unnoticed: bool,
    /// x: the value is to be removed.
    pub empty: bool,
    /// I: invalidate, or store a stale value.
    pub invalidate: bool,
    /// T: the new expiry.
    pub touch: Option<i64>,
    /// N: the expiry of an item that is created.
    pub vivify: Option<i64>,
    /// R: the item is to be made anew if it ends within this.
    pub recache: Option<i64>,
    /// T stands before R.
    pub touch_before_recache: bool,
    /// T stands before N.
    pub touch_before_vivify: bool,
    /// F.
    pub client_flags: u32,
    /// C: the CAS value that the item must have; of mg, the one with which its value is not wanted.
    pub compare: Option<u64>,
    /// E: the CAS value that it gets.
    pub new_cas: Option<u64>,
    /// D: by how much.
    pub delta: Option<u64>,
    /// J: the number to begin with.
    pub initial: u64,
    /// M: its letter or sign; 0 without one.
    pub mode: u8,
}

impl MetaLine<'_> {
    /// Reads the flags.
    ///
    /// # Errors
    /// What memcached 1.6.45 says of such a line.
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
        let before = if matches!(self.verb, MetaVerb::Store { .. }) {
            3
        } else {
            2
        };
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

    /// Whether each word behind the key begins as a flag does.
    #[inline]
    pub(super) fn has_flags_only(&self) -> bool {
        self.flag_words().all(|(flag, _)| is_flag(flag))
    }
}

/// Whether a key is what the flag `b` says.
#[cold]
fn is_base64(key: &[u8]) -> bool {
    base64::decode(key, &mut [0; DECODED_BYTES_MAX]).is_some()
}

/// Letters and digits, and what stands between the two cases.
fn is_flag(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'A'..=b'z').contains(&byte)
}

impl MetaFlags {
    #[inline]
    fn read(&mut self, line: &MetaLine<'_>) -> Result<(), &'static str> {
        let mut seen = 0u128;
        // Of several words that are wrong, the last one is told; an unknown flag comes first.
        let mut wrong = None;
        for (flag, word) in line.flag_words() {
            if seen >> flag & 1 == 1 {
                return Err(arithmetic_says(line, DUPLICATE));
            }
            seen |= 1 << flag;
            if flag == b'b' && !is_base64(line.key) {
                wrong = Some(BAD_KEY);
            }
            match self.take(flag, &word[1..]) {
                Taken::Fine => {}
                Taken::Wrong(reply) => wrong = Some(reply),
                // Its number says nothing else than that the line is wrong.
                Taken::WrongFlags => wrong = wrong.or(Some(BAD_FORMAT)),
                Taken::Unknown => return Err(arithmetic_says(line, INVALID)),
            }
        }
        wrong.map_or(Ok(()), |reply| Err(arithmetic_says(line, reply)))
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

    /// What is wrong although each flag is right.
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

/// What has come of a flag.
enum Taken {
    Fine,
    Wrong(&'static str),
    WrongFlags,
    Unknown,
}

/// ma has one word for everything that its flags can have wrong.
fn arithmetic_says(line: &MetaLine<'_>, reply: &'static str) -> &'static str {
    if line.verb == MetaVerb::Arithmetic {
        BAD_ARITHMETIC
    } else {
        reply
    }
}

/// Digits only: no sign.
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

/// A minus sign may stand alone: a zero.
fn expiry_into(field: &mut Option<i64>, word: &[u8]) -> Taken {
    match expiry_number(word) {
        Some(number) => {
            *field = Some(number);
            Taken::Fine
        }
        None => Taken::Wrong(BAD_TOKEN),
    }
}

/// The number of an expiry: 32 bits and a sign.
pub(super) fn expiry_number(word: &[u8]) -> Option<i64> {
    let number = match word.strip_prefix(b"-".as_slice()) {
        Some(b"") => 0,
        Some(digits) => i64::try_from(plain(digits)?).ok()?.checked_neg()?,
        None => i64::try_from(plain(word)?).ok()?,
    };
    i32::try_from(number).ok().map(i64::from)
}
