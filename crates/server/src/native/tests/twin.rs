//! The naive twin of a server: what each request of any datagram is to be answered.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use micanite_wire::native::{Header, Request, Requests, padded};

use super::*;
use crate::native::Cookies;
use crate::native::testing::OwnedReply;

/// Items, and everything that was ever executed under an id.
#[derive(Default)]
pub(super) struct Twin {
    pub items: HashMap<Vec<u8>, (Vec<u8>, u32)>,
    done: HashMap<(SocketAddr, u32, u64), (Status, u64)>,
    clients: HashSet<(SocketAddr, u32)>,
}

/// Result of a request, if there were room for every value.
struct End {
    status: Status,
    number: u64,
    value: Option<(Vec<u8>, u32)>,
}

impl End {
    fn of(status: Status) -> Self {
        Self { status, number: 0, value: None }
    }
}

impl Twin {
    /// Compares an answer with what is expected for a datagram that asks sensibly.
    pub fn compare(&mut self, bench: &NativeBench, arrival: &Arrival, answer: &Answer) {
        let header = Header::read(&arrival.bytes).unwrap();
        let requests = Requests::check(&arrival.bytes, header.count).unwrap();
        let mut cookies = Cookies::new(bench.native().cookie_key);
        let proof = cookies.check(arrival.peer, header.cookie, bench.now_s);
        let payload_bytes = bench.native().payload_bytes;
        let limit = match proof.proven {
            true => payload_bytes,
            false => arrival.bytes.len(),
        };
        let mut filled = Header::BYTES;
        for (number, (request, reply)) in requests.zip(&answer.replies).enumerate() {
            let good_hash = bench.server.shared.cache.hash(request.key).0 == request.hash;
            let trusts = header.generation == bench.generation();
            let end = match () {
                () if request.opcode == Opcode::Noop => End::of(Status::Ok),
                () if request.opcode.writes() && !proof.proven => End::of(Status::Unproven),
                () if !good_hash && trusts && request.opcode.writes() => End::of(Status::BadRequest),
                // Some bits of a hash choose nothing in a small table.
                () if !good_hash && trusts && reply.status == Status::NotFound => End::of(Status::NotFound),
                () => self.execute((arrival.peer, &header), &request),
            };
            let after = usize::from(header.count) - number - 1;
            let room = limit - filled;
            let expected = place(&request, end, (room, after), (proof.proven, payload_bytes));
            assert_eq!(reply.status, expected.status, "request {number}");
            assert_eq!(reply.number, expected.number, "request {number}");
            let value = expected.value.unwrap_or_default();
            assert_eq!((&reply.value, reply.flags), (&value.0, value.1));
            filled += reply_bytes(reply);
        }
    }

    fn execute(&mut self, who: (SocketAddr, &Header), request: &Request<'_>) -> End {
        let (peer, header) = who;
        let name = (peer, header.client, request.id);
        if !request.opcode.has_id() {
            return self.apply(request);
        }
        if let Some((status, number)) = self.done.get(&name) {
            // A reused id gets the status of its first request, even if the requests differ.
            let has_number = request.opcode.answers_number();
            return End { number: if has_number { *number } else { 0 }, ..End::of(*status) };
        }
        if header.resent && !self.clients.contains(&(peer, header.client)) {
            return End::of(Status::Forgotten);
        }
        self.clients.insert((peer, header.client));
        let end = self.apply(request);
        self.done.insert(name, (end.status, end.number));
        end
    }

    fn apply(&mut self, request: &Request<'_>) -> End {
        let (key, value) = (request.key.to_vec(), request.value.to_vec());
        let found = self.items.get(&key).cloned();
        let Some((old, flags)) = found else {
            return End::of(match request.opcode {
                Opcode::Set | Opcode::Add => {
                    self.items.insert(key, (value, request.flags));
                    Status::Ok
                }
                Opcode::Replace | Opcode::Append | Opcode::Prepend => Status::NotStored,
                _ => Status::NotFound,
            });
        };
        let mut put = |value: Vec<u8>, flags| {
            self.items.insert(key.clone(), (value, flags));
            End::of(Status::Ok)
        };
        match request.opcode {
            Opcode::Get | Opcode::GetAndTouch => End { value: Some((old, flags)), ..End::of(Status::Ok) },
            Opcode::Set | Opcode::Replace => put(value, request.flags),
            Opcode::Add => End::of(Status::NotStored),
            // The tests send none that is right.
            Opcode::Cas => End::of(Status::Exists),
            Opcode::Append => put([old, value].concat(), flags),
            Opcode::Prepend => put([value, old].concat(), flags),
            Opcode::Delete => {
                self.items.remove(&key);
                End::of(Status::Ok)
            }
            Opcode::Touch | Opcode::Noop => End::of(Status::Ok),
            Opcode::Increment | Opcode::Decrement => {
                let text = String::from_utf8(old).unwrap_or_default();
                // As memcached: what follows a space is not looked at, but for its length.
                let digits = text.split(' ').next().unwrap_or_default();
                let Some(number) = digits.parse().ok().filter(|_| text.len() <= 64) else {
                    return End::of(Status::NotANumber);
                };
                let (number, text) = changed(request, number, text.len());
                End { number, ..put(text.into_bytes(), flags) }
            }
        }
    }
}

/// The new number and its text: a number that becomes shorter leaves spaces, as memcached's does.
fn changed(request: &Request<'_>, number: u64, bytes: usize) -> (u64, String) {
    if request.opcode == Opcode::Increment {
        let number = number.wrapping_add(request.argument);
        return (number, format!("{number:<bytes$}"));
    }
    let number = number.saturating_sub(request.argument);
    (number, format!("{number:<bytes$}"))
}

/// Status of a value that has no room.
fn place(
    request: &Request<'_>,
    end: End,
    (room, after): (usize, usize),
    (proven, payload_bytes): (bool, usize),
) -> End {
    let Some((value, _)) = &end.value else {
        return end;
    };
    let bytes = 16 + 8 * usize::from(request.wants_cas) + padded(value.len());
    match () {
        // Every reply that follows keeps room for a number.
        () if bytes + 24 * after <= room => end,
        () if !proven => End::of(Status::Unproven),
        () if Header::BYTES + bytes > payload_bytes => End::of(Status::UseStream),
        () => End::of(Status::NoRoom),
    }
}

fn reply_bytes(reply: &OwnedReply) -> usize {
    let has_number = reply.status == Status::Ok && reply.opcode.answers_number();
    16 + 8 * usize::from(has_number || reply.cas.is_some()) + padded(reply.value.len())
}
