//! The thread that empties the rings into the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle, park_timeout, sleep};
use std::time::{Duration, Instant};

use micanite_control::RecordOptions;
use micanite_workload::recording::{
    End, HEADER_BYTES, NAMES_PREFIX, RECORD_BYTES, Record, RecordingWriter, Seen, TELLS_SEEN,
};

use super::{Ended, Recorder, State, since};
use crate::limits::{RECORDING_PREFIX_BYTES_MAX, RECORDING_UNWRITTEN_BYTES};
use crate::shared::Server;
use crate::shared::clock::Clock;
use crate::telemetry::log::warn;

/// Interval between two readings of the rings.
const INTERVAL: Duration = Duration::from_millis(5);
/// Interval between two writes to the file: a killed server loses so much.
const WRITE_INTERVAL_MS: u64 = 100;
/// Interval between two records of what was seen.
const TELL_INTERVAL_MS: u64 = 10_000;
/// Deadline of a worker that is within a batch when the recording ends.
const BATCH_TIMEOUT: Duration = Duration::from_secs(1);
/// Memory of a prefix beside its bytes.
const PREFIX_OVERHEAD_BYTES: usize = 64;

type Bytes = RecordingWriter<Vec<u8>>;

/// Writes the beginning of the file, and starts the thread.
pub(super) fn start(
    server: &Arc<Server>,
    clock: Clock,
    file: File,
    before: Seen,
    options: &RecordOptions,
) -> io::Result<JoinHandle<()>> {
    let recorder = &server.shared.recorder;
    let hash_max = recorder.hash_max.load(Ordering::Relaxed);
    let unwritten = Vec::with_capacity(RECORDING_UNWRITTEN_BYTES + RECORD_BYTES);
    let bytes = Bytes::new(unwritten, clock.now_ms(), hash_max, recorder.hash_id())?;
    let mut thread = Thread {
        server: Arc::clone(server),
        generation: recorder.generation.load(Ordering::Relaxed) as u16,
        bytes,
        output: Output { file, end: 0 },
        length: HEADER_BYTES,
        bytes_max: options.bytes_max.unwrap_or_default().0,
        end_ms: options.seconds.map(|seconds| u64::from(seconds) * 1000),
        prefixes: Prefixes::default(),
        before,
        records: 0,
        written_ms: 0,
        told_ms: 0,
        found: Vec::new(),
    };
    thread.write_out()?;
    let builder = Builder::new().name("recorder".into());
    builder.spawn(move || thread.run())
}

struct Thread {
    server: Arc<Server>,
    generation: u16,
    /// Not written yet.
    bytes: Bytes,
    output: Output,
    /// Length of the file, with what is not written yet.
    length: usize,
    bytes_max: usize,
    end_ms: Option<u64>,
    prefixes: Prefixes,
    /// Counts from before the recording.
    before: Seen,
    records: u64,
    /// Since the recording began.
    written_ms: u64,
    told_ms: u64,
    /// Records that wait to be sorted, with their times in microseconds.
    found: Vec<(u64, Record)>,
}

impl Thread {
    fn run(mut self) {
        let mut end = self.record();
        self.server.shared.watch.set_recording(false);
        if let Ok(reason) = end {
            self.await_workers();
            end = self.empty_rings(Duration::ZERO).map(|full| full.unwrap_or(reason));
        }
        let (lasted_ms, mut seen) = (self.now_ms(), self.seen());
        let (end, error) = match end.and_then(|end| self.complete(end, &seen)) {
            Ok(end) => (end, None),
            Err(error) => {
                let reason = self.repair(&seen, &error);
                (End::Failed, Some(reason))
            }
        };
        seen.unnamed = self.prefixes.unnamed;
        let recorder = &self.server.shared.recorder;
        let mut state = recorder.lock();
        if let State::Running(running) = &*state {
            let path = running.path.clone();
            if !matches!(end, End::Stopped | End::Server) {
                let path = path.display();
                let error = error.as_ref();
                let error = error.map_or(String::new(), |error| format!(": {error}"));
                warn!("the recording to {path} has ended {}{error}", end.text());
            }
            *state = State::Ended(Ended {
                path,
                fraction: running.fraction,
                seen,
                records: self.records,
                bytes: self.output.end,
                lasted_ms,
                end,
                error,
            });
        }
    }

