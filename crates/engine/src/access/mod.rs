//! Access modes of partitions, and how they change while requests run.
//!
//! The modes are the papers' (MICA 4.1): exclusive read, exclusive write (EREW); concurrent read,
//! exclusive write (CREW); concurrent read, concurrent write (CRCW). One word holds a partition's
//! mode and owner. Each worker marks that it is inside a batch (its epoch is odd). A change first
//! forbids everything, then waits until each worker has been outside of a batch once, then permits
//! the new mode. So a worker that acts on a permission acts before the next change.

pub(crate) mod delegate;
pub(crate) mod lock;

use micanite_memory::Patience;
use micanite_memory::barrier::Barrier;
use micanite_memory::sync::{AtomicU64, Ordering};

/// An access mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only the owner reads and writes.
    Erew,
    /// Only the owner writes; every worker reads.
    Crew,
    /// Every worker reads and writes.
    #[default]
    Crcw,
}

impl Access {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Erew, Self::Crew, Self::Crcw];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Erew => "erew",
            Self::Crew => "crew",
            Self::Crcw => "crcw",
        }
    }
}

impl std::str::FromStr for Access {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|access| access.name() == name)
            .ok_or_else(|| format!("unknown access mode '{name}': erew, crew or crcw"))
    }
}

/// Mode and owner of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Access mode.
    pub access: Access,
    /// The worker that owns the partition.
    pub owner: usize,
}

/// Permission of one worker for a partition at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The worker alone reads and writes: no lock.
    Own,
    /// The worker reads concurrently with the owner.
    Read { owner: usize },
    /// All workers read and write: writes take the lock.
    Share,
    /// The worker may do nothing: only the owner may.
    Elsewhere { owner: usize },
    /// A change is in progress.
    Wait,
}

/// The word: the mode in force (2 bits), `CHANGING`, the mode of the route, the owner.
const MODE: u64 = 3;
const CHANGING: u64 = 1 << 2;
const ROUTE_SHIFT: u32 = 4;
const OWNER_SHIFT: u32 = 8;
/// Bits that differ between words of one owner that alone may write.
const EREW_OR_CREW: u64 = Access::Crew as u64 | (Access::Crew as u64) << ROUTE_SHIFT;

/// The word of a partition that holds its route.
#[derive(Debug)]
pub(crate) struct RouteWord(AtomicU64);

impl RouteWord {
    pub fn new(route: Route) -> Self {
        Self(AtomicU64::new(Self::pack(route)))
    }

    /// Sets the route before the partition is used.
    pub fn set(&self, route: Route) {
        self.0.store(Self::pack(route), Ordering::Release);
    }

    const fn pack(route: Route) -> u64 {
        let access = route.access as u64;
        access | access << ROUTE_SHIFT | (route.owner as u64) << OWNER_SHIFT
    }

    /// Returns the route; during a change, the previous one; the same while it is shared for a moment.
    pub fn load(&self) -> Route {
        let word = self.0.load(Ordering::Acquire);
        let access = Access::ALL[(word >> ROUTE_SHIFT & MODE) as usize];
        Route { access, owner: (word >> OWNER_SHIFT) as usize }
    }

    /// Returns the permission of `worker`, which is inside a batch; it holds until the batch ends.
    #[inline]
    pub fn permission(&self, worker: usize) -> Permission {
        let word = self.0.load(Ordering::Acquire);
        let owner = (word >> OWNER_SHIFT) as usize;
        if word & CHANGING != 0 {
            Permission::Wait
        } else if word & MODE == Access::Crcw as u64 {
            Permission::Share
        } else if owner == worker {
            Permission::Own
        } else if word & MODE == Access::Crew as u64 {
            Permission::Read { owner }
        } else {
            Permission::Elsewhere { owner }
        }
    }

    /// Returns whether the permission of `worker` is [`Permission::Own`].
    #[inline(always)]
    pub fn is_own(&self, worker: usize) -> bool {
        self.0.load(Ordering::Acquire) & !EREW_OR_CREW == (worker as u64) << OWNER_SHIFT
    }

