//! Images: partitions in files, or in memory of the kernel, with which a later process continues.
//!
//! An image holds offsets only, its own seed and its layout, so it can be mapped anywhere. While a
//! process has it open it is marked as not clean ([`marks`]). An unclean image is repaired
//! ([`recover`]) if the machine has not been restarted since: then the kernel still has every
//! written word. Otherwise it is discarded (a cache) or refused (a store). Every image is checked
//! before any write to it ([`check`]).

mod boot;
mod check;
mod check_index;
mod header;
pub(crate) mod marks;
pub(crate) mod numbers;
pub(crate) mod outside;
mod recover;
mod resize;
mod room;
mod source;
mod starts;
mod trial;

use micanite_memory::PAGE_BYTES;
use micanite_memory::hold::Hold;

use crate::cache::config::Config;
use crate::cache::error::{CreateError, CreateErrorKind};
use crate::cache::layout::Layout;
use crate::index::hash::Secret;
use crate::log::LogKind;
use crate::partition::{Partition, Semantics};
use crate::region::{Field, LogField};

use boot::Use;
use check::Checked;
use header::Unusable;
pub use resize::Resizing;
use source::First;
pub(crate) use source::Source;

/// State of the image when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// There is no image: the memory is the process's own.
    None,
    /// A new image was made: there was none, or an empty directory.
    Created,
    /// The previous process closed it.
    Clean,
    /// The previous process was killed; half-written items have been removed.
    Recovered,
    /// It had another size. Its items were copied to a new one, as far as they have room there.
    Resized {
        /// Memory that it had.
        from_bytes: usize,
        /// Memory that it has.
        to_bytes: usize,
    },
    /// The image was not usable, and a new one was made.
    Discarded {
        /// Reason.
        reason: String,
    },
}

impl ImageState {
    /// Returns whether there were items from an earlier process.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Clean | Self::Recovered | Self::Resized { .. })
    }
}

/// Opened partitions, and the state of the image.
pub(crate) struct Opened {
    pub partitions: Vec<Partition>,
    pub layout: Layout,
    /// Limit of the memory.
    pub limit_bytes: usize,
    pub seed: u64,
    pub state: ImageState,
    /// Holds the directory against other processes.
    pub lock: Option<Hold>,
}

/// Opens the image of a source, or makes one.
pub(crate) fn open(config: &Config, source: &Source<'_>) -> Result<Opened, CreateError> {
    let lock = source.lock()?;
    resize::complete(source).map_err(|error| CreateError::new(format!("in {source}: {error}")))?;
    open_held(config, source, lock)
}

/// Opens the image of a source that this process holds.
fn open_held(config: &Config, source: &Source<'_>, lock: Option<Hold>) -> Result<Opened, CreateError> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| CreateError::new(format!("{what} {source}: {error}"));
    let mismatch = |what: &str, reason: &str| {
        CreateError::of(CreateErrorKind::Mismatch, format!("{what} {source}: {reason}"))
    };
    let header = match source.first().map_err(|error| failed("in", &error))? {
        First::Header(header) => header,
        first => {
            // A discarded cache has such a first file, too, whatever its other files hold.
            let discarded = config.semantics == Semantics::Cache && matches!(first, First::Incomplete);
            let removed = source.remove_incomplete(discarded);
            let removed = removed.map_err(|error| failed("in", &error))?;
            removed.map_err(|what| damaged(source, &what))?;
            return create(config, Layout::of(config)?, source, (ImageState::Created, lock));
        }
    };
    let unusable = |unusable| match unusable {
        Unusable::Other(reason) => mismatch("in", &reason),
        Unusable::Damaged(what) => damaged(source, what),
    };
    let layout = header::layout_of(config, &header).map_err(unusable)?;
    // A kill may have left the first file alone.
    if boot::is_unfinished_copy(&header) {
        return begin_anew(config, source, boot::UNFINISHED, lock);
    }
    let has_other_size = header::has_other_size(config, &layout);
    if has_other_size && config.maps.is_some() {
        return Err(mismatch("in", &header::other_size(config, &layout)));
    }
    source.check_count(&layout)?;
    let mut partitions = Vec::new();
    for number in 0..layout.partitions {
        let of = layout.partition(config, Secret::KNOWN, number);
        let of = header::with_own(of, &header).map_err(|what| damaged(source, what))?;
        let region = source.map(number, layout.partition_bytes);
        let region = region.map_err(|error| failed("cannot map partitions in", &error))?;
        partitions.push(Partition::of(region, of));
    }
    let clean = is_clean(&partitions);
    let distrust = boot::distrust(partitions.iter().map(|partition| partition.get(Field::Boot)));
    if let Some(reason) = distrust.filter(|_| !clean) {
        drop(partitions);
        return begin_anew(config, source, reason, lock);
    }
    let check = |check: &dyn Fn(&Partition) -> Checked| {
        check_all(&partitions, check).map_err(|what| damaged(source, &what))
    };
    check(&|partition| partition.check_header(clean))?;
    // A copy may have holes in what is used, which the rest of the check, or a copy of the items, reads.
    source.allocate(&partitions)?;
    check(&|partition| partition.check(clean))?;
    if has_other_size && clean {
        // Nothing is written to it, so that it stays complete until the new one takes its place.
        return resized(config, source, partitions, lock);
    }
    source.adopt(&partitions)?;
    partitions.iter().for_each(Partition::return_gaps);
    partitions.iter_mut().for_each(Partition::probe_huge);
    take_over(&partitions).map_err(|failure| match failure {
        NotTakenOver::Failed(error) => failed("cannot write the image in", &error),
        NotTakenOver::Damaged(what) => {
            let text = format!("the image in {source} is damaged: {what}. It was repaired in part");
            CreateError::of(CreateErrorKind::Damaged, text)
        }
    })?;
    if has_other_size {
        return resized(config, source, partitions, lock);
    }
    let state = if clean { ImageState::Clean } else { ImageState::Recovered };
    let limit_bytes = config.memory_bytes.max(room::fit_limit(&partitions));
    Ok(Opened { partitions, layout, limit_bytes, seed: header[Field::Seed as usize], state, lock })
}

