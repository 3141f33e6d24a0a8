//! Fuzzes the native protocol: a server reads requests, a client reads replies and directories.

use crate::native::{
    Directory, DirectoryRequest, DirectoryWriter, Header, HeaderError, Kind, Opcode, Replies, Reply,
    ReplyWriter, Request, RequestWriter, Requests, Status, request_bytes,
};

/// Parses requests. Accepted ones are valid, and parse to the same after they were written again.
pub fn native_requests(data: &[u8]) {
    each_kind(data, [Kind::Requests, Kind::DirectoryRequest], |datagram| {
        let Some(header) = read_header(datagram) else {
            return;
        };
        if let Some(request) = DirectoryRequest::read(datagram) {
            let mut again = datagram.to_vec();
            request.write(&header, &mut again);
            assert_eq!(DirectoryRequest::read(&again), Some(request));
        }
        let over_udp = Requests::check(datagram, header.count);
        if let Ok(requests) = Requests::check_with_entries(datagram, header.count) {
            let wants_entry = requests.clone().any(|request| request.wants_entry);
            assert_eq!(over_udp.is_err(), wants_entry);
            check_requests(&header, datagram, requests);
        } else {
            assert!(over_udp.is_err());
        }
    });
}

/// Parses replies and directories, with the same checks.
pub fn native_replies(data: &[u8]) {
    each_kind(data, [Kind::Replies, Kind::DirectoryReply], |datagram| {
        let Some(header) = read_header(datagram) else {
            return;
        };
        if let Ok(replies) = Replies::with_entries(datagram, header.count) {
            check_replies(&header, datagram.len(), replies);
        }
        check_directory(&header, datagram);
    });
}

/// Calls `check` with the bytes as they are, and with a valid start of the header, so that
/// mutations of the first bytes do not hide the rest.
pub(super) fn each_kind<const N: usize>(data: &[u8], kinds: [Kind; N], check: impl Fn(&[u8])) {
    check(data);
    if data.len() < Header::BYTES {
        return;
    }
    for kind in kinds {
        let mut datagram = data.to_vec();
        Header::REQUESTS.reply(kind).write(&mut datagram);
        datagram[6..Header::BYTES].copy_from_slice(&data[6..Header::BYTES]);
        datagram[14..16].fill(0);
        check(&datagram);
    }
}

/// Checks that an accepted header writes back to the same bytes, and that a refused one has a
/// reason.
pub(super) fn read_header(datagram: &[u8]) -> Option<Header> {
    match Header::read(datagram) {
        Ok(header) => {
            let mut again = [0xaa; Header::BYTES];
            header.write(&mut again);
            assert_eq!(again, datagram[..Header::BYTES]);
            Some(header)
        }
        Err(HeaderError::NotOurs) => None,
        Err(HeaderError::Refused { status, .. }) => {
            assert!(matches!(status, Status::Version | Status::BadRequest));
            None
        }
    }
}

fn check_requests(header: &Header, datagram: &[u8], requests: Requests<'_>) {
    let all: Vec<Request<'_>> = requests.clone().collect();
    assert_eq!(all.len(), usize::from(header.count));
    let mut again = vec![0xaa; datagram.len()];
    let mut writer = RequestWriter::new(&mut again);
    let mut rest = &datagram[Header::BYTES..];
    for request in &all {
        let (opcode, key, value) = (request.opcode, request.key, request.value);
        assert_eq!(opcode == Opcode::Noop, key.is_empty());
        assert!(value.is_empty() || opcode.has_value());
        let (single, bytes) = Request::read(rest).expect("it was checked before");
        assert_eq!(single, *request);
        assert_eq!(bytes, request_bytes(opcode, key.len(), value.len()));
        // Bounds every reply without a value.
        for status in Status::ALL {
            assert!(ReplyWriter::short_reply_bytes(opcode, status) <= bytes);
        }
        rest = &rest[bytes..];
        writer.push(request).expect("there was room before");
    }
    let length = writer.finish(header);
    let written = Requests::check_with_entries(&again[..length], header.count).expect("it was valid before");
    assert_eq!(written.collect::<Vec<_>>(), all);
}

fn check_replies(header: &Header, length: usize, replies: Replies<'_>) {
    let mut again = vec![0xaa; length];
    let mut writer = ReplyWriter::new(length);
    let (mut all, mut ended) = (Vec::new(), false);
    for reply in replies {
        assert!(!ended, "nothing follows a bad reply");
        let Ok(reply) = reply else {
            ended = true;
            continue;
        };
        write_reply(&mut writer, &mut again, &reply);
        all.push(reply);
    }
    assert!(all.len() <= usize::from(header.count));
    assert_eq!(ended, all.len() < usize::from(header.count));
    let length = writer.finish(&mut again, header);
    let written = Replies::with_entries(&again[..length], all.len() as u16).expect("there is a header");
    for (written, reply) in written.zip(&all) {
        // The flags of a reply without an item have no meaning and are not written.
        let has_item = reply.status == Status::Ok && reply.opcode.answers_value();
        let flags = if has_item { reply.flags } else { 0 };
        assert_eq!(written, Ok(Reply { flags, ..*reply }));
    }
}

fn write_reply(writer: &mut ReplyWriter, datagram: &mut [u8], reply: &Reply<'_>) {
    let (opcode, status) = (reply.opcode, reply.status);
    let hash = u64::from(reply.hash_low);
    if status == Status::Ok && opcode.answers_value() {
        let (length, about) = (reply.value.len(), (opcode, reply.flags, hash));
        if let Some(entry) = &reply.entry {
            let place =
                writer.begin_value_with_entry(datagram, (reply.flags, hash), (reply.cas, entry), length);
            place.copy_from_slice(reply.value);
            writer.end_value_with_entry(length, reply.cas.is_some());
            return;
        }
        let place = writer.begin_value(datagram, about, reply.cas, length);
        place.copy_from_slice(reply.value);
        writer.end_value(length, reply.cas.is_some());
    } else {
        let word = reply.number | u64::from(reply.limit_bytes);
        writer.push(datagram, (opcode, status), hash, word);
    }
}

fn check_directory(header: &Header, datagram: &[u8]) {
    let Some((directory, first, bytes)) = Directory::read(datagram) else {
        return;
    };
    assert!(directory.partitions.is_power_of_two() && directory.cores > 0);
    // The input may lack the padding of the last entry.
    let mut again = vec![0xaa; datagram.len().next_multiple_of(8) + 8];
    let mut writer = DirectoryWriter::new(&mut again, &directory, first).expect("there is room");
    let mut written = 0;
    for (number, entry) in (first..).zip(bytes.chunks(4)) {
        let Some(entry) = directory.entry(number, entry) else {
            break;
        };
        assert!(writer.push(entry), "entry {number}");
        written += 1;
    }
    let length = writer.finish(header);
    let (read, from, entries) = Directory::read(&again[..length]).expect("it was valid before");
    assert_eq!((read, from, entries.len()), (directory, first, 4 * written));
    for ((number, new), old) in (first..).zip(entries.chunks(4)).zip(bytes.chunks(4)) {
        assert_eq!(directory.entry(number, new), directory.entry(number, old));
    }
}
