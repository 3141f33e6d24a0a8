//! Invalid datagrams are refused, and nothing is read beyond the end.

use super::super::*;

fn get(key: &[u8]) -> Request<'_> {
    Request {
        opcode: Opcode::Get,
        wants_cas: false,
        wants_entry: false,
        hash: 1,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key,
        value: &[],
    }
}

/// Creates a request with every field of the operation.
fn full(opcode: Opcode) -> Request<'static> {
    Request {
        opcode,
        wants_cas: opcode.answers_value(),
        flags: u32::from(opcode.has_flags()),
        expiry_s: u32::from(opcode.has_expiry()),
        argument: u64::from(opcode.has_argument()),
        id: u64::from(opcode.has_id()),
        value: if opcode.has_value() { b"value" } else { &[] },
        ..get(if opcode == Opcode::Noop { b"" } else { b"key" })
    }
}

fn datagram(requests: &[Request<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; PAYLOAD_BYTES];
    let mut writer = RequestWriter::new(&mut bytes);
    for request in requests {
        writer.push(request).unwrap();
    }
    let length = writer.finish(&Header::REQUESTS);
    bytes.truncate(length);
    bytes
}

fn is_bad(request: &Request<'_>) -> bool {
    Requests::check(&datagram(&[*request]), 1).is_err()
}

#[test]
fn fields_that_an_operation_does_not_have_are_refused() {
    for opcode in Opcode::ALL {
        let good = full(opcode);
        assert!(!is_bad(&good), "{opcode:?}");
        let cases = [
            (Request { wants_cas: true, ..good }, opcode.answers_value()),
            (Request { wants_entry: true, ..good }, false),
            (Request { flags: 1, ..good }, opcode.has_flags()),
            (Request { expiry_s: 1, ..good }, opcode.has_expiry()),
            (Request { value: b"v", ..good }, opcode.has_value()),
            (Request { key: b"", ..good }, opcode == Opcode::Noop),
            (Request { key: b"k", ..good }, opcode != Opcode::Noop),
            (Request { key: &[b'k'; 250], ..good }, opcode != Opcode::Noop),
            (Request { key: &[b'k'; 251], ..good }, false),
            // An operation without an id does not write one, so it cannot be wrong.
            (Request { id: 0, ..good }, !opcode.has_id()),
        ];
        for (number, (case, allowed)) in cases.iter().enumerate() {
            assert_eq!(is_bad(case), !allowed, "{opcode:?}, case {number}");
        }
    }
}

#[test]
fn cut_off_at_every_byte() {
    for opcode in Opcode::ALL {
        let whole = datagram(&[full(opcode), full(opcode)]);
        assert!(Requests::check(&whole, 2).is_ok());
        for end in 0..whole.len() {
            assert!(Requests::check(&whole[..end], 2).is_err(), "{opcode:?} to {end}");
        }
        assert!(Requests::check(&whole, 3).is_err());
        // Bytes after the last request are padding.
        assert_eq!(Requests::check(&whole, 1).unwrap().count(), 1);
    }
}

#[test]
fn every_value_of_every_byte_is_read_or_refused() {
    let whole = datagram(&Opcode::ALL.map(full));
    let count = Opcode::ALL.len() as u16;
    for at in 0..whole.len() {
        for byte in 0..=255 {
            let mut changed = whole.clone();
            changed[at] = byte;
            let _read = Header::read(&changed);
            if let Ok(requests) = Requests::check(&changed, count) {
                assert_eq!(requests.size_hint(), (count.into(), Some(count.into())));
                assert_eq!(requests.count(), usize::from(count));
            }
        }
    }
}

#[test]
fn lengths_that_overflow() {
    for bytes in [u32::MAX, u32::MAX - 7, 1 << 31, 1473] {
        let mut changed = datagram(&[full(Opcode::Set)]);
        changed[Header::BYTES + 4..Header::BYTES + 8].copy_from_slice(&bytes.to_le_bytes());
        assert!(Requests::check(&changed, 1).is_err(), "{bytes}");
    }
}

