//! Decimal numbers, as in memcached.
//!
//! A number that gets shorter keeps its length, padded with spaces; one that gets longer takes the
//! space that it needs. Values of more than 64 bytes are not numbers.

/// Longest value that can be a number, padding included.
pub(super) const NUMBER_BYTES_MAX: usize = 64;

/// Parses the number at the start of a value: white space, digits, then the end or white space.
pub(super) fn parse(value: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = value.iter().position(|byte| !is_space(byte))?;
    let value = &value[start..];
    let value = value.strip_prefix(b"+".as_slice()).unwrap_or(value);
    let digits = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    let ends = value.get(digits).is_none_or(is_space);
    if digits == 0 || !ends {
        return None;
    }
    value[..digits]
        .iter()
        .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Writes a number at the start of a buffer, with spaces behind it; returns the number of digits.
pub(super) fn format(number: u64, buffer: &mut [u8; NUMBER_BYTES_MAX]) -> usize {
    buffer.fill(b' ');
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for byte in buffer[..digits].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_and_read_as_std_does(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift;
            let mut buffer = [0; NUMBER_BYTES_MAX];
            let digits = format(number, &mut buffer);
            let expected = number.to_string();
            prop_assert_eq!(&buffer[..digits], expected.as_bytes());
            prop_assert_eq!(parse(&buffer), Some(number));
            prop_assert_eq!(parse(&buffer[..digits]), Some(number));
        }
    }

    #[test]
    fn a_text_that_is_not_a_number_is_refused() {
        for text in ["", " ", "x", "1x", "-1", "+", "18446744073709551616", "1.5"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"12 abc"), Some(12));
        assert_eq!(parse(b" +7"), Some(7));
    }
}
