//! Counts wrong passwords by address, in a table of fixed size.
//!
//! Each failure raises an address's level by one, and time lowers it. At the limit nothing that it
//! says is believed, until time has made room for one more attempt.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use crate::limits::{AUTH_FAILURE_FORGOTTEN_S, AUTH_FAILURES_OF_ADDRESS, AUTH_SETS, AUTH_WAYS};

/// Recent failures of an address.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// 0: the record is free.
    source: u128,
    level: u32,
    /// When the level was this.
    at_s: u32,
}

impl Record {
    fn level(&self, now_s: u32) -> u32 {
        let forgotten = now_s.saturating_sub(self.at_s) / AUTH_FAILURE_FORGOTTEN_S;
        self.level.saturating_sub(forgotten)
    }

    /// Brings the level to now, without losing the part of a step that has passed.
    fn settle(&mut self, now_s: u32) {
        let level = self.level(now_s);
        let steps = now_s.saturating_sub(self.at_s) / AUTH_FAILURE_FORGOTTEN_S;
        self.at_s = match level {
            0 => now_s,
            _ => self.at_s + steps * AUTH_FAILURE_FORGOTTEN_S,
        };
        self.level = level;
    }
}

/// Recent failures by address.
#[derive(Debug)]
pub struct Attempts {
    sets: Vec<[Record; AUTH_WAYS]>,
    /// Hashes by a secret, so that nobody can choose addresses that push others out.
    hasher: RandomState,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { sets: vec![Default::default(); AUTH_SETS], hasher: RandomState::new() }
    }
}

impl Attempts {
    /// Returns whether logins from an address are checked now.
    pub fn may_try(&mut self, source: IpAddr, now_s: u32) -> bool {
        let source = key(source);
        let found = self.set(source).iter().find(|record| record.source == source);
        found.is_none_or(|record| record.level(now_s) < AUTH_FAILURES_OF_ADDRESS)
    }

    /// Notes a failure. Returns whether it is the one that reaches the limit.
    pub fn note_failure(&mut self, source: IpAddr, now_s: u32) -> bool {
        let source = key(source);
        let set = self.set(source);
        let place = set.iter().position(|record| record.source == source);
        let place = place.unwrap_or_else(|| {
            // The one that is forgotten first, if need be.
            let least = (0..AUTH_WAYS).min_by_key(|place| set[*place].level(now_s));
            least.unwrap_or(0)
        });
        let record = &mut set[place];
        if record.source != source {
            *record = Record { source, level: 0, at_s: now_s };
        }
        record.settle(now_s);
        record.level += 1;
        record.level == AUTH_FAILURES_OF_ADDRESS
    }

    fn set(&mut self, source: u128) -> &mut [Record; AUTH_WAYS] {
        let set = self.hasher.hash_one(source) as usize % AUTH_SETS;
        &mut self.sets[set]
    }
}

/// An IPv4 address, or the network of an IPv6 address that one customer gets. Never 0.
fn key(source: IpAddr) -> u128 {
    match source.to_canonical() {
        IpAddr::V4(address) => 1 << 127 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 | 1 << 126,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn an_address_that_was_wrong_too_often_waits() {
        let mut attempts = Attempts::default();
        let (bad, good) = (address(1), address(2));
        for number in 1..=AUTH_FAILURES_OF_ADDRESS {
            assert!(attempts.may_try(bad, 100));
            let reached = attempts.note_failure(bad, 100);
            assert_eq!(reached, number == AUTH_FAILURES_OF_ADDRESS);
        }
        assert!(!attempts.may_try(bad, 100) && attempts.may_try(good, 100));
        let later_s = 100 + AUTH_FAILURE_FORGOTTEN_S;
        assert!(!attempts.may_try(bad, later_s - 1));
        assert!(attempts.may_try(bad, later_s));
        attempts.note_failure(bad, later_s);
        assert!(!attempts.may_try(bad, later_s));
        // All is forgotten in the end.
        let end_s = later_s + AUTH_FAILURES_OF_ADDRESS * AUTH_FAILURE_FORGOTTEN_S;
        for _ in 1..AUTH_FAILURES_OF_ADDRESS {
            assert!(!attempts.note_failure(bad, end_s));
        }
        assert!(attempts.may_try(bad, end_s));
    }

    #[test]
    fn the_table_does_not_grow_and_keeps_the_worst() {
        let mut attempts = Attempts::default();
        let worst = address(1);
        for _ in 0..AUTH_FAILURES_OF_ADDRESS {
            attempts.note_failure(worst, 100);
        }
        for number in 2..100_000 {
            attempts.note_failure(address(number), 100);
        }
        assert_eq!(attempts.sets.len(), AUTH_SETS);
        assert!(!attempts.may_try(worst, 100));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one() {
        let mut attempts = Attempts::default();
        for number in 0..AUTH_FAILURES_OF_ADDRESS {
            let source = format!("2001:db8:1:2::{number:x}").parse().unwrap();
            attempts.note_failure(source, 5);
        }
        assert!(!attempts.may_try("2001:db8:1:2:ffff::1".parse().unwrap(), 5));
        assert!(attempts.may_try("2001:db8:1:3::1".parse().unwrap(), 5));
        assert!(attempts.may_try("::1".parse().unwrap(), 5));
    }
}
