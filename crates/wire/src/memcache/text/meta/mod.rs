//! Meta commands: a verb of two letters, a key, and words whose first letter is a flag.
//!
//! [`MetaLine`] holds the words of a line. [`MetaLine::flags`] parses its flags in one pass, and keeps
//! the fields that [`reply`] repeats.

pub mod base64;
mod flags;
pub mod reply;
#[cfg(test)]
mod tests;

pub use flags::{Fields, MetaFlags, Misuse};

use super::KEY_BYTES_MAX;
use super::number::signed;
use super::parser::BODY_BYTES_MAX;
use super::refusal::BAD_FORMAT;
use super::tokens::Words;
use flags::BAD_ARITHMETIC;

/// Longest opaque word, including its flag letter.
pub const OPAQUE_BYTES_MAX: usize = 32;
/// Most words of a meta command, including verb and key.
const WORDS_MAX: usize = 20;

/// Verb of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVerb {
    /// mg.
    Get,
    /// ms. The body of `value_bytes + 2` follows the line.
    Store {
        /// Length of the value, without its line end.
        value_bytes: usize,
    },
    /// md.
    Delete,
    /// ma.
    Arithmetic,
    /// me: describes an item in readable form.
    Debug,
}

/// Line of a meta command.
#[derive(Clone, Copy, Debug)]
pub struct MetaLine<'a> {
    pub verb: MetaVerb,
    /// The key as sent, 1 to [`super::KEY_BYTES_MAX`] bytes: base64 with the flag `b`.
    pub key: &'a [u8],
    words: Words<'a>,
}

impl<'a> MetaLine<'a> {
    /// Parses a line from its key on. An error holds the reply and how many bytes of a value to
    /// skip.
    #[inline]
    pub(super) fn of(verb: &[u8], mut words: Words<'a>) -> Result<Self, (&'static str, u64)> {
        let key = words.next().ok_or((BAD_FORMAT, 0))?;
        let verb = match verb {
            b"mg" => MetaVerb::Get,
            b"ms" => store(&mut words).ok_or((BAD_FORMAT, 0))?,
            b"md" => MetaVerb::Delete,
            b"ma" => MetaVerb::Arithmetic,
            _ => MetaVerb::Debug,
        };
        let line = Self { verb, key, words };
        match verb {
            _ if key.len() <= KEY_BYTES_MAX => Ok(line),
            MetaVerb::Store { value_bytes } => Err((BAD_FORMAT, value_bytes as u64 + 2)),
            MetaVerb::Arithmetic if line.has_flags_only() => Err((BAD_ARITHMETIC, 0)),
            _ => Err((BAD_FORMAT, 0)),
        }
    }

    /// Returns the words after the key.
    pub fn flag_words(&self) -> FlagWords<'a> {
        FlagWords(self.words)
    }
}

/// Parses ms with its length.
fn store(words: &mut Words<'_>) -> Option<MetaVerb> {
    let word = words.next().filter(|word| word[0] != b'+')?;
    let value_bytes = signed(word).filter(|bytes| (0..=BODY_BYTES_MAX).contains(bytes))?;
    Some(MetaVerb::Store { value_bytes: value_bytes as usize })
}

/// Iterates over flags with their words, in order. Words are never empty.
#[derive(Clone, Copy, Debug)]
pub struct FlagWords<'a>(Words<'a>);

impl<'a> Iterator for FlagWords<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let word = self.0.next()?;
        word.split_first().map(|(flag, _)| (*flag, word))
    }
}