    fn recorder(&self) -> &Recorder {
        &self.server.shared.recorder
    }

    /// Milliseconds since it began.
    fn now_ms(&self) -> u64 {
        self.recorder().now_us() / 1000
    }

    /// Returns what was seen since the recording began.
    fn seen(&self) -> Seen {
        Seen { unnamed: self.prefixes.unnamed, ..since(self.recorder().seen(), self.before) }
    }

    /// Writes until there is a reason to end.
    fn record(&mut self) -> io::Result<End> {
        loop {
            park_timeout(INTERVAL);
            if let Some(end) = self.empty_rings(INTERVAL)? {
                return Ok(end);
            }
            let now_ms = self.now_ms();
            let end = self.recorder().progress.end.load(Ordering::Acquire);
            if let Some(end) = End::numbered(end) {
                return Ok(end);
            }
            let end_ms = self.end_ms.unwrap_or(u64::from(u32::MAX));
            if now_ms >= end_ms {
                return Ok(End::Time);
            }
            if now_ms >= self.told_ms + TELL_INTERVAL_MS && self.has_room(Bytes::SEEN_BYTES) {
                self.told_ms = now_ms;
                let seen = self.seen();
                self.length += Bytes::SEEN_BYTES;
                self.bytes.tell_seen(&seen, now_ms as u32, None)?;
            }
            if now_ms >= self.written_ms + WRITE_INTERVAL_MS {
                self.written_ms = now_ms;
                self.write_out()?;
            }
        }
    }

    /// Returns whether so many bytes more leave room for the count at the end.
    fn has_room(&self, bytes: usize) -> bool {
        self.length + bytes + Bytes::SEEN_BYTES <= self.bytes_max
    }

    /// Takes what the workers have noted, in the order of time: what is younger than `margin` waits, for a
    /// worker whose ring was empty may still note what came before that. Says so if the file is full.
    fn empty_rings(&mut self, margin: Duration) -> io::Result<Option<End>> {
        let until_us = self.recorder().now_us();
        let until_us = until_us.saturating_sub(margin.as_micros() as u64);
        let mut found = std::mem::take(&mut self.found);
        let server = Arc::clone(&self.server);
        let (mut full, mut failed) = (false, Ok(()));
        for place in &server.shared.recorder.places {
            place.ring.drain(self.generation, |tag, mut record, prefix| {
                if full || failed.is_err() {
                    return;
                }
                let (number, is_new) = self.prefixes.number(prefix);
                let name_bytes = if is_new { Bytes::prefix_bytes(prefix) } else { 0 };
                let waiting = found.len() * RECORD_BYTES;
                if !self.has_room(waiting + name_bytes + RECORD_BYTES) {
                    full = true;
                    return;
                }
                if is_new {
                    self.length += name_bytes;
                    failed = self.bytes.name_prefix(number, prefix);
                }
                record.prefix = number;
                found.push((tag.time_us, record));
            });
        }
        failed?;
        found.sort_by_key(|(time_us, _)| *time_us);
        let due = match margin.is_zero() || full {
            true => found.len(),
            false => found.partition_point(|(time_us, _)| *time_us <= until_us),
        };
        for (_, record) in found.drain(..due) {
            self.bytes.write(&record)?;
            self.length += RECORD_BYTES;
            self.records += 1;
            if self.bytes.get_mut().len() >= RECORDING_UNWRITTEN_BYTES {
                self.write_out()?;
            }
        }
        self.found = found;
        let progress = &server.shared.recorder.progress;
        progress.records.store(self.records, Ordering::Relaxed);
        progress.bytes.store(self.length as u64, Ordering::Relaxed);
        Ok(full.then_some(End::Bytes))
    }

