//! Answers, and what holds for those to any datagrams.

use micanite_wire::native::{Directory, Header, Kind, Opcode, Replies, Reply, ReplyWriter, Requests, Status};

use super::{Arrival, NativeBench, Sent};
use crate::native::Cookies;

/// An answer, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub header: Header,
    pub replies: Vec<OwnedReply>,
}

/// A reply that owns its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedReply {
    pub opcode: Opcode,
    pub status: Status,
    pub flags: u32,
    pub hash_low: u32,
    pub cas: Option<u64>,
    pub number: u64,
    pub limit_bytes: u32,
    pub value: Vec<u8>,
}

impl Answer {
    /// Reads a datagram, every byte of which has a meaning or is a zero.
    pub fn read(datagram: &[u8]) -> Self {
        let header = Header::read(datagram).expect("a header");
        if header.kind == Kind::DirectoryReply {
            match header.status {
                Status::Ok => assert!(Directory::read(datagram).is_some()),
                _ => assert_eq!(datagram.len(), Header::BYTES),
            }
            let replies = Vec::new();
            return Self { header, replies };
        }
        assert_eq!(header.kind, Kind::Replies);
        let replies = Replies::new(datagram, header.count).expect("replies");
        let replies: Vec<_> = replies.map(|reply| reply.expect("a reply")).collect();
        assert_eq!(write(&header, &replies), datagram, "bytes that mean nothing");
        let replies = replies.iter().map(OwnedReply::of).collect();
        Self { header, replies }
    }
}

impl OwnedReply {
    fn of(reply: &Reply<'_>) -> Self {
        Self {
            opcode: reply.opcode,
            status: reply.status,
            flags: reply.flags,
            hash_low: reply.hash_low,
            cas: reply.cas,
            number: reply.number,
            limit_bytes: reply.limit_bytes,
            value: reply.value.to_vec(),
        }
    }
}

/// The same replies, written again into zeros.
fn write(header: &Header, replies: &[Reply<'_>]) -> Vec<u8> {
    let mut datagram = vec![0; 1 << 17];
    let mut writer = ReplyWriter::new(datagram.len());
    for reply in replies {
        let what = (reply.opcode, reply.status);
        let hash = u64::from(reply.hash_low);
        if reply.status == Status::Ok && reply.opcode.answers_value() {
            let meta = (reply.opcode, reply.flags, hash);
            let bytes = reply.value.len();
            let value = writer.begin_value(&mut datagram, meta, reply.cas, bytes);
            value.copy_from_slice(reply.value);
            writer.end_value(bytes, reply.cas.is_some());
        } else {
            let word = reply.number.max(u64::from(reply.limit_bytes));
            writer.push(&mut datagram, what, hash, word);
        }
    }
    let bytes = writer.finish(&mut datagram, header);
    datagram.truncate(bytes);
    datagram
}

/// Checks the answers to any burst: every datagram of the protocol has one answer, in order, within the
/// limit, with a reply for every request. `full` is as in [`NativeBench::round`].
pub(crate) fn check(bench: &NativeBench, burst: &[Arrival], sent: &Sent, full: bool) {
    let payload_bytes = bench.native().payload_bytes;
    let mut answers = sent.datagrams.iter();
    for (number, arrival) in burst.iter().enumerate() {
        let is_elsewhere = sent.elsewhere.iter().any(|(place, _)| *place == number);
        let asks = arrival.bytes.len() >= Header::BYTES
            && arrival.bytes.len() <= payload_bytes
            && arrival.bytes.starts_with(b"Mi")
            && [Kind::Requests as u8, Kind::DirectoryRequest as u8].contains(&arrival.bytes[3])
            && arrival.peer.port() != 0;
        assert!(asks || !is_elsewhere, "handed over, though it asks nothing");
        if !asks || is_elsewhere && !full {
            continue;
        }
        let (peer, answer) = answers.next().expect("every datagram has its answer");
        assert_eq!(*peer, arrival.peer);
        assert!(answer.len() <= payload_bytes);
        check_answer(bench, arrival, answer);
    }
    assert_eq!(answers.next(), None, "answers that nobody has asked for");
}

fn check_answer(bench: &NativeBench, arrival: &Arrival, bytes: &[u8]) {
    let answer = Answer::read(bytes);
    let asked = &arrival.bytes;
    let field = |at: usize| u32::from_le_bytes(asked[at..at + 4].try_into().unwrap());
    assert_eq!(answer.header.sequence, field(16));
    assert_eq!(answer.header.client, field(20));
    assert_eq!(bytes[24..32], asked[24..32], "echo");
    assert_eq!(answer.header.generation, bench.generation());
    let cookie = u64::from_le_bytes(asked[32..40].try_into().unwrap());
    let mut cookies = Cookies::new(bench.native().cookie_key);
    let proof = cookies.check(arrival.peer, cookie, bench.now_s);
    assert_eq!(answer.header.cookie, proof.renewal);
    if !proof.proven || asked[3] == Kind::DirectoryRequest as u8 {
        assert!(bytes.len() <= asked.len(), "longer than what was asked");
    }
    if answer.header.kind == Kind::DirectoryReply {
        assert_eq!(asked[3], Kind::DirectoryRequest as u8);
        let status = answer.header.status;
        assert!(status != Status::Ok || proof.proven, "the directory is for proved addresses");
        assert!(status != Status::Unproven || !proof.proven);
    }
    if answer.header.status != Status::Ok || answer.header.kind == Kind::DirectoryReply {
        assert_eq!(answer.header.count, 0);
        return;
    }
    let count = u16::from_le_bytes([asked[6], asked[7]]);
    assert_eq!(answer.header.count, count, "a reply for every request");
    let Ok(requests) = Requests::check(asked, count) else {
        panic!("answered though it is wrong");
    };
    for (request, told) in requests.zip(&answer.replies) {
        assert_eq!((told.opcode, told.hash_low), (request.opcode, request.hash as u32));
        assert!(proof.proven || !request.opcode.writes() || told.status != Status::Ok);
        assert_eq!(told.cas.is_some(), request.wants_cas && told.status == Status::Ok);
    }
}
