//! JSON as the console reads it: short numbers, escaped text.

use std::fmt::Write;

/// Writes a number with `digits` significant digits; `null` if it is none.
pub(super) fn number(to: &mut String, value: f32, digits: i32) {
    let value = f64::from(value);
    if !value.is_finite() {
        return to.push_str("null");
    }
    if value == 0.0 {
        return to.push('0');
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = digits - 1 - magnitude;
    let start = to.len();
    // Writing to a String cannot fail.
    if magnitude > 5 {
        let _ = write!(to, "{value:.*e}", (digits - 1) as usize);
        let exponent = to[start..].find('e').map(|at| to.split_off(start + at));
        trim(to, start);
        to.push_str(&exponent.unwrap_or_default());
    } else if decimals > 0 {
        let _ = write!(to, "{value:.*}", decimals.min(6) as usize);
        trim(to, start);
    } else {
        let unit = 10f64.powi(-decimals);
        let _ = write!(to, "{}", (value / unit).round() * unit);
    }
}

/// Removes zeros behind the point.
fn trim(to: &mut String, start: usize) {
    if to[start..].contains('.') {
        let length = to.trim_end_matches('0').trim_end_matches('.').len();
        to.truncate(length.max(start));
    }
}

/// Writes numbers with commas between them.
pub(super) fn numbers(to: &mut String, values: &[f32], digits: i32) {
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            to.push(',');
        }
        number(to, *value, digits);
    }
}

/// Returns a text in quotes.
pub(super) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, digits, expected) in [
            (0.0, 4, "0"),
            (f32::NAN, 4, "null"),
            (1.0, 4, "1"),
            (12.3456, 4, "12.35"),
            (0.012_345, 3, "0.0123"),
            (0.000_000_1, 3, "0"),
            (123_456.0, 3, "123000"),
            (999_999.0, 3, "1000000"),
            (1_234_567.0, 3, "1.23e6"),
            (5e9, 4, "5e9"),
            (1000.0, 4, "1000"),
            (100.0, 4, "100"),
        ] {
            let mut written = String::new();
            number(&mut written, value, digits);
            assert_eq!(written, expected, "{value}");
            let read: Option<f64> = serde_json::from_str(&written).unwrap();
            assert!(
                read.is_none() || (read.unwrap() - f64::from(value)).abs() <= f64::from(value) / 100.0 + 1e-6
            );
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("a\"\n<\u{1}"), r#""a\"\n<\u0001""#);
    }
}
