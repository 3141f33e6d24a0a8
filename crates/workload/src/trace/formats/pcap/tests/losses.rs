//! Captures that lack something.

use super::capture::{ACK, Capture, Connection, Form, Tcp, read};

/// A connection of sets and gets in turns, without the packets of these numbers.
fn without(lost: &[usize], form: Form) -> (Vec<String>, Vec<String>) {
    let mut capture = Capture::new(form);
    let mut connection = Connection::open(&mut capture, 1);
    let mut number = 0;
    for turn in 0..8 {
        let turns: [(Vec<u8>, &[u8]); 2] = [
            (format!("set k{turn} 0 0 4\r\nget \r\n").into_bytes(), b"STORED\r\n"),
            (format!("get k{turn} x\r\n").into_bytes(), b""),
        ];
        for (request, reply) in turns {
            let value = format!("VALUE k{turn} 0 4\r\nEND\r\r\nEND\r\n").into_bytes();
            let reply = if reply.is_empty() { &value } else { reply };
            for (is_from_client, payload) in [(true, &request[..]), (false, reply)] {
                let tcp = connection.next(is_from_client, payload);
                if !lost.contains(&number) {
                    capture.tcp(1, is_from_client, tcp, payload);
                }
                number += 1;
            }
        }
    }
    read(capture.bytes)
}

fn all() -> Vec<String> {
    (0..8)
        .flat_map(|turn| {
            [format!("set k{turn} 4 0 Hit"), format!("get k{turn} 4 - Hit"), "get x - - Miss".to_owned()]
        })
        .collect()
}

#[test]
fn whole_captures_have_no_remarks() {
    assert_eq!(without(&[], Form::PLAIN), (all(), Vec::new()));
}

#[test]
fn a_lost_segment_costs_little_and_is_said() {
    for lost in 0..30 {
        let (requests, remarks) = without(&[lost], Form::PLAIN);
        let known = requests.iter().filter(|request| !request.ends_with("Unknown"));
        let mut expected = all().into_iter();
        // The known outcomes are right and in their places.
        for request in known.clone() {
            assert!(expected.any(|expected| expected == *request), "{lost}: {requests:?}");
        }
        assert!(known.count() >= 24 - 6, "{lost}: {requests:?}");
        assert!(remarks.iter().any(|remark| remark.contains("missing")), "{lost}: {remarks:?}");
    }
}

#[test]
fn values_need_not_be_captured() {
    let mut capture = Capture::new(Form { captured_max: 100, ..Form::PLAIN });
    let mut connection = Connection::open(&mut capture, 1);
    let value = "get y\r\n".repeat(150);
    for part in [format!("set big 0 0 {}\r\n{value}", value.len()), "\r\nget big\r\n".to_owned()] {
        connection.send(&mut capture, true, part.as_bytes());
    }
    connection.send(&mut capture, false, b"STORED\r\n");
    let reply = format!("VALUE big 0 {}\r\n{value}\r\nEND\r\n", value.len());
    // The end of the second reply's packet is lost with the value's.
    connection.send(&mut capture, false, reply.as_bytes());
    connection.send(&mut capture, true, b"get big\r\n");
    let (requests, remarks) = read(capture.bytes);
    assert_eq!(requests, ["set big 1050 0 Hit", "get big 1050 - Hit", "get big - - Unknown"]);
    assert_eq!(remarks.len(), 1);
}

#[test]
fn a_connection_from_before_is_read_from_its_next_line() {
    let mut capture = Capture::new(Form::PLAIN);
    let tcp = |sequence, acknowledged| Tcp { sequence, acknowledged, flags: ACK };
    capture.tcp(1, true, tcp(500, 900), b"end of a value\r\nget a\r\n");
    capture.tcp(1, false, tcp(900, 523), b"VALUE a 0 1\r\nx\r\nEND\r\n");
    capture.tcp(1, true, tcp(523, 921), b"get b\r\n");
    capture.tcp(1, false, tcp(921, 530), b"END\r\n");
    let (requests, _) = read(capture.bytes);
    assert_eq!(requests, ["get a 1 - Hit", "get b - - Miss"]);
}

#[test]
fn memory_is_bounded_whatever_never_ends() {
    let mut capture = Capture::new(Form::PLAIN);
    let junk = vec![b'g'; 30_000];
    for client in 0..80u8 {
        let tcp = Tcp { sequence: 7, acknowledged: 1, flags: ACK };
        capture.tcp(client, true, tcp, b"get a\r\n");
        for number in 1..30 {
            let tcp = Tcp { sequence: number * 100_000, acknowledged: 1, flags: ACK };
            capture.tcp(client, true, tcp, &junk);
        }
    }
    let (requests, remarks) = read(capture.bytes);
    assert_eq!(requests.len(), 80);
    assert!(remarks.iter().any(|remark| remark.contains("forgotten")), "{remarks:?}");
}
