//! Copies between plain bytes and words that may race. Every access is a relaxed atomic word, so a
//! torn copy is possible and defined. The caller validates it afterwards (sequence lock).
//!
//! Bytes are little endian within a word. Offsets are in bytes and need no alignment. The tests hold
//! a naive byte-by-byte version of each routine.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use crate::{Region, WORD_BYTES};

impl Region {
    /// Copies `target.len()` bytes, from `first_byte` on, into `target`.
    #[inline(always)]
    pub fn copy_out(&self, first_byte: usize, target: &mut [u8]) {
        // One word is worth no call.
        let Ok(word) = <&mut [u8; WORD_BYTES]>::try_from(&mut *target) else {
            return self.copy_out_parts(first_byte, target);
        };
        let (first, shift) = (first_byte / WORD_BYTES, 8 * (first_byte % WORD_BYTES));
        *word = if shift == 0 {
            self.word(first).load(Relaxed)
        } else {
            let [low, high] = self.array(first);
            low.load(Relaxed) >> shift | high.load(Relaxed) << (u64::BITS as usize - shift)
        }
        .to_le_bytes();
    }

    fn copy_out_parts(&self, first_byte: usize, target: &mut [u8]) {
        let skip = first_byte % WORD_BYTES;
        let words = (skip + target.len()).div_ceil(WORD_BYTES);
        let mut words = self.slice(first_byte / WORD_BYTES, words).iter();
        let mut next = || words.next().map_or(0, |word| word.load(Relaxed));
        let mut rest = target;
        if skip != 0 && !rest.is_empty() {
            let head_bytes = rest.len().min(WORD_BYTES - skip);
            let (head, tail) = rest.split_at_mut(head_bytes);
            store_short(head, next() >> (8 * skip));
            rest = tail;
        }
        let (chunks, tail) = rest.as_chunks_mut::<WORD_BYTES>();
        for chunk in chunks {
            *chunk = next().to_le_bytes();
        }
        if !tail.is_empty() {
            store_short(tail, next());
        }
    }

    /// Copies `source` to `first_byte`. Bytes of the first and last word outside of the range keep
    /// their value. Only the single writer of the region may call it.
    #[inline(always)]
    pub fn copy_in(&self, first_byte: usize, source: &[u8]) {
        // One word is worth no call.
        let Ok(word) = source.try_into().map(u64::from_le_bytes) else {
            return self.copy_in_parts(first_byte, source);
        };
        let (first, shift) = (first_byte / WORD_BYTES, 8 * (first_byte % WORD_BYTES));
        if shift == 0 {
            self.word(first).store(word, Relaxed);
        } else {
            let [low, high] = self.array(first);
            let kept = (1 << shift) - 1;
            low.store(low.load(Relaxed) & kept | word << shift, Relaxed);
            high.store(high.load(Relaxed) & !kept | word >> (u64::BITS as usize - shift), Relaxed);
        }
    }

    fn copy_in_parts(&self, first_byte: usize, source: &[u8]) {
        let skip = first_byte % WORD_BYTES;
        let words = (skip + source.len()).div_ceil(WORD_BYTES);
        let mut words = self.slice(first_byte / WORD_BYTES, words).iter();
        let mut rest = source;
        if skip != 0
            && !rest.is_empty()
            && let Some(word) = words.next()
        {
            let (head, tail) = rest.split_at(rest.len().min(WORD_BYTES - skip));
            merge(word, skip, head);
            rest = tail;
        }
        let (chunks, tail) = rest.as_chunks::<WORD_BYTES>();
        for (chunk, word) in chunks.iter().zip(&mut words) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
        if let Some(word) = words.next()
            && !tail.is_empty()
        {
            merge(word, 0, tail);
        }
    }

    /// Copies `bytes` from one place of the region to another, which precedes it or does not
    /// overlap it. Only the single writer of the region may call it.
    pub fn copy_within(&self, from_byte: usize, to_byte: usize, bytes: usize) {
        let mut buffer = [0; 512];
        let mut done = 0;
        while done < bytes {
            let step = buffer.len().min(bytes - done);
            self.copy_out(from_byte + done, &mut buffer[..step]);
            self.copy_in(to_byte + done, &buffer[..step]);
            done += step;
        }
    }

