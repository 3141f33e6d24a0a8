//! The requests of a burst executed by the engine: with their replies written, as the server does
//! it, or without.

use std::sync::Arc;

use micanite_engine::{
    BATCH_REQUESTS_MAX, Condition, Expiry, KeyHash, Operation, Outcome, ReplySink, Request, ValueMeta, Worker,
};
use micanite_net::frames::{FramePort, FrameQueue, Replies, ReplyTo};
use micanite_net::limits::FRAME_BURST_MAX;
use micanite_server::native::{Cookies, Outbox, Round, Source};
use micanite_server::session::Context;
use micanite_server::shared::Server;
use micanite_wire::native::{self as wire, Header, Kind, Opcode, Requests};

use super::stage::send_back;
use crate::Result;
use crate::generator::packets::VALUE_BYTES;
use crate::harness::in_process::{self, NOW_S};

/// A worker with all the items.
pub(super) struct Execution {
    server: Arc<Server>,
    worker: Worker,
    cookies: Cookies,
}

impl Execution {
    pub fn new(items: u64) -> Result<Self> {
        let server = in_process::server(1, "2g")?;
        let mut worker = server.shared.cache.worker(0).ok_or("a worker is in use")?;
        in_process::fill(&server.shared.cache, &mut worker, items);
        let native = server.shared.native.as_ref().ok_or("no native protocol")?;
        Ok(Self { cookies: Cookies::new(native.cookie_key), server, worker })
    }

    /// Executes what arrived last. Without `answers` the requests themselves go back.
    #[inline]
    pub fn round<Q: FrameQueue + Send>(&mut self, port: &mut FramePort<Q>, answers: bool) -> Result<()> {
        let native = self.server.shared.native.as_ref().ok_or("no native protocol")?;
        let (datagrams, mut replies) = port.split();
        let mut others = Vec::new();
        if answers {
            others.extend(datagrams);
        } else {
            let mut batch = Vec::with_capacity(BATCH_REQUESTS_MAX);
            let mut echoed = Vec::with_capacity(FRAME_BURST_MAX);
            for datagram in datagrams {
                let header = Header::read(datagram.bytes).ok();
                let Some(header) = header.filter(|header| header.kind == Kind::Requests) else {
                    others.push(datagram);
                    continue;
                };
                for request in Requests::check(datagram.bytes, header.count).into_iter().flatten() {
                    if batch.len() == BATCH_REQUESTS_MAX {
                        execute(&mut self.worker, &mut batch);
                    }
                    batch.push(engine_request(&self.worker, &request));
                }
                echoed.push(datagram);
            }
            execute(&mut self.worker, &mut batch);
            for datagram in &echoed {
                send_back(&mut replies, datagram);
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        let context = Context::new(&mut self.worker, &self.server, NOW_S);
        let mut outbox = FrameOutbox { replies };
        let mut round = Round::new(context, native, &mut self.cookies, &mut outbox, 0);
        for datagram in others {
            let (peer, number) = (datagram.found.source, datagram.number as u32);
            round.take(datagram.bytes, Source { peer, number }, false);
        }
        round.finish();
        Ok(())
    }
}

/// Executes a batch, and empties it.
#[inline]
fn execute(worker: &mut Worker, batch: &mut Vec<Request<'_>>) {
    let mut dropped = Dropped([0; VALUE_BYTES]);
    worker.execute(batch, NOW_S, &mut dropped);
    std::hint::black_box(&dropped);
    batch.clear();
}

/// Recomputes a writer's hash, as the server does.
#[inline]
fn engine_request<'r>(worker: &Worker, request: &wire::Request<'r>) -> Request<'r> {
    let (hash, operation) = match request.opcode {
        Opcode::Set => {
            let operation = Operation::Store {
                condition: Condition::Always,
                value: request.value,
                flags: request.flags,
                expiry: Expiry::NEVER,
            };
            (worker.cache().hash(request.key), operation)
        }
        _ => (KeyHash(request.hash), Operation::Get { cas: false }),
    };
    Request { hash, key: request.key, operation }
}

/// Values are copied here, one over the other.
struct Dropped([u8; VALUE_BYTES]);

impl ReplySink for Dropped {
    #[inline]
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.0.get_mut(..meta.value_bytes)
    }

    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, _: usize, _: Outcome) {}
}

/// The replies to a burst, in the frames of the requests.
struct FrameOutbox<'a, Q> {
    replies: Replies<'a, Q>,
}

impl<Q: FrameQueue> Outbox for FrameOutbox<'_, Q> {
    #[inline]
    fn open(&mut self, to: Source) {
        self.replies.open(ReplyTo::Datagram(to.number as usize));
    }

    #[inline]
    fn slot(&mut self) -> &mut [u8] {
        self.replies.slot()
    }

    #[inline]
    fn commit(&mut self, bytes: usize) {
        self.replies.commit(bytes);
    }
}
