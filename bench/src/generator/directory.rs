//! Asks a server for its directory, once, before the clock runs.

use std::sync::atomic::{AtomicU32, Ordering};

use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind, Status};

use super::packets::Terms;
use crate::Result;

/// Asks for a directory from its begin, in as many bytes as the answer may have. The answer has the same
/// sequence number.
pub(crate) fn request(cookie: u64, sequence: u32) -> [u8; 512] {
    let mut request = [0; 512];
    let header = Header { kind: Kind::DirectoryRequest, client: 1, cookie, sequence, ..Header::REQUESTS };
    DirectoryRequest { first: 0 }.write(&header, &mut request);
    request
}

enum Answer {
    /// The server wants to see this cookie first.
    Challenge(u64),
    Directory(Terms),
}

/// Reads an answer to the request with this cookie and number; none of a late answer to another.
fn read(reply: &[u8], cookie: u64, sequence: u32) -> Option<Answer> {
    let header = Header::read(reply).ok()?;
    if header.kind != Kind::DirectoryReply || header.sequence != sequence {
        return None;
    }
    if header.status == Status::Unproven {
        return (header.cookie != cookie).then_some(Answer::Challenge(header.cookie));
    }
    let (directory, ..) = Directory::read(reply)?;
    let renewed = header.cookie != 0;
    Some(Answer::Directory(Terms {
        hash_seed: directory.hash_seed,
        generation: header.generation,
        cookie: if renewed { header.cookie } else { cookie },
        partition_bits: directory.partitions.ilog2(),
    }))
}

/// Learns the terms of a server. `ask` sends a payload, again if need be, until the closure is satisfied with
/// a reply.
pub(crate) fn learn(
    mut ask: impl FnMut(&[u8], &mut dyn FnMut(&[u8]) -> bool) -> Result<()>,
) -> Result<Terms> {
    let mut cookie = 0;
    // A cookie may end between the challenge and the answer to it.
    for _ in 0..3 {
        static SEQUENCE: AtomicU32 = AtomicU32::new(1);
        let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let mut answer = None;
        let mut satisfies = |reply: &[u8]| {
            answer = answer.take().or_else(|| read(reply, cookie, sequence));
            answer.is_some()
        };
        ask(&request(cookie, sequence), &mut satisfies)?;
        match answer {
            Some(Answer::Directory(terms)) => return Ok(terms),
            Some(Answer::Challenge(given)) => cookie = given,
            None => break,
        }
    }
    Err("the server does not take its own cookies".into())
}
