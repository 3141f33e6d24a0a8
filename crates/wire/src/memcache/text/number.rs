//! Parses numbers like memcached. It reads flags and expiries of stores with strtoull and strtol,
//! which accept a plus sign. It reads all others with its own parser, which refuses a plus sign and
//! takes a minus sign alone for zero.

/// Parses an unsigned 64-bit number: only digits.
#[inline]
pub(super) fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

/// Parses an unsigned 64-bit number that may begin with `+`.
#[inline]
pub(super) fn unsigned_loose(word: &[u8]) -> Option<u64> {
    unsigned(word.strip_prefix(b"+".as_slice()).unwrap_or(word))
}

/// Parses a signed 32-bit number, the form of memcached's lengths and delays.
#[inline]
pub(super) fn signed(word: &[u8]) -> Option<i32> {
    i32::try_from(signed_64(word)?).ok()
}

/// Parses an expiry: a number of 32 bits, signed, or a date after 2038.
#[inline]
pub(super) fn exptime(word: &[u8]) -> Option<i64> {
    signed_64(word).filter(|number| (i32::MIN.into()..=u32::MAX.into()).contains(number))
}

#[inline]
fn signed_64(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-".as_slice()) {
        Some(b"") => Some(0),
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// Parses a signed 64-bit number that may begin with `+`.
#[inline]
pub(super) fn signed_64_loose(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-".as_slice()) {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned_loose(word)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_std_reads_them(text in "[+-]?[0-9]{0,21}[a ]?") {
            let (bytes, plus) = (text.as_bytes(), text.starts_with('+'));
            let number = text.parse::<u64>().ok();
            prop_assert_eq!(unsigned(bytes), number.filter(|_| !plus));
            prop_assert_eq!(unsigned_loose(bytes), number);
            let short = if text == "-" { Some(0) } else { text.parse::<i32>().ok() };
            prop_assert_eq!(signed(bytes), short.filter(|_| !plus));
            let date = text.parse::<u32>().ok().map(i64::from);
            prop_assert_eq!(exptime(bytes), short.map(i64::from).or(date).filter(|_| !plus));
            prop_assert_eq!(signed_64_loose(bytes), text.parse::<i64>().ok());
        }
    }
}
