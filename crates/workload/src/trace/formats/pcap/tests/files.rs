//! Files in pcapng's form, whole and hostile.

use super::capture::{Capture, Connection, Form, SERVER_PORT, as_pcapng, read};
use crate::trace::formats::pcap::Pcap;
use crate::trace::open::Reader as _;

fn capture(form: Form) -> Vec<u8> {
    let mut capture = Capture::new(form);
    let mut connection = Connection::open(&mut capture, 1);
    // The expiry is a time: it shows that the file's unit is understood.
    connection.send(&mut capture, true, b"set a 0 1700000100 3\r\nabc\r\nget a b\r\n");
    capture.time_us += 7_900_001;
    connection.send(&mut capture, false, b"STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
    connection.send(&mut capture, true, b"set c 0 1700000100 0\r\n\r\n");
    capture.bytes
}

/// Proves that a pcapng file gives the requests of a pcap file with the same packets, in every unit of
/// times and for every link layer.
#[test]
fn pcapng_files_give_the_same_requests() {
    for link in [1, 101, 113, 276] {
        let capture = capture(Form { link, ..Form::PLAIN });
        let expected = read(capture.clone());
        assert_eq!(expected.0[0], "set a 3 100 Hit");
        assert_eq!(expected.0[3], "set c 0 93 Unknown");
        for unit in [3, 6, 9, 0x80 | 20, 0x80 | 33] {
            assert_eq!(read(as_pcapng(&capture, unit)), expected, "link {link}, unit {unit}");
        }
    }
}

/// Proves that a block of half a megabyte and more, such as the secrets of TLS, is passed over.
#[test]
fn long_blocks_are_passed_over() {
    let capture = capture(Form::PLAIN);
    let mut file = as_pcapng(&capture, 6);
    for bytes in [600_000_u32, 5_000_000] {
        let mut block = 0xa_u32.to_le_bytes().to_vec();
        block.extend((bytes + 20).to_le_bytes());
        block.extend(0x544c_534b_u32.to_le_bytes());
        block.extend(bytes.to_le_bytes());
        block.extend(vec![b'x'; bytes as usize]);
        block.extend((bytes + 20).to_le_bytes());
        // Behind the header of the section.
        file.splice(28..28, block);
    }
    assert_eq!(read(file), read(capture));
}

fn failure(file: &[u8]) -> String {
    let bytes = Box::new(std::io::Cursor::new(file.to_vec()));
    let mut reader = match Pcap::new(bytes, "x".to_owned(), SERVER_PORT) {
        Ok(reader) => reader,
        Err(failure) => return failure.reason,
    };
    loop {
        match reader.next() {
            Ok(request) => assert!(request.is_some(), "it is read to its end"),
            Err(failure) => return failure.reason,
        }
    }
}

/// Proves that a damaged or hostile file ends with a reason, in bounded memory.
#[test]
fn hostile_pcapng_files_are_refused() {
    let whole = as_pcapng(&capture(Form::PLAIN), 6);
    let replaced = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    // The second interface and its unit, and the first packet.
    let (second, unit) = (48, 68);
    let first_packet = second + 32 + 32;
    assert!(failure(&replaced(second + 8, &[127, 0])).contains("number 127"));
    assert!(failure(&replaced(unit, &[30])).contains("too small"));
    assert!(failure(&replaced(first_packet + 8, &[9, 0])).contains("interface 9"));
    assert!(failure(&replaced(first_packet + 4, &[0, 0, 0, 0x40])).contains("packet 1"));
    assert!(failure(&replaced(first_packet + 20, &[0xff; 4])).contains("packet 1"));
    let mut many = whole.clone();
    many.splice(second..second, whole[28..second].repeat(5_000));
    assert!(failure(&many).contains("more than 1024 interfaces"));
    let (_, remarks) = read(whole[..whole.len() - 5].to_vec());
    assert!(remarks.iter().any(|remark| remark.contains("cut off")), "{remarks:?}");
}
