//! An HTTP request, as far as it matters here: method, path, some headers, and the body of a POST.

use super::http::REQUEST_BYTES_MAX;

/// Header lines of a request, at most.
const HEADERS_MAX: usize = 64;
/// Paths that take a POST.
const POSTS: [&str; 3] = ["/login", "/logout", "/control"];

/// A request, or the reason to refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// GET, or HEAD, which gets no body.
    Read { path: &'a str, query: &'a str, is_head: bool, headers: Headers<'a> },
    /// POST to one of [`POSTS`].
    Post { path: &'a str, headers: Headers<'a>, body: &'a [u8] },
    /// Another method than those of the path.
    OtherMethod { allowed: &'static str },
    /// More header lines, or a longer head, than is read.
    HeadTooLong,
    /// A longer body than is read.
    BodyTooLong,
    /// No HTTP/1 request.
    Bad,
}

/// Values of headers; one that is no text is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Headers<'a> {
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub cookie: Option<&'a str>,
    /// Token against requests that another site's page makes.
    pub token: Option<&'a str>,
}

impl<'a> Headers<'a> {
    fn of(headers: &[httparse::Header<'a>]) -> Self {
        let value = |name: &str| {
            let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| std::str::from_utf8(header.value).unwrap_or_default())
        };
        Self {
            host: value("host"),
            origin: value("origin"),
            cookie: value("cookie"),
            token: value("x-micanite-token"),
        }
    }
}

impl<'a> Request<'a> {
    /// The request at the start of these bytes, once it is there completely, or as soon as it cannot become
    /// one.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let head_bytes = match request.parse(bytes) {
            Ok(httparse::Status::Partial) => return None,
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Err(httparse::Error::TooManyHeaders) => return Some(Self::HeadTooLong),
            Err(_) => return Some(Self::Bad),
        };
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Some(Self::Bad);
        };
        if !target.starts_with('/') {
            return Some(Self::Bad);
        }
        let target = target.split('#').next().unwrap_or(target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let kept = Headers::of(request.headers);
        let takes_posts = POSTS.contains(&path);
        match method {
            "GET" | "HEAD" if !takes_posts => {
                Some(Self::Read { path, query, is_head: method == "HEAD", headers: kept })
            }
            "POST" if takes_posts => match body(request.headers, bytes, head_bytes) {
                Ok(body) => body.map(|body| Self::Post { path, headers: kept, body }),
                Err(refused) => Some(refused),
            },
            _ if takes_posts => Some(Self::OtherMethod { allowed: "POST" }),
            _ => Some(Self::OtherMethod { allowed: "GET, HEAD" }),
        }
    }
}

/// Returns the body behind a head, `None` while it is not complete.
fn body<'a>(
    headers: &[httparse::Header<'_>],
    bytes: &'a [u8],
    head_bytes: usize,
) -> Result<Option<&'a [u8]>, Request<'a>> {
    let is = |header: &&httparse::Header<'_>, name| header.name.eq_ignore_ascii_case(name);
    let mut lengths = headers.iter().filter(|header| is(header, "content-length"));
    let (Some(length), None) = (lengths.next(), lengths.next()) else {
        return Err(Request::Bad);
    };
    if headers.iter().any(|header| is(&header, "transfer-encoding")) {
        return Err(Request::Bad);
    }
    let text = std::str::from_utf8(length.value).unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<usize>() {
        Ok(length) if head_bytes.saturating_add(length) <= REQUEST_BYTES_MAX => {
            Ok(bytes.get(head_bytes..head_bytes + length))
        }
        _ if is_number => Err(Request::BodyTooLong),
        _ => Err(Request::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(path: &'a str, query: &'a str, is_head: bool, host: Option<&'a str>) -> Option<Request<'a>> {
        Some(Request::Read { path, query, is_head, headers: Headers { host, ..Headers::default() } })
    }

    #[test]
    fn requests_are_taken_when_they_are_complete() {
        assert_eq!(Request::parse(b""), None);
        assert_eq!(Request::parse(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
        let whole = b"GET /metrics?a=b HTTP/1.1\r\nhost: a:1\r\n\r\n";
        assert_eq!(Request::parse(whole), read("/metrics", "a=b", false, Some("a:1")));
        assert_eq!(Request::parse(b"HEAD /a HTTP/1.0\n\n"), read("/a", "", true, None));
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
        assert_eq!(Request::parse(post), Some(Request::OtherMethod { allowed: "GET, HEAD" }));
        for method in ["PUT", "GET", "HEAD"] {
            let login = format!("{method} /login HTTP/1.1\r\n\r\n");
            let expected = Some(Request::OtherMethod { allowed: "POST" });
            assert_eq!(Request::parse(login.as_bytes()), expected, "{method}");
        }
        let mut long = b"GET / HTTP/1.1\r\n".to_vec();
        long.extend(b"a: b\r\n".repeat(HEADERS_MAX + 1));
        long.extend(b"\r\n");
        assert_eq!(Request::parse(&long), Some(Request::HeadTooLong));
    }

    #[test]
    fn a_body_is_waited_for_where_one_is_taken() {
        let head = "POST /login HTTP/1.1\r\nOrigin: o\r\nCookie: c\r\nX-Micanite-Token: t\r\n";
        let whole = format!("{head}Content-Length: 3\r\n\r\nabcd");
        let headers = Headers { host: None, origin: Some("o"), cookie: Some("c"), token: Some("t") };
        let expected = Request::Post { path: "/login", headers, body: b"abc" };
        assert_eq!(Request::parse(whole.as_bytes()), Some(expected));
        assert_eq!(Request::parse(&whole.as_bytes()[..whole.len() - 2]), None);
        for (lines, expected) in [
            ("", Request::Bad),
            ("Content-Length: 1\r\nContent-Length: 1\r\n", Request::Bad),
            ("Content-Length: -1\r\n", Request::Bad),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Request::Bad),
            ("Content-Length: 9000\r\n", Request::BodyTooLong),
            ("Content-Length: 99999999999999999999999\r\n", Request::BodyTooLong),
        ] {
            let bytes = format!("{head}{lines}\r\n");
            assert_eq!(Request::parse(bytes.as_bytes()), Some(expected), "{lines}");
        }
    }
}
