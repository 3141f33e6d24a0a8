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
mod heritage;
mod history;
mod json;
mod keys;
mod observer;
mod sample;
mod state;
mod workers;

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use super::state::State;
use crate::limits::{CONSOLE_HANDOVER_BYTES_MAX, CONSOLE_HISTORY_BYTES, CONSOLE_HOT_KEYS};
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::hot::{self, Hottest};
use crate::telemetry::log::warn;
use events::{Events, Kind};
use heritage::Heritage;
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
    history: History,
    events: Events,
    /// Number of this program's run: a page that was loaded before a restart notices it.
    boot: u32,
    /// Number of the first program's run whose samples and events are counted on.
    series: u32,
}

/// Data of a server that runs.
#[derive(Debug)]
struct Running {
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
    /// Goes on with the history and the events that the previous program left in this file, if it did.
    pub fn new(left: Option<File>) -> Self {
        // Any number does: it differs from the last one's with all likelihood.
        let boot = getrandom::u32().unwrap_or_else(|_| std::process::id());
        let heritage = left.and_then(|file| match read(&file) {
            Ok(heritage) => Some(heritage),
            Err(reason) => {
                warn!("the console begins without the history from before the restart: {reason}");
                None
            }
        });
        let series = heritage.as_ref().map_or(boot, |heritage| heritage.series);
        let parts = heritage.map(Heritage::into_parts);
        let (history, events) = parts.unwrap_or_else(|| (History::new(), Events::default()));
        Self { next: Instant::now(), running: None, history, events, boot, series }
    }

    /// Returns the history and the events for the next program, the last ones included; nothing if none
    /// follows.
    pub fn leave(&mut self, state: &State) -> Vec<u8> {
        let Some((server, clock)) = state.running().filter(|(server, _)| server.restart.is_wanted()) else {
            return Vec::new();
        };
        if let Some(running) = &mut self.running {
            running.observer.look(server, seconds(clock.now_ms()), &mut self.events);
        }
        Heritage::of(self.series, &self.history, &self.events).text()
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
                loads: Loads::new(server),
                observer: Observer::new(server),
                hottest: Hottest::default(),
                hottest_at: u64::MAX,
            }
        });
        let resident_bytes = resident_bytes();
        self.history.tick(|| Moment::of(server, resident_bytes), now_s);
        running.loads.tick(server);
        running.observer.look(server, now_s, events);
    }
}

impl Running {
    /// Returns the hottest keys, looked up at most once for each sample.
    fn hottest(&mut self, server: &Server, now_s: u32, sample: u64) -> &Hottest {
        if self.hottest_at != sample {
            self.hottest_at = sample;
            self.hottest = hot::hottest(&server.shared.hot, now_s, CONSOLE_HOT_KEYS);
        }
        &self.hottest
    }
}

fn read(left: &File) -> Result<Heritage, String> {
    let mut text = Vec::new();
    let mut rest = left.take(CONSOLE_HANDOVER_BYTES_MAX as u64 + 1);
    rest.read_to_end(&mut text).map_err(|error| error.to_string())?;
    Heritage::parse(&text)
}

/// Memory of the process that is in use; 0 where the kernel does not tell.
pub(crate) fn resident_bytes() -> u64 {
    use nix::unistd::{SysconfVar, sysconf};
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as u64;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * page_bytes
}
