//! Sizes of memory and files.

/// Reads a size as people write it: a number with k, m, g or t. A bare number counts units of `unit_bytes`.
///
/// # Errors
/// It is none, in words for the user.
pub fn parse(text: &str, unit_bytes: u64) -> Result<usize, String> {
    let what = || format!("'{text}' is no size: a number, with k, m, g or t if wanted");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => unit_bytes,
        "b" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(what()),
    };
    let number: u64 = digits.parse().map_err(|_| what())?;
    let bytes = number.checked_mul(unit);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| format!("'{text}' is too much"))
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
