//! One value as a person wrote it, in any of the places where options come from.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// A value before it is checked: text, whatever TOML type it was written with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl FromStr for Word {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for Word {
    /// A number where it is one, so that the printed file looks as one would write it. A mode
    /// such as 0700 is text: TOML knows no leading zeros.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<i64>() {
            Ok(number) if number.to_string() == self.0 => serializer.serialize_i64(number),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    /// Several values, as a list or separated by commas.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Word, A::Error> {
        let mut words = Vec::new();
        while let Some(Word(word)) = list.next_element()? {
            words.push(word);
        }
        Ok(Word(words.join(",")))
    }
}
