//! An HTTP request, as far as it matters here: method, path, host.

use std::net::IpAddr;

/// Header lines of a request, at most.
const HEADERS_MAX: usize = 64;

/// A request, or the reason to refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// GET, or HEAD, which gets no body.
    Read { path: &'a str, is_head: bool, host: Option<&'a str> },
    /// Another method.
    OtherMethod,
    /// More header lines than are read.
    TooLong,
    /// No HTTP/1 request.
    Bad,
}

impl<'a> Request<'a> {
    /// The request at the start of these bytes, once its headers are there completely, or as
    /// soon as it cannot become one.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Partial) => return None,
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Some(Self::TooLong),
            Err(_) => return Some(Self::Bad),
        }
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Some(Self::Bad);
        };
        if !target.starts_with('/') {
            return Some(Self::Bad);
        }
        let is_host = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("host");
        let host = request.headers.iter().find(is_host);
        Some(match method {
            "GET" | "HEAD" => Self::Read {
                path: target.split(['?', '#']).next().unwrap_or(target),
                is_head: method == "HEAD",
                host: host.map(|header| std::str::from_utf8(header.value).unwrap_or_default()),
            },
            _ => Self::OtherMethod,
        })
    }
}

/// Returns whether a `Host` names this machine without a name service. A foreign page whose name resolves to
/// this machine (DNS rebinding) sends its own name.
pub(super) fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || literal.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(path: &'a str, is_head: bool, host: Option<&'a str>) -> Option<Request<'a>> {
        Some(Request::Read { path, is_head, host })
    }

    #[test]
    fn requests_are_taken_when_they_are_complete() {
        assert_eq!(Request::parse(b""), None);
        assert_eq!(Request::parse(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
        let whole = b"GET /metrics?a=b HTTP/1.1\r\nhost: a:1\r\n\r\n";
        assert_eq!(Request::parse(whole), read("/metrics", false, Some("a:1")));
        assert_eq!(Request::parse(b"HEAD /a HTTP/1.0\n\n"), read("/a", true, None));
    }

    #[test]
    fn malformed_requests_are_refused() {
        for bad in [
            &b"GET metrics HTTP/1.1\r\n\r\n"[..],
            b"GET / HTTP/2.0\r\n\r\n",
            b"G\xffT / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"* HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Request::parse(bad), Some(Request::Bad), "{bad:?}");
        }
        let post = b"POST / HTTP/1.1\r\n\r\n";
        assert_eq!(Request::parse(post), Some(Request::OtherMethod));
        let mut long = b"GET / HTTP/1.1\r\n".to_vec();
        long.extend(b"a: b\r\n".repeat(HEADERS_MAX + 1));
        long.extend(b"\r\n");
        assert_eq!(Request::parse(&long), Some(Request::TooLong));
    }

    #[test]
    fn names_of_this_machine() {
        for local in ["localhost:9311", "127.0.0.1", "127.0.0.1:1", "[::1]:9311", "[::1]"] {
            assert!(is_local_name(local), "{local}");
        }
        for other in ["evil.example", "evil.example:9311", "", "localhost.evil.example"] {
            assert!(!is_local_name(other), "{other}");
        }
    }
}
