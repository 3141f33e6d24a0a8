//! The first messages over the socket.
//!
//! ```text
//! client: magic (8) | version (8) | bytes of user (2) | bytes of password (2) | user | password
//! server: magic (8) | version (8) | status (1) | zeros (3) | partitions (4)
//!         with descriptors: header, notes, the stream for requests
//!         then, if the status is welcome, a zero byte for each `DESCRIPTORS_MAX` partitions or the rest of
//!         them, with their descriptors
//! ```
//!
//! Numbers are little-endian. The socket then stays open, without further bytes, as long as both live.

use crate::header::VERSION;

const MAGIC: [u8; 8] = *b"MICLOCAL";
/// Bytes of the fixed part of the client's message.
pub const REQUEST_BYTES: usize = 20;
/// The longest user and the longest password.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest message of a client.
pub const REQUEST_BYTES_MAX: usize = REQUEST_BYTES + 2 * NAME_BYTES_MAX;
/// Bytes of the server's first message.
pub const REPLY_BYTES: usize = 24;
/// Descriptors beside the server's first message: header, notes, the stream for requests.
pub const REPLY_DESCRIPTORS: usize = 3;
/// Descriptors of one message; the kernel allows 253.
pub const DESCRIPTORS_MAX: usize = 128;

/// The server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The descriptors follow.
    Welcome,
    /// User or password is missing or wrong.
    Login,
    /// The server has as many clients as it may have.
    Full,
    /// The server speaks another version, or has no descriptors left.
    Refused,
}

const ANSWERS: [Answer; 4] = [Answer::Welcome, Answer::Login, Answer::Full, Answer::Refused];

/// State of a client's message that arrives in pieces.
#[derive(Debug, PartialEq, Eq)]
pub enum Hello<'a> {
    /// The rest is missing.
    Incomplete,
    /// It is none.
    Bad,
    /// It has another version.
    OtherVersion,
    /// It is complete. The login is empty where there is none.
    Complete {
        /// The user.
        user: &'a [u8],
        /// The password.
        password: &'a [u8],
    },
}

/// Writes a client's message. Returns `None` if user or password is too long.
pub fn request(user: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    if user.len().max(password.len()) > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(REQUEST_BYTES_MAX);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((user.len() as u16).to_le_bytes());
    bytes.extend((password.len() as u16).to_le_bytes());
    bytes.extend(user);
    bytes.extend(password);
    Some(bytes)
}

/// Parses a client's message.
pub fn parse(bytes: &[u8]) -> Hello<'_> {
    let begins = MAGIC.iter().zip(bytes).all(|(magic, byte)| magic == byte);
    let Some((fixed, rest)) = bytes.split_first_chunk::<REQUEST_BYTES>().filter(|_| begins) else {
        return if begins { Hello::Incomplete } else { Hello::Bad };
    };
    let [version @ .., a, b, c, d] = fixed;
    if version[8..] != VERSION.to_le_bytes() {
        return Hello::OtherVersion;
    }
    let user_bytes = usize::from(u16::from_le_bytes([*a, *b]));
    let password_bytes = usize::from(u16::from_le_bytes([*c, *d]));
    if user_bytes.max(password_bytes) > NAME_BYTES_MAX || rest.len() > user_bytes + password_bytes {
        return Hello::Bad;
    }
    if rest.len() < user_bytes + password_bytes {
        return Hello::Incomplete;
    }
    let (user, password) = rest.split_at(user_bytes);
    Hello::Complete { user, password }
}

/// Writes the server's first message.
pub fn reply(answer: Answer, partitions: usize) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16] = answer as u8;
    bytes[20..].copy_from_slice(&(partitions as u32).to_le_bytes());
    bytes
}

/// Parses the server's first message: its answer and the number of partitions. `None`: it is none, or of
/// another version.
pub fn parse_reply(bytes: &[u8; REPLY_BYTES]) -> Option<(Answer, usize)> {
    let (head, rest) = bytes.split_at(16);
    let is_ours = head[..8] == MAGIC && head[8..] == VERSION.to_le_bytes();
    let answer = ANSWERS.get(usize::from(rest[0])).filter(|_| is_ours)?;
    let partitions = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]);
    Some((*answer, partitions as usize))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parsing_reverses_writing_at_every_cut() {
        let bytes = request(b"me", b"secret").unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Hello::Incomplete, "{cut}");
        }
        assert_eq!(parse(&bytes), Hello::Complete { user: b"me", password: b"secret" });
        assert_eq!(parse(&[&bytes[..], b"x"].concat()), Hello::Bad);
        assert_eq!(parse(b"get a\r\n"), Hello::Bad);
        assert_eq!(request(&[b'u'; 256], b""), None);
        for answer in ANSWERS {
            assert_eq!(parse_reply(&reply(answer, 70_000)), Some((answer, 70_000)));
        }
        assert_eq!(parse_reply(&[0; REPLY_BYTES]), None);
    }

    proptest! {
        /// Any bytes are parsed without a panic, and a complete message is in bounds.
        #[test]
        fn any_bytes_are_parsed(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), ours: bool) {
            let head = request(b"", b"").unwrap();
            if ours {
                bytes.splice(0..bytes.len().min(16), head[..16].iter().copied());
            }
            if let Hello::Complete { user, password } = parse(&bytes) {
                prop_assert_eq!(bytes.len(), REQUEST_BYTES + user.len() + password.len());
            }
        }
    }
}
