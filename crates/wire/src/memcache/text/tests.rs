//! Parsing of lines and expiries.

use super::*;

/// Describes the step of a whole line, with its keys.
fn step(line: &str) -> String {
    match Parser::default().step(line.as_bytes(), false) {
        Step::Command { command, line_bytes } => {
            assert_eq!(line_bytes, line.len());
            match command {
                Command::Get { keys, cas } => {
                    let keys: Vec<_> = keys.map(String::from_utf8_lossy).collect();
                    format!("get {cas} {}", keys.join(","))
                }
                Command::Store { verb, key, flags, exptime, value_bytes, noreply } => {
                    let key = String::from_utf8_lossy(key);
                    format!("{verb:?} {key} {flags} {exptime} {value_bytes} {noreply}")
                }
                Command::FlushNamespace { name, noreply } => {
                    format!("namespace {} {noreply}", String::from_utf8_lossy(name))
                }
                Command::Delete { noreply, .. } => format!("delete {noreply}"),
                command => format!("{command:?}"),
            }
        }
        Step::Refused { reply, swallow_bytes: 0, .. } => reply.trim_end().to_owned(),
        Step::Refused { reply, swallow_bytes, .. } => {
            format!("{}, then {swallow_bytes} bytes", reply.trim_end())
        }
        Step::Incomplete => "incomplete".to_owned(),
    }
}

const BAD: &str = "CLIENT_ERROR bad command line format";

