//! What the tests share: a small cache of any geometry, and a client of it.

use std::sync::Arc;

use crate::partition::PartitionLayout;
use crate::*;

/// A small partition geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub partition_bits: u32,
    pub buckets: u64,
    /// Units of the data space at first.
    pub data_units: u64,
    /// Whether the index may grow.
    pub grows: bool,
    pub offset_bits: u32,
    pub value_bytes_max: usize,
    pub eviction: Eviction,
    pub semantics: Semantics,
    pub workers: usize,
    pub access: Access,
}

impl Default for Geometry {
    /// A partition with room for everything, one worker.
    fn default() -> Self {
        Self {
            partition_bits: 0,
            buckets: 64,
            data_units: 16 * 512,
            grows: false,
            offset_bits: 45,
            value_bytes_max: 400,
            eviction: Eviction::S3Fifo,
            semantics: Semantics::Cache,
            workers: 1,
            access: Access::Crcw,
        }
    }
}

impl Geometry {
    pub fn layout(&self) -> PartitionLayout {
        let item_units_max = (self.value_bytes_max as u64 + 250 + 40)
            .div_ceil(8)
            .min(self.data_units);
        let mut layout = PartitionLayout {
            number: 0,
            partition_bits: self.partition_bits,
            seed: 7,
            semantics: self.semantics,
            policy: self.eviction.policy(),
            region_words: 0,
            buckets: self.buckets,
            data_units_min: self.data_units / if self.grows { 2 } else { 1 },
            item_units_max,
            offset_bits: self.offset_bits,
            namespace_delimiter: Some(b':'),
        };
        let index_words = layout.index_lines(self.buckets) * 8;
        layout.region_words = layout.data_first() as u64 + self.data_units + index_words;
        layout
    }

    pub fn cache(&self) -> Arc<Cache> {
        let config = Config {
            value_bytes_max: self.value_bytes_max,
            workers: self.workers,
            eviction: self.eviction,
            semantics: self.semantics,
            access: self.access,
            seed: 7,
            namespace_delimiter: Some(b':'),
            ..Config::default()
        };
        Cache::with_partitions(self.layout(), &config)
    }
}

/// A reply, kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub outcome: Option<Outcome>,
    pub value: Vec<u8>,
    pub flags: u32,
    pub cas: u64,
    /// What was said of the item, if a meta operation asked.
    pub item: ItemMeta,
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
            ..Reply::default()
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
