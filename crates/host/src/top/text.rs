//! Numbers for people, and text of servers that may be shown.

use std::fmt::Write;

/// Characters of a text of a server that are shown.
const SHOWN_CHARS_MAX: usize = 256;

/// Makes text of a server harmless: control characters, which a terminal obeys, and invisible ones are
/// written out, and what is too long is cut.
pub(super) fn harmless(text: &str) -> String {
    let mut clean = String::new();
    for character in text.chars().take(SHOWN_CHARS_MAX) {
        match character {
            '"' | '\'' | '\\' => clean.push(character),
            // Writing to a String cannot fail.
            _ => drop(write!(clean, "{}", character.escape_debug())),
        }
    }
    clean
}

/// A number of things, in at most six characters.
pub(super) fn count(number: f64) -> String {
    let number = number.max(0.0);
    if !number.is_finite() {
        return "-".to_owned();
    }
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match units.iter().find(|(unit, _)| number >= *unit) {
        Some((1e4, name)) => format!("{:.1}{name}", number / 1e3),
        Some((unit, name)) => format!("{:.1}{name}", number / unit),
        None if number >= 10.0 || number.fract() == 0.0 => format!("{number:.0}"),
        None => format!("{number:.1}"),
    }
}

/// A size in bytes.
pub(super) fn bytes(number: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let number = number.max(0.0);
    let unit =
        units.iter().map(|(name, bits)| (name, (1u64 << bits) as f64)).find(|(_, unit)| number >= *unit);
    match unit {
        Some((name, unit)) => format!("{:.1} {name}", number / unit),
        None => format!("{number:.0} B"),
    }
}

/// A ratio in percent.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:.1}%", 100.0 * ratio)
}

/// A short time, in seconds.
pub(super) fn latency(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.1}us", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1}ms", seconds * 1e3),
        _ => format!("{seconds:.1}s"),
    }
}

/// The age of a server.
pub(super) fn age(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days}d {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that a terminal obeys is left, and ordinary text stays as it is.
    #[test]
    fn text_of_servers_is_harmless() {
        assert_eq!(harmless("a b:\"c\"\\é"), "a b:\"c\"\\é");
        assert_eq!(harmless("\x1b[2Jx\r\n\u{9b}31m"), "\\u{1b}[2Jx\\r\\n\\u{9b}31m");
        assert_eq!(harmless("\u{202e}\u{200b}\0"), "\\u{202e}\\u{200b}\\0");
        assert_eq!(harmless(&"x".repeat(1000)).len(), SHOWN_CHARS_MAX);
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0.0, 0.44, 9.0, 12.3, 9999.0, 12_345.0, 1.25e6, 2e9, f64::NAN];
        assert_eq!(counts.map(count), ["0", "0.4", "9", "12", "9999", "12.3k", "1.2M", "2.0G", "0"]);
        assert_eq!([0.0, 1023.0, 1536.0, 3e9].map(bytes), ["0 B", "1023 B", "1.5 KiB", "2.8 GiB"]);
        assert_eq!([5e-6, 0.0123, 2.0].map(latency), ["5.0us", "12.3ms", "2.0s"]);
        assert_eq!([59, 3_661, 90_000].map(age), ["00:00:59", "01:01:01", "1d 01:00"]);
        assert_eq!(percent(0.9876), "98.8%");
    }
}
