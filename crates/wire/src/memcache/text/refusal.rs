//! Lines that are no command, or not a complete one.

use super::tokens::Words;

pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const UNKNOWN: &str = "ERROR\r\n";

/// Why a line is refused, and how much of what follows belongs to it.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The reply, with its line end; empty if none is wanted.
    pub reply: &'static str,
    /// Bytes behind the line that belong to it.
    pub swallow_bytes: u64,
    /// Whether the connection is closed.
    pub close: bool,
}

impl Refusal {
    pub const fn of(reply: &'static str) -> Self {
        Self::with_body(reply, 0)
    }

    /// A line whose body comes all the same.
    pub const fn with_body(reply: &'static str, swallow_bytes: u64) -> Self {
        Self {
            reply,
            swallow_bytes,
            close: false,
        }
    }

    /// A line whose first word is no command.
    ///
    /// The first line of an HTTP request ends with its version. Browsers send such requests for any
    /// web page to any address, with a body of the page's choice: nothing behind that line may be
    /// executed, so the connection is closed without a reply, as by memcached.
    #[cold]
    pub fn unknown(line: &[u8]) -> Self {
        if is_http(line) {
            Self {
                close: true,
                ..Self::of("")
            }
        } else {
            Self::of(UNKNOWN)
        }
    }

    /// `noreply` silences it.
    pub const fn silent(self, noreply: bool) -> Self {
        if noreply {
            Self { reply: "", ..self }
        } else {
            self
        }
    }
}

impl From<&'static str> for Refusal {
    fn from(reply: &'static str) -> Self {
        Self::of(reply)
    }
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Whether a line could be the first one of an HTTP request: its last word begins with `HTTP/`.
pub(super) fn is_http(line: &[u8]) -> bool {
    Words::of(line)
        .last()
        .is_some_and(|word| word.starts_with(b"HTTP/"))
}
