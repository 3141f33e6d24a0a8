//! `micanite ctl record`: a sample of all requests, by keys, written to a file.
//!
//! ```text
//!  a batch has its sink wrapped (session/watched.rs); how a request of a sampled key ends is noted
//!    worker --entry--> its ring --> the thread `recorder`, every few milliseconds --> the file
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `request.rs` | what of a request is recorded |
//! | `sample.rs` | which keys, and their numbers; what a worker does |
//! | `ring.rs` | the entries of a worker that wait |
//! | `writer.rs` | the thread |
//!
//! While nothing is recorded this costs nothing beside the look that watchers cost: a bit of the same word. A
//! request of a key that is not sampled costs a multiplication and a comparison, and three counts. A worker
//! neither waits nor calls the system: what finds no room in its ring is dropped and counted.

mod request;
mod ring;
mod sample;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::hash::RandomState;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use micanite_control::{Fraction, RecordOptions, size};
use micanite_memory::folder::Folder;
use micanite_workload::recording::{End, Seen};

use crate::limits::{RECORDING_PREFIX_BYTES_MAX, RECORDING_RING_BYTES, RECORDING_UNWRITTEN_BYTES};
use crate::shared::Server;
use crate::shared::clock::{Clock, monotonic_us};
use sample::Place;
pub(crate) use sample::{ItemFacts, Recording};

/// The recorder: at most one recording at a time.
#[derive(Debug)]
pub struct Recorder {
    /// Ends the prefix of a key.
    delimiter: u8,
    /// Turns the hashes of keys into their numbers; of this process.
    secret: RandomState,
    /// One per worker.
    places: Box<[Place]>,
    /// Keys whose sampling number is at most this are recorded.
    hash_max: AtomicU64,
    /// Counts recordings: what a worker noted for an earlier one is recognised.
    generation: AtomicU32,
    /// When the recording began, by the monotonic clock.
    start_us: AtomicU64,
    progress: Progress,
    state: Mutex<State>,
}

/// Progress of the recording, written by its thread.
#[derive(Debug, Default)]
struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
    /// The number of the reason why the thread is to end ([`End`]), 0 if it is not.
    end: AtomicU8,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing was recorded yet.
    #[default]
    Never,
    Running(Running),
    Ended(Ended),
}

#[derive(Debug)]
struct Running {
    path: PathBuf,
    fraction: Fraction,
    before: Seen,
    thread: Option<JoinHandle<()>>,
    /// Most bytes of the file.
    bytes_max: u64,
}

/// A recording that has ended.
#[derive(Clone, Debug)]
struct Ended {
    path: PathBuf,
    fraction: Fraction,
    seen: Seen,
    records: u64,
    bytes: u64,
    lasted_ms: u64,
    end: End,
    /// Reason why it could not be written.
    error: Option<String>,
}

/// Numbers for `stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecorderNumbers {
    pub is_recording: bool,
    /// Requests written, of this recording or the last.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Requests of recorded keys that are missing.
    pub dropped: u64,
}

impl Recorder {
    /// Bytes that a recording of so many workers takes at most.
    pub const fn bytes(workers: usize) -> usize {
        // Two rounds of them are put in order at a time.
        4 * workers * RECORDING_RING_BYTES + RECORDING_UNWRITTEN_BYTES + RECORDING_PREFIX_BYTES_MAX
    }

    /// For so many workers; a key's prefix ends at the delimiter.
    pub fn new(workers: usize, delimiter: u8) -> Self {
        Self {
            delimiter,
            secret: RandomState::new(),
            places: (0..workers).map(|_| Place::default()).collect(),
            hash_max: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            start_us: AtomicU64::new(0),
            progress: Progress::default(),
            state: Mutex::default(),
        }
    }

