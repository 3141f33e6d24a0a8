//! Conversations with clients that have to authenticate.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Session;
use crate::limits::{AUTH_FAILURE_FORGOTTEN_S, AUTH_FAILURES_OF_USER};
use crate::testing::{Bench, Script};

const LOGIN: &[u8] = b"set x 0 0 12\r\nalice secret\r\n";
const WRONG: &[u8] = b"set x 0 0 11\r\nalice wrong\r\n";
const REFUSED: &str = "CLIENT_ERROR unauthenticated\r\n";
const FAILED: &str = "CLIENT_ERROR authentication failure\r\n";

struct Server {
    bench: Bench,
    file: PathBuf,
}

impl Server {
    fn new(name: &str, options: &str) -> Self {
        let file = std::env::temp_dir().join(format!("micanite-{name}-{}", std::process::id()));
        std::fs::write(&file, "alice:secret\nbob:pass word\n").unwrap();
        let options = format!("auth-file = '{}'\n{options}", file.display());
        Self { bench: Bench::new(&options), file }
    }

    fn says(&mut self, source: Option<&str>, input: &[u8]) -> Vec<u8> {
        let source: Option<IpAddr> = source.map(|text| text.parse().unwrap());
        let mut whole = Script::of([input.to_vec()]);
        whole.ends = true;
        self.bench.replies_in(Session::guarded(source), whole)
    }

