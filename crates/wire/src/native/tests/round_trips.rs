//! Written datagrams read back, regardless of the buffer's previous contents.

use proptest::collection::vec;
use proptest::prelude::*;

use std::net::IpAddr;

use super::super::*;

pub(super) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0u64..300, any::<u64>()]
}

pub(super) fn header(kind: Kind) -> impl Strategy<Value = Header> {
    let asks = kind.is_from_client();
    let status = (0..Status::ALL.len()).prop_map(|number| Status::ALL[number]);
    let numbers = (any::<u32>(), any::<u16>(), any::<u16>(), any::<u32>());
    let words = (any::<u32>(), number(), number(), any::<u16>());
    (any::<[bool; 3]>(), status, numbers, words).prop_map(move |(flags, status, some, others)| Header {
        kind,
        writes: asks && flags[0],
        resent: asks && flags[1],
        slow_down: !asks && flags[2],
        status: if asks { Status::Ok } else { status },
        count: others.3,
        generation: some.0,
        partition: some.1,
        pressure: if asks { 0 } else { some.2 },
        sequence: some.3,
        client: others.0,
        echo: others.1,
        cookie: others.2,
    })
}

fn any_header() -> impl Strategy<Value = Header> {
    prop_oneof![
        header(Kind::Requests),
        header(Kind::Replies),
        header(Kind::DirectoryRequest),
        header(Kind::DirectoryReply),
        header(Kind::Hello),
        header(Kind::HelloReply),
        header(Kind::Push),
        header(Kind::History),
    ]
}

