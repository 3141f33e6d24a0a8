//! The thread that takes what the program in the kernel has noted, and gives it to the owners of the
//! partitions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use micanite_control::cores;
use micanite_wire::hash::KeyHash;

use super::KernelGetState;
use super::spread::Spread;
use crate::shared::Server;

/// The program keeps 256 notes of each CPU: at a million noted requests a second they are overwritten
/// within a quarter of a millisecond, and at this interval one of four or so is seen.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_millis(64);
/// Interval between two checks that the program is still attached.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// So many notes at once, and it looks again sooner; half of them, and it takes its time.
const NOTES_MANY: usize = 64;

/// The running thread.
#[derive(Debug)]
pub(crate) struct KernelGetThread {
    /// Dropping it ends the thread.
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl KernelGetThread {
    /// Starts it, if the program is there.
    pub fn start(server: &Arc<Server>) -> io::Result<Option<Self>> {
        if !matches!(&server.kernel_get, Some(state) if state.program().is_some()) {
            return Ok(None);
        }
        let (end, ended) = channel();
        let server = Arc::clone(server);
        let run = move || {
            let mut interval = INTERVAL_MIN;
            let mut look = Instant::now();
            let percent = server.settings.kernel_get.as_ref().map_or(0, |of| of.spread_percent);
            let mut spread = (percent > 0).then(|| Spread::new(percent, cores::allowed()));
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(state) = &server.kernel_get else {
                    return;
                };
                interval = take(state, &server, interval);
                if Instant::now() >= look {
                    look = Instant::now() + LOOK_INTERVAL;
                    state.look();
                }
                if let (Some(spread), Some(program)) = (&mut spread, state.program()) {
                    spread.step(program);
                }
            }
        };
        let thread = Builder::new().name("kernel-get".into()).spawn(run)?;
        Ok(Some(Self { end, thread }))
    }

    /// Ends it.
    pub fn end(self) {
        drop(self.end);
        // A panic ends the process before this.
        let _ = self.thread.join();
    }
}

/// Takes the notes, and says when to look again.
fn take(state: &KernelGetState, server: &Server, interval: Duration) -> Duration {
    let mut notes = 0;
    if let Some(program) = state.program() {
        program.take_samples(|hash| {
            server.shared.cache.note_request(KeyHash(hash));
            notes += 1;
        });
    }
    let next = match notes {
        NOTES_MANY.. => interval / 2,
        _ if notes < NOTES_MANY / 2 => interval * 2,
        _ => interval,
    };
    let next = next.clamp(INTERVAL_MIN, INTERVAL_MAX);
    state.is_busy.store(next < INTERVAL_MAX, Ordering::Relaxed);
    next
}
