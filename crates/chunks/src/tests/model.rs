//! Random operations beside a naive twin, which remembers every chunk that was ever published.

use std::collections::HashMap;

use proptest::prelude::*;

use super::support::*;
use crate::layout::{Record, spread};
use crate::reader::Refusal;
use crate::*;
use micanite_wire::hash::KeyHash;

const PAGE_BYTES: usize = 1024;

/// Keys share hashes in pairs. The first bit chooses one of two partitions.
fn hash_of(key: u8) -> u64 {
    let pair = u64::from(key / 2);
    pair << 63 | pair << 32 | (pair % 3)
}

const fn partition_of(key: u8) -> usize {
    (key / 2 % 2) as usize
}

#[derive(Clone, Debug)]
enum Step {
    Load { key: u8, value_bytes: usize },
    Take { key: u8, value_bytes: usize },
    Publish { held: usize },
    GiveBack { held: usize },
    Kill { key: u8 },
    Touch { key: u8 },
    TouchAny { offset: u64, version: u64 },
    SetDirty { key: u8, is_dirty: bool },
    CopyBackNext { partition: usize },
    Upkeep { partition: usize },
    RaiseVoid { partition: usize },
    Wait { ns: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0u8..24;
    let value_bytes = || prop_oneof![4 => 0usize..12, 2 => 12usize..200, 1 => 200usize..1000];
    let partition = || 0usize..2;
    prop_oneof![
        8 => (key(), value_bytes()).prop_map(|(key, value_bytes)| Step::Load { key, value_bytes }),
        3 => (key(), value_bytes()).prop_map(|(key, value_bytes)| Step::Take { key, value_bytes }),
        3 => (0usize..8).prop_map(|held| Step::Publish { held }),
        1 => (0usize..8).prop_map(|held| Step::GiveBack { held }),
        4 => key().prop_map(|key| Step::Kill { key }),
        2 => key().prop_map(|key| Step::Touch { key }),
        1 => (0u64..20_000, any::<u64>()).prop_map(|(offset, version)| Step::TouchAny { offset, version }),
        3 => (key(), any::<bool>()).prop_map(|(key, is_dirty)| Step::SetDirty { key, is_dirty }),
        1 => partition().prop_map(|partition| Step::CopyBackNext { partition }),
        2 => partition().prop_map(|partition| Step::Upkeep { partition }),
        1 => partition().prop_map(|partition| Step::RaiseVoid { partition }),
        4 => (0..WAIT_NS).prop_map(|ns| Step::Wait { ns }),
    ]
}

/// Published chunk, as the twin remembers it.
struct Published {
    key: u8,
    value: Vec<u8>,
    entry: Entry,
    voids: u64,
    is_dirty: bool,
    /// Bytes of the item, when it was published.
    bytes: Vec<u8>,
    death_ns: Option<u64>,
}

struct Twin {
    area: Area,
    tables: [Table; 2],
    host: TestHost,
    voids: [u64; 2],
    published: Vec<Published>,
    held: Vec<(u8, Vec<u8>, u64, Taken)>,
    values: u8,
    /// Entry of the chunk that the present step killed itself.
    killed: Option<Entry>,
}

impl Twin {
    fn new(policy: Policy) -> Self {
        let area = area_of(1, PAGE_BYTES, 7);
        let tables = [0, 1].map(|partition| table_of(&area, partition, policy));
        let host = TestHost::default();
        Self {
            area,
            tables,
            host,
            voids: [0; 2],
            published: Vec::new(),
            held: Vec::new(),
            values: 0,
            killed: None,
        }
    }

    fn living(&mut self, key: u8) -> Option<&mut Published> {
        self.published.iter_mut().find(|chunk| chunk.key == key && chunk.death_ns.is_none())
    }

    fn take(&mut self, key: u8, value_bytes: usize) {
        let table = &mut self.tables[partition_of(key)];
        self.values = self.values.wrapping_add(1);
        let value = vec![self.values; value_bytes];
        if let Some(mut taken) = table.take(1, value_bytes, &mut self.host) {
            assert!(taken.fill(&self.area, &item(hash_of(key), &[key], &value)));
            self.held.push((key, value, self.voids[partition_of(key)], taken));
        }
    }

    fn publish(&mut self, at: usize) {
        if self.held.is_empty() {
            return;
        }
        let (key, value, voids, taken) = self.held.swap_remove(at % self.held.len());
        let of_hash = |chunk: &&Published| hash_of(chunk.key) == hash_of(key) && chunk.death_ns.is_none();
        let old = self.published.iter().find(of_hash).map(|chunk| (chunk.key, chunk.is_dirty, chunk.entry));
        let table = &mut self.tables[partition_of(key)];
        let may = table.may_publish(&taken, &[key]);
        self.killed = old.filter(|_| may).map(|(_, _, entry)| entry);
        if let (true, Some((old_key, true, _))) = (may, old) {
            assert_eq!(old_key, key, "a dirty chunk would be replaced");
            let chunk = table.find(KeyHash(hash_of(key)), &[key]).unwrap();
            assert!(table.kill(&chunk, &mut self.host));
        }
        let entry = table.publish(taken, &mut self.host);
        assert_eq!(entry.is_some(), may, "it was not what was announced");
        let Some(entry) = entry else {
            return;
        };
        assert_eq!(voids, self.voids[partition_of(key)], "published after the void count was raised");
        let bytes = bring(&self.area, hash_of(key), entry).chunk;
        self.published.push(Published { key, value, entry, voids, is_dirty: false, bytes, death_ns: None });
    }

