//! The first two stages of the batch pipeline (MICA 4.3.2, multi-stage prefetching): load the buckets of all
//! requests, then the items they point to. Compiled once for each instruction set that helps: hashes of
//! eight keys at a time, and the tags of a bucket by one comparison.

use arrayvec::ArrayVec;

use crate::access::Permission;
use crate::cache::Cache;
use crate::index::bucket::Bucket;
use crate::index::hash::{IndexHash, LANES};
use crate::index::tags::{Level, Scalar, Tags};
use crate::limits::BATCH_REQUESTS_MAX;
use crate::operations::request::Request;
use crate::partition::{Hint, Partition, UNSURE};

/// Results of prefetching, for each request.
pub(crate) type Hints<'a> = ArrayVec<Hint<'a>, BATCH_REQUESTS_MAX>;

/// Prefetches the memory that a batch of a worker will need, and records where each item was seen. The
/// worker is inside the batch.
#[inline]
pub(super) fn prefetch<'a>(cache: &'a Cache, worker: usize, batch: &[Request<'_>], hints: &mut Hints<'a>) {
    match cache.level {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: the processor has these instructions (`Level::of_this_processor`).
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx512 => unsafe { prefetch_avx512(cache, worker, batch, hints) },
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        Level::Avx2 => unsafe { prefetch_avx2(cache, worker, batch, hints) },
        Level::Any => prefetch_by::<Scalar>(cache, worker, batch, hints),
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,lzcnt")]
fn prefetch_avx512<'a>(cache: &'a Cache, worker: usize, batch: &[Request<'_>], hints: &mut Hints<'a>) {
    prefetch_by::<crate::index::tags::Avx512>(cache, worker, batch, hints);
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn prefetch_avx2<'a>(cache: &'a Cache, worker: usize, batch: &[Request<'_>], hints: &mut Hints<'a>) {
    prefetch_by::<Scalar>(cache, worker, batch, hints);
}

#[inline(always)]
fn prefetch_by<'a, T: Tags>(cache: &'a Cache, worker: usize, batch: &[Request<'_>], hints: &mut Hints<'a>) {
    // All partitions of a cache have one secret.
    let secret = cache.partitions[0].layout.secret;
    for requests in batch.chunks(LANES) {
        let mut hashes = [0; LANES];
        for (hash, request) in hashes.iter_mut().zip(requests) {
            *hash = request.hash.0;
        }
        IndexHash::hash_lanes(&mut hashes, secret);
        for (hash, request) in hashes.iter().zip(requests) {
            let partition = cache.partition(request.hash);
            let changes = changes_for(partition, worker);
            hints.push(partition.prefetch_bucket(IndexHash::of_word(*hash), changes));
        }
    }
    let mut chained = 0u64;
    for (index, hint) in hints.iter_mut().enumerate() {
        let partition = hint.partition;
        let bucket = Bucket::at(&partition.region, hint.bucket);
        partition.prefetch_item::<T>(hint, bucket);
        chained |= u64::from(hint.spare().is_some()) << index;
    }
    while chained != 0 {
        let hint = &mut hints[chained.trailing_zeros() as usize];
        chained &= chained - 1;
        let partition = hint.partition;
        if let Some(number) = hint.spare()
            && number < partition.layout.spares(partition.buckets())
        {
            let bucket = partition.spare_bucket(number);
            partition.prefetch_item::<T>(hint, bucket);
        }
        if hint.spare().is_some() {
            hint.changes = UNSURE;
        }
    }
}

/// Returns [`Hint::changes`] for the hints of a worker, to be loaded before anything else of the partition: a
/// worker may become the owner while it prefetches, but does not cease to be it.
#[inline(always)]
fn changes_for(partition: &Partition, worker: usize) -> u64 {
    match partition.route.permission(worker) {
        Permission::Own => partition.changes_seen(),
        _ => UNSURE,
    }
}
