//! Room for the items of an image in one of another size.

use micanite_memory::folder::Folder;

use crate::cache::config::Config;
use crate::cache::error::{CreateError, CreateErrorKind};
use crate::cache::layout::Layout;
use crate::cache::limit::least_of_one;
use crate::image::resize::Resizing;
use crate::image::source::{Source, file_name, header_of_file};
use crate::index::hash::Secret;
use crate::limits::BUCKET_WORDS;
use crate::partition::{Partition, Semantics};
use crate::region::Field;

/// Items for each bucket of a new index, at least: it splits buckets when they have more.
const BUCKET_ITEMS_LEAST: u64 = 3;

/// Size of an image.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Memory that it uses, without gaps.
    pub used_bytes: usize,
    /// Memory that it may use.
    most_bytes: usize,
}

impl Size {
    pub fn of(partitions: &[Partition]) -> Self {
        Self {
            used_bytes: partitions.iter().map(|partition| partition.used_words() as usize * 8).sum(),
            most_bytes: partitions.iter().map(|partition| partition.layout.region_words as usize * 8).sum(),
        }
    }

    pub fn progress(self, to_bytes: usize) -> Resizing {
        Resizing { from_bytes: self.used_bytes, to_bytes, percent: 0 }
    }

    /// Returns the options that open an image of this size as it is.
    fn options(self) -> String {
        let text = |bytes: usize| match bytes % (1 << 20) {
            0 => (bytes >> 20).to_string(),
            _ => format!("{}k", bytes >> 10),
        };
        match self.used_bytes == self.most_bytes {
            true => format!("-m {}", text(self.most_bytes)),
            false => format!("-m {} --memory-max {}", text(self.used_bytes), text(self.most_bytes)),
        }
    }
}

pub(super) fn check_space(
    folder: &Folder,
    source: &Source<'_>,
    (size, to_bytes): (Size, usize),
) -> Result<(), CreateError> {
    match folder.bytes_free() {
        Ok(free_bytes) if free_bytes < to_bytes as u64 => Err(CreateError::of(
            // The next start would find it so, too.
            CreateErrorKind::Mismatch,
            format!(
                "resizing the image in {source} from {} MiB to {} MiB (-m) needs {} MiB beside it until it \
                 is done, and {} MiB are free there. It is as it was: {} opens it",
                size.used_bytes >> 20,
                to_bytes >> 20,
                to_bytes >> 20,
                free_bytes >> 20,
                size.options()
            ),
        )),
        _ => Ok(()),
    }
}

/// Sizes of a partition of a store: of its items, its index, its gaps.
#[derive(Clone, Copy)]
pub(super) struct Held {
    item_units: u64,
    index_units: u64,
    /// Words of its gaps.
    unused_words: u64,
}

impl Held {
    pub fn of_partition(partition: &Partition) -> Self {
        Self::of(|field| partition.get(field))
    }

    /// Reads the words of a header, which may be damaged.
    fn of(word: impl Fn(Field) -> u64) -> Self {
        let index_first = word(Field::DataEnd).saturating_add(word(Field::MainGap));
        let index_units_now = word(Field::RegionWords).saturating_sub(index_first);
        Self {
            item_units: word(Field::UnitsLive),
            index_units: index_units(index_units_now, word(Field::ItemsLive)),
            unused_words: word(Field::MainGap).saturating_add(word(Field::SmallGap)),
        }
    }
}

/// Returns the units that the index of these items takes: not more than now, and less if it is mostly empty.
fn index_units(now: u64, items: u64) -> u64 {
    now.min((items / BUCKET_ITEMS_LEAST).saturating_add(1).saturating_mul(BUCKET_WORDS as u64))
}

