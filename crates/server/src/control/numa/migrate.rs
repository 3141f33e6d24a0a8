//! One move: slice by slice, with pauses, until the memory is where it is wanted, or cannot get there.

use std::io;
use std::time::Duration;

use micanite_engine::Cache;
use micanite_memory::PAGE_BYTES;
use micanite_memory::numa::{Moved, Policy};

use super::places::{Job, State};
use super::refused;
use crate::limits::{NUMA_BYTES_PER_SECOND, NUMA_PASSES_MAX, NUMA_SLICE_BYTES};

/// The memory of partitions; tests have their own.
pub trait Memory {
    /// Bytes of a partition.
    fn bytes(&self) -> usize;
    fn bind(&self, partition: usize, policy: Option<&Policy>) -> io::Result<()>;
    fn move_slice(&self, partition: usize, first_byte: usize, policy: &Policy) -> io::Result<Moved>;
}

impl Memory for Cache {
    fn bytes(&self) -> usize {
        self.layout().partition_bytes
    }

    fn bind(&self, partition: usize, policy: Option<&Policy>) -> io::Result<()> {
        Self::bind(self, partition, policy)
    }

    fn move_slice(&self, partition: usize, first_byte: usize, policy: &Policy) -> io::Result<Moved> {
        self.move_memory(partition, first_byte, NUMA_SLICE_BYTES, policy)
    }
}

/// What a move meets between two slices.
pub trait Pace {
    /// Notes the progress, in percent, and waits. Returns whether the move is still wanted.
    fn go_on(&mut self, percent: u64, pause: Duration) -> bool;
}

/// The end of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Done as far as it can be, with the pages that moved.
    Done(State, u64),
    /// It is not wanted any more; so many pages have moved.
    Cancelled(u64),
}

/// Moves a partition's memory.
pub fn migrate(memory: &impl Memory, job: &Job, pace: &mut impl Pace) -> End {
    // Pages that are touched from now on come from the wanted node already.
    if let Err(error) = memory.bind(job.partition, job.policy.as_ref()) {
        return End::Done(State::Stays(refused("mbind", &error)), 0);
    }
    let Some(policy) = &job.policy else {
        let reason = "the node of its owner gives this process no memory";
        return End::Done(State::Stays(reason.into()), 0);
    };
    let (bytes, mut moved) = (memory.bytes(), 0);
    let mut last = Moved::default();
    for _ in 0..NUMA_PASSES_MAX {
        last = Moved::default();
        for first_byte in (0..bytes).step_by(NUMA_SLICE_BYTES) {
            let slice = match memory.move_slice(job.partition, first_byte, policy) {
                Ok(slice) => slice,
                Err(error) => return given_up(moved, &last, refused("move_pages", &error)),
            };
            last.add(&slice);
            moved += slice.moved;
            if slice.no_room > 0 && slice.moved == 0 {
                return given_up(moved, &last, format!("node {policy} has no room"));
            }
            let percent = (first_byte as u64 * 100) / bytes as u64;
            if !pace.go_on(percent, pause(slice.moved)) {
                return End::Cancelled(moved);
            }
        }
        if last.busy == 0 {
            break;
        }
    }
    match last.failed() {
        0 => End::Done(State::Moved, moved),
        failed => End::Done(State::Partly(failed, reason(policy, &last)), moved),
    }
}

/// The pause that keeps the limit after so many pages.
fn pause(pages: u64) -> Duration {
    Duration::from_secs_f64(pages as f64 * PAGE_BYTES as f64 / NUMA_BYTES_PER_SECOND as f64)
}

fn given_up(moved: u64, last: &Moved, reason: String) -> End {
    let state = match moved {
        0 => State::Stays(reason),
        _ => State::Partly(last.failed(), format!("given up: {reason}")),
    };
    End::Done(state, moved)
}

/// The most frequent reason.
fn reason(policy: &Policy, last: &Moved) -> String {
    if last.shared > last.no_room.max(last.busy) {
        return "other processes map them (--local): moving those takes CAP_SYS_NICE".into();
    }
    if last.no_room > last.busy {
        return format!("node {policy} has no room");
    }
    "the kernel could not move them".into()
}