    /// Returns whether the bytes from word `first_word` on equal `key`.
    #[inline]
    pub fn equals(&self, first_word: usize, key: &[u8]) -> bool {
        let (chunks, tail) = key.as_chunks::<WORD_BYTES>();
        let words = self.slice(first_word, key.len().div_ceil(WORD_BYTES));
        for (chunk, word) in chunks.iter().zip(words) {
            if word.load(Relaxed) != u64::from_le_bytes(*chunk) {
                return false;
            }
        }
        let Some(word) = words.last().filter(|_| !tail.is_empty()) else {
            return true;
        };
        // The last word of the key, whose lower bytes were compared above; or all of a short key.
        let end = match key.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (8 * (WORD_BYTES - tail.len())),
            None => load_short(tail),
        };
        (word.load(Relaxed) ^ end) & mask(tail.len()) == 0
    }
}

/// Replaces the bytes of one word from `skip` on by `source`, which fits.
#[inline]
fn merge(word: &AtomicU64, skip: usize, source: &[u8]) {
    let mask = mask(source.len()) << (8 * skip);
    let old = word.load(Relaxed);
    word.store(old & !mask | load_short(source) << (8 * skip), Relaxed);
}

/// Returns a mask of the low `bytes` bytes of a word, 0 to 7.
#[inline]
const fn mask(bytes: usize) -> u64 {
    (1 << (8 * bytes)) - 1
}

/// Returns up to 7 bytes as a word. Neither a loop nor a call: both cost more than all else that a short
/// copy does.
#[inline(always)]
fn load_short(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return 0;
    };
    let middle = bytes.len() / 2;
    u64::from(*first) | u64::from(bytes[middle]) << (8 * middle) | u64::from(*last) << (8 * (bytes.len() - 1))
}