/// Opens an image after its items were copied to one of another size.
fn resized(
    config: &Config,
    source: &Source<'_>,
    partitions: Vec<Partition>,
    lock: Option<Hold>,
) -> Result<Opened, CreateError> {
    let state = resize::resize(config, source, partitions)?;
    Ok(Opened { state, ..open_held(config, source, lock)? })
}

/// Discards an image that cannot be trusted, and makes a new one; refuses that of a store.
fn begin_anew(
    config: &Config,
    source: &Source<'_>,
    reason: &str,
    lock: Option<Hold>,
) -> Result<Opened, CreateError> {
    if config.semantics == Semantics::Store {
        return Err(boot::distrusted(source, reason));
    }
    source.discard().map_err(|error| CreateError::new(format!("in {source}: {error}")))?;
    let state = ImageState::Discarded { reason: reason.to_owned() };
    create(config, Layout::of(config)?, source, (state, lock))
}

/// Returns the error for a damaged image, with its remedy.
fn damaged(source: &Source<'_>, what: &str) -> CreateError {
    let text = format!(
        "the image in {source} is damaged: {what}. It is left as it is: put a copy of it (ctl \
         snapshot) in its place, or keep it elsewhere and begin with an empty one, without \
         its items"
    );
    CreateError::of(CreateErrorKind::Damaged, text)
}

/// Returns whether the image was closed in order: the first partition's mark decides ([`marks`]).
fn is_clean(partitions: &[Partition]) -> bool {
    let first = partitions.first();
    first.is_some_and(|partition| partition.get(Field::Clean) == 1)
}

/// Checks for damage. Writes nothing.
fn check_all(partitions: &[Partition], check: impl Fn(&Partition) -> Checked) -> Checked {
    partitions.iter().try_for_each(|partition| {
        check(partition).map_err(|what| format!("partition {}: {what}", partition.layout.number))
    })
}

/// Reason for not using sound partitions.
enum NotTakenOver {
    /// Error of the file system.
    Failed(std::io::Error),
    /// Damage that no killed process leaves behind, and that the check did not find.
    Damaged(String),
}

/// Takes over sound partitions of a previous process.
fn take_over(partitions: &[Partition]) -> Result<(), NotTakenOver> {
    let clean = is_clean(partitions);
    mark_open(partitions).map_err(NotTakenOver::Failed)?;
    for partition in partitions {
        if !clean {
            let number = partition.layout.number;
            let damaged = |what| NotTakenOver::Damaged(format!("partition {number}: {what}"));
            partition.recover().map_err(damaged)?;
        }
        partition.note_tails();
    }
    Ok(())
}

/// Records that a process has the image open, on the disk as well: later writes are torn if the
/// power fails.
fn mark_open(partitions: &[Partition]) -> std::io::Result<()> {
    partitions.iter().for_each(|partition| partition.set(Field::Boot, Use::Served.boot()));
    marks::clear(partitions)
}

/// Completes an image: the next process need not repair it.
pub(crate) fn close(partitions: &[Partition]) -> std::io::Result<()> {
    partitions.iter().for_each(Partition::end_change_of_limit);
    marks::set(partitions)
}

