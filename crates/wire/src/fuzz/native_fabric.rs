//! Fuzzes the messages that only fabrics have: a server reads hellos and histories, a client reads hello
//! replies and pushes.

use crate::native::{
    HELLO_BYTES_MAX, Header, Hello, HelloReply, History, HistoryWriter, Kind, PushWriter, Pushes,
};

use super::native::{each_kind, read_header};

/// Parses hellos, hello replies, pushes and histories. Accepted ones parse to the same after they were
/// written again.
pub fn native_fabric(data: &[u8]) {
    each_kind(data, [Kind::Hello, Kind::HelloReply, Kind::Push, Kind::History], |message| {
        let Some(header) = read_header(message) else {
            return;
        };
        // A body says nothing about its kind: each reader gets each of them.
        check_hello(&header, message);
        check_hello_reply(&header, message);
        check_lists(&header, message);
    });
}

fn check_hello(header: &Header, message: &[u8]) {
    let Some(hello) = Hello::read(message) else {
        return;
    };
    let mut again = [0xaa; HELLO_BYTES_MAX];
    let length = hello.write(header, &mut again).expect("it was as long before");
    assert!(length <= message.len());
    assert_eq!(Hello::read(&again[..length]), Some(hello));
}

fn check_hello_reply(header: &Header, message: &[u8]) {
    let Some(reply) = HelloReply::read(message) else {
        return;
    };
    assert!(reply.session != 0 && reply.push_tag() != reply.session);
    assert!(reply.worker < reply.workers && reply.history_tag() != reply.push_tag());
    let mut again = [0xaa; HelloReply::BYTES];
    let length = reply.write(header, &mut again);
    assert_eq!(HelloReply::read(&again[..length]), Some(reply));
}

fn check_lists(header: &Header, message: &[u8]) {
    let mut again = vec![0xaa; message.len()];
    if let Ok(pushes) = Pushes::check(message, header.count) {
        let mut writer = PushWriter::new(&mut again);
        for entry in pushes.clone() {
            writer.push(&entry).expect("there was room before");
        }
        let length = writer.finish(header);
        assert_eq!(again[..length], message[..length]);
        assert_eq!(pushes.count(), usize::from(header.count));
    }
    if let Ok(history) = History::check(message, header.count) {
        let mut writer = HistoryWriter::new(&mut again);
        for access in history.clone() {
            writer.push(&access).expect("there was room before");
        }
        let length = writer.finish(header);
        assert_eq!(again[..length], message[..length]);
        assert_eq!(history.count(), usize::from(header.count));
    }
}
