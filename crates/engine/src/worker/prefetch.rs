//! The first two stages of the batch pipeline (MICA 4.3.2, multi-stage prefetching): load the buckets of all
//! requests, then the items they point to. Compiled once for each instruction set that helps: hashes of
//! eight keys at a time, and the tags of a bucket by one comparison.

use std::mem::MaybeUninit;

use crate::cache::Cache;
use crate::index::bucket::Bucket;
use crate::index::hash::{IndexHash, LANES};
use crate::index::tags::{Level, Scalar, Tags};
use crate::limits::WINDOW_REQUESTS;
use crate::operations::request::Request;
use crate::partition::{Hint, UNSURE};
use micanite_wire::hash::KeyHash;

/// Results of prefetching, for each request of a window. Those that no request has are not initialised: they
/// are more memory than a short batch touches.
pub(super) struct Hints<'a> {
    hints: [MaybeUninit<Hint<'a>>; WINDOW_REQUESTS],
    count: usize,
}

impl<'a> Hints<'a> {
    pub const fn new() -> Self {
        Self { hints: [const { MaybeUninit::uninit() }; WINDOW_REQUESTS], count: 0 }
    }

    #[inline(always)]
    pub fn all(&mut self) -> &mut [Hint<'a>] {
        let hints = &raw mut self.hints;
        #[expect(unsafe_code, reason = "an array of which the first part is initialised")]
        // SAFETY: `buckets` has written so many of them.
        unsafe {
            std::slice::from_raw_parts_mut(hints.cast(), self.count)
        }
    }
}

/// Begins to load the buckets of a window of requests. The worker is inside the batch.
#[inline]
pub(super) fn prefetch_buckets<'a>(
    cache: &'a Cache,
    worker: usize,
    window: &[Request<'_>],
    hints: &mut Hints<'a>,
) {
    match cache.level {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: the processor has these instructions (`Level::of_this_processor`).
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx512 => unsafe { buckets_avx512(cache, worker, window, hints) },
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx2 => unsafe { buckets_avx2(cache, worker, window, hints) },
        Level::Any => buckets(cache, worker, window, hints),
    }
}

/// Begins to load the items of a window, whose buckets were prefetched, and records where each was seen.
#[inline]
pub(super) fn prefetch_items(level: Level, hints: &mut Hints<'_>) {
    match level {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: the processor has these instructions (`Level::of_this_processor`).
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx512 => unsafe { items_avx512(hints) },
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx2 => unsafe { items_avx2(hints) },
        Level::Any => items_by::<Scalar>(hints.all()),
    }
}

/// Looks for the item of a request that stands alone, as both stages would. The worker is inside the batch.
#[inline]
pub(super) fn look_up(cache: &Cache, worker: usize, hash: KeyHash) -> Hint<'_> {
    match cache.level {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: the processor has these instructions (`Level::of_this_processor`).
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx512 => unsafe { look_up_avx512(cache, worker, hash) },
        _ => look_up_by::<Scalar>(cache, worker, hash),
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,lzcnt")]
fn look_up_avx512(cache: &Cache, worker: usize, hash: KeyHash) -> Hint<'_> {
    look_up_by::<crate::index::tags::Avx512>(cache, worker, hash)
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,lzcnt")]
fn buckets_avx512<'a>(cache: &'a Cache, worker: usize, window: &[Request<'_>], hints: &mut Hints<'a>) {
    buckets(cache, worker, window, hints);
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn buckets_avx2<'a>(cache: &'a Cache, worker: usize, window: &[Request<'_>], hints: &mut Hints<'a>) {
    buckets(cache, worker, window, hints);
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,lzcnt")]
fn items_avx512(hints: &mut Hints<'_>) {
    items_by::<crate::index::tags::Avx512>(hints.all());
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn items_avx2(hints: &mut Hints<'_>) {
    items_by::<Scalar>(hints.all());
}

#[inline(always)]
fn look_up_by<T: Tags>(cache: &Cache, worker: usize, hash: KeyHash) -> Hint<'_> {
    let partition = cache.partition(hash);
    let changes = partition.changes_seen(owner_of_facts(cache, worker));
    let hash = partition.index_hash(hash);
    if changes == UNSURE {
        return Hint::nothing(partition, hash);
    }
    let buckets = partition.buckets_packed();
    let bucket = partition.bucket(hash).first_word;
    let mut hint = Hint { buckets, bucket, changes, ..Hint::nothing(partition, hash) };
    items_by::<T>(std::slice::from_mut(&mut hint));
    hint
}

/// Returns the worker whose hints are facts where it is the exclusive owner. Where the policy moves items
/// that are read, there is none.
#[inline(always)]
fn owner_of_facts(cache: &Cache, worker: usize) -> usize {
    if cache.partitions[0].moves_on_get { usize::MAX } else { worker }
}

#[inline(always)]
fn buckets<'a>(cache: &'a Cache, worker: usize, window: &[Request<'_>], hints: &mut Hints<'a>) {
    hints.count = 0;
    let partitions = &*cache.partitions;
    // All partitions of a cache find the bucket of a key alike (`Cache::of`).
    let layout = &partitions[0].layout;
    let index = layout.index();
    let owner = owner_of_facts(cache, worker);
    // A lane without a request is computed, too.
    let of_none = partitions[0].buckets_packed();
    let lanes = window.chunks(LANES).zip(hints.hints.chunks_mut(LANES));
    for (requests, hints) in lanes {
        let (mut hashes, mut buckets) = ([0; LANES], [of_none; LANES]);
        for (((request, hint), hash), of) in
            requests.iter().zip(&mut *hints).zip(&mut hashes).zip(&mut buckets)
        {
            let partition = &partitions[request.hash.partition(cache.partition_bits)];
            let changes = partition.changes_seen(owner);
            let seen = hint.write(Hint { changes, ..Hint::nothing(partition, IndexHash::of_word(0)) });
            seen.buckets = partition.buckets_packed();
            (*hash, *of) = (request.hash.0, seen.buckets);
        }
        IndexHash::hash_lanes(&mut hashes, layout.secret);
        let words = index.words_of_buckets(&hashes, &buckets);
        for ((hint, hash), word) in hints.iter_mut().take(requests.len()).zip(&hashes).zip(&words) {
            #[expect(unsafe_code, reason = "hints are not initialised twice")]
            // SAFETY: written above.
            let hint = unsafe { hint.assume_init_mut() };
            (hint.hash, hint.bucket) = (IndexHash::of_word(*hash), *word as usize);
            hint.partition.region.prefetch(hint.bucket);
        }
    }
    hints.count = window.len().min(WINDOW_REQUESTS);
}

#[inline(always)]
fn items_by<T: Tags>(hints: &mut [Hint<'_>]) {
    let mut chained = 0u64;
    for (index, hint) in hints.iter_mut().enumerate() {
        let partition = hint.partition;
        let bucket = Bucket::at(&partition.region, hint.bucket);
        if partition.prefetch_item::<T>(hint, bucket) {
            chained |= 1 << index;
        }
    }
    while chained != 0 {
        let hint = &mut hints[chained.trailing_zeros() as usize];
        chained &= chained - 1;
        let partition = hint.partition;
        let is_longer = match hint.spare() {
            Some(number) if number < partition.layout.spares(partition.buckets()) => {
                partition.prefetch_item::<T>(hint, partition.spare_bucket(number))
            }
            spare => spare.is_some(),
        };
        if is_longer {
            hint.changes = UNSURE;
        }
    }
}
