//! Prefixes of keys: applications name what a key is for at its beginning, before a delimiter.

use memchr::memchr;

/// The delimiter that applications use if nothing else is said.
pub const DELIMITER: u8 = b':';

/// Returns the part of a key before its first delimiter; none if there is no delimiter, or nothing before
/// it.
pub fn prefix_of(key: &[u8], delimiter: u8) -> Option<&[u8]> {
    memchr(delimiter, key).filter(|at| *at > 0).map(|at| &key[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_before_the_first_delimiter() {
        assert_eq!(prefix_of(b"user:7:name", b':'), Some(&b"user"[..]));
        assert_eq!(prefix_of(b"user:7", b'/'), None);
        assert_eq!(prefix_of(b":7", b':'), None);
        assert_eq!(prefix_of(b"", b':'), None);
    }
}
