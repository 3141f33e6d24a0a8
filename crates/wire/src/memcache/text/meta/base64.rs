//! Base64 (RFC 4648, with padding) of keys, into the caller's buffer.

use super::super::KEY_BYTES_MAX;

/// Longest key that fits a key word as base64.
pub const DECODED_BYTES_MAX: usize = KEY_BYTES_MAX / 4 * 3;
/// Longest base64 of a key.
pub const ENCODED_BYTES_MAX: usize = DECODED_BYTES_MAX.div_ceil(3) * 4;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const NONE: u8 = 0xff;
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < LETTERS.len() {
        values[LETTERS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Decodes base64. Returns `None` for empty or malformed text, and for text too long for `out`.
pub fn decode<'o>(text: &[u8], out: &'o mut [u8]) -> Option<&'o [u8]> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if text.is_empty() || !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let bytes = text.len() / 4 * 3 - padding;
    let out = out.get_mut(..bytes)?;
    let letters = &text[..text.len() - padding];
    for (group, target) in letters.chunks(4).zip(out.chunks_mut(3)) {
        let mut bits = 0u32;
        for (at, letter) in group.iter().enumerate() {
            let value = VALUES[usize::from(*letter)];
            if value == NONE {
                return None;
            }
            bits |= u32::from(value) << (26 - 6 * at);
        }
        target.copy_from_slice(&bits.to_be_bytes()[..target.len()]);
    }
    Some(out)
}

/// Encodes `bytes`; returns the length. `out` must have room.
pub fn encode(bytes: &[u8], out: &mut [u8]) -> usize {
    let mut at = 0;
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(word);
        for letter in 0..4 {
            out[at + letter] =
                if letter <= group.len() { LETTERS[(bits >> (26 - 6 * letter)) as usize & 63] } else { b'=' };
        }
        at += 4;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes bit by bit.
    fn naive(bytes: &[u8]) -> String {
        let mut bits: Vec<bool> =
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
        bits.resize(bits.len().div_ceil(6) * 6, false);
        let letter = |six: &[bool]| {
            let value = six.iter().fold(0, |value, bit| value * 2 + usize::from(*bit));
            char::from(LETTERS[value])
        };
        let mut text: String = bits.chunks(6).map(letter).collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(bytes in prop::collection::vec(any::<u8>(), 1..=DECODED_BYTES_MAX)) {
            let mut text = [0; ENCODED_BYTES_MAX];
            let end = encode(&bytes, &mut text);
            prop_assert_eq!(std::str::from_utf8(&text[..end]).unwrap(), naive(&bytes));
            let mut back = [0; DECODED_BYTES_MAX];
            prop_assert_eq!(decode(&text[..end], &mut back), Some(bytes.as_slice()));
            prop_assert_eq!(decode(&text[..end], &mut back[..bytes.len() - 1]), None);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[A-Za-z0-9+/=]{0,20}|[ -~]{0,20}") {
            let mut out = [0; 32];
            if let Some(bytes) = decode(text.as_bytes(), &mut out) {
                // The unused bits of the last letter are arbitrary.
                let expected = naive(bytes);
                let letters = expected.trim_end_matches('=').len();
                prop_assert_eq!(&text[..letters - 1], &expected[..letters - 1]);
                prop_assert_eq!(&text[letters..], &expected[letters..]);
            }
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["", "Zm9", "Zm8==", "=", "====", "Zm8=Zm8=", "Z-_v", "Zm9v$", "Zm9\n"] {
            assert_eq!(decode(text.as_bytes(), &mut [0; 32]), None, "{text}");
        }
    }
}
