//! Steps on their way to workers, by the hashes of their keys.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::step::{Batch, Step};

/// Steps of a batch, and bytes of its keys, at most.
const BATCH_STEPS: usize = 512;
const BATCH_BYTES: usize = 64 << 10;
/// Batches that wait for a worker, at most.
const AHEAD_BATCHES: usize = 16;

/// One batch that is being filled for each worker.
pub(super) struct Dispatcher {
    open: Vec<Batch>,
    workers: Vec<SyncSender<Batch>>,
    /// True if a worker has ended.
    pub is_over: bool,
}

impl Dispatcher {
    /// A dispatcher, and what each of the workers receives from.
    pub fn new(workers: usize) -> (Self, Vec<Receiver<Batch>>) {
        let channels = (0..workers).map(|_| sync_channel(AHEAD_BATCHES));
        let (workers, receivers): (Vec<_>, Vec<_>) = channels.unzip();
        let open = workers.iter().map(|_| Batch::default()).collect();
        let dispatcher = Self { open, workers, is_over: false };
        (dispatcher, receivers)
    }

    /// Takes a step; waits while its worker is far behind.
    pub fn push(&mut self, step: Step, key: &[u8]) {
        let worker = step.key_hash as u32 as usize % self.workers.len();
        let batch = &mut self.open[worker];
        batch.push(step, key);
        if batch.steps.len() < BATCH_STEPS && batch.keys.len() < BATCH_BYTES {
            return;
        }
        let batch = std::mem::take(batch);
        match self.workers[worker].try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(batch)) => {
                // The others have something to do meanwhile.
                self.hand_over();
                self.is_over |= self.workers[worker].send(batch).is_err();
            }
            Err(TrySendError::Disconnected(_)) => self.is_over = true,
        }
    }

    /// Hands over what has been filled, where there is room.
    fn hand_over(&mut self) {
        for (batch, worker) in self.open.iter_mut().zip(&self.workers) {
            if batch.steps.is_empty() {
                continue;
            }
            match worker.try_send(std::mem::take(batch)) {
                Ok(()) => {}
                Err(TrySendError::Full(back)) => *batch = back,
                Err(TrySendError::Disconnected(_)) => self.is_over = true,
            }
        }
    }

    /// Hands everything over; the workers end when they have done it.
    pub fn finish(self) {
        for (batch, worker) in self.open.into_iter().zip(self.workers) {
            // One that has ended says so itself.
            let _ = worker.send(batch);
        }
    }
}
