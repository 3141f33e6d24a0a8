//! Numbers as memcached reads them (strtoull and strtol, then the end of the word).

/// An unsigned 64-bit number; a leading `+` is fine, anything else is not.
#[inline]
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+".as_slice()).unwrap_or(word);
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

/// A signed 32-bit number, as memcached's expiries and lengths are.
#[inline]
pub(super) fn signed(word: &[u8]) -> Option<i32> {
    i32::try_from(signed_64(word)?).ok()
}

/// A signed 64-bit number.
#[inline]
pub(super) fn signed_64(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-".as_slice()) {
        Some(digits) if digits.first().is_some_and(u8::is_ascii_digit) => {
            0i64.checked_sub_unsigned(unsigned(digits)?)
        }
        Some(_) => None,
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_std_reads_them(text in "[+-]?[0-9]{0,21}[a ]?") {
            let plain = text.parse::<u64>().ok();
            prop_assert_eq!(unsigned(text.as_bytes()), plain);
            prop_assert_eq!(signed(text.as_bytes()), text.parse::<i32>().ok());
            prop_assert_eq!(signed_64(text.as_bytes()), text.parse::<i64>().ok());
        }
    }
}
