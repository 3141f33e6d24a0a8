//! Sizes of memory and files.

/// Digits behind the point of a size.
const FRACTION_DIGITS_MAX: usize = 9;

/// Reads a size as people write it: a number, perhaps with a fraction, and a unit: `1g`, `1.5g`, `64mb`,
/// `64MiB`. Units are powers of 1,024, with memcached's letters and with longer names alike. A bare number
/// counts units of `unit_bytes`.
///
/// # Errors
/// It is none, in words for the user.
pub fn parse(text: &str, unit_bytes: u64) -> Result<usize, String> {
    let what = || format!("'{text}' is no size: a number, with k, m, g or t if wanted");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[number.len()..].to_ascii_lowercase().as_str() {
        "" => unit_bytes,
        "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(what()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    if !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(what());
    }
    let too_much = || format!("'{text}' is too much");
    let whole: u64 = whole.parse().map_err(|_| too_much())?;
    let parts: u64 = fraction.parse().map_err(|_| what())?;
    let of_fraction = u128::from(parts) * u128::from(unit) / 10u128.pow(fraction.len() as u32);
    let bytes = whole.checked_mul(unit).and_then(|bytes| bytes.checked_add(of_fraction as u64));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_much)
}

/// Writes a size for people: exact where it is a whole number of units, else with one decimal.
pub fn text(bytes: usize) -> String {
    let units = [(1usize << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in units {
        if bytes >= unit {
            return if bytes.is_multiple_of(unit) {
                format!("{} {name}", bytes / unit)
            } else {
                format!("{:.1} {name}", bytes as f64 / unit as f64)
            };
        }
    }
    format!("{bytes} B")
}

/// Writes a size as an option reads it back, without loss.
pub fn exact(bytes: usize) -> String {
    for (unit, letter) in [(1usize << 40, "t"), (1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")] {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("64", 64 << 20),
            ("1.5", 3 << 19),
            ("1g", 1 << 30),
            ("1.5g", 3 << 29),
            ("64mb", 64 << 20),
            ("64GB", 64 << 30),
            ("64MiB", 64 << 20),
            ("0.5k", 512),
            ("7b", 7),
            ("1.999999999b", 1),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse(text, 1 << 20), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "g",
            ".5g",
            "1.g",
            "1.5.5g",
            "-1",
            "+1",
            "1 g",
            "1x",
            "1bb",
            "1gg",
            "1.0000000001g",
            "٣",
            "1e3",
        ] {
            assert!(parse(text, 1).unwrap_err().contains("is no size"), "{text}");
        }
        for text in ["16777216t", "99999999999999999999", "18446744073709551615k"] {
            assert!(parse(text, 1).unwrap_err().contains("is too much"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_exactly_is_read_back(bytes: usize) {
            prop_assert_eq!(parse(&exact(bytes), 1 << 20), Ok(bytes));
        }

        #[test]
        fn any_text_is_a_size_or_none(text in ".{0,12}") {
            let _ = parse(&text, 1 << 40);
        }
    }
}