    /// Changes the route. One caller at a time, outside of any batch. Calls `idle` while it waits.
    pub fn change(&self, route: Route, epochs: &Epochs, idle: impl FnMut()) {
        self.put(Self::pack(route), epochs, idle);
    }

    /// Runs `run` while every worker may read and write, and the route stays what it is. One caller at a
    /// time, as with `change`.
    pub fn share_while<R>(&self, epochs: &Epochs, mut idle: impl FnMut(), run: impl FnOnce() -> R) -> R {
        let before = self.0.load(Ordering::Relaxed);
        self.put(before & !MODE | Access::Crcw as u64, epochs, &mut idle);
        let result = run();
        self.put(before, epochs, idle);
        result
    }

    fn put(&self, word: u64, epochs: &Epochs, idle: impl FnMut()) {
        let before = self.0.load(Ordering::Relaxed);
        debug_assert_eq!((before | word) & CHANGING, 0, "one change at a time");
        if before == word {
            return;
        }
        self.0.store(before | CHANGING, Ordering::Relaxed);
        epochs.wait_for_all(idle);
        self.0.store(word, Ordering::Release);
    }

    /// Runs `run` while no worker has a permission. One caller at a time, as with `change`. A
    /// worker that began a batch meanwhile, and prefetched without a permission, has left the batch
    /// before the permissions return.
    pub fn exclude<R>(&self, epochs: &Epochs, mut idle: impl FnMut(), run: impl FnOnce() -> R) -> R {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before | CHANGING, Ordering::Relaxed);
        epochs.wait_for_all(&mut idle);
        let result = run();
        epochs.wait_for_all(idle);
        self.0.store(before, Ordering::Release);
        result
    }
}

/// One word per worker: odd while it is inside a batch.
#[derive(Debug)]
pub(crate) struct Epochs {
    epochs: Box<[Epoch]>,
    /// Batches begin often, and routes change rarely.
    barrier: Barrier,
}

/// Aligned to lines of its own: its worker writes it for every batch.
#[repr(align(128))]
#[derive(Debug)]
struct Epoch(AtomicU64);

impl Epochs {
    pub fn new(workers: usize) -> Self {
        let epochs = (0..workers).map(|_| Epoch(AtomicU64::new(0))).collect();
        Self { epochs, barrier: Barrier::default() }
    }

    /// Begins a batch of the worker: permissions that it loads now hold until the batch ends.
    #[inline]
    pub fn enter(&self, worker: usize) {
        let epoch = &self.epochs[worker].0;
        epoch.store(epoch.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Either the worker sees a change that has begun, or the change sees the worker.
        self.barrier.frequent();
    }

    /// Ends the batch of the worker.
    #[inline]
    pub fn leave(&self, worker: usize) {
        let epoch = &self.epochs[worker].0;
        epoch.store(epoch.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns a moment, for [`Self::have_passed`].
    pub fn now(&self) -> Box<[u64]> {
        self.barrier.rare();
        self.epochs.iter().map(|epoch| epoch.0.load(Ordering::Acquire)).collect()
    }

    /// Returns whether each worker has been outside of a batch since a moment.
    pub fn have_passed(&self, moment: &[u64]) -> bool {
        let has_passed = |(epoch, at): (&Epoch, &u64)| at & 1 == 0 || epoch.0.load(Ordering::Acquire) != *at;
        self.epochs.iter().zip(moment).all(has_passed)
    }

    /// Waits until each worker has been outside of a batch.
    fn wait_for_all(&self, mut idle: impl FnMut()) {
        self.barrier.rare();
        for epoch in &self.epochs {
            let at = epoch.0.load(Ordering::Acquire);
            let mut patience = Patience::default();
            while at & 1 == 1 && epoch.0.load(Ordering::Acquire) == at {
                idle();
                patience.pause();
            }
        }
    }
}
