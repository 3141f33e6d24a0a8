//! Gets by another process, which maps the partitions for loads: the optimistic read of a worker that may
//! only read, with the same prefetching, and nobody whom it could ask.

use std::os::fd::OwnedFd;

use arrayvec::ArrayVec;
use micanite_wire::hash::KeyHash;

use crate::access::{Access, Route};
use crate::cache::Cache;
use crate::cache::error::CreateError;
use crate::image::outside::{OutsideImage, open};
use crate::limits::{BATCH_REQUESTS_MAX, WINDOW_REQUESTS};
use crate::operations::request::{HashedRequest, Operation, ReplySink, Request};
use crate::partition::Hint;
use crate::reader::{PlainGet, Read};
use crate::worker::prefetch::{Hints, prefetch_buckets, prefetch_items};

/// Number of the worker that the reader is, and of the one that owns everything.
const READER: usize = 0;
const WRITER: usize = 1;
const GET: Operation<'static> = Operation::Get { cas: false };

/// Partitions that another process writes, on the same machine. A get makes no system call, takes no lock,
/// and writes nothing that others see.
#[derive(Debug)]
pub struct ImageReader {
    cache: Cache,
}

/// Result of a get by an [`ImageReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideRead {
    /// The reply is in the sink: the value, or that there is none. `note`: the writer wants to know of the
    /// request ([`Cache::note_request`]).
    Done { note: bool },
    /// The sink had no room.
    NoRoom,
    /// Only the writer's process can tell: it is changing the item again and again, or the newest value is
    /// in the cache area of a fabric alone.
    Undecided,
}

impl OutsideRead {
    #[inline(always)]
    const fn of(read: Read) -> Self {
        match read {
            Read::Done { count } => Self::Done { note: count },
            Read::NoRoom => Self::NoRoom,
            Read::Contended | Read::Changes => Self::Undecided,
        }
    }
}

impl ImageReader {
    /// Maps partitions by their descriptors, in order ([`Cache::readers`]). The longest value and the
    /// delimiter are those of the configuration of their writer.
    ///
    /// # Errors
    /// The partitions have another layout version, or sizes that the configuration does not explain; the
    /// kernel refuses to map them.
    pub fn open(
        descriptors: Vec<OwnedFd>,
        value_bytes_max: usize,
        namespace_delimiter: Option<u8>,
    ) -> Result<Self, CreateError> {
        let OutsideImage { partitions, layout, config } =
            open(descriptors, value_bytes_max, namespace_delimiter)?;
        let cache = Cache::of(partitions, layout, &config);
        for partition in &cache.partitions {
            partition.route.set(Route { access: Access::Crew, owner: WRITER });
        }
        Ok(Self { cache })
    }

    /// Hashes a key with the seed of the partitions.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.cache.hash(key)
    }

    /// Reads the item of a key into the sink, as request `index`.
    #[inline]
    pub fn get<S: ReplySink>(
        &self,
        (index, hash, key): (usize, KeyHash, &[u8]),
        now_s: u32,
        sink: &mut S,
    ) -> OutsideRead {
        let partition = self.cache.partition(hash);
        let request = HashedRequest { hash: partition.index_hash(hash), key, operation: &GET };
        OutsideRead::of(partition.read((index, &request), &PlainGet, now_s, sink))
    }

    /// Reads the items of up to [`BATCH_REQUESTS_MAX`] keys into the sink, which `done` gets back with each
    /// result. The memory of all is prefetched first.
    pub fn get_batch<S: ReplySink>(
        &self,
        keys: &[(KeyHash, &[u8])],
        now_s: u32,
        sink: &mut S,
        mut done: impl FnMut(&mut S, usize, OutsideRead),
    ) {
        debug_assert!(keys.len() <= BATCH_REQUESTS_MAX);
        let keys = &keys[..keys.len().min(BATCH_REQUESTS_MAX)];
        let requests = keys.iter().map(|(hash, key)| Request { hash: *hash, key, operation: GET });
        let requests: ArrayVec<Request<'_>, BATCH_REQUESTS_MAX> = requests.collect();
        let mut hints = Hints::new();
        let mut index = 0;
        for window in requests.chunks(WINDOW_REQUESTS) {
            prefetch_buckets(&self.cache, READER, window, &mut hints);
            prefetch_items(self.cache.level, &mut hints);
            for (request, hint) in window.iter().zip(hints.all()) {
                let read = self.get_hinted((index, request), hint, now_s, sink);
                done(sink, index, read);
                index += 1;
            }
        }
    }

    #[inline(always)]
    fn get_hinted<S: ReplySink>(
        &self,
        (index, request): (usize, &Request<'_>),
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> OutsideRead {
        let asked = HashedRequest { hash: hint.hash, key: request.key, operation: &GET };
        OutsideRead::of(hint.partition.read_prefetched((index, &asked), &PlainGet, hint, now_s, sink))
    }
}
