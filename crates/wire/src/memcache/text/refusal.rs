//! Refused lines.

use super::tokens::Words;

pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const UNKNOWN: &str = "ERROR\r\n";

/// Error reply to a line, and how many bytes belong to the line.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Reply with its line end; empty if the client wants none.
    pub reply: &'static str,
    /// Bytes after the line that belong to it.
    pub swallow_bytes: u64,
    pub close: bool,
}

impl Refusal {
    pub const fn of(reply: &'static str) -> Self {
        Self::with_body(reply, 0)
    }

    /// Refuses a line whose body follows anyway.
    pub const fn with_body(reply: &'static str, swallow_bytes: u64) -> Self {
        Self { reply, swallow_bytes, close: false }
    }

    /// Refuses a line whose first word is no command.
    #[cold]
    pub fn unknown(line: &[u8]) -> Self {
        Self::of_line(line, UNKNOWN)
    }

    /// Refuses a line that is shorter than any command.
    #[cold]
    pub fn short(line: &[u8]) -> Self {
        Self::of_line(line, BAD_FORMAT)
    }

    /// Closes the connection without a reply if the line is another protocol's.
    fn of_line(line: &[u8], reply: &'static str) -> Self {
        if is_foreign(line) { Self { close: true, ..Self::of("") } } else { Self::of(reply) }
    }

    /// Drops the reply if `noreply` is set.
    pub const fn silent(self, noreply: bool) -> Self {
        if noreply { Self { reply: "", ..self } } else { self }
    }
}

impl From<&'static str> for Refusal {
    fn from(reply: &'static str) -> Self {
        Self::of(reply)
    }
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Returns whether a line is another protocol's, behind which bytes follow that somebody else than a client
/// of memcached has chosen. None of them may be executed.
///
/// | line | protocol |
/// |---|---|
/// | its last word begins with `HTTP/` | HTTP/1, HTTP/2 and with it gRPC: a web page chooses the body |
/// | `PROXY ...` | PROXY protocol, version 1: its reply would be taken for that of the request behind it |
/// | begins with a zero byte | the same of version 2 (`\r\n\r\n\0\r\nQUIT\n`); STUN, which a page can cause |
/// | `CLIENT libcurl ...` | `dict://` URLs: the path becomes a command |
pub(super) fn is_foreign(line: &[u8]) -> bool {
    Words::of(line).last().is_some_and(|word| word.starts_with(b"HTTP/"))
        || line.starts_with(b"PROXY ")
        || line.starts_with(b"CLIENT libcurl ")
        || line.first() == Some(&0)
}
