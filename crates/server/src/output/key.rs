//! Keys in lines of text.

/// Returns whether a key can stand in a line as it is. A key that came as base64, or in the binary
/// protocol, may be any bytes.
pub(crate) fn is_word(key: &[u8]) -> bool {
    !key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
}

/// Writes a key as in a URI: letters, digits, `-._~` as they are, other bytes as `%XX`. Returns its length.
pub(crate) fn encode_key(key: &[u8], out: &mut [u8]) -> usize {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut at = 0;
    for byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out[at] = *byte;
            at += 1;
        } else {
            out[at] = b'%';
            out[at + 1] = HEX[usize::from(byte >> 4)];
            out[at + 2] = HEX[usize::from(byte & 15)];
            at += 3;
        }
    }
    at
}