    fn run(&mut self, step: Step) {
        self.killed = None;
        self.host.copied_back.clear();
        match step {
            Step::Load { key, value_bytes } => {
                let held = self.held.len();
                self.take(key, value_bytes);
                self.check();
                if self.held.len() > held {
                    self.host.copied_back.clear();
                    self.publish(held);
                }
            }
            Step::Take { key, value_bytes } => self.take(key, value_bytes),
            Step::Publish { held } => self.publish(held),
            Step::GiveBack { held } if !self.held.is_empty() => {
                let (key, _, _, taken) = self.held.swap_remove(held % self.held.len());
                self.tables[partition_of(key)].give_back(taken);
            }
            Step::GiveBack { .. } => {}
            Step::Kill { key } => {
                let table = &mut self.tables[partition_of(key)];
                if let Some(chunk) = table.find(KeyHash(hash_of(key)), &[key]) {
                    assert!(table.kill(&chunk, &mut self.host));
                    self.killed = Some(chunk.entry);
                }
            }
            Step::Touch { key } => {
                let entry = self.living(key).map(|chunk| chunk.entry);
                if let Some(entry) = entry {
                    assert!(self.tables[partition_of(key)].touch(entry.offset, entry.version));
                    assert!(!self.tables[1 - partition_of(key)].touch(entry.offset, entry.version));
                }
            }
            Step::TouchAny { offset, version } => {
                assert!(!self.tables[0].touch(offset, version));
            }
            Step::SetDirty { key, is_dirty } => {
                let table = &mut self.tables[partition_of(key)];
                if let Some(chunk) = table.find(KeyHash(hash_of(key)), &[key]) {
                    assert!(table.set_dirty(&chunk, is_dirty));
                    self.living(key).unwrap().is_dirty = is_dirty;
                }
            }
            Step::CopyBackNext { partition } => {
                self.tables[partition].copy_back_next(&mut self.host);
                let copied = self.host.copied_back.first().copied();
                for chunk in &mut self.published {
                    chunk.is_dirty &= Some(chunk.entry) != copied;
                }
            }
            Step::Upkeep { partition } => self.tables[partition].upkeep(&mut self.host),
            Step::RaiseVoid { partition } => {
                self.voids[partition] += 1;
                self.tables[partition].raise_void();
            }
            Step::Wait { ns } => self.host.now_ns += ns,
        }
        self.check();
    }

    fn check(&mut self) {
        assert!(self.host.copied_back.len() <= 1);
        self.notice_deaths();
        let mut living: HashMap<u64, u8> = HashMap::new();
        for chunk in &self.published {
            let now = bring(&self.area, hash_of(chunk.key), chunk.entry);
            if chunk.death_ns.is_none() {
                assert_eq!(now.chunk, chunk.bytes, "a byte of a living chunk changed");
                assert_eq!(living.insert(hash_of(chunk.key), chunk.key), None, "two chunks of one hash");
                self.check_living(chunk, &now);
            } else {
                assert_eq!(now.chunk[..8], [0; 8]);
                assert_eq!(now.chunk[8..], chunk.bytes[8..], "a byte changed within the lease");
                let refusal = now.accept(hash_of(chunk.key), &[chunk.key], chunk.entry);
                assert_eq!(refusal, Err(Refusal::Version));
            }
        }
        for key in (0..24).filter(|key| living.get(&hash_of(*key)) != Some(key)) {
            assert!(self.tables[partition_of(key)].find(KeyHash(hash_of(key)), &[key]).is_none());
        }
        let all: u64 = self.tables.iter().map(|table| table.usage().living).sum();
        assert_eq!(all, living.len() as u64);
        for (partition, table) in self.tables.iter().enumerate() {
            let held = self.held.iter().filter(|(key, ..)| partition_of(*key) == partition);
            table.check(held.count());
        }
    }

    /// Compares versions with the region, as a client sees it. Forgets chunks whose lease has ended.
    fn notice_deaths(&mut self) {
        let now_ns = self.host.now_ns;
        for chunk in &mut self.published {
            let version = self.area.header(chunk.entry).unwrap().version;
            if chunk.death_ns.is_none() && version != chunk.entry.version {
                chunk.death_ns = Some(now_ns);
                let was_copied = self.host.copied_back.contains(&chunk.entry);
                let was_killed = self.killed == Some(chunk.entry);
                assert!(!chunk.is_dirty || was_copied || was_killed, "a dirty chunk was lost");
                chunk.is_dirty = false;
            }
        }
        let is_leased = |death_ns: u64| now_ns - death_ns <= WAIT_NS;
        self.published.retain(|chunk| chunk.death_ns.is_none_or(is_leased));
    }

    fn check_living(&self, chunk: &Published, now: &Brought) {
        let (key, hash) = (chunk.key, hash_of(chunk.key));
        let voids = self.voids[partition_of(key)];
        assert_eq!(Record::decode(&now.record).unwrap().void, spread(voids));
        let found = self.tables[partition_of(key)].find(KeyHash(hash), &[key]).expect("it lives");
        assert_eq!((found.entry, found.is_dirty), (chunk.entry, chunk.is_dirty));
        assert_eq!(found.is_void, chunk.voids != voids);
        let accepted = now.accept(hash, &[key], chunk.entry);
        if chunk.voids == voids {
            assert_eq!(accepted.unwrap().value, chunk.value);
        } else {
            assert_eq!(accepted, Err(Refusal::Void));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 },
        failure_persistence: None,
        ..Default::default()
    })]

    /// No byte of a living or leased chunk changes; a hash has one chunk; no dirty value is lost; the books
    /// are right after each step.
    #[test]
    fn chunks_live_as_those_of_the_twin(
        steps in prop::collection::vec(step(), 1..300),
        is_lru in any::<bool>(),
    ) {
        let mut twin = Twin::new(if is_lru { Policy::Lru } else { Policy::Fifo });
        for step in steps {
            twin.run(step);
        }
    }
}
