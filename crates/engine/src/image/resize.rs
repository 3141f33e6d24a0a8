//! Another size for an image that has items: a new image is written beside it, and takes its place.
//!
//! ```text
//! DIR/resizing/partition-*   the new image while items are copied; a process that is killed leaves it
//! DIR/resized/partition-*    the same once it is complete, and on the disk
//! DIR/partition-*            the old image, until the files of the new one replace its files
//! ```
//! Until the first rename the old image is as it was. After that the next process completes what this one
//! began. Items keep all that they have. In a cache the newest stay.

use std::io;
use std::time::{Duration, Instant};

use micanite_memory::folder::Folder;
use micanite_wire::hash::{KeyHash, PARTITION_BITS};

use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::cache::layout::Layout;
use crate::image::room::{Held, Size, check_space, least, no_room};
use crate::image::source::{Source, file_name, header_of_file};
use crate::image::{ImageState, Use, close, make, numbers};
use crate::index::entry::Entry;
use crate::limits::KEY_BYTES_MAX;
use crate::log::LogKind;
use crate::partition::{Partition, Place, Semantics};
use crate::region::{Field, LogField};
use crate::writer::{Found, NewItem, Writer};

/// Directory of a new image that is not complete.
const BEING_MADE: &str = "resizing";
/// Directory of a complete image that is to replace the one beside it.
const COMPLETE: &str = "resized";
/// Parts in which the logs of several partitions are copied by turns, so that all items are about in the
/// order of their age.
const TURNS: u64 = 1024;
/// Time between two reports of the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Progress of another size for an image, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resizing {
    /// Memory of the image until now.
    pub from_bytes: usize,
    /// Memory of the image afterwards: so much space is needed beside it until then.
    pub to_bytes: usize,
    /// Part that is done.
    pub percent: u64,
}

/// Completes what a process began that was killed, or removes it.
pub(super) fn complete(source: &Source<'_>) -> io::Result<()> {
    let Source::Directory(folder) = source else {
        return Ok(());
    };
    if let Some(new) = folder.inner(BEING_MADE)? {
        remove_all(folder, &new, BEING_MADE)?;
    }
    match folder.inner(COMPLETE)? {
        Some(new) => replace(folder, &new),
        None => Ok(()),
    }
}

fn remove_all(folder: &Folder, new: &Folder, name: &str) -> io::Result<()> {
    (0..1 << PARTITION_BITS).for_each(|number| new.remove(file_name(number)));
    folder.remove_directory(name)
}

