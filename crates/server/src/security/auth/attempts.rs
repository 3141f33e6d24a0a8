//! Counts wrong passwords by address and user, and by address, in a table of fixed size.
//!
//! Each new failure raises a level by one, and time lowers it. At the limit nothing that the address says of
//! the user is believed, until time has made room for one more attempt. A password that was wrong before
//! raises no level, so a client that repeats an old one keeps nobody out.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use crate::limits::{
    AUTH_FAILURE_FORGOTTEN_S, AUTH_FAILURES_OF_ADDRESS, AUTH_FAILURES_OF_USER, AUTH_PASSWORD_FORGOTTEN_S,
    AUTH_SETS, AUTH_WAYS,
};

/// Recent failures of a user at an address, or of an address.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Hash of the address and the user; 0: the record is free.
    name: u64,
    level: u32,
    /// When the level was this.
    at_s: u32,
    /// Wrong passwords of the user, the last one first.
    passwords: [Password; AUTH_FAILURES_OF_USER as usize],
}

/// A wrong password.
#[derive(Clone, Copy, Debug, Default)]
struct Password {
    /// Hash by a secret.
    hash: u32,
    /// When it was sent last; 0: never.
    at_s: u32,
}

impl Record {
    fn level(&self, now_s: u32) -> u32 {
        let forgotten = now_s.saturating_sub(self.at_s) / AUTH_FAILURE_FORGOTTEN_S;
        self.level.saturating_sub(forgotten)
    }

    /// Raises the level. Returns the new one.
    fn raise(&mut self, now_s: u32) -> u32 {
        let level = self.level(now_s);
        let steps = now_s.saturating_sub(self.at_s) / AUTH_FAILURE_FORGOTTEN_S;
        self.at_s = match level {
            0 => now_s,
            // The part of a step that has passed is not lost.
            _ => self.at_s + steps * AUTH_FAILURE_FORGOTTEN_S,
        };
        self.level = level + 1;
        self.level
    }

    /// Remembers a wrong password. Returns whether it was remembered already.
    fn remember(&mut self, hash: u32, now_s: u32) -> bool {
        let is_known = |it: &Password| {
            it.hash == hash && it.at_s > 0 && now_s.saturating_sub(it.at_s) < AUTH_PASSWORD_FORGOTTEN_S
        };
        let known = self.passwords.iter().position(is_known);
        // The oldest one is forgotten.
        let last = known.unwrap_or(self.passwords.len() - 1);
        self.passwords[..=last].rotate_right(1);
        self.passwords[0] = Password { hash, at_s: now_s };
        known.is_some()
    }
}

/// Limit that an attempt has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    None,
    /// The address has sent too many wrong passwords of the user.
    User,
    /// It has sent too many wrong passwords altogether.
    Address,
}

/// Recent failures.
#[derive(Debug)]
pub struct Attempts {
    sets: Vec<[Record; AUTH_WAYS]>,
    /// Hashes by a secret, so that nobody can choose names that push others out, or find passwords in memory.
    hasher: RandomState,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { sets: vec![Default::default(); AUTH_SETS], hasher: RandomState::new() }
    }
}

impl Attempts {
    /// Bytes of the table.
    pub const BYTES: usize = AUTH_SETS * size_of::<[Record; AUTH_WAYS]>();

    /// Returns whether logins of a user from an address are checked now.
    pub fn may_try(&mut self, source: IpAddr, user: &[u8], now_s: u32) -> bool {
        let [of_user, of_address] = self.names(source, user);
        let level = |this: &mut Self, name| {
            let found = this.set(name).iter().find(|record| record.name == name);
            found.map_or(0, |record| record.level(now_s))
        };
        level(self, of_user) < AUTH_FAILURES_OF_USER && level(self, of_address) < AUTH_FAILURES_OF_ADDRESS
    }

    /// Notes a wrong password. Returns the limit that it is the first to reach.
    pub fn note_failure(&mut self, source: IpAddr, user: &[u8], password: &[u8], now_s: u32) -> Reached {
        let hash = self.hasher.hash_one(password) as u32;
        let [of_user, of_address] = self.names(source, user);
        let record = self.record(of_user, now_s);
        if record.remember(hash, now_s) {
            return Reached::None;
        }
        let is_limit_of_user = record.raise(now_s) == AUTH_FAILURES_OF_USER;
        if self.record(of_address, now_s).raise(now_s) == AUTH_FAILURES_OF_ADDRESS {
            return Reached::Address;
        }
        if is_limit_of_user { Reached::User } else { Reached::None }
    }

    /// Returns the names of a user at an address, and of the address. They are never 0.
    fn names(&self, source: IpAddr, user: &[u8]) -> [u64; 2] {
        let source = key(source);
        [self.hasher.hash_one((source, Some(user))), self.hasher.hash_one((source, None::<&[u8]>))]
            .map(|name| name.max(1))
    }

    /// Returns the record of a name. A new one takes the place of that which is forgotten first.
    fn record(&mut self, name: u64, now_s: u32) -> &mut Record {
        let set = self.set(name);
        let place = set.iter().position(|record| record.name == name);
        let place = place.unwrap_or_else(|| {
            let least = (0..AUTH_WAYS).min_by_key(|place| (set[*place].level(now_s), set[*place].at_s));
            least.unwrap_or(0)
        });
        let record = &mut set[place];
        if record.name != name {
            *record = Record { name, at_s: now_s, ..Record::default() };
        }
        record
    }