/// An owned request, so that proptest can generate it.
#[derive(Clone, Debug)]
struct Drawn {
    opcode: Opcode,
    wants_cas: bool,
    numbers: [u64; 3],
    flags: u32,
    expiry_s: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Drawn {
    /// Borrows the request, with only the fields that its operation uses.
    fn request(&self) -> Request<'_> {
        let opcode = self.opcode;
        let if_set = |condition, number| if condition { number } else { 0 };
        Request {
            opcode,
            wants_cas: opcode.answers_value() && self.wants_cas,
            wants_entry: false,
            hash: self.numbers[0],
            flags: if opcode.has_flags() { self.flags } else { 0 },
            expiry_s: if opcode.has_expiry() { self.expiry_s } else { 0 },
            argument: if_set(opcode.has_argument(), self.numbers[1]),
            id: if_set(opcode.has_id(), self.numbers[2].max(1)),
            key: if opcode == Opcode::Noop { &[] } else { &self.key },
            value: if opcode.has_value() { &self.value } else { &[] },
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let opcode = (0..Opcode::ALL.len()).prop_map(|number| Opcode::ALL[number]);
    let numbers = [number(), number(), number()];
    let bytes = (vec(any::<u8>(), 1..=KEY_BYTES_MAX), vec(any::<u8>(), 0..400));
    let small = (any::<bool>(), any::<u32>(), any::<u32>());
    (opcode, small, numbers, bytes).prop_map(|(opcode, small, numbers, (key, value))| Drawn {
        opcode,
        wants_cas: small.0,
        numbers,
        flags: small.1,
        expiry_s: small.2,
        key,
        value,
    })
}

proptest! {
    #[test]
    fn headers(header in any_header(), before in any::<u8>()) {
        let mut datagram = [before; Header::BYTES + 8];
        header.write(&mut datagram);
        prop_assert_eq!(Header::read(&datagram), Ok(header));
        prop_assert_eq!(&datagram[Header::BYTES..], &[before; 8], "nothing beyond the header");
        prop_assert_eq!(Header::read(&datagram[..Header::BYTES - 1]), Err(HeaderError::NotOurs));
    }

    #[test]
    fn reply_headers_keep_the_clients_fields(header in header(Kind::Requests)) {
        let reply = header.reply(Kind::Replies);
        let mut datagram = [0; Header::BYTES];
        reply.write(&mut datagram);
        prop_assert_eq!(Header::read(&datagram), Ok(reply));
        let kept = |header: &Header| {
            (header.generation, header.partition, header.sequence, header.client, header.echo)
        };
        prop_assert_eq!(kept(&header), kept(&reply));
        prop_assert_eq!((reply.cookie, reply.count, reply.status), (0, 0, Status::Ok));
    }

    #[test]
    fn requests(
        header in header(Kind::Requests),
        all in vec(drawn(), 1..12),
        room in Header::BYTES..4000,
        before in any::<u8>(),
    ) {
        let mut datagram = vec![before; room];
        let mut writer = RequestWriter::new(&mut datagram);
        let (mut taken, mut bytes) = (Vec::new(), Header::BYTES);
        for one in &all {
            let request = one.request();
            let takes = request_bytes(request.opcode, request.key.len(), request.value.len());
            let pushed = writer.push(&request);
            prop_assert_eq!(pushed.is_ok(), bytes + takes <= room, "refused exactly when there is no room");
            if pushed.is_ok() {
                bytes += takes;
                taken.push(request);
            }
            prop_assert_eq!(writer.bytes(), bytes);
        }
        prop_assert_eq!(usize::from(writer.count()), taken.len());
        let length = writer.finish(&header);
        prop_assert_eq!(length, bytes);
        prop_assert_eq!(length % 8, 0);
        let written = Header::read(&datagram).unwrap();
        let writes = taken.iter().any(|request| request.opcode.writes());
        prop_assert_eq!(written, Header { count: taken.len() as u16, writes, ..header });
        prop_assert!(datagram[length..].iter().all(|byte| *byte == before), "nothing beyond the end");
        let read = Requests::check(&datagram[..length], written.count);
        if taken.is_empty() {
            prop_assert_eq!(read.unwrap_err(), BadRequest);
        } else {
            prop_assert_eq!(read.unwrap().collect::<Vec<_>>(), taken);
        }
    }

    #[test]
    fn replies(
        header in header(Kind::Replies),
        all in vec((drawn(), 0..Status::ALL.len()), 0..12),
        before in any::<u8>(),
    ) {
        let mut datagram = vec![before; 8000];
        let mut writer = ReplyWriter::new(datagram.len());
        let mut expected = Vec::new();
        for (one, status) in &all {
            let (opcode, status) = (one.opcode, Status::ALL[*status]);
            let (hash, room) = (one.numbers[0], writer.room());
            let mut reply = Reply {
                opcode,
                status,
                flags: 0,
                hash_low: hash as u32,
                cas: None,
                entry: None,
                number: 0,
                limit_bytes: 0,
                value: &[],
            };
            let takes = if status == Status::Ok && opcode.answers_value() {
                reply.flags = one.flags;
                reply.cas = one.wants_cas.then_some(one.numbers[1]);
                reply.value = &one.value;
                let about = (opcode, one.flags, hash);
                let place = writer.begin_value(&mut datagram, about, reply.cas, one.value.len());
                place.copy_from_slice(&one.value);
                writer.end_value(one.value.len(), one.wants_cas);
                ReplyWriter::value_reply_bytes(one.value.len(), one.wants_cas)
            } else {
                let word = one.numbers[1];
                reply.limit_bytes = if status == Status::TooLarge { word as u32 } else { 0 };
                let answers_number = status == Status::Ok && opcode.answers_number();
                reply.number = if answers_number { word } else { 0 };
                writer.push(&mut datagram, (opcode, status), hash, word);
                ReplyWriter::short_reply_bytes(opcode, status)
            };
            prop_assert_eq!(writer.room(), room - takes);
            prop_assert!((ReplyWriter::BYTES_MIN..).contains(&takes));
            expected.push(Ok(reply));
        }
        let length = writer.finish(&mut datagram, &header);
        prop_assert_eq!(length % 8, 0);
        let written = Header::read(&datagram).unwrap();
        prop_assert_eq!(written, Header { count: expected.len() as u16, ..header });
        let read = Replies::new(&datagram[..length], written.count).unwrap();
        prop_assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    /// No reply without a value is longer than its request, so a refusal never amplifies.
    #[test]
    fn short_replies_are_not_longer_than_their_requests(one in drawn()) {
        let request = one.request();
        let bytes = request_bytes(request.opcode, request.key.len(), request.value.len());
        for status in Status::ALL {
            let reply = ReplyWriter::short_reply_bytes(request.opcode, status);
            prop_assert!(reply <= bytes && reply <= ReplyWriter::SHORT_BYTES_MAX);
        }
    }

    #[test]
    fn directories(
        (header, request) in (header(Kind::DirectoryReply), header(Kind::DirectoryRequest)),
        numbers in (number(), 0u32..=10, 1u16..=300, any::<u16>(), 0..=ADDRESSES_MAX),
        limits in (1232u32..=65_507, any::<u32>(), 1u16.., any::<u16>()),
        room in prop_oneof![48usize..88, 104usize..3000],
        before in any::<u8>(),
    ) {
        let directory = Directory {
            hash_seed: numbers.0,
            partitions: 1 << numbers.1,
            cores: numbers.2,
            stream_port: numbers.3,
            payload_bytes_max: limits.0,
            value_bytes_max: limits.1,
            ids_window: limits.2,
            cookie_s: limits.3,
            addresses: numbers.4,
        };
        let mut read = Vec::new();
        let mut next = 0;
        while next < directory.all_entries() {
            let mut datagram = vec![before; room];
            let first = next;
            DirectoryRequest { first }.write(&request, &mut datagram);
            let fits = room >= DirectoryWriter::BYTES_MIN;
            let read_back = DirectoryRequest::read(&datagram);
            prop_assert_eq!(read_back, fits.then_some(DirectoryRequest { first }));
            datagram.fill(before);
            let Some(mut writer) = DirectoryWriter::new(&mut datagram, &directory, first) else {
                prop_assert!(!fits);
                return Ok(());
            };
            while writer.next() < directory.page_end(first) {
                if !writer.push(entry(&directory, writer.next())) {
                    break;
                }
            }
            next = writer.next();
            let length = writer.finish(&header);
            prop_assert!(length <= room);
            prop_assert_eq!(length % 8, 0);
            let (again, from, bytes) = Directory::read(&datagram[..length]).unwrap();
            prop_assert_eq!((again, from), (directory, first));
            prop_assert!(!bytes.is_empty());
            let mut number = first;
            while number < next {
                let read_back = directory.entry(number, &bytes[(number - first) as usize * 4..]).unwrap();
                read.push((number, read_back));
                number += read_back.numbers();
            }
        }
        for (number, read_back) in read {
            prop_assert_eq!(read_back, entry(&directory, number));
        }
    }
}

/// Creates an arbitrary entry of a number.
fn entry(directory: &Directory, number: u32) -> Entry {
    if number < u32::from(directory.cores) {
        let (port, node) = (4000 + number as u16, number as u16 % 4);
        return Entry::Core(CoreEntry { port, node });
    }
    if let Some(beyond) = number.checked_sub(directory.entries()) {
        let interface = beyond as u16 % 3;
        if beyond < u32::from(directory.cores) {
            return Entry::Place(CorePlace { port: 1 + beyond as u16, interface });
        }
        let ip = match beyond % 2 {
            0 => IpAddr::from(beyond.to_be_bytes()),
            _ => IpAddr::from((u128::from(beyond) << 100 | 1).to_be_bytes()),
        };
        return Entry::Address(InterfaceAddress { interface, ip });
    }
    let access = match number % 3 {
        0 => PartitionAccess::Erew,
        1 => PartitionAccess::Crew,
        _ => PartitionAccess::Crcw,
    };
    let owner = (number * 7 % u32::from(directory.cores)) as u16;
    Entry::Partition(PartitionEntry { owner, access })
}