/// Stores the low bytes of a word, up to 7.
#[inline(always)]
fn store_short(target: &mut [u8], word: u64) {
    let (bytes, middle) = (target.len(), target.len() / 2);
    if let Some(first) = target.first_chunk_mut() {
        *first = (word as u32).to_le_bytes();
        if let Some(last) = target.last_chunk_mut() {
            *last = ((word >> (8 * (bytes - 4))) as u32).to_le_bytes();
        }
        return;
    }
    for at in [0, middle, bytes.wrapping_sub(1)] {
        if let Some(byte) = target.get_mut(at) {
            *byte = (word >> (8 * at)) as u8;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_read(region: &Region, first_byte: usize, bytes: usize) -> Vec<u8> {
        (first_byte..first_byte + bytes)
            .map(|at| region.word(at / 8).load(Relaxed).to_le_bytes()[at % 8])
            .collect()
    }

    fn naive_write(region: &Region, first_byte: usize, source: &[u8]) {
        for (at, byte) in (first_byte..).zip(source) {
            let mut bytes = region.word(at / 8).load(Relaxed).to_le_bytes();
            bytes[at % 8] = *byte;
            region.word(at / 8).store(u64::from_le_bytes(bytes), Relaxed);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 16 } else { 2000 },
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn copies_match_the_naive_versions(
            noise in prop::collection::vec(any::<u8>(), 256),
            at in 0usize..100,
            source in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..100),
                prop::collection::vec(any::<u8>(), WORD_BYTES),
            ],
        ) {
            let fast = Region::private(4096).unwrap();
            let naive = Region::private(4096).unwrap();
            for region in [&fast, &naive] {
                naive_write(region, 0, &noise);
            }
            fast.copy_in(at, &source);
            naive_write(&naive, at, &source);
            prop_assert_eq!(naive_read(&fast, 0, 256), naive_read(&naive, 0, 256));
            let mut out = vec![0; source.len()];
            fast.copy_out(at, &mut out);
            prop_assert_eq!(&out, &source);
            fast.copy_within(at, 256 + at % 8, source.len());
            prop_assert_eq!(naive_read(&fast, 256 + at % 8, source.len()), source);
        }

        #[test]
        fn equals_matches_the_naive_version(
            stored in prop::collection::vec(0u8..3, 0..40),
            key in prop::collection::vec(0u8..3, 0..40),
            same in any::<bool>(),
        ) {
            let region = Region::private(4096).unwrap();
            region.copy_in(16, &stored);
            let key = if same { stored } else { key };
            prop_assert_eq!(region.equals(2, &key), naive_read(&region, 16, key.len()) == key);
        }
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod mapping_tests {
    use super::*;
    use micanite_test_skip::skip;

    #[test]
    fn files_keep_writes_and_short_files_are_refused() {
        let path = std::env::temp_dir().join(format!("micanite-region-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(&path).unwrap();
        assert!(Region::file(&file, 4096).is_err());
        file.set_len(8 << 20).unwrap();
        let region = Region::file(&file, 8 << 20).unwrap();
        region.copy_in(5 << 20, b"it stays");
        region.sync().unwrap();
        drop(region);
        let region = Region::file(&file, 8 << 20).unwrap();
        assert_eq!(naive_read(&region, 5 << 20, 8), b"it stays");
        std::fs::remove_file(path).unwrap();
    }

    /// Touching was once compiled to loads, for which the kernel maps one page of zeros.
    #[test]
    fn populated_pages_are_resident() {
        let resident_bytes = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let region = Region::private(256 << 20).unwrap();
        if region.pages() == crate::Pages::Hugetlb {
            return skip("huge pages are resident from the beginning, and not counted");
        }
        let before = resident_bytes();
        region.populate();
        let after = resident_bytes();
        assert!(after > before + (200 << 20), "{before} bytes, then {after}");
    }

    #[test]
    fn two_mappings_of_a_descriptor_are_the_same_memory() {
        let path = std::env::temp_dir().join(format!("micanite-shared-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(8 << 20).unwrap();
        assert!(Region::descriptor(&file, (8 << 20) + 4096).is_err());
        assert!(Region::descriptor(&file, 100).is_err());
        let region = Region::descriptor(&file, 8 << 20).unwrap();
        let other = Region::descriptor(&file, 4096).unwrap();
        assert_eq!(region.pages(), crate::Pages::Small);
        region.copy_in(4000, b"seen by both");
        assert_eq!(naive_read(&other, 4000, 12), b"seen by both");
        region.sync().unwrap();
    }

    fn naive_read(region: &Region, first_byte: usize, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        region.copy_out(first_byte, &mut read);
        read
    }

    #[test]
    fn collapsing_keeps_the_contents() {
        let region = Region::private(8 << 20).unwrap();
        for word in (0..region.words()).step_by(511) {
            region.word(word).store(word as u64 % (1 << 20), Relaxed);
        }
        let before: Vec<_> = (0..region.words()).map(|w| region.word(w).load(Relaxed)).collect();
        region.collapse(0, 8 << 20);
        let after: Vec<_> = (0..region.words()).map(|w| region.word(w).load(Relaxed)).collect();
        assert!(before == after);
    }

    /// The compiler once removed the load that makes a page present. Then the first collapse
    /// failed, and the region seemed unable to have huge pages.
    #[test]
    fn an_untouched_range_collapses_where_a_touched_one_does() {
        let touched = Region::private(8 << 20).unwrap();
        touched.copy_in(4 << 20, b"present");
        let untouched = Region::private(8 << 20).unwrap();
        let works = touched.collapse(4 << 20, 2 << 20);
        assert_eq!(untouched.collapse(4 << 20, 2 << 20), works);
        assert_eq!(untouched.pages() != crate::Pages::Small, works);
    }

    /// A refused huge mapping once left a hole that was unmapped when another thread had it.
    #[test]
    fn concurrently_created_regions_keep_their_contents() {
        std::thread::scope(|scope| {
            for thread in 1..=4u64 {
                scope.spawn(move || {
                    for round in 0..100 {
                        let region = Region::private(4 << 20).unwrap();
                        let words = region.words();
                        let stack = std::thread::spawn(move || vec![thread; 1 << 16]);
                        for word in (0..words).step_by(4099) {
                            region.word(word).store(thread << 32 | round, Relaxed);
                        }
                        assert_eq!(stack.join().unwrap()[round as usize], thread);
                        for word in (0..words).step_by(4099) {
                            assert_eq!(region.word(word).load(Relaxed), thread << 32 | round);
                        }
                    }
                });
            }
        });
    }

    #[test]
    #[should_panic(expected = "index < self.words()")]
    fn a_word_beyond_the_end_is_refused() {
        Region::private(4096).unwrap().word(512);
    }
}