#[test]
fn lines_parse_like_memcached() {
    for (line, expected) in [
        ("get a\r\n", "get false a"),
        ("gets  a b  c \n", "get true a,b,c"),
        ("set k 5 -1 10 noreply\r\n", "Set k 5 -1 10 true"),
        ("set a 4294967296 0 1\r\n", "Set a 0 0 1 false"),
        ("cas k 0 0 1 77\r\n", "Cas(77) k 0 0 1 false"),
        ("delete a 0 noreply\r\n", "delete true"),
        ("delete a b\r\n", "delete false"),
        ("get a", "incomplete"),
        ("\r\n", BAD),
        ("get\r\n", BAD),
        ("delete\r\n", BAD),
        ("touch a\r\n", BAD),
        ("incr a\r\n", BAD),
        ("set a 0 0\r\n", BAD),
        ("set a 0 0 -1\r\n", BAD),
        ("set a 0 0 2147483646\r\n", BAD),
        ("set a -1 0 1\r\n", "CLIENT_ERROR bad command line format, then 3 bytes"),
        ("set a -1 0 1 noreply\r\n", ", then 3 bytes"),
        ("set a 0 0 x noreply\r\n", BAD),
        ("set a 0 4294967297 1\r\n", "Set a 0 4294967297 1 false"),
        ("x\r\n", BAD),
        ("xx\n", BAD),
        ("xx\r\n", "ERROR"),
        (" get a\r\n", "ERROR"),
        ("   \r\n", "ERROR"),
        ("cas a 0 0 1\r\n", "CLIENT_ERROR bad command line format, then 3 bytes"),
        ("gat 0\r\n", BAD),
        ("verbosity\r\n", BAD),
        ("mg\r\n", BAD),
        ("incr a x\r\n", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr a x noreply\r\n", ""),
        ("incr a noreply\r\n", ""),
        ("decr a noreply\r\n", ""),
        ("touch a noreply\r\n", ""),
        ("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument"),
        ("flush_namespace user\r\n", "namespace user false"),
        ("flush_namespace user noreply\r\n", "namespace user true"),
        ("flush_namespace noreply\r\n", "namespace noreply false"),
        ("flush_namespace\r\n", BAD),
        ("flush_namespace \r\n", BAD),
        ("bogus\r\n", "ERROR"),
        ("GET a\r\n", "ERROR"),
        ("watch foo\r\n", "Operator { operator: Watch, arguments: [102, 111, 111] }"),
        ("watched foo\r\n", "ERROR"),
    ] {
        assert_eq!(step(line), expected, "{line:?}");
    }
}

#[test]
fn keys_have_at_most_250_bytes() {
    let (longest, longer) = ("k".repeat(250), "k".repeat(251));
    assert_eq!(step(&format!("get {longest}\r\n")), format!("get false {longest}"));
    for line in
        [format!("get {longer}\r\n"), format!("delete {longer}\r\n"), format!("flush_namespace {longer}\r\n")]
    {
        assert_eq!(step(&line), BAD);
    }
    assert_eq!(step(&format!("set {longer} 0 0 1\r\n")), format!("{BAD}, then 3 bytes"));
}

#[test]
fn long_multigets_arrive_in_parts() {
    let line = format!("gets {}\r\n", (0..5000).map(|n| format!("key{n}")).collect::<Vec<_>>().join(" "));
    let mut parser = Parser::default();
    let (mut at, mut keys_seen, mut ended) = (0, 0, false);
    while !ended {
        let window = &line.as_bytes()[at..line.len().min(at + 1000)];
        match parser.step(window, window.len() == 1000) {
            Step::Command { command: Command::Get { keys, cas: true }, line_bytes } => {
                ended = keys.is_last();
                for key in keys {
                    assert_eq!(key, format!("key{keys_seen}").as_bytes());
                    keys_seen += 1;
                }
                at += line_bytes;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((keys_seen, at), (5000, line.len()));
}

/// Returns the parser's reaction to a line without an end.
fn without_end(input: &str, full: bool) -> &'static str {
    match Parser::default().step(input.as_bytes(), full) {
        Step::Incomplete => "waits",
        Step::Refused { reply: "", close: true, .. } => "closes",
        Step::Refused { close: true, .. } => "answers and closes",
        other => panic!("{other:?}"),
    }
}

#[test]
fn long_lines_without_an_end_close_without_a_reply() {
    let longest = "x".repeat(LINE_BYTES_MAX);
    assert_eq!(without_end(&longest, false), "waits");
    assert_eq!(without_end(&format!("{longest}x"), false), "closes");
    assert_eq!(without_end(&format!("mg {longest}"), false), "closes");
    for (spaces, expected) in [(1, "waits"), (100, "waits"), (101, "closes")] {
        let line = format!("{}get {}", " ".repeat(spaces), "key ".repeat(1000));
        assert_eq!(without_end(&line, false), expected, "{spaces} spaces");
        assert_eq!(without_end(&line, true), "closes", "{spaces} spaces");
    }
    let key_without_end = format!("get {}", "k".repeat(5000));
    assert_eq!(without_end(&key_without_end, true), "answers and closes");
}

#[test]
fn long_lines_with_their_end_are_lines_as_others() {
    let spaces = " ".repeat(2 * LINE_BYTES_MAX);
    assert_eq!(step(&format!("delete {spaces}k\r\n")), "delete false");
    assert_eq!(step(&format!("{}\r\n", "x".repeat(5000))), "ERROR");
}

#[test]
fn the_first_line_of_an_http_request_closes_without_a_reply() {
    for line in [
        "POST / HTTP/1.1\r\n",
        "POST / HTTP/1.1\n",
        "post / HTTP/1.1\r\n",
        "GET /path?a=b  HTTP/1.0 \r\n",
        " OPTIONS * HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "HTTP/1.1\r\n",
    ] {
        let refused = Parser::default().step(line.as_bytes(), false);
        assert!(
            matches!(
                refused,
                Step::Refused { reply: "", close: true, line_bytes, .. } if line_bytes == line.len()
            ),
            "{line:?}: {refused:?}"
        );
        assert_eq!(text_auth(line.as_bytes()), TextAuth::Close, "{line:?}");
    }
    for other in ["POST / HTTP /\r\n", "HTTP/1.1 200 OK\r\n", "post / http/1.1\r\n"] {
        assert_eq!(step(other), "ERROR", "{other:?}");
    }
    // These are valid keys.
    assert_eq!(step("get / HTTP/1.1\r\n"), "get false /,HTTP/1.1");
}

#[test]
fn expiries_are_relative_up_to_30_days() {
    assert_eq!(expiry(0, 1000), 0);
    assert_eq!(expiry(-1, 1000), 1);
    assert_eq!(expiry(i64::MIN, 1000), 1);
    assert_eq!(expiry(60, 1000), 1060);
    assert_eq!(expiry(2_592_000, 1000), 2_593_000);
    assert_eq!(expiry(2_592_001, 1000), 2_592_001);
    assert_eq!(expiry(1 << 31, 1000), 1 << 31);
    assert_eq!(expiry(i64::from(u32::MAX - 1), 1000), u32::MAX - 1);
    assert_eq!(expiry(i64::from(u32::MAX), 1000), 1);
    assert_eq!(expiry(1 << 32, 1000), 0);
    assert_eq!(expiry(i64::MAX, 1000), 0);
}