/// Replaces the files of an image by those of a complete one.
fn replace(folder: &Folder, new: &Folder) -> io::Result<()> {
    match new.existing(file_name(0)) {
        Ok(first) => {
            let header = header_of_file(&first)?;
            let bits = (header[Field::PartitionNumber as usize] >> 32).min(u64::from(PARTITION_BITS));
            let count = 1 << bits;
            (count..1 << PARTITION_BITS).for_each(|number| folder.remove(file_name(number)));
            // The first one last: it tells how many there are.
            for number in (0..count).rev() {
                match new.rename_into(file_name(number), folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    renamed => renamed?,
                }
            }
            folder.sync()?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    folder.remove_directory(COMPLETE)?;
    folder.sync()
}

/// Writes an image of the configured size with the items of these partitions, which stay as they are, in its
/// place. A store whose items have no room within the limit keeps its partitions, and gets a higher limit, if
/// there may be one. Returns the state that the image then has.
pub(super) fn resize(
    config: &Config,
    source: &Source<'_>,
    old: Vec<Partition>,
) -> Result<ImageState, CreateError> {
    let Source::Directory(folder) = source else {
        return Err(CreateError::new("maps keep their size".into()));
    };
    let failed = |error: io::Error| {
        CreateError::new(format!("cannot resize the image in {source}: {error}. It is as it was"))
    };
    let size = Size::of(&old);
    let mut config = Config { seed: old[0].layout.seed, readers: false, nodes: None, ..config.clone() };
    let mut layout = Layout::of(&config)?;
    while !copy_beside(&config, layout, (folder, source), (&old, size))? {
        let held: Vec<Held> = old.iter().map(Held::of_partition).collect();
        let (kept, mut least_bytes) = least(&config, &held)?;
        let most_bytes = config.memory_bytes_max();
        if kept == layout && least_bytes <= config.memory_bytes {
            // The estimate is too low.
            least_bytes = config.memory_bytes / 8 * 9;
            if config.memory_bytes < most_bytes {
                least_bytes = least_bytes.min(most_bytes);
            }
        }
        if most_bytes < least_bytes {
            return Err(no_room(source, size.progress(config.memory_bytes), least_bytes));
        }
        // Each round has another layout, or more memory.
        debug_assert!(kept != layout || config.memory_bytes < least_bytes);
        config.memory_bytes = least_bytes.max(config.memory_bytes);
        layout = kept;
    }
    drop(old);
    let path = folder.path().join(BEING_MADE);
    let new = Folder::open(&path).map_err(failed)?;
    folder.rename_inner(BEING_MADE, COMPLETE).map_err(failed)?;
    folder.sync().map_err(failed)?;
    replace(folder, &new).map_err(failed)?;
    Ok(ImageState::Resized { from_bytes: size.used_bytes, to_bytes: config.memory_bytes })
}

/// Copies items into a new image, and closes it. Returns false if a store has no room for them; then there is
/// no new image.
fn copy_beside(
    config: &Config,
    layout: Layout,
    (folder, source): (&Folder, &Source<'_>),
    (old, size): (&[Partition], Size),
) -> Result<bool, CreateError> {
    let failed = |error: io::Error| {
        CreateError::new(format!("cannot resize the image in {source}: {error}. It is as it was"))
    };
    check_space(folder, source, (size, config.memory_bytes))?;
    let beside = Source::directory(&folder.path().join(BEING_MADE))?;
    let made = make(config, layout, &beside, (ImageState::Created, None), Use::Copy)?;
    let mut copy = Copy::new(old, &made.partitions, size.progress(config.memory_bytes), config.on_resize);
    copy.run();
    if config.semantics == Semantics::Store && copy.left_out > 0 {
        beside.remove(layout.partitions);
        folder.remove_directory(BEING_MADE).map_err(failed)?;
        return Ok(false);
    }
    close(&made.partitions).map_err(failed)?;
    Ok(true)
}

/// A copy of all items into new partitions.
struct Copy<'a> {
    old: &'a [Partition],
    new: &'a [Partition],
    value: Vec<u8>,
    left_out: u64,
    progress: Resizing,
    report: Option<fn(&Resizing)>,
    reported: Instant,
}

impl<'a> Copy<'a> {
    fn new(
        old: &'a [Partition],
        new: &'a [Partition],
        progress: Resizing,
        report: Option<fn(&Resizing)>,
    ) -> Self {
        let reported = Instant::now();
        if let Some(report) = report {
            report(&progress);
        }
        Self { old, new, value: Vec::new(), left_out: 0, progress, report, reported }
    }

    fn run(&mut self) {
        numbers::go_on(self.old, self.new, 0);
        self.new[0].set(Field::FlushDue, self.old[0].get(Field::FlushDue));
        match self.old[0].is_store() {
            true => self.copy_store(),
            false => self.copy_cache(),
        }
    }

    fn copy_store(&mut self) {
        for (done, from) in self.old.iter().enumerate() {
            let writer = from.writer(0);
            for number in 0..from.buckets() {
                for entry in from.chain(from.main_bucket(number)).flat_map(|bucket| bucket.entries()) {
                    if let Some(place) = from.place_of_item(Entry(entry)) {
                        self.put_living(&writer, place);
                    }
                }
                if number.is_multiple_of(TURNS) {
                    let part = (number + 1) as f64 / from.buckets() as f64;
                    self.report((done as f64 + part) / self.old.len() as f64);
                }
            }
        }
    }

    /// Copies the main logs, then the small ones, each from its oldest item on.
    fn copy_cache(&mut self) {
        let old = self.old;
        for (half, which) in [LogKind::Main, LogKind::Small].into_iter().enumerate() {
            let tail = |partition: &Partition| partition.log(which).get(LogField::Tail);
            let heads = old.iter().map(|partition| partition.log(which).get(LogField::Head));
            let mut offsets: Vec<u64> = heads.clone().collect();
            let heads: Vec<u64> = heads.collect();
            for turn in 1..=TURNS {
                for (number, from) in old.iter().enumerate() {
                    let end = heads[number] + (tail(from) - heads[number]) * turn / TURNS;
                    offsets[number] = self.copy_log(from, which, offsets[number], end);
                }
                // The small log is a tenth.
                let part = turn as f64 / TURNS as f64;
                self.report(if half == 0 { part * 0.9 } else { 0.9 + part / 10.0 });
            }
        }
    }

    /// Copies the items of a log from an offset on. Returns the first offset that is not before `end`.
    fn copy_log(&mut self, from: &Partition, which: LogKind, mut offset: u64, end: u64) -> u64 {
        let log = from.log(which);
        let writer = from.writer(0);
        while offset < end {
            let position = log.position(offset);
            let header = from.header(position);
            if !log.can_step(offset, header) {
                offset = log.end_of_lap(offset);
                continue;
            }
            if log.is_live(offset) {
                self.put_living(&writer, Place { log: which, offset, position });
            }
            offset += header.units();
        }
        offset
    }

    /// Copies the item at a place, if the index leads to it.
    fn put_living(&mut self, writer: &Writer<'_>, place: Place) {
        let from = writer.partition;
        let header = from.header(place.position);
        if header.is_dead() || header.is_busy() || !from.holds(place.position, header) {
            return;
        }
        let hash = from.hash_at(place.position);
        let Some(slot) = writer.slot_of(hash, writer.entry_of(hash, &place)) else {
            return;
        };
        let found = writer.found_at(slot, place);
        if !writer.is_invalid(&found) && !self.put(writer, &found) {
            self.left_out += 1;
        }
    }

    /// Copies an item. Returns false if it has no room.
    fn put(&mut self, writer: &Writer<'_>, found: &Found) -> bool {
        let from = writer.partition;
        let mut key = [0; KEY_BYTES_MAX];
        let key = from.key_at(found.place.position, &mut key);
        self.value.resize(found.value_bytes(), 0);
        from.region.copy_out(found.value_at(), &mut self.value);
        let hash = KeyHash::of(key, from.layout.seed);
        let target = self.new[hash.partition(self.new.len().ilog2())].writer(0);
        let hash = target.partition.index_hash(hash);
        // An item of the small log goes to main as long as that has free space, if there is too little.
        let is_of_main = !from.is_store() && found.place.log == LogKind::Main;
        let item = NewItem {
            state: writer.state_to_keep(found),
            cas: writer.cas_to_keep(found),
            gives_cas: found.header.cas_given(),
            fetched: found.header.is_fetched(),
            frequency: found.header.frequency(),
            log: is_of_main.then_some(LogKind::Main),
            ..NewItem::of(key, &self.value, (found.flags, found.expiry))
        };
        target.insert(hash, &item, None).is_ok()
    }

    fn report(&mut self, part: f64) {
        let Some(report) = self.report.filter(|_| self.reported.elapsed() >= REPORT_INTERVAL) else {
            return;
        };
        self.reported = Instant::now();
        self.progress.percent = (part * 100.0) as u64;
        report(&self.progress);
    }
}
