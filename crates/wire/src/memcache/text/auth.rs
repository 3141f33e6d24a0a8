//! memcached's authentication in the text protocol: a `set` whose value holds user and password.
//!
//! ```text
//! set <any key> <any> <any> <bytes>\r\n<user> <password>\r\n
//! ```
//!
//! Replies match memcached 1.6.45, with two exceptions. memcached loses the reply to a line when
//! more input follows it, and it keeps reading after the first line of an HTTP request.

use super::number::unsigned_loose;
use super::refusal::is_foreign;
use super::reply;

/// Longest line without an end. A longer one closes the connection.
const LINE_BYTES_MAX: usize = 2048;
/// Shortest line, with its end. A shorter one closes the connection: no authentication is so short.
const LINE_BYTES_MIN: usize = 7;
/// Longest value of the `set`.
pub const TOKEN_BYTES_MAX: usize = 8192;

/// Result of parsing the start of an unauthenticated client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAuth<'a> {
    /// More bytes are needed.
    Incomplete,
    /// Close the connection without a reply.
    Close,
    /// The input gets an error reply.
    Refused {
        reply: &'static [u8],
        /// Length of the refused input.
        bytes: usize,
    },
    /// An authentication attempt.
    Try {
        user: &'a [u8],
        password: &'a [u8],
        /// Length of the attempt.
        bytes: usize,
    },
}

/// Parses the start of `input`.
pub fn text_auth(input: &[u8]) -> TextAuth<'_> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return match input.len() {
            ..=LINE_BYTES_MAX => TextAuth::Incomplete,
            _ => TextAuth::Close,
        };
    };
    let line_bytes = end + 1;
    if !(LINE_BYTES_MIN..=LINE_BYTES_MAX).contains(&line_bytes) {
        return TextAuth::Close;
    }
    let refused = |reply, bytes| TextAuth::Refused { reply, bytes };
    let token_bytes = match announced(&input[..line_bytes]) {
        // A web page must not try passwords from its reader's machine.
        None if is_foreign(input[..end].trim_ascii_end()) => return TextAuth::Close,
        None => return refused(reply::UNAUTHENTICATED, line_bytes),
        Some(bytes) if bytes > TOKEN_BYTES_MAX => {
            return refused(reply::AUTH_TOO_LONG, line_bytes);
        }
        Some(bytes) => bytes,
    };
    let bytes = line_bytes + token_bytes + 2;
    let Some(body) = input.get(line_bytes..bytes) else {
        return TextAuth::Incomplete;
    };
    let (token, line_end) = body.split_at(token_bytes);
    if line_end != b"\r\n" {
        return refused(reply::BAD_TERMINATION, bytes);
    }
    match token.iter().position(|byte| *byte == b' ') {
        None => refused(reply::AUTH_FORMAT, bytes),
        Some(space) => TextAuth::Try { user: &token[..space], password: &token[space + 1..], bytes },
    }
}

/// Returns the length that a `set` announces.
fn announced(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\r\n")?;
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    // memcached accepts any verb that begins with `set`.
    words.next().filter(|verb| verb.starts_with(b"set"))?;
    let bytes = u32::try_from(unsigned_loose(words.nth(3)?)?).ok()?;
    Some(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(input: &[u8]) -> String {
        match text_auth(input) {
            TextAuth::Incomplete => "incomplete".into(),
            TextAuth::Close => "close".into(),
            TextAuth::Refused { reply, bytes } => {
                format!("{} {bytes}", reply.trim_ascii_end().escape_ascii())
            }
            TextAuth::Try { user, password, bytes } => {
                let (user, password) = (user.escape_ascii(), password.escape_ascii());
                format!("{user}, {password}, {bytes}")
            }
        }
    }

    /// Each pair was measured with memcached 1.6.45.
    #[test]
    fn replies_match_memcached() {
        for (input, expected) in [
            (&b"set x 0 0 12\r\nalice secret\r\n"[..], "alice, secret, 28"),
            (b"set x 0 0 12 noreply\r\nalice secret\r\n", "alice, secret, 36"),
            (b"set x z z 12\r\nalice secret\r\nget x", "alice, secret, 28"),
            (b"sett x 0 0 12\r\nalice secret\r\n", "alice, secret, 29"),
            (b"set  x 0 0 12\r\nalice secret\r\n", "alice, secret, 29"),
            (b"set x 0 0 13\r\nbob pass word\r\n", "bob, pass word, 29"),
            (b"set x 0 0 14\r\nalice  secret \r\n", "alice,  secret , 30"),
            (b"set x 0 0 6\r\nalice \r\n", "alice, , 21"),
            (b"set x 0 0 12\r\nalice:secret\r\n", "CLIENT_ERROR bad authentication token format 28"),
            (b"set x 0 0 0\r\n\r\n", "CLIENT_ERROR bad authentication token format 15"),
            (b"set x 0 0 12\r\nalice secretXX", "CLIENT_ERROR bad command line termination 28"),
            (b"set x 0 0 65535\r\n", "CLIENT_ERROR auth token too long 17"),
            (b"set x 0 0 4294967296\r\n", "CLIENT_ERROR unauthenticated 22"),
            (b"set x 0 0 -1\r\n", "CLIENT_ERROR unauthenticated 14"),
            (b"set x 0 0 12x\r\n", "CLIENT_ERROR unauthenticated 15"),
            (b"set x 0 0 12\nalice secret\r\n", "CLIENT_ERROR unauthenticated 13"),
            (b"add x 0 0 12\r\nalice secret\r\n", "CLIENT_ERROR unauthenticated 14"),
            (b"SET x 0 0 12\r\n", "CLIENT_ERROR unauthenticated 14"),
            (b"get x\r\n", "CLIENT_ERROR unauthenticated 7"),
            (b"version\r\n", "CLIENT_ERROR unauthenticated 9"),
            (b"mg x v\r\n", "CLIENT_ERROR unauthenticated 8"),
            (b"mn\r\n", "close"),
            (b"version HTTP\r\n", "CLIENT_ERROR unauthenticated 14"),
            (b"quit\r\n", "close"),
            (b"set x 0 0 12\r\nalice secret\r", "incomplete"),
            (b"set x", "incomplete"),
            (b"", "incomplete"),
        ] {
            assert_eq!(described(input), expected, "{}", input.escape_ascii());
        }
        assert_eq!(described(&[b'x'; LINE_BYTES_MAX + 1]), "close");
    }
}
