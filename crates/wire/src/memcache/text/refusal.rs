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
    ///
    /// The first line of an HTTP request ends with its version. Browsers send such requests for any
    /// web page to any address, with a body that the page chooses. Nothing after that line may be
    /// executed, so the connection closes without a reply, like in memcached.
    #[cold]
    pub fn unknown(line: &[u8]) -> Self {
        if is_http(line) { Self { close: true, ..Self::of("") } } else { Self::of(UNKNOWN) }
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

/// Returns whether a line could begin an HTTP request: its last word begins with `HTTP/`.
pub(super) fn is_http(line: &[u8]) -> bool {
    Words::of(line).last().is_some_and(|word| word.starts_with(b"HTTP/"))
}
