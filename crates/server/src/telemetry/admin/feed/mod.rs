//! Data of the console: an hour of samples, loads of workers, hot keys and events, as JSON. The admin thread
//! takes it once a second and owns all of it; workers only write the counters that they write anyway.
//!
//! ```text
//!  tick: counters -> sample -> rings; loads of workers; what changed -> events
//!  GET /state?since=N -> what is new since sample N, at most CONSOLE_STATE_BYTES_MAX
//!  GET /history?step=S&since=N -> samples of one ring, CONSOLE_HISTORY_ROWS_MAX at a time
//!  GET /about -> what does not change while the server runs
//! ```

mod about;
mod events;
mod history;
mod json;
mod keys;
mod observer;
mod sample;
mod state;
mod workers;

use std::time::{Duration, Instant};

use super::state::State;
use crate::limits::{CONSOLE_HISTORY_BYTES, CONSOLE_HOT_KEYS};
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::hot::{self, Hottest};
use events::{Events, Kind};
use history::History;
use observer::Observer;
use sample::Moment;
pub(super) use state::Wanted;
use workers::Loads;

/// Interval between two samples.
const TICK: Duration = Duration::from_secs(1);

/// Data of the console.
#[derive(Debug)]
pub(super) struct Feed {
    next: Instant,
    running: Option<Running>,
    events: Events,
    /// Number of this program's run: a page that was loaded before a restart notices it.
    boot: u32,
}

/// Data of a server that runs.
#[derive(Debug)]
struct Running {
    history: History,
    loads: Loads,
    observer: Observer,
    hottest: Hottest,
    /// The sample that the hottest keys were looked up for.
    hottest_at: u64,
}

/// Bytes that the history and the loads of so many workers take.
pub(crate) const fn bytes(workers: usize) -> usize {
    CONSOLE_HISTORY_BYTES + workers * workers::BYTES
}

impl Feed {
    pub fn new() -> Self {
        // Any number does: it differs from the last one's with all likelihood.
        let boot = getrandom::u32().unwrap_or_else(|_| std::process::id());
        Self { next: Instant::now(), running: None, events: Events::default(), boot }
    }

    /// Takes a sample if it is time. Returns the milliseconds to the next one.
    pub fn tick(&mut self, state: &State) -> u16 {
        let now = Instant::now();
        let begins = self.running.is_none() && state.running().is_some();
        if begins || now >= self.next {
            self.next = (self.next + TICK).max(now + TICK / 2);
            if let Some((server, clock)) = state.running() {
                self.take(state, server, clock);
            }
        }
        self.next.saturating_duration_since(now).as_millis().max(1) as u16
    }

    /// Notes what a user has asked for, and what came of it.
    pub fn note_control(&mut self, what: &str, outcome: &str, now_s: u32) {
        self.events.add_outcome(now_s, what, outcome);
    }

    pub fn note_login(&mut self, text: &str, now_s: u32) {
        self.events.add(Kind::Login, now_s, text);
    }

    pub fn note_refused_login(&mut self, peer: &str, now_s: u32) {
        let detail = format!(", the last from {peer}");
        self.events.add_refusals(now_s, "logins to the console refused", &detail, 1);
    }

    fn take(&mut self, state: &State, server: &Server, clock: Clock) {
        let now_s = seconds(clock.now_ms());
        let events = &mut self.events;
        let running = self.running.get_or_insert_with(|| {
            let how = if state.is_restart() { "restarted in place" } else { "started" };
            let version = env!("CARGO_PKG_VERSION");
            events.add(Kind::Start, server.started_s, format!("version {version} {how}"));
            Running {
                history: History::new(),
                loads: Loads::new(server),
                observer: Observer::new(server),
                hottest: Hottest::default(),
                hottest_at: u64::MAX,
            }
        });
        running.history.tick(|| Moment::of(server), now_s, resident_bytes());
        running.loads.tick(server);
        running.observer.look(server, now_s, events);
    }
}

impl Running {
    /// Returns the hottest keys, looked up at most once for each sample.
    fn hottest(&mut self, server: &Server, now_s: u32) -> &Hottest {
        let sample = self.history.rings[0].last();
        if self.hottest_at != sample {
            self.hottest_at = sample;
            self.hottest = hot::hottest(&server.shared.hot, now_s, CONSOLE_HOT_KEYS);
        }
        &self.hottest
    }
}

/// Memory of the process that is in use; 0 where the kernel does not tell.
fn resident_bytes() -> u64 {
    use nix::unistd::{SysconfVar, sysconf};
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as u64;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * page_bytes
}
