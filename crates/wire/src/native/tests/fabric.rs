//! Messages of a fabric: written ones read back, invalid ones are refused.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::round_trips::{header, number};

fn get() -> Request<'static> {
    Request {
        opcode: Opcode::Get,
        wants_cas: false,
        wants_entry: true,
        hash: 1,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key: b"key",
        value: &[],
    }
}

fn written(request: &Request<'_>) -> Vec<u8> {
    let mut message = vec![0xaa; 100];
    let mut writer = RequestWriter::new(&mut message);
    writer.push(request).unwrap();
    let length = writer.finish(&Header::REQUESTS);
    message.truncate(length);
    message
}

/// Only a get over a fabric may want an entry.
#[test]
fn an_entry_is_wanted_by_a_get_over_a_fabric_only() {
    for wants_cas in [false, true] {
        let request = Request { wants_cas, ..get() };
        let message = written(&request);
        let read: Vec<_> = Requests::check_with_entries(&message, 1).unwrap().collect();
        assert_eq!(read, [request]);
        assert_eq!(Requests::check(&message, 1).unwrap_err(), BadRequest, "over UDP");
    }
    for opcode in [Opcode::Delete, Opcode::GetAndTouch] {
        let message = written(&Request { opcode, ..get() });
        assert_eq!(Requests::check_with_entries(&message, 1).unwrap_err(), BadRequest);
        let message = written(&Request { opcode, wants_entry: false, ..get() });
        assert!(Requests::check_with_entries(&message, 1).is_ok());
    }
    let mut message = written(&get());
    message[Header::BYTES + 2] = 4;
    assert_eq!(Requests::check_with_entries(&message, 1).unwrap_err(), BadRequest);
}

#[test]
fn invalid_entries_of_replies() {
    let entry = ReplyEntry { offset: 1, version: 2, bytes: 3 };
    let mut message = vec![0xaa; 200];
    let mut writer = ReplyWriter::new(message.len());
    writer.begin_value_with_entry(&mut message, (4, 5), (None, &entry), 5).copy_from_slice(b"value");
    writer.end_value_with_entry(5, false);
    let length = writer.finish(&mut message, &Header::REQUESTS.reply(Kind::Replies));
    message.truncate(length);
    fn read(message: &[u8]) -> Result<Reply<'_>, BadReply> {
        Replies::with_entries(message, 1).unwrap().next().unwrap()
    }
    assert_eq!(read(&message).unwrap().entry, Some(entry));
    assert_eq!(Replies::new(&message, 1).unwrap().next(), Some(Err(BadReply)), "over UDP");
    for end in Header::BYTES..message.len() {
        assert_eq!(read(&message[..end]), Err(BadReply), "to {end}");
    }
    let with = |at: usize, byte: u8| {
        let mut changed = message.clone();
        changed[Header::BYTES + at] = byte;
        read(&changed).map(|reply| reply.entry)
    };
    assert_eq!(with(0, Opcode::GetAndTouch as u8), Err(BadReply), "only a get has entries");
    assert_eq!(with(1, Status::NotFound as u8), Err(BadReply), "only what was found has an entry");
    assert_eq!(with(36, 1), Err(BadReply), "the zero");
    assert_eq!(with(2, 4), Err(BadReply), "an unknown option");
}

fn hello_bytes(user: &[u8], password: &[u8]) -> Vec<u8> {
    let hello = Hello { nonce: 1, message_bytes_max: 2, user, password };
    let mut message = vec![0xaa; HELLO_BYTES_MAX];
    let length = hello.write(&Header { kind: Kind::Hello, ..Header::REQUESTS }, &mut message).unwrap();
    message.truncate(length);
    message
}

