//! The numbers at one moment.

use std::cell::OnceCell;
use std::fmt;

use micanite_engine::{Pages, Stats};

use super::{Kind, Statistic, Totals, Value};
use crate::shared::{AcceptorNumbers, Baseline, Server};
use crate::telemetry::record::RecorderNumbers;
use crate::telemetry::watch::WatchNumbers;

/// A server, and its numbers at one moment.
pub(crate) struct View<'s> {
    pub server: &'s Server,
    /// Unix time.
    pub now_s: u32,
    totals: Totals,
    pub engine: Stats,
    acceptor: AcceptorNumbers,
    before: Baseline,
    watch: OnceCell<WatchNumbers>,
    recorder: OnceCell<RecorderNumbers>,
}

/// A number or a word of `stats`.
pub(crate) enum Shown {
    Number(u64),
    Text(String),
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => out.write_str(text),
        }
    }
}

impl<'s> View<'s> {
    pub fn new(server: &'s Server, now_s: u32) -> Self {
        // A reset meanwhile would leave numbers of before it.
        let before = server.baseline();
        let (totals, acceptor) = (server.totals(), server.acceptor.now());
        let (watch, recorder) = (OnceCell::new(), OnceCell::new());
        Self { server, now_s, totals, engine: server.shared.cache.stats(), acceptor, before, watch, recorder }
    }

    /// Returns a number since the start of the server; 0 for a word.
    pub fn now(&self, value: Value) -> u64 {
        match value {
            Value::Worker(_, sum) => sum(&self.totals),
            Value::Engine(of) => of(&self.engine),
            Value::Acceptor(of) => of(&self.acceptor),
            Value::Server(of) => of(self),
            Value::Text(_) => 0,
        }
    }

    /// Returns what `stats` shows: counters since the last reset; nothing if this server does not show it.
    pub fn shown(&self, statistic: &Statistic) -> Option<Shown> {
        if !(statistic.when)(self.server) {
            return None;
        }
        let before = match statistic.value {
            Value::Text(of) => return Some(Shown::Text(of(self))),
            _ if statistic.kind != Kind::Counter => 0,
            Value::Worker(_, sum) => sum(&self.before.totals),
            Value::Engine(of) => of(&self.before.engine),
            Value::Acceptor(of) => of(&self.before.acceptor),
            Value::Server(_) => 0,
        };
        Some(Shown::Number(self.now(statistic.value).saturating_sub(before)))
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> u64 {
        self.acceptor.accepted.saturating_sub(self.totals.connections_closed)
    }

    /// Returns the numbers of the watchers, of one moment.
    pub fn watch(&self) -> &WatchNumbers {
        self.watch.get_or_init(|| self.server.shared.watch.numbers())
    }

    /// Returns the numbers of the recorder, of one moment.
    pub fn recorder(&self) -> &RecorderNumbers {
        self.recorder.get_or_init(|| self.server.shared.recorder.numbers())
    }

    /// Returns the limit of the memory.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.server.shared.cache.memory_limit_bytes() as u64
    }

    /// Returns the kind of pages, as one word: clients split lines at spaces.
    pub fn pages(&self) -> &'static str {
        match self.server.shared.cache.pages() {
            Pages::Hugetlb => "hugetlb",
            Pages::Transparent => "transparent",
            Pages::Small => "small",
        }
    }
}
