//! Shared code of the tests: a small cache of any geometry, and a client of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{OFFSET_BITS, RESERVE_SHARE};
#[cfg(test)]
use crate::operations::request::HashedRequest;
use crate::partition::PartitionLayout;
use crate::*;

/// A small partition geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub partition_bits: u32,
    pub buckets: u64,
    /// Initial units of the data space.
    pub data_units: u64,
    /// True if the index may grow.
    pub grows: bool,
    pub offset_bits: u32,
    pub value_bytes_max: usize,
    pub eviction: Eviction,
    pub semantics: Semantics,
    pub workers: usize,
    pub access: Access,
    /// True if the partitions lie in maps; files without names stand for them.
    pub maps: bool,
    /// Way of the stores of fabric clients, if there is a cache area.
    pub area: Option<ChunkWrite>,
}

impl Default for Setup {
    /// Returns a partition with room for everything, and one worker.
    fn default() -> Self {
        Self {
            partition_bits: 0,
            buckets: 64,
            data_units: 16 * 512,
            grows: false,
            offset_bits: OFFSET_BITS,
            value_bytes_max: 400,
            eviction: Eviction::S3Fifo,
            semantics: Semantics::Cache,
            workers: 1,
            access: Access::Crcw,
            maps: false,
            area: None,
        }
    }
}

impl Setup {
    pub fn layout(&self) -> PartitionLayout {
        let item_units_max = (self.value_bytes_max as u64 + 250 + 40).div_ceil(8).min(self.data_units);
        let is_kept_store = self.maps && self.semantics == Semantics::Store;
        let reserve_units = match is_kept_store {
            true => item_units_max.min(self.data_units / RESERVE_SHARE),
            false => 0,
        };
        let mut layout = PartitionLayout {
            number: 0,
            partition_bits: self.partition_bits,
            seed: 7,
            secret: Secret::KNOWN,
            semantics: self.semantics,
            policy: self.eviction.policy(),
            region_words: 0,
            limit_words: 0,
            buckets: self.buckets,
            data_units_max: u64::MAX,
            data_units_min: reserve_units + self.data_units / if self.grows { 2 } else { 1 },
            item_units_max,
            reserve_units,
            offset_bits: self.offset_bits,
            namespace_delimiter: Some(b':'),
        };
        let index_words = layout.index_lines(self.buckets) * 8;
        layout.region_words = layout.heap_first() as u64 + self.data_units + index_words;
        layout.limit_words = layout.region_words;
        layout
    }

    pub fn cache(&self) -> Arc<Cache> {
        let layout = self.layout();
        let map = |_| Arc::new(nameless(layout.region_words as usize * 8).into());
        let maps = self
            .maps
            .then(|| Maps { descriptors: (0..1 << self.partition_bits).map(map).collect(), kept: false });
        self.cache_in(maps)
    }

    /// Makes a cache in these maps, if there are any, otherwise in fresh memory.
    pub fn cache_in(&self, maps: Option<Maps>) -> Arc<Cache> {
        self.try_cache_in(maps).expect("a sound image")
    }

    /// Makes a cache in these maps, or returns the damage of the image that they hold.
    pub fn try_cache_in(&self, maps: Option<Maps>) -> Result<Arc<Cache>, String> {
        let config = Config { maps, ..self.config() };
        let cache = Cache::try_with_partitions(self.layout(), &config)?;
        #[cfg(loom)]
        assert!(self.area.is_none(), "no loom model has a cache area");
        #[cfg(not(loom))]
        if let Some(write) = self.area {
            crate::tests::area::attach(&cache, write, crate::tests::area::LEASE_NS);
        }
        Ok(cache)
    }

    pub fn config(&self) -> Config {
        Config {
            value_bytes_max: self.value_bytes_max,
            workers: self.workers,
            eviction: self.eviction,
            semantics: self.semantics,
            access: self.access,
            seed: 7,
            namespace_delimiter: Some(b':'),
            ..Config::default()
        }
    }
}

/// Returns two workers, of which the first owns everything.
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) fn crew() -> Setup {
    Setup {
        workers: 2,
        access: Access::Crew,
        data_units: 1 << 16,
        value_bytes_max: 100_000,
        ..Setup::default()
    }
}

/// Makes a file of some bytes, in whole pages, that ends with its descriptor.
fn nameless(bytes: usize) -> std::fs::File {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("micanite-engine-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.expect("a temporary file");
    std::fs::remove_file(path).expect("the temporary file");
    let pages = bytes.next_multiple_of(micanite_memory::PAGE_BYTES);
    file.set_len(pages as u64).expect("space for it");
    file
}

/// A recorded reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub outcome: Option<Outcome>,
    pub value: Vec<u8>,
    pub flags: u32,
    pub cas: u64,
    /// Description of the item, if a meta operation asked for it.
    pub item: ItemMeta,
    /// Entry of its chunk.
    pub entry: Option<ChunkEntry>,
}

/// Records the replies of a batch.
#[derive(Default)]
pub(crate) struct Replies(pub Vec<Reply>, ItemMeta, Option<ChunkEntry>);

