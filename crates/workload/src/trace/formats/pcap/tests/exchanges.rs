//! Requests with replies, and what is read of them.

use super::capture::{Capture, Connection, Form, SERVER_PORT, read};
use crate::trace::formats::pcap::Pcap;
use crate::trace::open::Reader as _;

/// Requests and replies, in turns, over one connection.
fn exchanged(form: Form, turns: &[(&[u8], &[u8])]) -> Vec<String> {
    let mut capture = Capture::new(form);
    let mut connection = Connection::open(&mut capture, 1);
    for (request, reply) in turns {
        connection.send(&mut capture, true, request);
        connection.send(&mut capture, false, reply);
    }
    let (requests, remarks) = read(capture.bytes);
    assert!(remarks.is_empty(), "{remarks:?}");
    requests
}

const CLASSIC: [(&[u8], &[u8]); 9] = [
    (b"set a 5 60 3\r\nabc\r\n", b"STORED\r\n"),
    (b"get a b\r\ngets a\r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\nVALUE a 5 3 7\r\nabc\r\nEND\r\n"),
    (b"add a 0 0 1\r\nx\r\nreplace b 0 -1 1\r\nx\r\n", b"NOT_STORED\r\nNOT_STORED\r\n"),
    (b"cas a 0 1700000100 1 9\r\nx\r\nappend a 0 0 1\r\nx\r\n", b"EXISTS\r\nSTORED\r\n"),
    (b"incr n 1\r\ndecr n 1\r\nincr m 1\r\n", b"7\r\n6\r\nNOT_FOUND\r\n"),
    (b"touch a 10\r\ngat 20 a\r\n", b"TOUCHED\r\nVALUE a 5 4\r\nabcx\r\nEND\r\n"),
    (b"stats\r\nversion\r\ndelete a\r\n", b"STAT pid 1\r\nSTAT x y\r\nEND\r\nVERSION 1.6\r\nDELETED\r\n"),
    (b"set a 0 0 2 noreply\r\nab\r\nset b 0 0 9999999\r\nbogus\r\nget a\r\n", b""),
    (b"delete a\r\n", b""),
];

const CLASSIC_REQUESTS: [&str; 16] = [
    "set a 3 60 Hit",
    "get a 3 - Hit",
    "get b - - Miss",
    "gets a 3 - Hit",
    "add a 1 0 Miss",
    "replace b 1 1 Miss",
    "cas a 1 100 Miss",
    "append a 1 0 Hit",
    "incr n - - Hit",
    "decr n - - Hit",
    "incr m - - Miss",
    "touch a - 10 Hit",
    "gat a 4 20 Hit",
    "delete a - - Hit",
    "set a 2 0 Unknown",
    "set b 9999999 0 Unknown",
];

#[test]
fn classic_commands_have_their_outcomes_whatever_the_form() {
    for link in [1, 101, 113, 276] {
        for bits in 0..8 {
            let form = Form {
                is_big_endian: bits & 1 > 0,
                has_nanoseconds: bits & 2 > 0,
                link,
                is_v6: bits & 4 > 0,
                ..Form::PLAIN
            };
            assert_eq!(exchanged(form, &CLASSIC), CLASSIC_REQUESTS, "{form:?}");
        }
    }
}

#[test]
fn meta_commands_have_their_outcomes() {
    let turns: [(&[u8], &[u8]); 6] = [
        (b"ms a 3 T60\r\nabc\r\nms a 1 ME\r\nx\r\n", b"HD\r\nNS\r\n"),
        (
            b"mg a v\r\nmg b v\r\nmg a s\r\nmg a c T9 v\r\n",
            b"VA 3\r\nabc\r\nEN\r\nHD s3\r\nVA 3 c1\r\nabc\r\n",
        ),
        (b"mg q1 v k q\r\nmg q2 v k q\r\nmg q3 v O7 q\r\nmn\r\n", b"VA 1 kq2\r\nx\r\nMN\r\n"),
        (b"ma n MD\r\nma m q\r\nmd a q\r\nmn\r\n", b"HD\r\nMN\r\n"),
        (b"mg YWJj b v k\r\nmg new N30 v\r\n", b"VA 1 kYWJj b\r\nx\r\nVA 0 W\r\n\r\n"),
        (b"me a\r\nmd a\r\n", b"ME a exp=-1\r\nNF\r\n"),
    ];
    assert_eq!(
        exchanged(Form::PLAIN, &turns),
        [
            "set a 3 60 Hit",
            "add a 1 0 Miss",
            "get a 3 - Hit",
            "get b - - Miss",
            "get a 3 - Hit",
            "gat a 3 9 Hit",
            "get q1 - - Miss",
            "get q2 1 - Hit",
            "get q3 - - Miss",
            "decr n - - Hit",
            "incr m - - Unknown",
            "delete a - - Unknown",
            "get abc 1 - Hit",
            "get new - - Miss",
            "delete a - - Miss",
        ]
    );
}

/// A message of the binary protocol.
fn binary(magic: u8, opcode: u8, status: u16, parts: [&[u8]; 3], opaque: u32) -> Vec<u8> {
    let [extras, key, value] = parts;
    let mut message = vec![magic, opcode];
    message.extend((key.len() as u16).to_be_bytes());
    message.extend([extras.len() as u8, 0]);
    message.extend(status.to_be_bytes());
    message.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    message.extend(opaque.to_be_bytes());
    message.extend([0; 8]);
    [&message, extras, key, value].concat()
}

