//! What the tests share: a small cache of any geometry, and a client of it.

use std::sync::Arc;

use crate::partition::PartitionLayout;
use crate::*;

/// A small partition geometry.
pub(crate) struct Geometry {
    pub partition_bits: u32,
    pub buckets: u64,
    pub log_units: u64,
    pub offset_bits: u32,
    pub value_bytes_max: usize,
    pub eviction: Eviction,
    pub workers: usize,
}

impl Geometry {
    pub fn cache(&self) -> Arc<Cache> {
        let config = Config {
            memory_bytes: 0,
            item_bytes_hint: 0,
            value_bytes_max: self.value_bytes_max,
            workers: self.workers,
            eviction: self.eviction,
            seed: 7,
        };
        let log_bytes = self.log_units * 8;
        let layout = PartitionLayout {
            number: 0,
            partition_bits: self.partition_bits,
            seed: config.seed,
            buckets: self.buckets,
            log_units: self.log_units,
            item_units_max: (self.value_bytes_max as u64 + 250 + 24)
                .div_ceil(8)
                .min(self.log_units),
            offset_bits: self.offset_bits,
            reinsert_distance_units: self.eviction.reinsert_distance_bytes(log_bytes) / 8,
        };
        Cache::with_partitions(layout, &config)
    }
}

/// A reply, kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub outcome: Option<Outcome>,
    pub value: Vec<u8>,
    pub flags: u32,
    pub cas: u64,
}

/// Keeps the replies of a batch.
#[derive(Default)]
pub(crate) struct Replies(pub Vec<Reply>);

impl ReplySink for Replies {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        assert_eq!(index, self.0.len());
        let value = vec![0; meta.value_bytes];
        self.0.push(Reply {
            outcome: None,
            value,
            flags: meta.flags,
            cas: meta.cas,
        });
        self.0.last_mut().map(|reply| reply.value.as_mut_slice())
    }

    fn rollback(&mut self, index: usize) {
        assert_eq!(index + 1, self.0.len());
        self.0.pop();
    }

    fn finish(&mut self, index: usize, outcome: Outcome) {
        if outcome == Outcome::Hit {
            assert_eq!(index + 1, self.0.len());
        } else {
            assert_eq!(index, self.0.len());
            self.0.push(Reply::default());
        }
        self.0[index].outcome = Some(outcome);
    }
}

/// Executes single requests.
pub(crate) struct Client {
    pub worker: Worker,
    pub now_s: u32,
}

impl Client {
    pub fn new(cache: &Arc<Cache>, number: usize) -> Self {
        Self {
            worker: cache.worker(number).unwrap(),
            now_s: 1000,
        }
    }

    pub fn ask(&mut self, key: &[u8], operation: Operation<'_>) -> Reply {
        let mut replies = Replies::default();
        let hash = self.worker.cache().hash(key);
        let executed = self.worker.execute(
            &[Request {
                hash,
                key,
                operation,
            }],
            self.now_s,
            &mut replies,
        );
        assert_eq!((executed, replies.0.len()), (1, 1));
        replies.0.pop().unwrap()
    }

    pub fn outcome(&mut self, key: &[u8], operation: Operation<'_>) -> Outcome {
        self.ask(key, operation).outcome.unwrap()
    }

    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.outcome(key, store(Condition::Always, value, 0, 0))
    }

    #[cfg(not(loom))]
    pub fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let reply = self.ask(key, Operation::Get { cas: false });
        (reply.outcome == Some(Outcome::Hit)).then_some(reply.value)
    }
}

/// A store operation.
pub(crate) fn store(
    condition: Condition,
    value: &[u8],
    flags: u32,
    expiry_s: u32,
) -> Operation<'_> {
    Operation::Store {
        condition,
        value,
        flags,
        expiry: Expiry(expiry_s),
    }
}
