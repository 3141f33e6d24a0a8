//! Requests that a client may send before it is authenticated: SASL, and version.
//!
//! ```text
//! 0x20 list mechanisms    0x21 authenticate    0x22 continue
//! the key is the mechanism, the value is the mechanism's response
//! ```

use super::parser::Header;
use super::{HEADER_BYTES, Head, REQUEST_MAGIC};

/// Longest name of a mechanism, as in memcached.
pub const MECHANISM_BYTES_MAX: usize = 32;
/// Longest response of a client.
pub const RESPONSE_BYTES_MAX: usize = 8192;

/// Result of parsing the start of an unauthenticated client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslStep<'a> {
    /// More bytes are needed.
    Incomplete,
    /// The input is no request.
    BadMagic,
    /// Lists the mechanisms. The request is one header.
    List(Head),
    /// Asks for the version. The request is one header.
    Version(Head),
    /// An authentication attempt.
    Try {
        head: Head,
        mechanism: &'a [u8],
        response: &'a [u8],
        /// The request continues an earlier one.
        continues: bool,
        /// Length of the request.
        bytes: usize,
    },
    /// The mechanism or the response exceeds its limit.
    TooLong(Head),
    /// Any other request.
    Other(Head),
}

/// Parses the start of `input`.
pub fn sasl_step(input: &[u8]) -> SaslStep<'_> {
    if input.first().is_some_and(|first| *first != REQUEST_MAGIC) {
        return SaslStep::BadMagic;
    }
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return SaslStep::Incomplete;
    };
    let header = Header::of(header);
    let head = header.head;
    let body_bytes = header.body_bytes as usize;
    match head.opcode {
        0x20 if header.is_bare() => SaslStep::List(head),
        0x0b if header.is_bare() => SaslStep::Version(head),
        0x21 | 0x22 if header.extras_bytes == 0 && header.key_bytes <= body_bytes => {
            let most = header.key_bytes + RESPONSE_BYTES_MAX;
            if header.key_bytes > MECHANISM_BYTES_MAX || body_bytes > most {
                return SaslStep::TooLong(head);
            }
            let Some(body) = rest.get(..body_bytes) else {
                return SaslStep::Incomplete;
            };
            let (mechanism, response) = body.split_at(header.key_bytes);
            SaslStep::Try {
                head,
                mechanism,
                response,
                continues: head.opcode == 0x22,
                bytes: HEADER_BYTES + body_bytes,
            }
        }
        _ => SaslStep::Other(head),
    }
}

/// Splits a PLAIN response into user and password: `[identity] NUL user NUL password`. Refuses an
/// identity that differs from the user.
pub fn plain(response: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let (identity, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    (identity.is_empty() || identity == user).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![REQUEST_MAGIC, opcode];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend_from_slice(b"mark");
        bytes.extend_from_slice(&[0; 8]);
        [bytes.as_slice(), key, value].concat()
    }

    #[test]
    fn requests_before_authentication() {
        let head = |opcode| Head { opcode, opaque: *b"mark" };
        let list = request(0x20, b"", b"");
        assert_eq!(sasl_step(&list), SaslStep::List(head(0x20)));
        let version = request(0x0b, b"", b"");
        assert_eq!(sasl_step(&version), SaslStep::Version(head(0x0b)));
        let attempt = request(0x21, b"PLAIN", b"\0a\0b");
        let wanted = SaslStep::Try {
            head: head(0x21),
            mechanism: b"PLAIN",
            response: b"\0a\0b",
            continues: false,
            bytes: attempt.len(),
        };
        assert_eq!(sasl_step(&[attempt.as_slice(), b"more"].concat()), wanted);
        for cut in 1..attempt.len() {
            assert_eq!(sasl_step(&attempt[..cut]), SaslStep::Incomplete);
        }
        for (opcode, key) in [(0x00, &b"key"[..]), (0x10, b""), (0x20, b"x"), (0x99, b"")] {
            let other = request(opcode, key, b"");
            assert_eq!(sasl_step(&other), SaslStep::Other(head(opcode)));
        }
        let long = request(0x21, &[b'x'; 33], b"");
        assert_eq!(sasl_step(&long), SaslStep::TooLong(head(0x21)));
        let long = request(0x22, b"PLAIN", &[0; RESPONSE_BYTES_MAX + 1]);
        assert_eq!(sasl_step(&long[..30]), SaslStep::TooLong(head(0x22)));
        assert_eq!(sasl_step(b"get a"), SaslStep::BadMagic);
    }

    #[test]
    fn plain_responses() {
        assert_eq!(plain(b"\0user\0pass"), Some((&b"user"[..], &b"pass"[..])));
        assert_eq!(plain(b"user\0user\0pa\0ss"), Some((&b"user"[..], &b"pa\0ss"[..])));
        assert_eq!(plain(b"other\0user\0pass"), None);
        assert_eq!(plain(b"user\0pass"), None);
        assert_eq!(plain(b""), None);
    }
}
