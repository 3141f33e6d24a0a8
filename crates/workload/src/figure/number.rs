//! Numbers for people.

const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// A value with three digits at most and a decimal prefix: 1.5 M, 20 k, 0.25.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    // A value that would round up to the next prefix has that prefix.
    let prefix = PREFIXES.iter().find(|(unit, _)| value.abs() >= unit * 0.9995);
    match prefix {
        Some((unit, prefix)) => format!("{} {prefix}", digits(value / unit)),
        None => digits(value),
    }
}

fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        99.95.. => 0,
        9.995.. => 1,
        0.995.. => 2,
        0.0995.. => 3,
        0.0 => 0,
        small => (2 - small.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A whole number in groups of three digits.
pub fn grouped(value: f64, separator: char) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digit != '-' {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let spaced = [0.4, 999.0, 1_234_567.2].map(|value| grouped(value, ' '));
        assert_eq!(spaced, ["0", "999", "1 234 567"]);
        assert_eq!(grouped(-1_000.0, ','), "-1,000");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.25, "0.25"),
            (0.12345, "0.123"),
            (0.001, "0.001"),
            (0.00012, "0.00012"),
            (12.34, "12.3"),
            (999.0, "999"),
            (999.9, "1 k"),
            (1500.0, "1.5 k"),
            (20_000.0, "20 k"),
            (1.234e6, "1.23 M"),
            (99.99e9, "100 G"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
