//! Parses the flags of a meta command.

use super::super::number::{exptime, signed, unsigned};
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

/// Most fields of a reply: k, O, s, t, c, f, h, l, and the expiries T and N, which t depends on.
const FIELDS_MAX: usize = 10;

/// Fields that a reply repeats, in the client's order. They are kept until the reply is written, so
/// that the line is scanned once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Their flags.
    flags: [u8; FIELDS_MAX],
    count: u8,
    /// Word of O.
    pub(super) opaque: &'a [u8],
    /// Expiries of T and N.
    pub(super) touch: i64,
    pub(super) vivify: i64,
}

impl<'a> Fields<'a> {
    /// Adds a flag, if replies depend on it. No flag comes twice.
    #[inline]
    fn add(&mut self, flag: u8, word: &'a [u8]) {
        match flag {
            b'k' | b's' | b't' | b'c' | b'f' | b'h' | b'l' | b'T' | b'N' => {}
            b'O' => self.opaque = word,
            _ => return,
        }
        self.flags[usize::from(self.count)] = flag;
        self.count += 1;
    }

    #[inline]
    pub(super) fn flags(&self) -> &[u8] {
        &self.flags[..usize::from(self.count)]
    }
}

/// Parsed flags. Expiries are in wire form ([`super::super::expiry`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaFlags<'a> {
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
    pub fields: Fields<'a>,
}

impl<'a> MetaLine<'a> {
    /// Parses the flags, in one pass.
    ///
    /// # Errors
    /// Returns the reply of memcached 1.6.45 to a wrong line.
    #[inline]
    pub fn flags(&self) -> Result<MetaFlags<'a>, Misuse> {
        let misuse = |reply, skips_value| Err(Misuse { reply, skips_value });
        let mut flags = MetaFlags::default();
        let mut words = if matches!(self.verb, MetaVerb::Store { .. }) { 3 } else { 2 };
        let mut seen = 0u128;
        // A repeated or unknown flag decides the reply, else the last wrong word. Both give way to
        // words that are no flags, and to too many words.
        let (mut refused, mut wrong) = (None, None);
        for (flag, word) in self.flag_words() {
            if !is_flag(flag) {
                return misuse(BAD_FORMAT, false);
            }
            words += 1;
            if self.verb == MetaVerb::Debug {
                flags.base64 |= flag == b'b';
                continue;
            }
            if refused.is_some() {
                continue;
            }
            if seen >> flag & 1 == 1 {
                refused = Some(DUPLICATE);
                continue;
            }
            seen |= 1 << flag;
            if flag == b'b' && !is_base64(self.key) {
                wrong = Some(BAD_KEY);
            }
            match flags.take(flag, &word[1..]) {
                Taken::Fine => {}
                Taken::Wrong(reply) => wrong = Some(reply),
                // A wrong flags number is reported as a wrong line, with the lowest precedence.
                Taken::WrongFlags => wrong = wrong.or(Some(BAD_FORMAT)),
                Taken::Unknown => refused = Some(INVALID),
            }
            flags.fields.add(flag, word);
        }
        if self.verb == MetaVerb::Debug {
            return Ok(flags);
        }
        if words > WORDS_MAX {
            return misuse(TOO_MANY, true);
        }
        let reply = match refused.or(wrong) {
            // ma has one reply for all errors in its flags.
            Some(_) if self.verb == MetaVerb::Arithmetic => BAD_ARITHMETIC,
            Some(reply) => reply,
            None => match flags.check(self.verb) {
                Ok(()) => return Ok(flags),
                Err(reply) => reply,
            },
        };
        misuse(reply, true)
    }

    /// Checks that every word after the key begins like a flag.
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

impl MetaFlags<'_> {
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
                return expiry_into(&mut self.touch, &mut self.fields.touch, rest);
            }
            b'N' => return expiry_into(&mut self.vivify, &mut self.fields.vivify, rest),
            b'R' => match signed(rest) {
                Some(left_s) => self.recache = Some(left_s.into()),
                None => return Taken::Wrong(BAD_TOKEN),
            },
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
    fn check(&self, verb: MetaVerb) -> Result<(), &'static str> {
        match verb {
            MetaVerb::Store { .. } if !b"\0EAPRS".contains(&self.mode) => Err(BAD_STORE_MODE),
            MetaVerb::Arithmetic if !b"\0ID+-".contains(&self.mode) => Err(BAD_ARITHMETIC_MODE),
            _ if self.fields.opaque.len() > OPAQUE_BYTES_MAX => Err(OPAQUE_TOO_LONG),
            _ => Ok(()),
        }
    }
}

/// Result of parsing one flag.
enum Taken {
    Fine,
    Wrong(&'static str),
    WrongFlags,
    Unknown,
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
fn expiry_into(field: &mut Option<i64>, for_reply: &mut i64, word: &[u8]) -> Taken {
    *field = exptime(word);
    match field {
        Some(number) => {
            *for_reply = *number;
            Taken::Fine
        }
        None => Taken::Wrong(BAD_TOKEN),
    }
}