/// Makes an empty image of this layout where there is none, or a copy that was cut short, and holds it. It is
/// of use once it is closed.
pub(crate) fn create_new(
    config: &Config,
    layout: Layout,
    source: &Source<'_>,
) -> Result<Opened, CreateError> {
    let lock = source.lock()?;
    if let Ok(First::Header(header)) = source.first()
        && boot::is_unfinished_copy(&header)
    {
        source.remove_all();
    }
    let is_free = !matches!(source.first(), Ok(First::Header(_)) | Err(_));
    match is_free.then(|| source.remove_incomplete(false)) {
        Some(Ok(Ok(()))) => make(config, layout, source, (ImageState::Created, lock), Use::Copy),
        _ => Err(CreateError::of(CreateErrorKind::Exists, format!("there is an image in {source} already"))),
    }
}

/// Makes an empty image for a server, in place of an existing one.
fn create(
    config: &Config,
    layout: Layout,
    source: &Source<'_>,
    state: (ImageState, Option<Hold>),
) -> Result<Opened, CreateError> {
    make(config, layout, source, state, Use::Served)
}

fn make(
    config: &Config,
    layout: Layout,
    source: &Source<'_>,
    (state, lock): (ImageState, Option<Hold>),
    r#use: Use,
) -> Result<Opened, CreateError> {
    let secret = Secret::random().map_err(CreateError::no_random_numbers)?;
    source.check_count(&layout)?;
    source.remove(layout.partitions);
    let bytes = layout.partitions * layout.partition(config, secret, 0).limit_words as usize * 8;
    source.check_space(bytes)?;
    let mut partitions = Vec::new();
    // The first one last: it marks the image as existing.
    for number in (0..layout.partitions).rev() {
        let of = layout.partition(config, secret, number);
        let region = config.on_nodes_of(number, || source.map_new(&of));
        let region = region.map_err(|error| {
            source.remove(layout.partitions);
            partitions.clear(); // whose space is free then
            source.no_space(bytes, &error)
        })?;
        let mut partition = Partition::of(region, of);
        if source.may_hold_earlier_bytes() {
            partition.clear();
        }
        partition.set(Field::Eviction, config.eviction.number());
        partition.set(Field::Boot, r#use.boot());
        // The magic, which is written last, makes it complete.
        partition.format();
        partition.probe_huge();
        partition.note_tails();
        partitions.push(partition);
    }
    partitions.reverse();
    let synced = marks::clear(&partitions).and_then(|()| source.sync_names());
    synced.map_err(|error| {
        source.remove(layout.partitions);
        CreateError::new(format!("cannot write the image in {source}: {error}"))
    })?;
    Ok(Opened { partitions, layout, limit_bytes: config.memory_bytes, seed: config.seed, state, lock })
}

/// Makes partitions of any size in their maps, for tests of the limits. Like [`open`], it takes the
/// values that the image keeps from the first header.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn partitions_in_maps(
    maps: &crate::Maps,
    layouts: impl Iterator<Item = crate::partition::PartitionLayout>,
) -> Result<Vec<Partition>, String> {
    let source = Source::Maps(maps);
    let header = match source.first() {
        Ok(First::Header(header)) => Some(header),
        _ if maps.kept => return Err("no magic".to_owned()),
        _ => None,
    };
    let partition = |layout: crate::partition::PartitionLayout| {
        let bytes = (layout.region_words as usize * 8).next_multiple_of(PAGE_BYTES);
        let layout = match &header {
            Some(header) => header::with_own(layout, header)?,
            None => layout,
        };
        let region = source.map(layout.number, bytes);
        Ok(Partition::of(region.expect("a map of this size"), layout))
    };
    let partitions: Result<Vec<_>, &str> = layouts.map(partition).collect();
    let partitions = partitions?;
    if maps.kept {
        let clean = is_clean(&partitions);
        check_all(&partitions, |partition| partition.check(clean))?;
        take_over(&partitions).map_err(|failure| match failure {
            NotTakenOver::Failed(error) => error.to_string(),
            NotTakenOver::Damaged(what) => what,
        })?;
    } else {
        for partition in &partitions {
            partition.format();
            partition.note_tails();
        }
        mark_open(&partitions).map_err(|error| error.to_string())?;
    }
    Ok(partitions)
}

impl Partition {
    /// Records the tails: items that are busy before them were left by a previous process, and stay
    /// busy.
    fn note_tails(&self) {
        for which in [LogKind::Small, LogKind::Main] {
            let log = self.log(which);
            log.set(LogField::Opened, log.get(LogField::Tail));
        }
        if self.is_store() {
            self.heap().set_cursor(None);
        }
        self.end_change_of_limit();
    }
}

impl marks::Marked for Partition {
    fn mark(&self, clean: bool) {
        self.set(Field::Clean, u64::from(clean));
    }

    fn sync_mark(&self) -> std::io::Result<()> {
        #[cfg(test)]
        marks::synced::note(self);
        self.region.sync_first(PAGE_BYTES)
    }

    fn sync_all(&self) -> std::io::Result<()> {
        self.region.sync()
    }
}
