//! Requests in the order of their packets: they wait for what the server answered, but not for
//! long.

use std::collections::VecDeque;

use crate::trace::{Operation, Outcome};

/// Longest key.
pub(super) const KEY_BYTES_MAX: usize = micanite_wire::memcache::text::KEY_BYTES_MAX;
/// Requests that may wait.
const WAITING_MAX: usize = 1 << 16;
/// Time that a request may wait.
const WAIT_MS_MAX: u64 = 2_000;

/// A request whose outcome may not be known yet.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub time_ms: u64,
    pub operation: Operation,
    pub value_bytes: Option<u32>,
    pub expiry_s: Option<u32>,
    pub outcome: Outcome,
    pub(super) is_settled: bool,
    pub(super) key_bytes: u8,
    pub(super) key: [u8; KEY_BYTES_MAX],
}

impl Waiting {
    pub fn new(time_ms: u64, operation: Operation, key: &[u8]) -> Self {
        let mut bytes = [0; KEY_BYTES_MAX];
        let length = key.len().min(KEY_BYTES_MAX);
        bytes[..length].copy_from_slice(&key[..length]);
        Self {
            time_ms,
            operation,
            value_bytes: None,
            expiry_s: None,
            outcome: Outcome::Unknown,
            is_settled: false,
            key_bytes: length as u8,
            key: bytes,
        }
    }

    pub fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_bytes)]
    }
}

/// The requests that wait, numbered from the first of the trace.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of the first one that waits.
    first: u64,
    time_ms: u64,
}

impl Queue {
    /// The time of the packet that is looked at; never goes back.
    pub fn go_on(&mut self, time_ms: u64) {
        self.time_ms = self.time_ms.max(time_ms);
    }

    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Returns the number of the request.
    pub fn push(&mut self, request: Waiting) -> u64 {
        self.waiting.push_back(request);
        self.next_number() - 1
    }

    pub fn next_number(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// A request that still waits.
    pub fn get(&self, number: u64) -> Option<&Waiting> {
        let place = number.checked_sub(self.first)?;
        self.waiting.get(usize::try_from(place).ok()?)
    }

    /// Says how a request ended; `value_bytes` is the length of a value that was found.
    pub fn settle(&mut self, number: u64, outcome: Outcome, value_bytes: Option<u32>) {
        let Some(place) = number.checked_sub(self.first) else {
            return;
        };
        if let Some(request) = self.waiting.get_mut(place as usize) {
            request.outcome = outcome;
            request.is_settled = true;
            if request.operation.reads() {
                request.value_bytes = value_bytes;
            }
        }
    }

    /// The next request that waits for nothing, or has waited long enough; with `is_end` any.
    pub fn pop(&mut self, is_end: bool) -> Option<Waiting> {
        let first = self.waiting.front()?;
        let is_ready = is_end
            || first.is_settled
            || self.waiting.len() > WAITING_MAX
            || self.time_ms - first.time_ms > WAIT_MS_MAX;
        if !is_ready {
            return None;
        }
        self.first += 1;
        self.waiting.pop_front()
    }
}
