//! Dates and spans of time, for people.

use std::time::SystemTime;

const SECONDS_PER_DAY: u64 = 86_400;

/// Now, as `2026-11-22 01:02 UTC`.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date.
fn utc(seconds: u64) -> String {
    let (mut days, rest) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let lengths = [31, days_of(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hours, minutes) = (rest / 3600, rest / 60 % 60);
    format!("{year}-{:02}-{:02} {hours:02}:{minutes:02} UTC", month + 1, days + 1)
}

const fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

/// A span of time: `7 s`, `3 min 20 s`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0 if seconds > 0.05 => format!("{seconds:.1} s"),
        0..60 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn spans_have_the_unit_that_fits() {
        for (seconds, text) in [(0.0, "0 s"), (0.3, "0.3 s"), (7.4, "7 s"), (200.0, "3 min 20 s")] {
            assert_eq!(span(seconds), text);
        }
    }
}
