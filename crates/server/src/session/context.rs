//! The context of a session: the worker that runs it, and the server.

use micanite_engine::{KeyHash, ReplySink, Request, Worker};

use crate::limits::{ADMINISTRATION_BYTES_MIN, ADMINISTRATION_REQUESTS, ADMINISTRATIONS_MAX};
use crate::shared::{Server, Shared};
use crate::telemetry::table::Counters;

/// References that a session needs, for one turn.
#[derive(Debug)]
pub struct Context<'a> {
    /// Executes requests.
    pub worker: &'a mut Worker,
    /// State that batches touch.
    pub shared: &'a Shared,
    /// Counters of the worker.
    pub counters: &'a Counters,
    /// Serves commands of administration.
    pub server: &'a Server,
    /// Unix time.
    pub now_s: u32,
}

impl<'a> Context<'a> {
    #[inline]
    pub fn new(worker: &'a mut Worker, server: &'a Server, now_s: u32) -> Self {
        Self {
            counters: &server.shared.counters[worker.number()],
            worker,
            shared: &server.shared,
            server,
            now_s,
        }
    }
}

impl Context<'_> {
    /// Borrows the context for a shorter time.
    #[inline]
    pub(crate) fn lend(&mut self) -> Context<'_> {
        Context {
            worker: self.worker,
            shared: self.shared,
            counters: self.counters,
            server: self.server,
            now_s: self.now_s,
        }
    }

    /// Charges a command of administration to the turn, as many requests.
    pub(super) fn charge_administration(&mut self, requests_left: &mut u32) {
        *requests_left = requests_left.saturating_sub(ADMINISTRATION_REQUESTS - 1);
        let turn_bytes = self.worker.cache().turn_moved_bytes();
        let bytes = ADMINISTRATION_BYTES_MIN.max(turn_bytes / ADMINISTRATIONS_MAX);
        self.worker.charge(bytes);
    }

    /// Returns the hash of a key, and prefetches its bucket.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.worker.cache().hash(key);
        self.worker.prefetch(hash);
        hash
    }

    /// Executes a batch ([`Worker::execute`]), and counts it for balancing and hot keys.
    #[inline]
    pub(crate) fn execute<S: ReplySink + Send>(&mut self, requests: &[Request<'_>], sink: &mut S) -> usize {
        let is_timed = self.shared.costs.is_timed(self.worker.number());
        let done = if self.shared.watch.wanted().is_empty() && !is_timed {
            self.worker.execute(requests, self.now_s, sink)
        } else {
            super::watched::execute(self, requests, sink)
        };
        let worker = &*self.worker;
        let loads = &self.shared.loads;
        loads.count(worker.cache(), worker.number(), &requests[..done]);
        self.shared.hot[worker.number()].note(&requests[..done], self.now_s);
        done
    }
}