    /// Until no worker is within a batch that it records.
    fn await_workers(&self) {
        let began = Instant::now();
        loop {
            // A worker that has just begun one is seen after this.
            sleep(Duration::from_millis(1));
            if !self.recorder().is_busy() || began.elapsed() > BATCH_TIMEOUT {
                return;
            }
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let bytes = self.bytes.get_mut();
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.add(bytes)?;
        bytes.clear();
        Ok(())
    }

    /// Ends the file.
    fn complete(&mut self, end: End, seen: &Seen) -> io::Result<End> {
        let now_ms = self.now_ms() as u32;
        self.bytes.tell_seen(seen, now_ms, Some(end))?;
        self.write_out()?;
        Ok(end)
    }

    /// Ends a file that could not be written, if that can be: behind what was written as a whole. Says
    /// what went wrong.
    fn repair(&mut self, seen: &Seen, error: &io::Error) -> String {
        let now_ms = self.now_ms() as u32;
        let part = std::mem::take(self.bytes.get_mut());
        let written = self.output.unfinished_bytes().min(part.len());
        let (kept, dropped) = whole(&part, written.saturating_sub(Bytes::SEEN_BYTES));
        self.records -= dropped;
        let start = self.output.end;
        for end in [start + kept as u64, start] {
            let ended = self.output.cut(end).and_then(|()| {
                self.bytes.tell_seen(seen, now_ms, Some(End::Failed))?;
                self.output.add(self.bytes.get_mut())
            });
            if ended.is_ok() {
                break;
            }
            self.bytes.get_mut().clear();
        }
        error.to_string()
    }
}

/// The file, which is lengthened by whole records.
struct Output {
    file: File,
    /// End of the last write that was complete.
    end: u64,
}

impl Output {
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Bytes of a part that was not written as a whole.
    fn unfinished_bytes(&self) -> usize {
        let length = self.file.metadata().map_or(self.end, |file| file.len());
        length.saturating_sub(self.end) as usize
    }

    fn cut(&mut self, end: u64) -> io::Result<()> {
        use std::io::Seek;
        self.file.set_len(end)?;
        self.file.seek(io::SeekFrom::Start(end))?;
        self.end = end;
        Ok(())
    }
}

/// Returns how many bytes of records are complete, and how many requests follow them.
fn whole(bytes: &[u8], most: usize) -> (usize, u64) {
    let (mut kept, mut at, mut dropped) = (0, 0, 0);
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    while let Some(record) = records.get(at) {
        let is_request = !matches!(record[23], NAMES_PREFIX | TELLS_SEEN);
        at += match record[23] {
            NAMES_PREFIX => 1 + usize::from(record[22]).div_ceil(RECORD_BYTES),
            TELLS_SEEN => Bytes::SEEN_BYTES / RECORD_BYTES,
            _ => 1,
        };
        if at * RECORD_BYTES <= most {
            kept = at * RECORD_BYTES;
        } else {
            dropped += u64::from(is_request);
        }
    }
    (kept, dropped)
}

/// The numbers of prefixes.
#[derive(Default)]
struct Prefixes {
    numbers: HashMap<Box<[u8]>, u16>,
    bytes: usize,
    /// Requests whose prefix has got none.
    unnamed: u64,
}

impl Prefixes {
    /// The number of a prefix, 0 for none, and whether it is a new one.
    fn number(&mut self, prefix: &[u8]) -> (u16, bool) {
        if prefix.is_empty() {
            return (0, false);
        }
        if let Some(number) = self.numbers.get(prefix) {
            return (*number, false);
        }
        let bytes = self.bytes + prefix.len() + PREFIX_OVERHEAD_BYTES;
        match u16::try_from(self.numbers.len() + 1) {
            Ok(number) if bytes <= RECORDING_PREFIX_BYTES_MAX => {
                self.bytes = bytes;
                self.numbers.insert(prefix.into(), number);
                (number, true)
            }
            _ => {
                self.unnamed += 1;
                (0, false)
            }
        }
    }
}
