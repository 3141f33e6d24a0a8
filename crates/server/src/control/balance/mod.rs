//! Balancing: partitions change mode and owner by measured load.
//!
//! ```text
//!  once a second: requests by asking worker and partition, times what they take
//!                 -> Balancer::period -> at most one Change
//! ```
//!
//! A request counts with the time that its kind was seen to take (`cost.rs`): large values and stores
//! weigh more.
//!
//! Only partitions in EREW are balanced, and those that balancing has turned to CREW: in EREW
//! the owner of a partition carries all of its load, so that owners matter. In CRCW every worker
//! carries what its own connections ask for.

mod balancer;
mod cost;
mod decide;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use micanite_control::Balance;

pub use balancer::{Balancer, Period};
pub use cost::costs;
pub use decide::{Change, PartitionState, Situation, decide};
pub(crate) use thread::BalanceThread;

/// State of balancing that other threads read.
#[derive(Debug)]
pub struct BalanceState {
    is_auto: AtomicBool,
    changes: AtomicU64,
    /// Requests per second of each partition, in the last period.
    rates: Mutex<Vec<u64>>,
    /// Nanoseconds per second that each partition has cost, in the last period; empty while nothing
    /// balances.
    costs: Mutex<Vec<u64>>,
    routing: Mutex<ByHand>,
}

/// Partitions that a person has changed since the last period, and whether the mode was among it.
pub(crate) type ByHand = BTreeMap<usize, bool>;

impl BalanceState {
    /// At the start.
    pub fn new(balance: Balance) -> Self {
        Self {
            is_auto: AtomicBool::new(balance == Balance::Auto),
            changes: AtomicU64::new(0),
            rates: Mutex::default(),
            costs: Mutex::default(),
            routing: Mutex::default(),
        }
    }

    /// Returns whether partitions change by themselves.
    pub fn get(&self) -> Balance {
        if self.is_auto.load(Ordering::Relaxed) { Balance::Auto } else { Balance::Off }
    }

    /// Changes that.
    pub fn set(&self, balance: Balance) {
        self.is_auto.store(balance == Balance::Auto, Ordering::Relaxed);
    }

    /// Returns the number of routes that balancing has changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Requests per second of each partition; empty before the first period has passed.
    pub fn rates(&self) -> Vec<u64> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nanoseconds per second that each partition costs the worker that executes its requests; empty
    /// unless the server balances.
    pub fn costs(&self) -> Vec<u64> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// To be held from the look at a route to its change. A person's change is noted in it.
    pub(crate) fn routing(&self) -> MutexGuard<'_, ByHand> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn set_costs(&self, costs: Vec<u64>) {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner) = costs;
    }

    fn set_rates(&self, rates: Vec<u64>) {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = rates;
    }
}
