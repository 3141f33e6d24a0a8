//! A client: random operations on hot keys, one at a time, each recorded before it is sent.

use std::thread;
use std::time::{Duration, Instant};

use micanite_workload::Random;

use super::journal::{Entry, Record, Recorder, now_ns};
use super::operation::{Action, Found, Operation};
use super::ports::{Failure, Kind, Port, PortName, Reply, Request};
use super::value;
use crate::Result;

/// A server that is started again takes no longer.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// Far expiries, which nothing reaches.
const EXPIRIES_S: [u32; 4] = [0, 0, 0, 100_000];

/// Parameters of all clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub keys: u32,
    pub value_bytes_max: usize,
    /// Flushes in 10,000 operations of a client that can flush.
    pub flushes: u64,
    /// GETs in 100 operations.
    pub gets: u64,
    pub seed: u64,
}

pub(super) struct Client<'a, R> {
    name: &'a PortName,
    workload: Workload,
    number: u32,
    recorder: R,
    random: Random,
    port: Option<Box<dyn Port>>,
    /// Writes so far: their numbers are the values' ids.
    writes: u64,
    value: Vec<u8>,
    reply: Reply,
    heard: Instant,
}

/// Returns the name of a key.
pub(super) fn key_name(workload: &Workload, key: u32) -> String {
    format!("linearizable-{}-{key}", workload.seed)
}

impl<'a, R: Recorder> Client<'a, R> {
    pub fn new(name: &'a PortName, workload: Workload, number: u32, recorder: R) -> Self {
        Self {
            name,
            workload,
            number,
            recorder,
            random: Random::of_stream(workload.seed, u64::from(number)),
            port: None,
            writes: 0,
            value: Vec::new(),
            reply: Reply::default(),
            heard: Instant::now(),
        }
    }

    /// Returns what it recorded.
    pub fn into_recorder(self) -> R {
        self.recorder
    }

    /// Executes one operation, or two: a cas reads first. Returns false after a reply that is wrong.
    pub fn step(&mut self) -> Result<bool> {
        let key = self.random.below(u64::from(self.workload.keys)) as u32;
        let kind = self.name.kind;
        if kind.flushes() && self.random.below(10_000) < self.workload.flushes {
            return self.execute(None, Action::FlushAll, 0);
        }
        let gets = if kind.reads_only() { 100 } else { self.workload.gets };
        if self.random.below(100) < gets {
            return self.execute(Some(key), Action::Get, 0);
        }
        match self.random.below(20) {
            0..11 => self.write(key, Action::Set, 0),
            11..14 => self.execute(Some(key), Action::Delete, 0),
            14..16 => self.write(key, Action::Add, 0),
            16..18 => self.compare_and_swap(key),
            _ => self.execute(Some(key), Action::Touch, 0),
        }
    }

    fn write(&mut self, key: u32, action: impl FnOnce(u64) -> Action, unique: u64) -> Result<bool> {
        self.writes += 1;
        let id = u64::from(self.number + 1) << 32 | self.writes;
        let bytes_max = self.workload.value_bytes_max.min(self.name.kind.value_bytes_max());
        let bytes = value::draw_bytes(&mut self.random, bytes_max);
        value::fill(&mut self.value, key, id, bytes);
        self.execute(Some(key), action(id), unique)
    }

    fn compare_and_swap(&mut self, key: u32) -> Result<bool> {
        self.value.clear();
        let went_well = self.request(Some(key), Action::Get, 0, true)?;
        let (Some(Found::Value(seen)), unique) = (self.reply.found, self.reply.unique) else {
            return Ok(went_well);
        };
        self.write(key, |stored| Action::Cas { seen, stored }, unique)
    }

    fn execute(&mut self, key: Option<u32>, action: Action, unique: u64) -> Result<bool> {
        if !matches!(action, Action::Set(_) | Action::Add(_) | Action::Cas { .. }) {
            self.value.clear();
        }
        self.request(key, action, unique, false)
    }

    /// Opens the port if need be.
    fn open(&mut self) -> Result<Box<dyn Port>> {
        loop {
            match self.port.take().map_or_else(|| self.name.open(), Ok) {
                Ok(port) => return Ok(port),
                Err(error) if self.heard.elapsed() > SILENCE_MAX => {
                    return Err(format!("{}: {error}", self.name).into());
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn request(&mut self, key: Option<u32>, action: Action, unique: u64, wants_unique: bool) -> Result<bool> {
        let mut port = self.open()?;
        let stored = match action {
            Action::Set(id) | Action::Add(id) | Action::Cas { stored: id, .. } => id,
            _ => 0,
        };
        let name = key_name(&self.workload, key.unwrap_or(0));
        let request = Request {
            name: name.as_bytes(),
            action,
            value: &self.value,
            flags: value::flags(stored),
            expiry_s: EXPIRIES_S[self.random.below(EXPIRIES_S.len() as u64) as usize],
            unique,
            wants_unique,
        };
        self.reply.clear();
        let operation = Operation {
            client: self.number,
            called_ns: now_ns()?,
            returned_ns: u64::MAX,
            action,
            found: Found::Unknown,
        };
        self.recorder.record(Record::Call(Entry { key, operation }))?;
        let outcome = port.call(&request, &mut self.reply);
        let returned_ns = now_ns()?;
        match outcome {
            Ok(()) => self.port = Some(port),
            Err(Failure::NotSent(why)) => {
                self.recorder.record(Record::NotSent)?;
                self.reply.found = Some(Found::Unknown);
                self.port = Some(port);
                if self.heard.elapsed() > SILENCE_MAX {
                    return Err(format!("{}: {why}", self.name).into());
                }
                thread::sleep(PAUSE);
                return Ok(true);
            }
            Err(Failure::Lost) => self.reply.found = Some(Found::Unknown),
            Err(Failure::Wrong(what)) => return self.wrong(&what),
        }
        if self.reply.found.is_none() {
            match value::parse(key.unwrap_or(0), &self.reply.value, self.reply.flags) {
                Ok(id) => self.reply.found = Some(Found::Value(id)),
                Err(what) => return self.wrong(&format!("get of {name}: {what}")),
            }
        }
        let found = self.reply.found.unwrap_or(Found::Unknown);
        if found != Found::Unknown {
            self.heard = Instant::now();
        }
        let one_sided = self.reply.one_sided;
        self.recorder.record(Record::Return { returned_ns, found, one_sided })?;
        if self.reply.resent {
            self.recorder.record(Record::LateCopy)?;
        }
        Ok(true)
    }

    fn wrong(&mut self, what: &str) -> Result<bool> {
        let what = format!("client {} ({}): {what}", self.number, self.name);
        self.recorder.record(Record::Wrong(what))?;
        Ok(false)
    }
}

/// Returns the protocol of each client, by its number.
pub(super) fn kind_of(names: &[(u32, Kind)], client: u32) -> String {
    let found = names.iter().rev().find(|(number, _)| *number == client);
    found.map_or_else(String::new, |(_, kind)| kind.to_string())
}
