//! A reply of HTTP.

use std::fmt::Write;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const OK: &str = "200 OK";
pub(super) const UNAVAILABLE: &str = "503 Service Unavailable";

/// A page loads what is served here and nothing else, and stands in no other page's frame.
const POLICY: &str = "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub(super) struct Reply {
    status: &'static str,
    r#type: &'static str,
    /// Further header lines.
    headers: String,
    body: String,
    is_head: bool,
}

impl Reply {
    pub fn new(status: &'static str, r#type: &'static str, body: impl Into<String>) -> Self {
        Self { status, r#type, headers: String::new(), body: body.into(), is_head: false }
    }

    /// A sentence.
    pub fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self::new(status, TEXT, body.into() + "\n")
    }

    /// Adds a header line.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        // Writing to a String cannot fail.
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// Leaves the body out if the request was HEAD.
    pub fn for_head(self, is_head: bool) -> Self {
        Self { is_head, ..self }
    }

    /// Returns the bytes to send.
    pub fn into_bytes(self) -> Vec<u8> {
        let body = if self.is_head { "" } else { &self.body };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {POLICY}\r\n\
             Connection: close\r\n\r\n{body}",
            self.status,
            self.r#type,
            self.body.len(),
            self.headers,
        )
        .into_bytes()
    }
}