impl ReplySink for Replies {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        assert_eq!(index, self.0.len());
        let value = vec![0; meta.value_bytes];
        let (item, entry) = (self.1, self.2.take());
        self.0.push(Reply { outcome: None, value, flags: meta.flags, cas: meta.cas, item, entry });
        self.0.last_mut().map(|reply| reply.value.as_mut_slice())
    }

    fn rollback(&mut self, index: usize) {
        assert_eq!(index + 1, self.0.len());
        self.0.pop();
    }

    fn describe(&mut self, index: usize, item: ItemMeta) {
        assert_eq!(index, self.0.len());
        self.1 = item;
    }

    fn entry(&mut self, index: usize, entry: ChunkEntry) {
        assert_eq!(index, self.0.len());
        self.2 = Some(entry);
    }

    fn finish(&mut self, index: usize, outcome: Outcome) {
        let item = std::mem::take(&mut self.1);
        // A hit without its value has reserved nothing.
        if index == self.0.len() {
            self.0.push(Reply { item, entry: self.2.take(), ..Reply::default() });
        }
        assert_eq!(index + 1, self.0.len());
        self.0[index].outcome = Some(outcome);
    }
}

/// Keeps the keys that a walk shows, each as often as shown.
#[cfg(all(test, not(miri)))]
#[derive(Default)]
pub(crate) struct Keys {
    taken: Vec<Vec<u8>>,
    pub kept: Vec<Vec<u8>>,
}

#[cfg(all(test, not(miri)))]
impl Visitor for Keys {
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit {
        self.taken.push(item.key.to_vec());
        Visit::Next
    }

    fn take_back(&mut self) {
        self.taken.clear();
    }

    fn keep(&mut self) {
        self.kept.append(&mut self.taken);
    }
}

/// Executes single requests.
pub(crate) struct Client {
    pub worker: Worker,
    pub now_s: u32,
}

impl Client {
    pub fn new(cache: &Arc<Cache>, number: usize) -> Self {
        Self { worker: cache.worker(number).unwrap(), now_s: 1000 }
    }

    pub fn ask(&mut self, key: &[u8], operation: Operation<'_>) -> Reply {
        let mut replies = Replies::default();
        let hash = self.worker.cache().hash(key);
        let executed = self.worker.execute(&[Request { hash, key, operation }], self.now_s, &mut replies);
        assert_eq!((executed, replies.0.len()), (1, 1));
        replies.0.pop().unwrap()
    }

    /// Gets several keys in one batch.
    #[cfg(not(loom))]
    pub fn ask_all(&mut self, keys: &[Vec<u8>]) -> Vec<Reply> {
        let mut replies = Replies::default();
        let mut batch = Vec::new();
        for key in keys {
            let hash = self.worker.cache().hash(key);
            let operation = Operation::Get { cas: false };
            batch.push(Request { hash, key, operation });
        }
        self.worker.execute(&batch, self.now_s, &mut replies);
        replies.0
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

/// Returns a request with the hash of its key within its partition.
#[cfg(test)]
pub(crate) fn hashed<'a>(
    partition: &crate::partition::Partition,
    request: &'a Request<'_>,
) -> HashedRequest<'a> {
    let hash = partition.index_hash(request.hash);
    HashedRequest { hash, key: request.key, operation: &request.operation }
}

/// Returns a store operation.
pub(crate) fn store(condition: Condition, value: &[u8], flags: u32, expiry_s: u32) -> Operation<'_> {
    Operation::Store { condition, value, flags, expiry: Expiry(expiry_s) }
}

/// Random numbers that are the same in every run (xorshift).
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) struct Random(pub u64);

#[cfg(all(test, not(any(loom, miri))))]
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next().wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) as usize % bound
    }

    /// Returns a number from 0 to less than 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Runs something that must end within some seconds. If it does not, its thread stays behind.
#[cfg(all(test, not(loom)))]
pub(crate) fn within<R: Send + 'static>(seconds: u64, run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // After the deadline no thread receives the result.
        let _ = sender.send(run());
    });
    let ended = receiver.recv_timeout(std::time::Duration::from_secs(seconds));
    ended.expect("it ends, without a panic")
}

/// Makes the bucket of a key look as if its writer had stopped in the middle of a change.
#[cfg(all(test, not(loom)))]
pub(crate) fn stop_writer_in(cache: &Cache, key: &[u8]) {
    add_to_version(cache, key, 1);
}

/// Leaves the item of a key as a process leaves it that is killed in an overwrite.
#[cfg(all(test, not(loom)))]
pub(crate) fn leave_busy(cache: &Cache, key: &[u8]) {
    let hash = cache.hash(key);
    let writer = cache.partition(hash).writer(1000);
    let found = writer.lookup(writer.partition.hash_of(key), key);
    let found = found.expect("an item");
    writer.set_header(found.place.position, found.header.with_busy());
}

/// Makes the bucket of a key look as if its writer had written another key of it.
#[cfg(all(test, not(loom)))]
pub(crate) fn write_neighbour(cache: &Cache, key: &[u8]) {
    add_to_version(cache, key, 2);
}

#[cfg(all(test, not(loom)))]
fn add_to_version(cache: &Cache, key: &[u8], steps: u64) {
    let hash = cache.hash(key);
    let partition = cache.partition(hash);
    let version = partition.word(partition.bucket(partition.index_hash(hash)).first_word);
    version.fetch_add(steps, Ordering::AcqRel);
}
