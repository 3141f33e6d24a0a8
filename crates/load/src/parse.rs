//! Numbers, durations and rates as people write them.

use std::net::IpAddr;
use std::time::Duration;

/// A number with k, m or g (thousands) or Ki, Mi, Gi (of 1,024): `100k`, `2.5m`, `192Mi`.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let what = || format!("'{text}' is no number: digits, with k, m, g, Ki, Mi or Gi if wanted");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(what()),
    };
    let number: f64 = digits.parse().map_err(|_| what())?;
    let number = number * unit;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(what()) }
}

/// A whole number, written like [`number`].
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let number = number(text)?;
    if number.fract() == 0.0 && number < 9e15 {
        Ok(number as u64)
    } else {
        Err(format!("'{text}' is no whole number"))
    }
}

/// Operations per second, more than none.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match number(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate of nothing offers no load".to_owned()),
    }
}

/// A duration: a number of seconds, or with us, ms, s, m or h.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let what = || format!("'{text}' is no duration: 10s, 500ms, 1.5m, 200us");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(what()),
    };
    let number: f64 = digits.parse().map_err(|_| what())?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|_| what())
}

/// An address with the length of its prefix.
pub(crate) fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let what = || format!("'{text}' is no address with the length of its prefix: 10.0.0.9/24");
    let (address, bits) = text.split_once('/').ok_or_else(what)?;
    let address: IpAddr = address.parse().map_err(|_| what())?;
    let bits: u8 = bits.parse().map_err(|_| what())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    match bits <= bits_max {
        true => Ok((address, bits)),
        false => Err(what()),
    }
}

/// Parts of GET, UPDATE and DELETE, not all of them nothing: `90/8/2`.
pub(crate) fn mix(text: &str) -> Result<[f64; 3], String> {
    let what = || format!("'{text}' is no mix: percentages of GET, UPDATE and DELETE, as 90/8/2");
    let part = |word: &str| word.parse().ok().filter(|part: &f64| (0.0..=1e6).contains(part));
    let parts: Option<Vec<f64>> = text.split('/').map(part).collect();
    match parts.as_deref() {
        Some(&[gets, updates, deletes]) if gets + updates + deletes > 0.0 => Ok([gets, updates, deletes]),
        _ => Err(what()),
    }
}

/// A percentage, 0 to 100, with or without its sign.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("'{text}' is no percentage"))?;
    if (0.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err(format!("'{text}' is not within 0 and 100"))
    }
}

/// CPU numbers: `1`, `0,2`, `0-3`.
pub(crate) fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let number =
        |word: &str| word.parse::<usize>().map_err(|_| format!("'{text}' is no list of CPUs: 1, 0,2 or 0-3"));
    let mut cpus = Vec::new();
    for word in text.split(',') {
        match word.split_once('-') {
            None => cpus.push(number(word)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if to < from || to > 4096 {
                    return Err(format!("'{word}' is no range of CPUs"));
                }
                cpus.extend(from..=to);
            }
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units() {
        assert_eq!(number("100k"), Ok(100_000.0));
        assert_eq!(number("2.5m"), Ok(2_500_000.0));
        assert_eq!(count("192Mi"), Ok(192 << 20));
        assert_eq!(count("17"), Ok(17));
        for text in ["", "k", "1x", "-1", "1e999", "nan", "inf"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(count("1.5").is_err());
        assert!(rate("0").is_err());
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        for text in ["", "s", "-1s", "1d", "1e30h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prefixes_are_read() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(prefix("10.0.0.9/24"), Ok((address("10.0.0.9"), 24)));
        assert_eq!(prefix("fd00::9/128"), Ok((address("fd00::9"), 128)));
        for text in ["10.0.0.9", "10.0.0.9/33", "fd00::/129", "/24", "x/1"] {
            assert!(prefix(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_and_cpus() {
        assert_eq!(percent("95"), Ok(95.0));
        assert_eq!(percent("99.7%"), Ok(99.7));
        assert!(percent("101").is_err() && percent("x").is_err());
        assert_eq!(cpus("1"), Ok(vec![1]));
        assert_eq!(cpus("0,2-4"), Ok(vec![0, 2, 3, 4]));
        assert!(cpus("").is_err() && cpus("3-1").is_err() && cpus("a").is_err());
    }
}
