//! A connection with the requests that are under way on it, and those that wait for these.

use std::collections::VecDeque;

use micanite_workload::KEY_BYTES_MAX;
use micanite_workload::trace::Operation;

use super::connection::Connection;
use super::step::{Command, Step};

/// Progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    First,
    /// The missed item is being stored.
    Fill,
    /// The value's number is known, the value is being replaced.
    Swap,
}

/// A request that is under way, or waits for an earlier one of its key.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub step: Step,
    key: [u8; KEY_BYTES_MAX],
    pub phase: Phase,
    pub due_ns: u64,
}

impl Slot {
    pub fn new(step: Step, text: &[u8], due_ns: u64) -> Self {
        let mut key = [0; KEY_BYTES_MAX];
        key[..text.len()].copy_from_slice(text);
        Self { step, key, phase: Phase::First, due_ns }
    }
}

/// A connection and its requests.
pub(super) struct Lane {
    pub connection: Box<dyn Connection>,
    pub slots: Vec<Slot>,
    free: Vec<u32>,
    /// Hashes of the keys that are under way.
    busy: Vec<u64>,
    /// Commands that the connection has not taken yet: tokens, operations, numbers of values.
    untaken: VecDeque<(u32, Operation, u64)>,
    /// Requests that wait for an earlier one of their key.
    parked: VecDeque<Slot>,
    parked_keys: VecDeque<u64>,
    /// True if output waits for room.
    pub is_clogged: bool,
    pub is_ready: bool,
}

impl Lane {
    pub fn new(connection: Box<dyn Connection>, pipeline: usize) -> Self {
        Self {
            connection,
            slots: Vec::with_capacity(pipeline),
            free: Vec::with_capacity(pipeline),
            busy: Vec::with_capacity(pipeline),
            untaken: VecDeque::new(),
            parked: VecDeque::new(),
            parked_keys: VecDeque::new(),
            is_clogged: false,
            is_ready: false,
        }
    }

    pub fn has_room(&self, pipeline: usize) -> bool {
        self.busy.len() + self.parked.len() < pipeline
            && self.untaken.is_empty()
            && self.connection.has_room()
    }

    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Returns whether a request of the key is under way.
    pub fn is_busy_with(&self, key_hash: u64) -> bool {
        self.busy.contains(&key_hash)
    }

    /// Returns whether an earlier request of the key has not ended.
    pub fn has(&self, key_hash: u64) -> bool {
        self.busy.contains(&key_hash) || self.parked_keys.contains(&key_hash)
    }

    pub fn park(&mut self, slot: Slot) {
        self.parked_keys.push_back(slot.step.key_hash);
        self.parked.push_back(slot);
    }

    /// The next request that waited for this key: one that may be sent now that another one of it has
    /// ended.
    pub fn unpark(&mut self, key_hash: u64, wants: impl Fn(&Slot) -> bool) -> Option<Slot> {
        let at = self.parked_keys.iter().position(|parked| *parked == key_hash)?;
        if !wants(&self.parked[at]) {
            return None;
        }
        self.parked_keys.remove(at);
        self.parked.remove(at)
    }

    pub fn begin(&mut self, slot: Slot) {
        let step = slot.step;
        let token = match self.free.pop() {
            Some(token) => {
                self.slots[token as usize] = slot;
                token
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.busy.push(step.key_hash);
        // The number of a value is read before it is replaced.
        let operation = match step.operation {
            Operation::Cas => Operation::Gets,
            operation => operation,
        };
        self.command(token, operation, 0);
    }

    /// Sends a command of a request, behind those that the connection has not taken yet.
    pub fn command(&mut self, token: u32, operation: Operation, cas: u64) {
        if !self.untaken.is_empty() || !self.send(token, operation, cas) {
            self.untaken.push_back((token, operation, cas));
        }
    }

    /// Sends what there is, and notes whether output waits for room.
    pub fn flush(&mut self) -> Result<(), String> {
        while let Some(&(token, operation, cas)) = self.untaken.front()
            && self.send(token, operation, cas)
        {
            self.untaken.pop_front();
        }
        self.is_clogged = self.connection.flush()?;
        Ok(())
    }

    fn send(&mut self, token: u32, operation: Operation, cas: u64) -> bool {
        let slot = &self.slots[token as usize];
        let command = Command {
            operation,
            key: &slot.key[..usize::from(slot.step.key_bytes)],
            value_bytes: slot.step.value_bytes.unwrap_or(0),
            expiry_s: slot.step.expiry_s,
            cas,
        };
        self.connection.send(token, &command)
    }

    pub fn end(&mut self, token: u32) {
        let hash = self.slots[token as usize].step.key_hash;
        if let Some(at) = self.busy.iter().position(|busy| *busy == hash) {
            self.busy.swap_remove(at);
        }
        self.free.push(token);
    }
}