    fn text(&mut self, input: &[u8]) -> String {
        String::from_utf8(self.says(None, input)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn binary(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    bytes.push((key.len() + value.len()) as u8);
    bytes.extend_from_slice(b"mark\0\0\0\0\0\0\0\0");
    [bytes.as_slice(), key, value].concat()
}

/// Opcode, status and body of each reply.
fn replies(mut bytes: &[u8]) -> Vec<(u8, u16, String)> {
    let mut found = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<24>() {
        let status = u16::from_be_bytes([header[6], header[7]]);
        let (body, behind) = rest.split_at(usize::from(header[11]));
        found.push((header[1], status, String::from_utf8_lossy(body).into_owned()));
        bytes = behind;
    }
    found
}

#[test]
fn unauthenticated_clients_get_nothing() {
    let mut server = Server::new("unauthenticated", "");
    let requests: [&[u8]; 8] = [
        b"get a\r\n",
        b"flush_all\r\n",
        b"stats\r\n",
        b"version\r\n",
        b"mg a v\r\n",
        b"verbosity 1\r\n",
        b"refresh_certs\r\n",
        b"shutdown\r\n",
    ];
    assert_eq!(server.text(&requests.concat()), REFUSED.repeat(requests.len()));
    assert_eq!(server.text(b"quit\r\nget a\r\n"), "");
    let totals = server.bench.server.totals();
    assert_eq!((totals.cmd_get, totals.cmd_flush, totals.auth_cmds), (0, 0, 0));
}

#[test]
fn a_pipeline_continues_after_authentication() {
    let mut server = Server::new("pipeline", "max-requests-per-event = 3");
    let input = [b"get a\r\n", WRONG, LOGIN, b"set a 0 0 1\r\nx\r\nget a\r\nget a\r\n"].concat();
    let expected =
        format!("{REFUSED}{FAILED}STORED\r\nSTORED\r\n{}", "VALUE a 0 1\r\nx\r\nEND\r\n".repeat(2));
    assert_eq!(server.text(&input), expected);
    // A set is a set afterwards, and the key of the login holds nothing.
    let again = server.text(&[LOGIN, b"get x\r\n", LOGIN, b"get x\r\n"].concat());
    assert_eq!(again, "STORED\r\nEND\r\nSTORED\r\nVALUE x 0 12\r\nalice secret\r\nEND\r\n");
}

#[test]
fn three_wrong_passwords_close_a_connection() {
    let mut server = Server::new("three", "");
    let input = [&WRONG.repeat(3), LOGIN, b"get a\r\n"].concat();
    assert_eq!(server.text(&input), FAILED.repeat(3));
    let input = [&WRONG.repeat(2), LOGIN].concat();
    assert_eq!(server.text(&input), format!("{}STORED\r\n", FAILED.repeat(2)));
}

/// A guess by either protocol counts.
#[test]
fn too_many_wrong_passwords_block_a_user_of_an_address_for_a_while() {
    let mut server = Server::new("address", "enable-sasl = true");
    for number in 0..AUTH_FAILURES_OF_USER / 2 {
        let guess = format!("set x 0 0 8\r\nalice {number:02}\r\n");
        assert_eq!(server.says(Some("10.1.1.1"), guess.as_bytes()), FAILED.as_bytes());
        server.says(Some("10.1.1.1"), &binary(0x21, b"PLAIN", format!("\0alice\0sasl{number}").as_bytes()));
    }
    assert_eq!(server.says(Some("10.1.1.1"), LOGIN), FAILED.as_bytes());
    assert_eq!(server.says(Some("10.1.1.2"), LOGIN), b"STORED\r\n");
    assert_eq!(server.says(None, LOGIN), b"STORED\r\n");
    assert_eq!(server.says(Some("10.1.1.1"), b"set x 0 0 13\r\nbob pass word\r\n"), b"STORED\r\n");
    assert_eq!(server.bench.server.totals().auth_limited, 1);
    server.bench.now_s += AUTH_FAILURE_FORGOTTEN_S;
    assert_eq!(server.says(Some("10.1.1.1"), LOGIN), b"STORED\r\n");
}

/// The old password comes by either protocol, for as long as right logins do.
#[test]
fn a_client_that_repeats_an_old_password_keeps_no_other_out() {
    let mut server = Server::new("repeats", "enable-sasl = true");
    for _ in 0..50 {
        server.says(Some("10.1.1.1"), &WRONG.repeat(3));
        server.says(Some("10.1.1.1"), &binary(0x21, b"PLAIN", b"\0alice\0wrong"));
        assert_eq!(server.says(Some("10.1.1.1"), LOGIN), b"STORED\r\n");
    }
    assert_eq!(server.bench.server.totals().auth_limited, 0);
}

#[test]
fn passwords_are_read_again_and_a_bad_file_changes_nothing() {
    let mut server = Server::new("again", "");
    std::fs::write(&server.file, "alice:other\n").unwrap();
    assert_eq!(server.text(LOGIN), "STORED\r\n");
    server.bench.server.auth.as_ref().unwrap().refresh().unwrap();
    assert_eq!(server.text(LOGIN), FAILED);
    std::fs::write(&server.file, "alice\n").unwrap();
    let what = server.bench.server.auth.as_ref().unwrap().refresh().unwrap_err();
    assert!(what.contains("line 1"), "{what}");
    assert_eq!(server.text(b"set x 0 0 11\r\nalice other\r\n"), "STORED\r\n");
}

#[test]
fn the_binary_protocol_authenticates_by_plain() {
    let mut server = Server::new("sasl", "enable-sasl = true");
    let (get, version) = (binary(0x00, b"a", b""), binary(0x0b, b"", b""));
    let list = binary(0x20, b"", b"");
    let right = binary(0x21, b"PLAIN", b"\0alice\0secret");
    let wrong = binary(0x21, b"PLAIN", b"\0alice\0wrong");
    let failed = |opcode| (opcode, 0x20, "Auth failure.".to_string());
    let welcome = |opcode| (opcode, 0, "Authenticated".to_string());
    let missing = (0x00, 1, "Not found".to_string());

    let refused = server.says(None, &[&get[..], &right].concat());
    assert_eq!(replies(&refused), [failed(0x00)]);
    let all = [&list[..], &version, &wrong, &right, &get, &list, &get].concat();
    let all = replies(&server.says(None, &all));
    assert_eq!(all[0], (0x20, 0, "PLAIN".into()));
    assert_eq!(all[1].1, 0);
    assert_eq!(all[2..5], [failed(0x21), welcome(0x21), missing.clone()]);
    // To ask for the mechanisms again changes nothing.
    assert_eq!(all[5..], [(0x20, 0, "PLAIN".into()), missing.clone()]);
    // To fail again does.
    let lost = replies(&server.says(None, &[&right[..], &get, &wrong, &get].concat()));
    assert_eq!(lost, [welcome(0x21), missing, failed(0x21), failed(0x00)]);
}

#[test]
fn a_response_may_come_in_a_second_step() {
    let mut server = Server::new("steps", "enable-sasl = true");
    let begin = binary(0x21, b"PLAIN", b"");
    let go_on = binary(0x22, b"PLAIN", b"bob\0bob\0pass word");
    let both = replies(&server.says(None, &[&begin[..], &go_on].concat()));
    assert_eq!(both[0], (0x21, 0x21, String::new()));
    assert_eq!(both[1], (0x22, 0, "Authenticated".into()));
    let alone = replies(&server.says(None, &go_on));
    assert_eq!(alone, [(0x22, 0x20, "Auth failure.".into())]);
    let other = binary(0x21, b"CRAM-MD5", b"\0alice\0secret");
    let other = replies(&server.says(None, &other));
    assert_eq!(other, [(0x21, 0x20, "Auth failure.".into())]);
}

#[test]
fn without_sasl_the_binary_protocol_is_refused() {
    let mut server = Server::new("no-sasl", "");
    for opcode in [0x00, 0x0b, 0x20] {
        let reply = replies(&server.says(None, &binary(opcode, b"", b"")));
        assert_eq!(reply, [(opcode, 0x20, "Auth failure.".into())]);
    }
    let right = binary(0x21, b"PLAIN", b"\0alice\0secret");
    let reply = replies(&server.says(None, &right));
    assert_eq!(reply, [(0x21, 0x20, "Auth failure.".into())]);
}
