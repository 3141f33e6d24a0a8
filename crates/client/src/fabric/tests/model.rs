//! One client beside other writers, and every fault: values are never older than they may be.

use std::collections::HashMap;

use super::client::Client;
use super::server::LEASE_NS;
use super::world::{MS, server, world};
use crate::fabric::options::FabricOptions;
use crate::operation::{Operation, Outcome};
use crate::random::Random;

const KEYS: u64 = 12;

/// A value names its number and has a length of its own.
fn value(number: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(5) { 50_000 } else { 8 + (number % 300) as usize };
    let mut value = vec![number as u8; bytes];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// Returns the number of a value, whose every byte is checked.
fn number(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == value(number), "a value of two moments");
    number
}

/// Lets a random fault begin or end.
fn disturb(random: &mut Random) {
    world(|world| match random.next() % 16 {
        0 => world.cut(),
        1 => world.torn = (random.next() % 3) as u32,
        2 => world.busy = (random.next() % 8) as u32,
        3 => world.holds_reads = !world.holds_reads,
        4 => world.now_ns += random.next() % (3 * LEASE_NS),
        5 => world.loses_replies = random.next().is_multiple_of(2),
        6 => world.servers[0].slow_downs = (random.next() % 3) as u32,
        _ => world.push(),
    });
}

/// Proves that each get returns a value that was the newest at some time since its submission, under torn,
/// late and hanging reads, lost replies, broken connections, pushes, and another writer.
#[test]
fn gets_return_what_was_the_newest_meanwhile() {
    let (mut one_sided, mut refused) = (0, 0);
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut client = Client::new(1, &FabricOptions::default());
        // The last number that was written for certain, by key.
        let mut newest: HashMap<u64, u64> = HashMap::new();
        let mut open: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut next = 1;
        for _ in 0..3000 {
            let key = random.next() % KEYS;
            let name = key.to_le_bytes();
            match random.next() % 12 {
                0 => disturb(&mut random),
                1 => {
                    server(|server, now_ns| server.set(&name, &value(next), (0, 0), now_ns));
                    newest.insert(key, next);
                    next += 1;
                }
                2 => {
                    // Only this client's own write is under way.
                    let token = client.submit(&Operation::set(&name, &value(next)));
                    if let Ok(token) = token {
                        let got = client.wait_undisturbed(token);
                        if got.outcome == Outcome::Ok {
                            let executed = server(|server, now_ns| server.value(&name, now_ns));
                            assert_eq!(executed.map(|bytes| number(&bytes)), Some(next));
                            newest.insert(key, next);
                        }
                    }
                    next += 1;
                }
                _ => {
                    if let Ok(token) = client.submit(&Operation::get(&name)) {
                        open.insert(token, (key, newest.get(&key).copied().unwrap_or(0)));
                    }
                }
            }
            client.run((random.next() % 3) as u32);
            for (token, got) in client.ended.drain() {
                let Some((key, least)) = open.remove(&token) else {
                    continue;
                };
                if got.outcome == Outcome::Ok {
                    let number = number(&got.value);
                    assert!(number >= least, "seed {seed}: {key} has {number}, and had {least} before");
                } else {
                    assert!(got.outcome == Outcome::TimedOut || least == 0, "{:?}", got.outcome);
                }
            }
        }
        let counters = client.pool.counters();
        one_sided += counters.gets_one_sided;
        refused += counters.refused.iter().sum::<u64>();
        assert_eq!(counters.bogus, 0);
        world(|world| world.servers.clear());
    }
    assert!(one_sided > 1000 && refused > 100, "{one_sided} {refused}");
}

impl Client {
    /// Waits for an operation while replies arrive.
    fn wait_undisturbed(&mut self, token: u64) -> super::client::Got {
        world(|world| world.loses_replies = false);
        for _ in 0..100_000 {
            if let Some(got) = self.ended.remove(&token) {
                return got;
            }
            self.run(1);
            world(|world| world.now_ns += MS);
        }
        panic!("a set does not end");
    }
}