#[test]
fn invalid_hellos() {
    let whole = hello_bytes(b"user", b"password+");
    assert_eq!(whole.len(), 56 + 8 + 16);
    for end in 0..whole.len() {
        assert_eq!(Hello::read(&whole[..end]), None, "to {end}");
    }
    for at in [52, 54] {
        let mut changed = whole.clone();
        changed[at..at + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(Hello::read(&changed), None, "a length of 65,535 at {at}");
    }
    let longest = hello_bytes(&[b'u'; 400], &[b'p'; 440]);
    assert_eq!(longest.len(), HELLO_BYTES_MAX);
    assert!(Hello::read(&longest).is_some());
    assert_eq!(Hello::read(&[&longest[..], b"\0"].concat()), None, "too long");
    let too_long = Hello { nonce: 1, message_bytes_max: 2, user: &[b'u'; 401], password: &[b'p'; 440] };
    assert_eq!(too_long.write(&Header::REQUESTS, &mut [0; 1000]), Err(Full));
}

fn valid_reply() -> HelloReply {
    HelloReply {
        session: 4,
        message_bytes_max: 4096,
        partition_bits: 3,
        workers: 2,
        worker: 1,
        ids_window: 64,
        ..HelloReply::default()
    }
}

#[test]
fn invalid_hello_replies() {
    let reads = |reply: HelloReply| {
        let mut message = [0xaa; HelloReply::BYTES + 8];
        let length = reply.write(&Header::REQUESTS.reply(Kind::HelloReply), &mut message);
        for end in 0..length {
            assert_eq!(HelloReply::read(&message[..end]), None, "to {end}");
        }
        HelloReply::read(&message[..length]).inspect(|read| assert_eq!(*read, reply)).is_some()
    };
    let valid = valid_reply();
    assert!(reads(valid));
    assert_eq!((valid.push_tag(), valid.history_tag()), (5, 6));
    assert!(!reads(HelloReply { session: 0, ..valid }), "no session");
    for bit in [1, 2] {
        assert!(!reads(HelloReply { session: 4 | bit, ..valid }), "the tag of another message");
    }
    assert!(!reads(HelloReply { partition_bits: 11, ..valid }), "too many partitions");
    assert!(!reads(HelloReply { worker: 2, ..valid }), "no such worker");
    assert!(!reads(HelloReply { ids_window: 0, ..valid }), "no ids");
    assert!(!reads(HelloReply { message_bytes_max: 39, ..valid }), "no room for a header");
}

#[test]
fn lists_cut_off_at_every_byte() {
    let mut message = [0; 200];
    let mut pushes = PushWriter::new(&mut message);
    let entry = ChunkEntry { hash: 1, offset: 2, version: 3, bytes: 4 };
    for _ in 0..5 {
        pushes.push(&entry).unwrap();
    }
    assert_eq!(pushes.push(&entry), Err(Full));
    let length = pushes.finish(&Header::REQUESTS.reply(Kind::Push));
    assert_eq!(Pushes::check(&message[..length], 5).unwrap().collect::<Vec<_>>(), [entry; 5]);
    for end in 0..length {
        assert_eq!(Pushes::check(&message[..end], 5).unwrap_err(), BadReply, "to {end}");
    }
    assert_eq!(Pushes::check(&message[..Header::BYTES], 0).unwrap().count(), 0);
    message[Header::BYTES + 28] = 1;
    assert_eq!(Pushes::check(&message[..length], 5).unwrap_err(), BadReply, "the zero");

    let mut history = HistoryWriter::new(&mut message);
    let access = Access { hash: 1, count: 2 };
    for _ in 0..10 {
        history.push(&access).unwrap();
    }
    assert_eq!(history.push(&access), Err(Full));
    assert_eq!(history.count(), 10);
    let length = history.finish(&Header { kind: Kind::History, ..Header::REQUESTS });
    assert_eq!(History::check(&message[..length], 10).unwrap().collect::<Vec<_>>(), [access; 10]);
    for end in 0..length {
        assert_eq!(History::check(&message[..end], 10).unwrap_err(), BadRequest, "to {end}");
    }
    assert_eq!(History::check(&message[..length], u16::MAX).unwrap_err(), BadRequest);
    message[Header::BYTES + 12] = 1;
    assert_eq!(History::check(&message[..length], 10).unwrap_err(), BadRequest, "the zero");
}

proptest! {
    #[test]
    fn replies_with_entries(
        (numbers, bytes, flags) in ([number(), number(), number()], any::<u32>(), any::<u32>()),
        (has_cas, has_entry, value) in (any::<bool>(), any::<bool>(), vec(any::<u8>(), 0..100)),
        before in any::<u8>(),
    ) {
        let mut message = vec![before; 400];
        let mut writer = ReplyWriter::new(message.len());
        let entry = ReplyEntry { offset: numbers[0], version: numbers[1], bytes };
        let (cas, room) = (has_cas.then_some(numbers[2]), writer.room());
        let mut takes = ReplyWriter::value_reply_bytes(value.len(), has_cas);
        if has_entry {
            let place = writer.begin_value_with_entry(&mut message, (flags, 7), (cas, &entry), value.len());
            place.copy_from_slice(&value);
            writer.end_value_with_entry(value.len(), has_cas);
            takes += ReplyWriter::ENTRY_BYTES;
        } else {
            let place = writer.begin_value(&mut message, (Opcode::Get, flags, 7), cas, value.len());
            place.copy_from_slice(&value);
            writer.end_value(value.len(), has_cas);
        }
        prop_assert_eq!(writer.room(), room - takes);
        writer.push(&mut message, (Opcode::Set, Status::Ok), 8, 0);
        let length = writer.finish(&mut message, &Header::REQUESTS.reply(Kind::Replies));
        prop_assert!(message[length..].iter().all(|byte| *byte == before), "nothing beyond the end");
        let read: Vec<_> = Replies::with_entries(&message[..length], 2).unwrap().flatten().collect();
        prop_assert_eq!(read.len(), 2);
        prop_assert_eq!((read[0].cas, read[0].entry), (cas, has_entry.then_some(entry)));
        prop_assert_eq!((read[0].value, read[0].flags, read[0].hash_low), (&value[..], flags, 7));
        prop_assert_eq!((read[1].opcode, read[1].entry), (Opcode::Set, None));
    }

    #[test]
    fn hellos(
        header in header(Kind::Hello),
        (nonce, message_bytes_max) in (number(), any::<u32>()),
        user in vec(any::<u8>(), 0..500),
        password in vec(any::<u8>(), 0..500),
        room in 0usize..1000,
        before in any::<u8>(),
    ) {
        let hello = Hello { nonce, message_bytes_max, user: &user, password: &password };
        let mut message = vec![before; room];
        let takes = Header::BYTES + 16 + padded(user.len()) + padded(password.len());
        match hello.write(&header, &mut message) {
            Ok(length) => {
                prop_assert!(length == takes && length <= room.min(HELLO_BYTES_MAX));
                prop_assert_eq!(Header::read(&message), Ok(header));
                prop_assert_eq!(Hello::read(&message[..length]), Some(hello));
                prop_assert!(message[length..].iter().all(|byte| *byte == before));
            }
            Err(Full) => {
                prop_assert!(takes > room.min(HELLO_BYTES_MAX));
                prop_assert!(message.iter().all(|byte| *byte == before), "nothing was written");
            }
        }
    }

    #[test]
    fn hello_replies(
        header in header(Kind::HelloReply),
        words in [number(), number(), number(), number(), number(), number(), number(), number()],
        sizes in [any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()],
        (session, ids_window) in (1u64..=u64::MAX / 4, 1u16..),
        (partition_bits, worker, others) in (0u8..=10, 0u16..100, 1u16..100),
        before in any::<u8>(),
    ) {
        let reply = HelloReply {
            session: session * 4,
            hash_seed: words[0],
            second: words[1],
            incarnation: words[2],
            area_key: words[3],
            area_base: words[4],
            area_bytes: words[5],
            lease_ns: words[6],
            frozen_ns: words[7],
            message_bytes_max: sizes[0].max(40),
            value_bytes_max: sizes[1],
            page_bytes: sizes[2],
            pages: sizes[3],
            partition_bits,
            workers: worker + others,
            worker,
            ids_window,
            push_ms: sizes[4],
        };
        let mut message = [before; HelloReply::BYTES + 8];
        prop_assert_eq!(reply.write(&header, &mut message), HelloReply::BYTES);
        prop_assert_eq!(Header::read(&message), Ok(header));
        prop_assert_eq!(HelloReply::read(&message), Some(reply));
        prop_assert_eq!(&message[HelloReply::BYTES..], &[before; 8], "nothing beyond the end");
    }

    #[test]
    fn pushes_and_histories(
        (push, history) in (header(Kind::Push), header(Kind::History)),
        records in vec((number(), number(), number(), any::<u32>()), 0..20),
        room in Header::BYTES..500,
        before in any::<u8>(),
    ) {
        let entries: Vec<_> = records.iter().map(|&(hash, offset, version, bytes)| {
            ChunkEntry { hash, offset, version, bytes }
        }).collect();
        let mut message = vec![before; room];
        let mut writer = PushWriter::new(&mut message);
        let taken = entries.iter().take_while(|entry| writer.push(entry).is_ok()).count();
        prop_assert_eq!(usize::from(writer.count()), taken);
        prop_assert_eq!(taken, entries.len().min((room - Header::BYTES) / ChunkEntry::BYTES));
        let length = writer.finish(&push);
        let read = Header::read(&message).unwrap();
        prop_assert_eq!(read, Header { count: taken as u16, ..push });
        let all = Pushes::check(&message[..length], read.count).unwrap();
        prop_assert_eq!(all.collect::<Vec<_>>(), &entries[..taken]);

        let accesses: Vec<_> =
            records.iter().map(|&(hash, _, _, count)| Access { hash, count }).collect();
        message.fill(before);
        let mut writer = HistoryWriter::new(&mut message);
        let taken = accesses.iter().take_while(|access| writer.push(access).is_ok()).count();
        prop_assert_eq!(taken, accesses.len().min((room - Header::BYTES) / Access::BYTES));
        let length = writer.finish(&history);
        let read = Header::read(&message).unwrap();
        prop_assert_eq!(read, Header { count: taken as u16, ..history });
        let all = History::check(&message[..length], read.count).unwrap();
        prop_assert_eq!(all.collect::<Vec<_>>(), &accesses[..taken]);
        prop_assert!(message[length..].iter().all(|byte| *byte == before));
    }
}
