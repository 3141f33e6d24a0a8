//! A round: the datagrams of a burst, gathered into batches of a table, answered in order.

use arrayvec::ArrayVec;
use micanite_engine::{BATCH_REQUESTS_MAX, Condition, Expiry, KeyHash, Operation, Request};
use micanite_server::native::{Outbox, Source};
use micanite_wire::native::{self as wire, Header, Kind, Opcode, PAYLOAD_BYTES, Requests};

use super::answers::{Answers, Head, Open};
use super::table::{HASH_SEED, Table};

/// A round. `'d` is the lifetime of the datagrams.
pub(super) struct Round<'a, 'd, O> {
    table: &'a mut Table,
    out: &'a mut O,
    serial: u32,
    open: Option<Open>,
    requests: ArrayVec<Request<'d>, BATCH_REQUESTS_MAX>,
    head_of: ArrayVec<u8, BATCH_REQUESTS_MAX>,
    heads: ArrayVec<Head, BATCH_REQUESTS_MAX>,
    succeeded: u64,
}

impl<'a, 'd, O: Outbox + Send> Round<'a, 'd, O> {
    #[inline]
    pub fn new(table: &'a mut Table, out: &'a mut O) -> Self {
        Self {
            table,
            out,
            serial: 0,
            open: None,
            requests: ArrayVec::new(),
            head_of: ArrayVec::new(),
            heads: ArrayVec::new(),
            succeeded: 0,
        }
    }

    /// Takes a datagram. What is not made of GETs and SETs is not answered.
    #[inline]
    pub fn take(&mut self, datagram: &'d [u8], source: Source) {
        let Ok(header) = Header::read(datagram) else {
            return;
        };
        if header.kind != Kind::Requests || datagram.len() > PAYLOAD_BYTES {
            return;
        }
        let Ok(requests) = Requests::check(datagram, header.count) else {
            return;
        };
        self.serial += 1;
        let head = Head { serial: self.serial, header, source };
        for request in requests {
            let Some(request) = of_engine(&request) else {
                return;
            };
            if self.requests.is_full() {
                self.flush();
            }
            if self.heads.last().is_none_or(|last| last.serial != head.serial) {
                self.heads.push(head);
            }
            self.head_of.push((self.heads.len() - 1) as u8);
            self.requests.push(request);
        }
    }

    #[inline]
    fn flush(&mut self) {
        let mut answers = Answers {
            requests: &self.requests,
            head_of: &self.head_of,
            heads: &self.heads,
            open: &mut self.open,
            out: &mut *self.out,
            limit: PAYLOAD_BYTES,
            succeeded: 0,
        };
        self.table.execute(&self.requests, &mut answers);
        self.succeeded += answers.succeeded;
        self.requests.clear();
        self.head_of.clear();
        self.heads.clear();
    }

    /// Executes what is left and completes the last reply; how many requests have found or stored
    /// something.
    #[inline]
    pub fn finish(mut self) -> u64 {
        self.flush();
        if let Some(open) = self.open.take() {
            open.close(self.out);
        }
        self.succeeded
    }
}

/// A request as tables take it: as the server sees to it, a writer's hash is right.
#[inline]
fn of_engine<'d>(request: &wire::Request<'d>) -> Option<Request<'d>> {
    let (hash, operation) = match request.opcode {
        Opcode::Set => {
            let operation = Operation::Store {
                condition: Condition::Always,
                value: request.value,
                flags: request.flags,
                expiry: Expiry::NEVER,
            };
            (KeyHash::of(request.key, HASH_SEED), operation)
        }
        Opcode::Get => (KeyHash(request.hash), Operation::Get { cas: false }),
        _ => return None,
    };
    Some(Request { hash, key: request.key, operation })
}
