//! `/state`: what has changed since the client asked last, and `/history`: samples of the hour.

use std::fmt::Write;

use micanite_control::Balance;
use micanite_engine::Access;

use super::events::Event;
use super::history::History;
use super::sample::Sample;
use super::{Feed, Running, json, keys};
use crate::limits::{
    CONSOLE_HISTORY_ROWS_MAX, CONSOLE_STATE_BYTES_MAX, CONSOLE_STATE_SAMPLES_MAX, CONSOLE_STEPS,
};
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::admin::state::State;

/// Significant digits of samples, and of loads.
const DIGITS: i32 = 4;
const DIGITS_OF_LOADS: i32 = 3;
/// A sentence that names many workers is cut.
const CONDITION_CHARS_MAX: usize = 120;
/// Ends of the parts of a state: what is over comes with the next one.
const EVENTS_END: usize = 1900;
const WORKERS_END: usize = 3900;
/// Room for the longest event, row of a worker, partition, and for the closing brackets.
const EVENT_ROOM: usize = 420;
const ROW_ROOM: usize = 64;

/// What a client has, by the query of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Wanted {
    pub since: u64,
    pub step: u32,
    pub event: u64,
    /// The first worker and partition to tell of.
    pub worker: usize,
    pub partition: usize,
    /// Modes and owners that the client knows.
    pub generation: Option<u64>,
}

impl Wanted {
    /// Reads a query. What is not understood is left out.
    pub fn of(query: &str) -> Self {
        let mut wanted = Self { step: 1, ..Self::default() };
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let number = value.parse().unwrap_or(0);
            match name {
                "since" => wanted.since = number,
                "step" => wanted.step = number as u32,
                "event" => wanted.event = number,
                "worker" => wanted.worker = number as usize,
                "partition" => wanted.partition = number as usize,
                "generation" => wanted.generation = value.parse().ok(),
                _ => {}
            }
        }
        wanted
    }
}

impl Feed {
    /// Returns what has changed, at most [`CONSOLE_STATE_BYTES_MAX`]; `None` before the server runs.
    /// `may_name`: it may name keys.
    pub fn state(&mut self, state: &State, wanted: Wanted, may_name: bool) -> Option<String> {
        let (server, clock) = state.running()?;
        let running = self.running.as_mut()?;
        let mut to = String::with_capacity(CONSOLE_STATE_BYTES_MAX);
        head(&mut to, self.boot, state, (server, clock));
        samples(&mut to, &self.history, server, wanted);
        match may_name {
            true => keys::write(&mut to, running, (server, clock), self.history.rings[0].last()),
            false => to.push_str(",\"hot\":null"),
        }
        let changed = self.events.since(wanted.event);
        to.push_str(",\"events\":[");
        for (place, event) in changed.iter().enumerate() {
            if place > 0 && to.len() + EVENT_ROOM > EVENTS_END {
                break;
            }
            to.push_str(if place > 0 { "," } else { "" });
            write_event(&mut to, event);
        }
        to.push(']');
        workers(&mut to, running, wanted.worker);
        partitions(&mut to, server, wanted);
        if may_name {
            keys::write_full(&mut to, running);
        }
        to.push('}');
        Some(to)
    }

    /// Returns whether there are samples of this step.
    pub fn has_step(&self, wanted: Wanted) -> bool {
        CONSOLE_STEPS.iter().any(|(step_s, _)| *step_s == wanted.step)
    }

    /// Returns samples of a ring after one of this number; `None` where there is no such ring.
    pub fn history(&self, state: &State, wanted: Wanted) -> Option<String> {
        let (server, _) = state.running()?;
        let ring = self.history.ring(wanted.step)?;
        let (first, samples) = ring.since(wanted.since);
        let (boot, step, last) = (self.boot, wanted.step, ring.last());
        let mut to =
            format!("{{\"boot\":{boot},\"step\":{step},\"first\":{first},\"last\":{last},\"rows\":[");
        for (place, sample) in samples.take(CONSOLE_HISTORY_ROWS_MAX).enumerate() {
            to.push_str(if place > 0 { ",[" } else { "[" });
            write_sample(&mut to, sample, server);
        }
        to.push_str("]}");
        Some(to)
    }
}

