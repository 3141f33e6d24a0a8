//! A client: random operations on hot keys, recorded before they are sent.

use std::thread;
use std::time::{Duration, Instant};

use micanite_workload::Random;

use super::journal::{Entry, Record, Recorder, now_ns};
use super::operation::{Action, Found, Operation, ValueId};
use super::ports::{Failure, Kind, Port, PortName, Reply, Request};
use super::value;
use crate::Result;

/// A server that is started again takes no longer.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// Far expiries, which nothing reaches.
const EXPIRIES_S: [u32; 4] = [0, 0, 0, 100_000];
/// Operations that a client sends together.
const BURST_MAX: u64 = 4;

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

/// An operation that is to be sent.
#[derive(Debug)]
struct Draft {
    /// None: all keys.
    key: Option<u32>,
    action: Action,
    value: Vec<u8>,
    unique: u64,
    wants_unique: bool,
    expiry_s: u32,
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
    /// Operations that had a reply.
    answered: u64,
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
            answered: 0,
            heard: Instant::now(),
        }
    }

    /// Returns the number of operations that had a reply.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns what it has recorded so far.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// Returns what it recorded.
    pub fn into_recorder(self) -> R {
        self.recorder
    }

    /// Executes an operation, or a burst of some, most of them on one key. A cas reads first. Returns false
    /// after a reply that is wrong.
    pub fn step(&mut self) -> Result<bool> {
        let kind = self.name.kind;
        if kind.flushes() && self.random.below(10_000) < self.workload.flushes {
            let flush = self.draft(None, Action::FlushAll);
            return Ok(self.execute(&[flush])?.is_some());
        }
        let hot = self.draw_key();
        if !kind.reads_only() && self.random.below(20) == 0 {
            return self.compare_and_swap(hot);
        }
        let bursts = kind.bursts() && self.random.below(3) == 0;
        let count = if bursts { 2 + self.random.below(BURST_MAX - 1) } else { 1 };
        let mut drafts = Vec::new();
        for _ in 0..count {
            let key = if self.random.below(8) == 0 { self.draw_key() } else { hot };
            drafts.push(self.draw(key));
        }
        Ok(self.execute(&drafts)?.is_some())
    }

    fn draw_key(&mut self) -> u32 {
        self.random.below(u64::from(self.workload.keys)) as u32
    }

    fn draw(&mut self, key: u32) -> Draft {
        if self.name.kind.reads_only() || self.random.below(100) < self.workload.gets {
            return self.draft(Some(key), Action::Get);
        }
        match self.random.below(20) {
            0..13 => self.write(key, Action::Set),
            13..16 => self.draft(Some(key), Action::Delete),
            16..18 => self.write(key, Action::Add),
            _ => self.draft(Some(key), Action::Touch),
        }
    }

    fn draft(&mut self, key: Option<u32>, action: Action) -> Draft {
        let expiry_s = EXPIRIES_S[self.random.below(EXPIRIES_S.len() as u64) as usize];
        Draft { key, action, value: Vec::new(), unique: 0, wants_unique: false, expiry_s }
    }

    fn write(&mut self, key: u32, action: impl FnOnce(ValueId) -> Action) -> Draft {
        self.writes += 1;
        let id = u64::from(self.number + 1) << 32 | self.writes;
        let bytes_max = self.workload.value_bytes_max.min(self.name.kind.value_bytes_max());
        let bytes = value::draw_bytes(&mut self.random, bytes_max);
        let mut draft = self.draft(Some(key), action(id));
        value::fill(&mut draft.value, key, id, bytes);
        draft
    }

    fn compare_and_swap(&mut self, key: u32) -> Result<bool> {
        let mut get = self.draft(Some(key), Action::Get);
        get.wants_unique = true;
        let Some(replies) = self.execute(&[get])? else { return Ok(false) };
        let Some((Found::Value(seen), unique)) = replies.first().copied() else { return Ok(true) };
        let mut cas = self.write(key, |stored| Action::Cas { seen, stored });
        cas.unique = unique;
        Ok(self.execute(&[cas])?.is_some())
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

    /// Returns an operation without a reply.
    fn operation(&self, called_ns: u64, action: Action) -> Operation {
        Operation { client: self.number, called_ns, returned_ns: u64::MAX, action, found: Found::Unknown }
    }

    fn record_calls(&mut self, drafts: &[Draft], called_ns: u64) -> Result<()> {
        for draft in drafts {
            let operation = self.operation(called_ns, draft.action);
            self.recorder.record(Record::Call(Entry { key: draft.key, operation }))?;
        }
        Ok(())
    }

    /// Sends operations together. Returns the replies and CAS values; none after a reply that is wrong.
    fn execute(&mut self, drafts: &[Draft]) -> Result<Option<Vec<(Found, u64)>>> {
        let mut port = self.open()?;
        let names: Vec<_> =
            drafts.iter().map(|draft| key_name(&self.workload, draft.key.unwrap_or(0))).collect();
        let requests: Vec<_> = drafts.iter().zip(&names).map(|(draft, name)| draft.request(name)).collect();
        let mut replies = vec![Reply::default(); drafts.len()];
        let called_ns = now_ns()?;
        self.record_calls(drafts, called_ns)?;
        let outcome = port.call(&requests, &mut replies);
        let returned_ns = now_ns()?;
        match outcome {
            Ok(()) => self.port = Some(port),
            Err(Failure::Lost) => {
                for reply in &mut replies {
                    reply.found = Some(Found::Unknown);
                }
            }
            Err(Failure::Wrong(what)) => return self.wrong(&what),
        }
        let mut ended = Vec::new();
        for ((draft, name), reply) in drafts.iter().zip(&names).zip(&replies) {
            let found = match reply.found {
                Some(found) => found,
                None => match value::parse(draft.key.unwrap_or(0), &reply.value, reply.flags) {
                    Ok(id) => Found::Value(id),
                    Err(what) => return self.wrong(&format!("get of {name}: {what}")),
                },
            };
            let one_sided = reply.one_sided;
            self.recorder.record(Record::Return { returned_ns, found, one_sided })?;
            ended.push((found, reply.unique));
        }
        for (draft, _) in drafts.iter().zip(&replies).filter(|(_, reply)| reply.resent) {
            if let Some(action) = draft.action.late_copy() {
                let operation = self.operation(called_ns, action);
                self.recorder.record(Record::LateCopy { key: draft.key, operation })?;
            }
        }
        self.pause_after(&ended)?;
        Ok(Some(ended))
    }

    /// Waits a moment if nothing could be sent.
    fn pause_after(&mut self, ended: &[(Found, u64)]) -> Result<()> {
        let is_reply = |(found, _): &&(Found, u64)| !matches!(found, Found::Unknown | Found::NotSent);
        let answered = ended.iter().filter(is_reply).count();
        self.answered += answered as u64;
        if answered > 0 {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > SILENCE_MAX {
            return Err(format!("{}: the server is silent", self.name).into());
        } else {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn wrong<T>(&mut self, what: &str) -> Result<Option<T>> {
        let what = format!("client {} ({}): {what}", self.number, self.name);
        self.recorder.record(Record::Wrong(what))?;
        Ok(None)
    }
}

impl Draft {
    fn request<'a>(&'a self, name: &'a str) -> Request<'a> {
        let stored = match self.action {
            Action::Set(id) | Action::Add(id) | Action::Cas { stored: id, .. } => id,
            _ => 0,
        };
        Request {
            name: name.as_bytes(),
            action: self.action,
            value: &self.value,
            flags: value::flags(stored),
            expiry_s: self.expiry_s,
            unique: self.unique,
            wants_unique: self.wants_unique,
        }
    }
}

/// Returns the protocol of a client, by its number.
pub(super) fn kind_of(names: &[(u32, Kind)], client: u32) -> String {
    let found = names.iter().rev().find(|(number, _)| *number == client);
    found.map_or_else(String::new, |(_, kind)| kind.to_string())
}