    /// Microseconds since the recording began.
    fn now_us(&self) -> u64 {
        monotonic_us().saturating_sub(self.start_us.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what all workers have seen since the server started.
    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for place in &self.places {
            place.add_to(&mut seen);
        }
        seen
    }

    /// Begins a recording, and says what it does.
    ///
    /// # Errors
    /// The reason why it cannot begin.
    pub fn start(
        server: &Arc<Server>,
        clock: Clock,
        path: &Path,
        options: &RecordOptions,
    ) -> Result<String, String> {
        let recorder = &server.shared.recorder;
        let mut state = recorder.lock();
        if let State::Running(running) = &*state {
            let path = running.path.display();
            return Err(format!("it records to {path} already: micanite ctl record --stop ends that"));
        }
        let fraction = options.fraction.unwrap_or_default();
        let file = create(path).map_err(|error| cannot_create(path, &error))?;
        for place in &recorder.places {
            place.ring.clear();
        }
        let before = recorder.seen();
        recorder.start_us.store(monotonic_us(), Ordering::Relaxed);
        recorder.progress.records.store(0, Ordering::Relaxed);
        recorder.progress.bytes.store(0, Ordering::Relaxed);
        recorder.progress.end.store(0, Ordering::Relaxed);
        let hash_max = fraction.hash_max();
        recorder.hash_max.store(hash_max, Ordering::Relaxed);
        recorder.generation.fetch_add(1, Ordering::Release);
        server.shared.watch.set_recording(true);
        let began = writer::start(server, clock, file, before, options);
        let thread = began.map_err(|error| {
            server.shared.watch.set_recording(false);
            // It is ours, and there is nothing in it.
            let _ = std::fs::remove_file(path);
            format!("{}: {error}", path.display())
        })?;
        let bytes_max = options.bytes_max.unwrap_or_default().0 as u64;
        *state =
            State::Running(Running { path: path.into(), fraction, before, thread: Some(thread), bytes_max });
        let mut text = format!(
            "recording {fraction} of all keys to {}; it takes {} at most\n",
            path.display(),
            size::text(Self::bytes(recorder.places.len()))
        );
        if server.kernel_get.as_ref().is_some_and(|state| state.program().is_some()) {
            text.push_str("meanwhile the kernel answers no GETs (--kernel-get): they would be missing\n");
        }
        if server.shared.local.is_some() {
            text.push_str(
                "gets of readers on this host (--local) are missing: the server does not see them\n",
            );
        }
        Ok(text)
    }

    /// Returns the bytes that a recording may still write.
    pub fn bytes_to_come(&self) -> u64 {
        match &*self.lock() {
            State::Running(running) => running.bytes_max.saturating_sub(self.progress.now().1),
            _ => 0,
        }
    }

    /// Ends the recording that there is, and says what became of it.
    ///
    /// # Errors
    /// There is none.
    pub fn stop(&self, end: End) -> Result<String, String> {
        let thread = match &mut *self.lock() {
            State::Running(running) => running.thread.take(),
            _ => return Err("nothing is recorded".into()),
        };
        if let Some(thread) = thread {
            self.progress.end.store(end as u8, Ordering::Release);
            thread.thread().unpark();
            // A panic ends the process before this.
            let _ = thread.join();
        }
        Ok(self.status())
    }

    /// Describes the recording, or the last one.
    pub(crate) fn status(&self) -> String {
        match &*self.lock() {
            State::Never => "nothing is recorded\n".into(),
            State::Running(running) => {
                let lasted_ms = self.now_us() / 1000;
                let seen = since(self.seen(), running.before);
                let (records, bytes) = self.progress.now();
                format!(
                    "recording {} of all keys to {}: {}\n",
                    running.fraction,
                    running.path.display(),
                    summary(records, bytes, lasted_ms, &seen)
                )
            }
            State::Ended(ended) => {
                let error = ended.error.as_ref();
                let error = error.map_or(String::new(), |error| format!(": {error}"));
                format!(
                    "recorded {} of all keys to {}: {}; ended {}{error}\n",
                    ended.fraction,
                    ended.path.display(),
                    summary(ended.records, ended.bytes, ended.lasted_ms, &ended.seen),
                    ended.end.text()
                )
            }
        }
    }

    /// For `stats`.
    pub fn numbers(&self) -> RecorderNumbers {
        match &*self.lock() {
            State::Never => RecorderNumbers::default(),
            State::Running(running) => {
                let (records, bytes) = self.progress.now();
                RecorderNumbers {
                    is_recording: true,
                    records,
                    bytes,
                    dropped: since(self.seen(), running.before).dropped,
                }
            }
            State::Ended(ended) => RecorderNumbers {
                is_recording: false,
                records: ended.records,
                bytes: ended.bytes,
                dropped: ended.seen.dropped,
            },
        }
    }
}

impl Progress {
    fn now(&self) -> (u64, u64) {
        let records = self.records.load(Ordering::Relaxed);
        (records, self.bytes.load(Ordering::Relaxed))
    }
}

/// Returns what was seen after `before`.
fn since(now: Seen, before: Seen) -> Seen {
    Seen {
        requests: now.requests - before.requests,
        reads: now.reads - before.reads,
        read_hits: now.read_hits - before.read_hits,
        dropped: now.dropped - before.dropped,
        unnamed: now.unnamed - before.unnamed,
    }
}

fn summary(records: u64, bytes: u64, lasted_ms: u64, seen: &Seen) -> String {
    let lasted_s = lasted_ms as f64 / 1000.0;
    let (requests, size) = (seen.requests, size::text(bytes as usize));
    let dropped = match seen.dropped {
        0 => "none dropped".into(),
        dropped => format!("{dropped} DROPPED because they came too fast"),
    };
    format!("{records} requests of {requests} in {lasted_s:.1} s, {dropped}, {size}")
}

/// A new file that nobody else may read.
fn create(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::of(path)?;
    folder.create_new(name, 0o600)
}

fn cannot_create(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{path} exists already: choose another name"),
        io::ErrorKind::PermissionDenied => {
            format!("{path}: {error}: the server creates it, with its own rights")
        }
        _ => format!("{path}: {error}"),
    }
}
