//! Numbers as people write them.

use micanite_control::size;

/// Reads a number with k, m, g or t (thousands) or Ki, Mi, Gi, Ti (of 1,024): `100k`, `2.5m`, `192Mi`.
pub fn number(text: &str) -> Result<f64, String> {
    let refused = || format!("'{text}' is no number: digits, with k, m, g, t, Ki, Mi, Gi or Ti if wanted");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: f64 = match &text[digits.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        _ => return Err(refused()),
    };
    let number = digits.parse::<f64>().map_err(|_| refused())? * unit;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(refused()) }
}

/// Reads a whole number.
pub fn count(text: &str) -> Result<u64, String> {
    let number = number(text)?;
    match number.fract() == 0.0 && number < 9e15 {
        true => Ok(number as u64),
        false => Err(format!("'{text}' is no whole number")),
    }
}

/// Reads an average of bytes: a number, perhaps with a fraction, or a size as all options have them (`4k`).
pub fn bytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bytes) if bytes.is_finite() && bytes >= 0.0 => Ok(bytes),
        _ => size::parse(text, 1).map(|bytes| bytes as f64),
    }
}

/// Reads a time as microseconds: a number of them, or with us, ms or s.
pub fn microseconds(text: &str) -> Result<f64, String> {
    let (digits, unit_us) = match text {
        _ if text.ends_with("us") => (&text[..text.len() - 2], 1.0),
        _ if text.ends_with("ms") => (&text[..text.len() - 2], 1e3),
        _ if text.ends_with('s') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.map(|number| number * unit_us).ok_or_else(|| format!("'{text}' is no time: 100us, 2ms, 1s"))
}

/// Reads a percentage as a share, with or without its sign.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|number| (0.0..=100.0).contains(number))
        .map(|number| number / 100.0)
        .ok_or_else(|| format!("'{text}' is no percentage from 0 to 100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, times and percentages are read; nonsense is refused.
    #[test]
    fn quantities_are_read() {
        assert_eq!((number("2.5m"), count("192Mi")), (Ok(2.5e6), Ok(192 << 20)));
        assert_eq!(
            (microseconds("100"), microseconds("2ms"), microseconds("1s")),
            (Ok(100.0), Ok(2e3), Ok(1e6))
        );
        assert_eq!(percent("95%"), Ok(0.95));
        assert_eq!(["10.5", "1.5k", "64KiB"].map(bytes), [Ok(10.5), Ok(1536.0), Ok(65536.0)]);
        for text in ["", "k", "-1", "nan", "1e999", "inf", "1x"] {
            assert!(number(text).is_err() && microseconds(text).is_err() && percent(text).is_err(), "{text}");
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(count("1.5").is_err() && percent("101").is_err());
    }
}
