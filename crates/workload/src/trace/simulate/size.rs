//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use micanite_control::size;

/// Sums of a few such sizes are no overflow.
const BYTES_MAX: u64 = 1 << 59;

/// Number of bytes, or share of the footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// `64m`, `1.5gb`, as [`size::parse`] reads them.
    Bytes(u64),
    /// `10%` of the bytes of all keys and values.
    Percent(f64),
}

impl Size {
    /// Returns the size in bytes, at least one.
    pub fn of(self, footprint_bytes: u64) -> u64 {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (footprint_bytes as f64 * percent / 100.0) as u64,
        };
        bytes.max(1)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 1e6);
            return percent.map(Self::Percent).ok_or_else(|| format!("'{text}' is no share such as 10%"));
        }
        match size::parse(text, 1)? {
            0 => Err(format!("'{text}' is no memory at all")),
            bytes if bytes as u64 > BYTES_MAX => Err(format!("'{text}' is too much")),
            bytes => Ok(Self::Bytes(bytes as u64)),
        }
    }
}

/// Bytes in a unit that leaves three digits.
pub(crate) struct HumanSize(pub u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let Some((unit, bytes)) = units.iter().find(|(_, bytes)| self.0 >= *bytes) else {
            return write!(f, "{} B", self.0);
        };
        let value = self.0 as f64 / *bytes as f64;
        let decimals = match value {
            99.95.. => 0,
            9.995.. => 1,
            _ => 2,
        };
        let text = format!("{value:.decimals$}");
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        f.pad(&format!("{text} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, size) in [
            ("1", Size::Bytes(1)),
            ("64m", Size::Bytes(64 << 20)),
            ("1.5G", Size::Bytes(3 << 29)),
            ("1.5mb", Size::Bytes(3 << 19)),
            ("64GB", Size::Bytes(64 << 30)),
            ("64GiB", Size::Bytes(64 << 30)),
            ("10%", Size::Percent(10.0)),
            ("0.1%", Size::Percent(0.1)),
        ] {
            assert_eq!(text.parse(), Ok(size));
        }
        for text in ["", "0", "-1", "m", "%", "1mm", "x", "0%", "NaN", "1e30", "0.2"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(Size::Percent(10.0).of(29_227_218), 2_922_721);
        assert_eq!(Size::Percent(0.1).of(5), 1);
    }

    #[test]
    fn sizes_are_shown() {
        for (bytes, text) in
            [(7, "7 B"), (1 << 10, "1 KiB"), (3 << 29, "1.5 GiB"), (292_272, "285 KiB"), (29_227, "28.5 KiB")]
        {
            assert_eq!(HumanSize(bytes).to_string(), text);
        }
    }
}