#[test]
fn invalid_headers() {
    let good = datagram(&[full(Opcode::Get)]);
    let read = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        Header::read(&changed)
    };
    let status_of = |read: Result<Header, HeaderError>| match read {
        Err(HeaderError::Refused { status, .. }) => Some(status),
        _ => None,
    };
    assert_eq!(read(0, b'm'), Err(HeaderError::NotOurs));
    for version in (0..=255).filter(|version| *version != VERSION) {
        assert_eq!(status_of(read(2, version)), Some(Status::Version));
    }
    for kind in (0..=255).filter(|kind| !(1..=8).contains(kind)) {
        assert_eq!(read(3, kind), Err(HeaderError::NotOurs));
    }
    for flags in 4..=255 {
        assert_eq!(status_of(read(4, flags)), Some(Status::BadRequest));
    }
    for status in 1..=255 {
        assert_eq!(status_of(read(5, status)), Some(Status::BadRequest));
    }
    assert_eq!(status_of(read(14, 1)), Some(Status::BadRequest));
}

/// A refused header still identifies the client and its request, so that a reply is possible.
#[test]
fn a_refused_header_can_be_answered() {
    let header = Header { sequence: 5, client: 6, echo: 7, ..Header::REQUESTS };
    let mut datagram = [0; Header::BYTES];
    header.write(&mut datagram);
    datagram[2] = 9;
    let Err(HeaderError::Refused { status, header }) = Header::read(&datagram) else { panic!("read") };
    assert_eq!(status, Status::Version);
    assert_eq!((header.sequence, header.client, header.echo), (5, 6, 7));
}

/// Parses replies of 16 bytes with some bytes changed.
fn replies(changes: &[(usize, u8)]) -> Vec<Result<Status, BadReply>> {
    let mut datagram = [0; Header::BYTES + 16];
    datagram[Header::BYTES] = Opcode::Set as u8;
    for (at, byte) in changes {
        datagram[Header::BYTES + at] = *byte;
    }
    let replies = Replies::new(&datagram, 3).unwrap();
    replies.map(|reply| reply.map(|reply| reply.status)).collect()
}

#[test]
fn nothing_follows_a_bad_reply() {
    let ended_early = vec![Ok(Status::Ok), Err(BadReply)];
    assert_eq!(replies(&[]), ended_early, "one of three");
    let get = Opcode::Get as u8;
    let bad: [&[(usize, u8)]; 9] = [
        &[(0, 13)],
        &[(1, 15)],
        &[(2, 2)],
        &[(2, 1)],
        &[(3, 1)],
        &[(4, 1)],
        &[(0, get), (4, 1)],
        &[(0, get), (2, 1)],
        &[(0, Opcode::Increment as u8)],
    ];
    for changes in bad {
        assert_eq!(replies(changes), [Err(BadReply)], "{changes:?}");
    }
    assert!(Replies::new(&[0; Header::BYTES - 1], 1).is_err());
}

fn directory() -> Vec<u8> {
    let directory = Directory {
        hash_seed: 1,
        partitions: 2,
        cores: 1,
        stream_port: 0,
        payload_bytes_max: PAYLOAD_BYTES as u32,
        value_bytes_max: 1,
        ids_window: 1,
        cookie_s: 0,
        addresses: 0,
    };
    let mut datagram = vec![0; DirectoryWriter::BYTES_MIN + 8];
    let mut writer = DirectoryWriter::new(&mut datagram, &directory, 0).unwrap();
    let (port, node, owner) = (1, 0, 0);
    let access = PartitionAccess::Crcw;
    assert!(writer.push(Entry::Core(CoreEntry { port, node })));
    for _ in 0..2 {
        assert!(writer.push(Entry::Partition(PartitionEntry { owner, access })));
    }
    let header = Header::REQUESTS.reply(Kind::DirectoryReply);
    let length = writer.finish(&header);
    datagram.truncate(length);
    datagram
}