#[test]
fn binary_commands_have_their_outcomes() {
    let expiry = [0, 0, 0, 0, 0, 0, 0, 60];
    let requests = [
        binary(0x80, 0x01, 0, [&expiry, b"a", b"abc"], 1),
        binary(0x80, 0x09, 0, [b"", b"b", b""], 0),
        binary(0x80, 0x0d, 0, [b"", b"c", b""], 0),
        binary(0x80, 0x0d, 0, [b"", b"a", b""], 0),
        binary(0x80, 0x11, 0, [&expiry, b"d", b"x"], 2),
        binary(0x80, 0x10, 0, [b"", b"", b""], 3),
        binary(0x80, 0x0a, 0, [b"", b"", b""], 4),
        binary(0x80, 0x04, 0, [b"", b"z", b""], 5),
        binary(0x80, 0x05, 0, [&[0; 20], b"n", b""], 6),
        binary(0x80, 0x1d, 0, [&[0, 0, 0, 9], b"a", b""], 7),
    ]
    .concat();
    let replies = [
        binary(0x81, 0x01, 0, [b"", b"", b""], 1),
        binary(0x81, 0x0d, 0, [b"flag", b"a", b"abc"], 0),
        binary(0x81, 0x10, 0, [b"", b"pid", b"1"], 3),
        binary(0x81, 0x10, 0, [b"", b"", b""], 3),
        binary(0x81, 0x0a, 0, [b"", b"", b""], 4),
        binary(0x81, 0x04, 1, [b"", b"", b"Not found"], 5),
        binary(0x81, 0x05, 0, [b"", b"", &[0; 8]], 6),
        binary(0x81, 0x1d, 0, [b"flag", b"", b"abc"], 7),
    ]
    .concat();
    assert_eq!(
        exchanged(Form::PLAIN, &[(&requests, &replies)]),
        [
            "set a 3 60 Hit",
            "get b - - Miss",
            "get c - - Miss",
            "get a 3 - Hit",
            "set d 1 60 Hit",
            "delete z - - Miss",
            "incr n - - Hit",
            "gat a 3 9 Hit",
        ]
    );
}

#[test]
fn datagrams_are_matched_by_their_number() {
    let frame =
        |id: u8, sequence: u8, total: u8, text: &[u8]| [&[0, id, 0, sequence, 0, total, 0, 0], text].concat();
    let mut capture = Capture::new(Form::PLAIN);
    let sent: [(bool, Vec<u8>); 9] = [
        (true, frame(1, 0, 1, b"get a b\r\n")),
        (true, frame(2, 0, 1, b"set c 0 0 1\r\nx\r\n")),
        (true, frame(3, 0, 1, b"get d\r\n")),
        (true, frame(4, 0, 2, b"get e\r\n")),
        (false, frame(2, 0, 1, b"STORED\r\n")),
        (false, frame(1, 0, 2, b"VALUE a 0 4\r\nab")),
        (false, frame(9, 0, 1, b"END\r\n")),
        (false, frame(1, 1, 2, b"cd\r\nEND\r\n")),
        (false, b"short".to_vec()),
    ];
    for (is_from_client, datagram) in sent {
        capture.udp(1, is_from_client, &datagram);
    }
    let (requests, remarks) = read(capture.bytes);
    assert_eq!(requests, ["get a 4 - Hit", "get b - - Miss", "set c 1 0 Hit", "get d - - Unknown"]);
    assert!(remarks.len() == 1 && remarks[0].contains("no request"), "{remarks:?}");
}

#[test]
fn a_reply_may_be_captured_before_it_is_split() {
    let mut capture = Capture::new(Form::PLAIN);
    capture.udp(1, true, b"\0\x07\0\0\0\x01\0\0get a b\r\n");
    let reply = format!("VALUE a 0 3000\r\n{}\r\nEND\r\n", "x".repeat(3000));
    let mut joined = Vec::new();
    for (header, part) in micanite_wire::memcache::udp::datagrams(7, reply.as_bytes()) {
        joined.extend(header);
        joined.extend(part);
    }
    capture.udp(1, false, &joined);
    let (requests, remarks) = read(capture.bytes);
    assert_eq!(requests, ["get a 3000 - Hit", "get b - - Miss"]);
    assert!(remarks.is_empty());
}

#[test]
fn unreadable_captures_are_refused() {
    let failure = |bytes: &[u8]| {
        let bytes = Box::new(std::io::Cursor::new(bytes.to_vec()));
        Pcap::new(bytes, "x".to_owned(), SERVER_PORT).err().unwrap().reason
    };
    assert!(failure(b"\x0a\x0d\x0d\x0a").contains("pcap"));
    assert!(failure(b"\xd4\xc3\xb2\xa1\x02").contains("begin"));
    let radio = Form { link: 127, ..Form::PLAIN };
    assert!(failure(&Capture::new(radio).bytes).contains("127"));
    let mut capture = Capture::new(Form::PLAIN);
    let mut connection = Connection::open(&mut capture, 1);
    connection.send(&mut capture, true, b"\x16\x03\x01\x02\0get a\r\n");
    connection.send(&mut capture, true, b"get a\r\n");
    capture.bytes.pop();
    let (requests, remarks) = read(capture.bytes);
    assert!(requests.is_empty());
    assert!(remarks[0].contains("TLS") && remarks[1].contains("cut off"), "{remarks:?}");
    assert!(remarks[2].contains("--format pcap:PORT"));
    let mut damaged = Capture::new(Form::PLAIN).bytes;
    damaged.extend([0xff; 16]);
    let bytes = Box::new(std::io::Cursor::new(damaged));
    let mut reader = Pcap::new(bytes, "x".to_owned(), SERVER_PORT).unwrap();
    assert!(reader.next().unwrap_err().reason.contains("packet 1"));
}
