//! GETs answered in the kernel (`--kernel-get`): whether they are, what the program there has done, and
//! what it tells the engine. docs/kernel.md says what it is good for; `crates/kernel` is the program.

mod spread;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use micanite_kernel::{Counters, KernelGet};

use crate::telemetry::log::warn;
use crate::telemetry::table::Totals;
use crate::telemetry::watch::Kinds;
pub(crate) use thread::KernelGetThread;

/// State of the program in the kernel.
#[derive(Debug)]
pub struct KernelGetState {
    program: Result<KernelGet, String>,
    /// By interface: whether the program was found to be attached there no longer.
    gone: Box<[AtomicBool]>,
    /// Set while the program notes many reads.
    is_busy: AtomicBool,
    is_paused: AtomicBool,
    changing: Mutex<()>,
}

impl KernelGetState {
    /// The program, or why there is none.
    pub fn new(program: Result<KernelGet, String>) -> Self {
        let interfaces = program.as_ref().map_or(0, |it| it.descriptions().count());
        Self {
            program,
            gone: (0..interfaces).map(|_| AtomicBool::new(false)).collect(),
            is_busy: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// The program, if it is there.
    pub fn program(&self) -> Option<&KernelGet> {
        self.program.as_ref().ok()
    }

    /// Returns whether the program is attached to all of its interfaces.
    pub fn is_on(&self) -> bool {
        self.program.is_ok() && self.all_gone().all(|gone| !gone)
    }

    fn all_gone(&self) -> impl Iterator<Item = bool> {
        self.gone.iter().map(|gone| gone.load(Ordering::Relaxed))
    }

    /// Describes where and how the program is attached, or why it is not.
    pub fn text(&self) -> String {
        let program = match &self.program {
            Ok(program) => program,
            Err(reason) => return format!("off ({reason})"),
        };
        let words = program.descriptions().zip(self.all_gone());
        let words: Vec<_> = words
            .map(|((name, mode), gone)| format!("{name}: {}", if gone { "gone" } else { mode }))
            .collect();
        let state = match self.all_gone().filter(|gone| *gone).count() {
            0 => "on",
            gone if gone < self.gone.len() => "partly on",
            _ => "gone",
        };
        format!("{state} ({})", words.join(", "))
    }

    /// Finds out whether it is still attached, and says once where it is not.
    fn look(&self) {
        let attachments = self.program().into_iter().flat_map(KernelGet::attachments);
        for ((name, is_attached), gone) in attachments.zip(&self.gone) {
            // An error leaves the state as it was.
            if matches!(is_attached, Ok(false)) && !gone.swap(true, Ordering::Relaxed) {
                warn!(
                    "GETs are no longer answered in the kernel (--kernel-get): {name} is gone, or the \
                     program was detached from it. The server answers them; a restart attaches it again"
                );
            }
        }
    }

    /// Returns the program's counters, summed over all interfaces.
    pub fn counters(&self) -> Counters {
        self.program().map_or_else(Counters::default, KernelGet::counters)
    }

    /// Adds what the program has done to what the workers have.
    pub fn add_to(&self, totals: &mut Totals) {
        let count = self.counters();
        let (hits, misses) = (count.hits + count.native_hits, count.misses + count.native_misses);
        totals.cmd_get += hits + misses;
        totals.get_hits += hits;
        totals.get_misses += misses;
        totals.bytes_read += count.bytes_read;
        totals.bytes_written += count.bytes_written;
    }

    /// Returns whether owners should look after their partitions often, because the program notes many reads.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Returns whether all requests go to the server for now.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Sets the directory's generation, which native replies carry. `generation` is called once no other
    /// thread does the same.
    pub fn set_generation(&self, generation: impl FnOnce() -> u32) {
        let Some(program) = self.program() else {
            return;
        };
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        program.set_generation(generation());
    }

    /// Everything goes up while somebody watches what the program cannot tell. `wanted` is asked once no
    /// other thread does the same.
    pub fn pause_for(&self, wanted: impl FnOnce() -> Kinds) {
        let Some(program) = self.program() else {
            return;
        };
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = wanted();
        let paused = [Kinds::FETCHERS, Kinds::PREFIXES, Kinds::RECORDING];
        let paused = paused.into_iter().any(|kind| wanted.any(kind));
        program.set_paused(paused);
        self.is_paused.store(paused, Ordering::Relaxed);
    }
}