    fn set(&mut self, name: u64) -> &mut [Record; AUTH_WAYS] {
        &mut self.sets[name as usize % AUTH_SETS]
    }
}

/// An IPv4 address, or the network of an IPv6 address that one customer gets.
fn key(source: IpAddr) -> u128 {
    match source.to_canonical() {
        IpAddr::V4(address) => 1 << 127 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 | 1 << 126,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &[u8] = b"alice";

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    /// Sends a different wrong password.
    fn guess(attempts: &mut Attempts, source: IpAddr, user: &[u8], number: u32, now_s: u32) -> Reached {
        attempts.note_failure(source, user, &number.to_be_bytes(), now_s)
    }

    #[test]
    fn a_user_who_was_wrong_too_often_waits() {
        let mut attempts = Attempts::default();
        let (bad, good) = (address(1), address(2));
        for number in 1..=AUTH_FAILURES_OF_USER {
            assert!(attempts.may_try(bad, USER, 100));
            let reached = guess(&mut attempts, bad, USER, number, 100);
            assert_eq!(reached == Reached::User, number == AUTH_FAILURES_OF_USER);
        }
        assert!(!attempts.may_try(bad, USER, 100));
        assert!(attempts.may_try(good, USER, 100) && attempts.may_try(bad, b"bob", 100));
        let later_s = 100 + AUTH_FAILURE_FORGOTTEN_S;
        assert!(!attempts.may_try(bad, USER, later_s - 1));
        assert!(attempts.may_try(bad, USER, later_s));
        guess(&mut attempts, bad, USER, 100, later_s);
        assert!(!attempts.may_try(bad, USER, later_s));
        // All is forgotten in the end.
        let end_s = later_s + AUTH_FAILURES_OF_USER * AUTH_FAILURE_FORGOTTEN_S;
        for number in 200..200 + AUTH_FAILURES_OF_USER - 1 {
            assert_eq!(guess(&mut attempts, bad, USER, number, end_s), Reached::None);
        }
        assert!(attempts.may_try(bad, USER, end_s));
    }

    /// A client with an old password repeats it for an hour, beside right logins. So do some others of its
    /// address.
    #[test]
    fn a_repeated_password_counts_once() {
        let mut attempts = Attempts::default();
        let source = address(1);
        for second in 0..3600 {
            for old in 0..AUTH_FAILURES_OF_USER - 1 {
                assert_eq!(guess(&mut attempts, source, USER, old, 100 + second), Reached::None);
            }
            assert!(attempts.may_try(source, USER, 100 + second));
        }
    }

    /// However many users it tries, and whatever it repeats between.
    #[test]
    fn an_address_has_a_bounded_number_of_guesses() {
        for users in [1, 3, 1000] {
            let mut attempts = Attempts::default();
            let source = address(1);
            let mut guesses = 0;
            for number in 0..10_000_u32 {
                let user = format!("user{}", number % users);
                let now_s = 100 + number / 1000;
                if attempts.may_try(source, user.as_bytes(), now_s) {
                    guesses += 1;
                    guess(&mut attempts, source, user.as_bytes(), number, now_s);
                    guess(&mut attempts, source, user.as_bytes(), number, now_s);
                }
            }
            let most = AUTH_FAILURES_OF_ADDRESS.min(users * AUTH_FAILURES_OF_USER);
            assert!(
                (most..=most + users.min(3) * 2).contains(&guesses),
                "{guesses} guesses of {users} users"
            );
        }
    }

    #[test]
    fn the_table_does_not_grow_and_keeps_the_worst() {
        let mut attempts = Attempts::default();
        let worst = address(1);
        for number in 0..AUTH_FAILURES_OF_USER {
            guess(&mut attempts, worst, USER, number, 100);
        }
        for number in 2..100_000 {
            guess(&mut attempts, address(number), USER, number, 100);
        }
        assert_eq!(attempts.sets.len(), AUTH_SETS);
        assert!(!attempts.may_try(worst, USER, 100));
    }

    /// An old password that was not sent for long counts again.
    #[test]
    fn a_password_is_forgotten() {
        let mut record = Record::default();
        assert!(!record.remember(5, 100) && record.remember(5, 100 + AUTH_PASSWORD_FORGOTTEN_S - 1));
        assert!(!record.remember(5, 100 + 2 * AUTH_PASSWORD_FORGOTTEN_S));
        for hash in 0..AUTH_FAILURES_OF_USER {
            assert!(!record.remember(10 + hash, 2000));
        }
        assert!(!record.remember(5, 2000), "ten others came after it");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one() {
        let mut attempts = Attempts::default();
        for number in 0..AUTH_FAILURES_OF_USER {
            let source = format!("2001:db8:1:2::{number:x}").parse().unwrap();
            guess(&mut attempts, source, USER, number, 5);
        }
        assert!(!attempts.may_try("2001:db8:1:2:ffff::1".parse().unwrap(), USER, 5));
        assert!(attempts.may_try("2001:db8:1:3::1".parse().unwrap(), USER, 5));
        assert!(attempts.may_try("::1".parse().unwrap(), USER, 5));
    }
}
