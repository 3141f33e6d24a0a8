//! Lengths of keys and values.

use std::fmt;
use std::str::FromStr;

use crate::KEY_BYTES_MAX;
use crate::synthetic::random::mix;

/// Lengths that are the same for all items. `FromStr` takes MICA's names and `K/V`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSet {
    pub key_bytes: usize,
    pub value_bytes: usize,
}

impl DataSet {
    /// The longest value that can be asked for: 1 GiB, memcached's bound for an item.
    pub const VALUE_BYTES_MAX: usize = 1 << 30;

    const NAMED: [(&'static str, Self); 4] = [
        ("tiny", Self::of(8, 8)),
        ("small", Self::of(16, 64)),
        ("large", Self::of(128, 1024)),
        ("xlarge", Self::of(250, 1152)),
    ];

    const fn of(key_bytes: usize, value_bytes: usize) -> Self {
        Self { key_bytes, value_bytes }
    }
}

impl FromStr for DataSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, named)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*named);
        }
        let what = || {
            format!(
                "'{text}' is no data set: tiny, small, large, xlarge, or bytes of key and value as 16/100"
            )
        };
        let (key, value) = text.split_once('/').ok_or_else(what)?;
        let key_bytes: usize = key.parse().map_err(|_| what())?;
        let value_bytes: usize = value.parse().map_err(|_| what())?;
        if !(1..=KEY_BYTES_MAX).contains(&key_bytes) {
            return Err(format!("keys have 1 to {KEY_BYTES_MAX} bytes, not {key_bytes}"));
        }
        if value_bytes > Self::VALUE_BYTES_MAX {
            let most = Self::VALUE_BYTES_MAX;
            return Err(format!("values have at most {most} bytes, not {value_bytes}"));
        }
        Ok(Self::of(key_bytes, value_bytes))
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, named)| named == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}/{}", self.key_bytes, self.value_bytes),
        }
    }
}

/// Keys of one length, and values whose lengths follow from their items: evenly between half of
/// the mean and one and a half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedLengths {
    pub key_bytes: usize,
    /// Mean length of the values.
    pub value_bytes_mean: usize,
}

impl KeyedLengths {
    /// Length of an item's value.
    #[inline]
    pub fn value_bytes(self, item: u64) -> usize {
        let least = self.value_bytes_mean / 2;
        let width = (self.value_bytes_mean - least) as u64 * 2 + 1;
        // The upper bits of a hash, scaled: evenly spread.
        least + ((u128::from(mix(item)) * u128::from(width)) >> 64) as usize
    }

    /// The longest key and the longest value.
    pub const fn longest(self) -> DataSet {
        DataSet {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes_mean / 2 + (self.value_bytes_mean - self.value_bytes_mean / 2) * 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lengths() {
        let lengths = |text: &str| {
            let set: DataSet = text.parse().unwrap();
            assert_eq!(set.to_string(), text);
            (set.key_bytes, set.value_bytes)
        };
        assert_eq!(lengths("tiny"), (8, 8));
        assert_eq!(lengths("small"), (16, 64));
        assert_eq!(lengths("large"), (128, 1024));
        assert_eq!(lengths("xlarge"), (250, 1152));
        assert_eq!(lengths("10/0"), (10, 0));
        assert_eq!("8/8".parse::<DataSet>().unwrap().to_string(), "tiny");
        for text in ["", "huge", "8", "0/8", "251/8", "8/-1", "8/8/8", "8/2000000000"] {
            assert!(text.parse::<DataSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_spread_about_their_mean() {
        let lengths = KeyedLengths { key_bytes: 100, value_bytes_mean: 1024 };
        let of: Vec<_> = (0..100_000).map(|item| lengths.value_bytes(item)).collect();
        let (least, most) = (of.iter().min(), of.iter().max());
        assert_eq!((least, most), (Some(&512), Some(&1536)));
        assert_eq!(lengths.longest().value_bytes, 1536);
        let mean = of.iter().sum::<usize>() as f64 / of.len() as f64;
        assert!((mean - 1024.0).abs() < 5.0, "{mean}");
    }
}