/// Writes a sample with its time after the start, which is negative for one of the previous program.
fn write_sample(to: &mut String, sample: &Sample, server: &Server) {
    let _ = write!(to, "{},", i64::from(sample.at_s) - i64::from(server.started_s));
    json::numbers(to, &sample.values, DIGITS);
    to.push(']');
}

fn head(to: &mut String, boot: u32, state: &State, (server, clock): (&Server, Clock)) {
    let now_s = seconds(clock.now_ms());
    let condition = match (state.health(), state.readiness()) {
        (Err(text), _) | (_, Err(text)) => text,
        (_, Ok(text)) => text.into(),
    };
    let condition: String = condition.chars().take(CONDITION_CHARS_MAX).collect();
    let _ = write!(
        to,
        "{{\"boot\":{boot},\"now\":{now_s},\"started\":{},\"condition\":{},\"auto\":{},\"recording\":{}",
        server.started_s,
        json::text(&condition),
        server.balance.get() == Balance::Auto,
        server.shared.recorder.numbers().is_recording,
    );
}

/// The samples since; a client that has missed more asks for the history.
fn samples(to: &mut String, history: &History, server: &Server, wanted: Wanted) {
    let ring = &history.rings[0];
    let newest = ring.last().saturating_sub(CONSOLE_STATE_SAMPLES_MAX as u64);
    let (first, samples) = ring.since(wanted.since.max(newest));
    let coarse = history.rings[1].last();
    let _ = write!(to, ",\"last\":{},\"coarse\":{coarse},\"first\":{first},\"rows\":[", ring.last());
    for (place, sample) in samples.enumerate() {
        to.push_str(if place > 0 { ",[" } else { "[" });
        write_sample(to, sample, server);
    }
    to.push(']');
}

fn write_event(to: &mut String, event: &Event) {
    let (kind, text) = (event.kind.name(), json::text(&event.text));
    let _ = write!(
        to,
        "[{},{},\"{kind}\",{},{},{text},{}]",
        event.id, event.number, event.first_s, event.last_s, event.count
    );
}

fn workers(to: &mut String, running: &Running, from: usize) {
    let loads = &running.loads.now;
    let from = if from < loads.len() { from } else { 0 };
    let _ = write!(to, ",\"workers\":{{\"of\":{},\"from\":{from},\"rows\":[", loads.len());
    for (place, load) in loads[from..].iter().enumerate() {
        if to.len() + ROW_ROOM > WORKERS_END {
            break;
        }
        to.push_str(if place > 0 { ",[" } else { "[" });
        let numbers = [load.rate, load.connections, load.cpu, load.upkeep, load.p99_us];
        json::numbers(to, &numbers, DIGITS_OF_LOADS);
        to.push(']');
    }
    to.push_str("]}");
}

/// Each partition as its load, and if the client does not know them, its mode and owner.
fn partitions(to: &mut String, server: &Server, wanted: Wanted) {
    let cache = &server.shared.cache;
    let (count, generation) = (cache.layout().partitions, cache.generation());
    let rates = server.balance.rates();
    let from = if wanted.partition < count { wanted.partition } else { 0 };
    let _ =
        write!(to, ",\"partitions\":{{\"of\":{count},\"from\":{from},\"generation\":{generation},\"rows\":[");
    let is_known = wanted.generation == Some(generation);
    for partition in from..count {
        if to.len() + ROW_ROOM > CONSOLE_STATE_BYTES_MAX {
            break;
        }
        to.push_str(if partition > from { "," } else { "" });
        let rate = rates.get(partition).map_or(f32::NAN, |rate| *rate as f32);
        let Some(route) = cache.route(partition).filter(|_| !is_known) else {
            json::number(to, rate, DIGITS_OF_LOADS);
            continue;
        };
        to.push('[');
        json::number(to, rate, DIGITS_OF_LOADS);
        let mode = match route.access {
            Access::Erew => 0,
            Access::Crew => 1,
            Access::Crcw => 2,
        };
        let _ = write!(to, ",{mode},{}]", route.owner);
    }
    to.push_str("]}");
}

const _: () = assert!(WORKERS_END + 4 * ROW_ROOM < CONSOLE_STATE_BYTES_MAX && EVENTS_END < WORKERS_END);
