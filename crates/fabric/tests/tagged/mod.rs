//! Messages with tags, receives that are cancelled, and reads of two ranges.

use micanite_fabric::{Error, Operation, Provider};

use crate::client::{Client, OPTIONS, Server};

/// Proves that a message finds the buffer of its tag among others, from either side, whatever its length.
pub fn a_tagged_message_reaches_only_the_receive_of_its_tag(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    for tag in [0x10, 0x20, u64::MAX - 1] {
        assert_eq!(client.ask(format!("tag {tag}").as_bytes()), b"posted");
        for answer in [tag + 1, tag - 8] {
            let buffer = client.endpoint.buffer(1 << 20).unwrap();
            client.endpoint.receive_tagged(buffer, answer, answer).unwrap();
        }
    }
    for (round, bytes) in [1, 64, 16 << 10, 17 << 10, 512 << 10].into_iter().enumerate() {
        for tag in [0x20, 0x10, u64::MAX - 1] {
            let message: Vec<u8> = (0..bytes).map(|at| (at * 7 + round) as u8 ^ tag as u8).collect();
            client.tell_tagged(&message, tag);
            let heard = client.hear_tagged();
            assert_eq!((heard.operation, heard.token), (Operation::ReceiveTagged, tag + 1));
            let length = heard.result.unwrap();
            assert!(heard.buffer[..length] == message, "{bytes} bytes, tag {tag}");
            client.endpoint.receive_tagged(heard.buffer, tag + 1, tag + 1).unwrap();
            // Messages without a tag are apart.
            assert_eq!(client.ask(b"untagged"), b"untagged");
        }
    }
    assert!(!client.has_heard_tagged());
}

/// Proves that messages with tags that nobody waits for are taken by no receive, and stop nobody.
pub fn a_message_with_an_unknown_tag_reaches_nobody(provider: &'static Provider) {
    let server = Server::start(provider);
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    for client in [&mut client, &mut other] {
        assert_eq!(client.ask(b"tag 64"), b"posted");
        let buffer = client.endpoint.buffer(4096).unwrap();
        client.endpoint.receive_tagged(buffer, 65, 65).unwrap();
    }
    for round in 0..100_u64 {
        client.tell_tagged(b"for nobody", 1000 + round);
        other.tell_tagged(&round.to_le_bytes(), 64);
        let heard = other.hear_tagged();
        assert_eq!(heard.buffer[..heard.result.unwrap()], round.to_le_bytes());
        other.endpoint.receive_tagged(heard.buffer, 65, 65).unwrap();
    }
    assert_eq!(client.ask(b"untagged"), b"untagged");
    client.tell_tagged(b"known", 64);
    let heard = client.hear_tagged();
    assert_eq!(&heard.buffer[..heard.result.unwrap()], b"known");
    assert!(!client.has_heard_tagged() && !other.has_heard_tagged());
}

/// Proves that a cancelled receive ends, on either side, and takes no message from then on.
pub fn a_cancelled_receive_returns_its_buffer(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    for round in 0..20 {
        for token in [7, 8] {
            let mut buffer = client.endpoint.buffer(100).unwrap();
            buffer.fill(token as u8);
            client.endpoint.receive_tagged(buffer, 4 * token, token).unwrap();
        }
        assert_eq!(client.endpoint.cancel(9), 0);
        assert_eq!(client.endpoint.cancel(7), 1);
        let ended = client.hear_tagged();
        assert_eq!((ended.operation, ended.token), (Operation::ReceiveTagged, 7), "round {round}");
        assert_eq!(ended.result, Err(Error::Cancelled));
        assert_eq!(*ended.buffer, [7; 100]);
        assert_eq!(client.endpoint.cancel(8), 1);
        assert_eq!(client.hear_tagged().token, 8);
    }
    assert_eq!(client.ask(b"tag 64"), b"posted");
    assert_eq!(client.ask(b"cancel 64"), b"cancelled");
    let buffer = client.endpoint.buffer(100).unwrap();
    client.endpoint.receive_tagged(buffer, 65, 65).unwrap();
    client.tell_tagged(b"late", 64);
    assert_eq!(client.ask(b"after it"), b"after it");
    assert!(!client.has_heard_tagged());
}

/// Proves that two ranges of an area come in one transfer, in the order of the request, also where the
/// provider reads one range at a time.
pub fn two_ranges_arrive_in_order(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    for is_split in [false, true] {
        if is_split {
            client.endpoint.read_one_range_at_a_time();
        }
        for ranges in [
            [(4096, 64), (512, 64)],
            [(64, 64), (65_536 - 1024, 1024)],
            [(64, 64), (64, 64)],
            [(0, 8), (8, 65_528)],
            [(0, 32 << 10), (0, 64 << 10)],
        ] {
            let read = client.read_ranges(&area, ranges).unwrap();
            let words = ranges.map(|(offset, bytes)| offset / 8..(offset + bytes as u64) / 8);
            let expected = words.into_iter().flatten().flat_map(u64::to_le_bytes);
            assert!(read.into_iter().eq(expected), "{ranges:?}, one at a time: {is_split}");
        }
        let wrong = [
            [(0, 8), (area.bytes - 4, 8)],
            [(0, 0), (8, 8)],
            [(0, 8), (8, 0)],
            [(0, 8), (8, usize::MAX)],
            [(u64::MAX, 8), (8, 8)],
        ];
        for ranges in wrong {
            assert_eq!(client.read_ranges(&area, ranges).unwrap_err(), Error::OutOfRange, "{ranges:?}");
        }
    }
}

/// Proves that parts of a buffer, which share a registration, serve transfers of their own.
pub fn parts_of_a_buffer_are_apart(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let mut first = client.endpoint.buffer(192).unwrap();
    let mut second = first.split_off(64);
    let third = second.split_off(64);
    assert_eq!((first.len(), second.len(), third.len()), (64, 64, 64));
    client.endpoint.receive_tagged(first, 65, 1).unwrap();
    client.endpoint.receive_tagged(third, 69, 3).unwrap();
    second.fill(9);
    assert_eq!(client.ask(b"tag 64"), b"posted");
    assert_eq!(client.ask(b"tag 68"), b"posted");
    let mut heard = Vec::new();
    for tag in [64, 68] {
        client.tell_tagged(&[tag as u8; 64], tag);
        heard.push(client.hear_tagged());
    }
    assert_eq!([heard[0].token, heard[1].token], [1, 3]);
    assert_eq!(*heard[0].buffer, [64; 64]);
    assert_eq!(*heard[1].buffer, [68; 64]);
    assert_eq!(*second, [9; 64]);
    // The memory lives as long as a part of it.
    drop((heard, client));
    second.fill(1);
}

/// Proves that long messages that nobody fetches, which no provider ends, cost no slots once they were given
/// up, and that their memory stays mapped for those who fetch them late.
pub fn transfers_that_were_given_up_leave_room(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    for round in 0..2 * u64::from(OPTIONS.transfers_max) {
        let buffer = client.endpoint.buffer(64 << 10).unwrap();
        client.send_unheard(buffer, 1000 + 2 * round, 77);
        assert_eq!(client.endpoint.give_up(77), 1);
        assert_eq!(client.endpoint.give_up(77), 0);
        assert_eq!(client.ask(b"other"), b"other");
    }
    // The receiver comes late, and fetches what is there.
    assert_eq!(client.ask(b"tag 1000"), b"posted");
    assert_eq!(client.ask(b"after it"), b"after it");
}
