//! Reads the index of an image, by its specification (`docs/partition-image.md`): how many items
//! lie in main buckets, and how many lines a lookup touches.

use std::path::Path;

use crate::Result;

const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = 8;
/// Words of the header.
const MAGIC: usize = 0;
const SHAPE: usize = 7;
const BUCKETS: usize = 8;

/// Counts of the index of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ImageIndex {
    /// Items whose entry is in a main bucket.
    pub in_main: u64,
    /// Items whose entry is in a spare bucket.
    pub in_spare: u64,
    /// Bucket lines up to the one of the item, over all items.
    pub lines: u64,
}

impl ImageIndex {
    /// Over all partitions of an image, a store's: every entry is an item.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut index = Self::default();
        for file in std::fs::read_dir(directory)? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("partition-") {
                index.add_partition(&std::fs::read(file.path())?)?;
            }
        }
        if index.items() == 0 {
            return Err("the image has no items".into());
        }
        Ok(index)
    }

    pub fn items(&self) -> u64 {
        self.in_main + self.in_spare
    }

    fn add_partition(&mut self, image: &[u8]) -> Result<()> {
        if word(image, MAGIC) != u64::from_le_bytes(*b"MICANITE") {
            return Err("not an image of a partition".into());
        }
        let buckets = word(image, BUCKETS) & ((1 << 56) - 1);
        let mains_per_spare = word(image, SHAPE) << 1 >> 9;
        for bucket in 0..buckets {
            let mut line = line(image, bucket + bucket / mains_per_spare);
            for depth in 1.. {
                let items = (1..LINE_WORDS).filter(|at| word(line, *at) != 0).count() as u64;
                let place = if depth == 1 { &mut self.in_main } else { &mut self.in_spare };
                *place += items;
                self.lines += items * depth;
                let Some(spare) = (word(line, 0) >> 32).checked_sub(1) else {
                    break;
                };
                line = self::line(image, spare * (mains_per_spare + 1) + mains_per_spare);
            }
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[8 * at..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A line of the index, counted from the end.
fn line(image: &[u8], number: u64) -> &[u8] {
    let end = image.len() - LINE_BYTES * number as usize;
    &image[end - LINE_BYTES..end]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use micanite_engine::{Cache, Config, Expiry, Outcome, Semantics};

    use super::super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn every_item_of_a_store_is_found_once() {
        let scratch = Scratch::new("index-test").unwrap();
        let config = Config {
            memory_bytes: 16 << 20,
            value_bytes_max: 64 << 10,
            semantics: Semantics::Store,
            image: Some(scratch.path().to_owned()),
            ..Config::default()
        };
        let cache = Arc::new(Cache::new(&config).unwrap());
        let mut worker = cache.worker(0).unwrap();
        let full = (0..1_000_000u64)
            .find(|key| worker.set(&key.to_le_bytes(), b"value", Expiry::NEVER, 0) != Outcome::Stored);
        let items = full.expect("a store of 16 MiB is full before a million items");
        let index = ImageIndex::read(scratch.path()).unwrap();
        assert_eq!(index.items(), items);
        assert_eq!(cache.stats().items_live, items);
        assert!(index.lines >= items + index.in_spare);
        assert!(index.in_spare > 0, "{index:?}");
    }
}