/// Returns a layout and a limit in which a store has room for what its partitions hold, with some space to
/// move it. It has no more partitions than before, where that is possible: what the fullest one needs is then
/// known. The limit may be above the configured greatest one.
pub(super) fn least(config: &Config, held: &[Held]) -> Result<(Layout, usize), CreateError> {
    let mut config = config.clone();
    loop {
        let layout = match Layout::of(&config)? {
            more if more.partitions > held.len() => Layout::keeping(&config, held.len())?,
            layout => layout,
        };
        let of = layout.partition(&config, Secret::KNOWN, 0);
        let first_index_units = of.index_lines(of.buckets) * BUCKET_WORDS as u64;
        // The first bits of a key's hash choose its partition, so fewer partitions hold whole ones of before.
        // More hold an unknown part of one.
        let joined = (held.len() / layout.partitions).max(1);
        let needed_units = |held: &[Held]| {
            let sum = |of: fn(&Held) -> u64| held.iter().map(of).fold(0, u64::saturating_add);
            let index_units = sum(|held| held.index_units).max(first_index_units);
            let units = sum(|held| held.item_units).saturating_add(index_units);
            // Space that is free between items, and an index that grows otherwise.
            units.saturating_add(units / 8)
        };
        let of_one = held.chunks(joined).map(needed_units).max().unwrap_or(0);
        let words = of_one.saturating_add(of.heap_first() as u64 + of.item_units_max);
        let bytes = Layout::whole_pages_for(words.saturating_mul(8) as usize);
        let all = bytes.saturating_mul(layout.partitions);
        if all <= config.memory_bytes {
            return Ok((layout, config.memory_bytes));
        }
        // An index that begins larger in a larger memory takes at most half of the rest.
        config.memory_bytes = all;
        config.memory_bytes_max = Some(all.max(config.memory_bytes_max()));
    }
}

/// Returns the error for a store whose items have no room.
pub(super) fn no_room(source: &Source<'_>, progress: Resizing, least_bytes: usize) -> CreateError {
    let text = format!(
        "the store in {source} has {} MiB of memory, and its items have no room in {} (-m): -m {} suffices",
        progress.from_bytes >> 20,
        progress.to_bytes >> 20,
        least_bytes.div_ceil(1 << 20)
    );
    CreateError::of(CreateErrorKind::Mismatch, text)
}

/// Tries whether an image of another size, which may be in use, could be copied to one of the configured
/// size, and returns the layout of that. What is written to it meanwhile has to fit as well.
pub(super) fn try_out(config: &Config, source: &Source<'_>, of: &Layout) -> Result<Layout, CreateError> {
    let Source::Directory(folder) = source else {
        return Ok(*of);
    };
    let mut layout = Layout::of(config)?;
    let mut held = Vec::new();
    for number in 0..of.partitions {
        let file = folder.existing(file_name(number)).and_then(|file| header_of_file(&file));
        let header = file.map_err(|error| CreateError::new(format!("in {source}: {error}")))?;
        held.push(Held::of(|field| header[field as usize]));
    }
    let most_bytes = of.partitions * of.partition_bytes;
    let unused_words = held.iter().fold(0, |words: u64, held| words.saturating_add(held.unused_words));
    let unused_bytes = unused_words.saturating_mul(8) as usize;
    let size = Size { used_bytes: most_bytes.saturating_sub(unused_bytes), most_bytes };
    let mut to_bytes = config.memory_bytes;
    // A cache keeps its newest items.
    if config.semantics == Semantics::Store {
        let (kept, least_bytes) = least(config, &held)?;
        if config.memory_bytes_max() < least_bytes {
            return Err(no_room(source, size.progress(to_bytes), least_bytes));
        }
        (layout, to_bytes) = (kept, least_bytes);
    }
    check_space(folder, source, (size, to_bytes))?;
    Ok(layout)
}

/// Raises the limit of partitions whose index and items need more. Returns the limit of all if it did, and 0
/// otherwise. They use as much already, so there is room.
pub(super) fn fit_limit(partitions: &[Partition]) -> usize {
    let least = least_of_one(partitions).min(partitions[0].layout.region_words as usize * 8);
    let least_words = least as u64 / 8;
    if partitions.iter().all(|partition| least_words <= partition.limit.words()) {
        return 0;
    }
    partitions.iter().for_each(|partition| partition.set_limit(least_words));
    least * partitions.len()
}