#[test]
fn invalid_directories() {
    let whole = directory();
    assert!(Directory::read(&whole).is_some());
    for end in 0..whole.len() - 4 {
        assert!(Directory::read(&whole[..end]).is_none(), "to {end}");
    }
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        Directory::read(&changed).is_some()
    };
    assert!(!with(48, &0u32.to_le_bytes()), "no partitions");
    assert!(!with(48, &3u32.to_le_bytes()), "no power of two");
    assert!(!with(48, &2048u32.to_le_bytes()), "too many partitions");
    assert!(!with(52, &0u16.to_le_bytes()), "no cores");
    assert!(!with(56, &1231u32.to_le_bytes()), "datagrams too short");
    assert!(!with(56, &65_508u32.to_le_bytes()), "datagrams too long");
    assert!(!with(64, &0u16.to_le_bytes()), "no ids");
    assert!(!with(68, &1u32.to_le_bytes()), "entries beyond the last");
    assert!(!with(68, &u32::MAX.to_le_bytes()), "a first beyond all");
    assert!(!with(72, &u32::MAX.to_le_bytes()), "more than there are");
    assert!(!with(76, &(ADDRESSES_MAX + 1).to_le_bytes()), "too many addresses");
}

#[test]
fn invalid_entries() {
    let whole = directory();
    let (directory, _, _) = Directory::read(&whole).unwrap();
    assert_eq!(directory.entry(0, &[0, 0, 1, 0]), None, "no port");
    assert_eq!(directory.entry(0, &[1, 0, 1]), None, "cut off");
    assert_eq!(directory.entry(1, &[1, 0, 0, 0]), None, "no such owner");
    assert_eq!(directory.entry(1, &[0, 0, 3, 0]), None, "no such access");
    assert!(directory.entry(1, &[0, 0, 2, 0]).is_some());
}

#[test]
fn invalid_entries_of_interfaces() {
    let whole = directory();
    let (directory, _, _) = Directory::read(&whole).unwrap();
    let directory = Directory { addresses: 2, ..directory };
    assert_eq!((directory.entries(), directory.all_entries()), (3, 14));
    assert_eq!(directory.entry(3, &[0, 0, 1, 0]), None, "no port");
    assert_eq!(directory.entry(3, &[1, 0, 1]), None, "cut off");
    let mut address = [0, 0, 4, 0].to_vec();
    address.resize(20, 1);
    let (interface, ip) = (0, [1, 1, 1, 1].into());
    let read = Some(Entry::Address(InterfaceAddress { interface, ip }));
    assert_eq!((directory.entry(4, &address), directory.entry(9, &address)), (read, read));
    assert_eq!(directory.entry(5, &address), None, "the middle of an address");
    assert_eq!(directory.entry(4, &address[..19]), None, "cut off");
    address[2] = 5;
    assert_eq!(directory.entry(4, &address), None, "no family");
}

/// Clients that know no interfaces read pages of cores and partitions, and refuse others.
/// Three cores and four partitions, then three places, then addresses of five numbers each.
#[test]
fn entries_begin_at_every_number_before_addresses() {
    let datagram = directory();
    let (known, ..) = Directory::read(&datagram).unwrap();
    let known = Directory { cores: 3, partitions: 4, addresses: 2, ..known };
    let begins: Vec<u32> = (0..known.all_entries()).filter(|number| known.begins_entry(*number)).collect();
    assert_eq!(begins, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15]);
}

#[test]
fn pages_have_entries_of_interfaces_alone() {
    let mut page = directory();
    page[76] = 1;
    let (directory, first, _) = Directory::read(&page).unwrap();
    assert_eq!((first, directory.page_end(first)), (0, 3));
    page.extend([0; 8]);
    page[72] = 4;
    assert!(Directory::read(&page).is_none(), "a partition and a place in one page");
    (page[68], page[72]) = (3, 1);
    assert!(Directory::read(&page).is_some());
}

#[test]
fn invalid_directory_requests() {
    let mut datagram = [0xaa; 96];
    DirectoryRequest { first: 3 }.write(&Header::REQUESTS, &mut datagram);
    assert_eq!(DirectoryRequest::read(&datagram), Some(DirectoryRequest { first: 3 }));
    assert!(datagram[48..].iter().all(|byte| *byte == 0), "padding");
    for end in 0..88 {
        assert_eq!(DirectoryRequest::read(&datagram[..end]), None);
    }
    datagram[44] = 1;
    assert_eq!(DirectoryRequest::read(&datagram), None);
}
