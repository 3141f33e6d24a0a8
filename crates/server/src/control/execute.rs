//! Executes requests. The control thread is no worker: it posts work for a worker to the first one.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use micanite_control::answer::Answer;
use micanite_control::{RecordOptions, Request};
use micanite_engine::{Access, Route};
use micanite_wire::memcache::text::KEY_BYTES_MAX;
use micanite_workload::recording::End;

use crate::control::memory;
use crate::control::numa::Follow;
use crate::native::directory_text;
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::admin::metrics_text;
use crate::telemetry::record::Recorder;
use crate::worker::Post;

/// Deadline of posted work.
const WORKER_TIMEOUT: Duration = Duration::from_secs(10);
/// Deadline of a worker that a ping waits for.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
const PING_POLL: Duration = Duration::from_millis(5);

/// Executes requests on behalf of the control thread.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    pub server: Arc<Server>,
    pub clock: Clock,
    /// To the first worker.
    pub worker: Sender<Post>,
}

impl Executor {
    pub fn execute(&self, request: &Request) -> Answer {
        match request {
            Request::Mode { access, partition } => self.mode(*access, *partition),
            Request::Move { partition, owner } => {
                let (before, follow) =
                    self.change(*partition, false, |before| Route { owner: *owner, ..before })?;
                let said = format!("partition {partition}: worker {} -> {owner}\n", before.owner);
                Ok(said + &follow.text(*partition))
            }
            Request::Routes(format) => Ok(self.routes(*format)),
            Request::Directory => match &self.server.shared.native {
                Some(native) => Ok(directory_text(&self.server.shared.cache, native)),
                None => Err("the native protocol is not spoken: see --native".into()),
            },
            Request::Balance { balance } => {
                self.several_workers()?;
                let _routing = self.server.balance.routing();
                let before = self.server.balance.get();
                self.server.balance.set(*balance);
                Ok(format!("balance: {} -> {}\n", before.name(), balance.name()))
            }
            Request::Invalidate { name } => self.invalidate(name),
            Request::Numa => Ok(self.server.numa.report(&self.server.shared.cache)),
            Request::Hotkeys(format) => Ok(self.hot_keys(*format)),
            Request::Stats(format) => Ok(self.stats(*format)),
            Request::Metrics => Ok(metrics_text(self)),
            Request::Memory { limit_bytes: None } => Ok(memory::report(&self.server)),
            Request::Memory { limit_bytes: Some(bytes) } => memory::set(&self.server, *bytes),
            Request::Record(options) => self.record(options),
            Request::Snapshot { path } => self.snapshot(path),
            Request::Ping => self.ping(),
            Request::Restart { .. } => Err("the control thread restarts".into()),
        }
    }

    pub(super) fn several_workers(&self) -> Result<(), String> {
        match self.server.settings.threads {
            1 => Err("there is one worker, which does everything: see -t".into()),
            _ => Ok(()),
        }
    }

    pub(super) fn partitions(&self) -> usize {
        self.server.shared.cache.layout().partitions
    }

    fn mode(&self, access: Access, partition: Option<usize>) -> Answer {
        let which = partition.map_or(0..=self.partitions() - 1, |one| one..=one);
        let (mut follows, mut modes) = (Vec::new(), Vec::new());
        for partition in which {
            let changed = self.change(partition, true, |before| Route { access, ..before });
            let (before, follow) = changed.map_err(|error| match modes.len() {
                0 => error,
                done => {
                    format!("partition {partition}: {error}; the {done} before it are {} now", access.name())
                }
            })?;
            modes.push(before.access);
            follows.extend((follow != Follow::Nothing).then_some((partition, follow)));
        }
        let said = mode_text(&modes, access, partition);
        Ok(match follows.as_slice() {
            [] => said,
            [(partition, follow)] => said + &follow.text(*partition),
            several => said + &format!("the memory of {} partitions follows, see ctl numa\n", several.len()),
        })
    }

    /// Changes a route: its mode or its owner. Returns the one before.
    fn change(
        &self,
        partition: usize,
        is_mode: bool,
        change: impl Fn(Route) -> Route,
    ) -> Result<(Route, Follow), String> {
        self.several_workers()?;
        let mut by_hand = self.server.balance.routing();
        let before =
            self.server.shared.cache.route(partition).unwrap_or(Route { access: Access::Crcw, owner: 0 });
        let changed = self.server.set_route(partition, change(before));
        let follow = changed.map_err(|error| error.to_string())?;
        *by_hand.entry(partition).or_default() |= is_mode;
        Ok((before, follow))
    }

    fn invalidate(&self, name: &str) -> Answer {
        let delimiter = self.server.settings.namespace_delimiter;
        if name.as_bytes().contains(&delimiter) {
            let delimiter = char::from(delimiter);
            return Err(format!("a namespace ends before its first '{delimiter}'"));
        }
        if name.len() > KEY_BYTES_MAX {
            return Err(format!("a name has at most {KEY_BYTES_MAX} bytes"));
        }
        let (answer, answered) = channel();
        let being_freed = || self.server.shared.cache.stats().namespaces_invalid;
        let before = being_freed();
        let post = Post::Invalidate { name: name.as_bytes().into(), answer };
        let ending = "the server is ending";
        self.worker.send(post).map_err(|_| ending)?;
        self.server.shared.wakers[0].wake();
        match answered.recv_timeout(WORKER_TIMEOUT) {
            Ok(Ok(())) => Ok(format!(
                "namespace {name}: all items discarded; namespaces whose memory is being freed: {before} \
                 -> {}\n",
                being_freed()
            )),
            Ok(Err(too_many)) => Err(too_many.to_string()),
            Err(_) => Err("the worker does not answer".into()),
        }
    }

    /// Checks that every worker makes progress, which shows in its CPU time.
    fn ping(&self) -> Answer {
        let counters = &self.server.shared.counters;
        let spent_ns = || counters.iter().map(|of| of.cpu_ns.get()).collect::<Vec<_>>();
        let before = spent_ns();
        let end = Instant::now() + PING_TIMEOUT;
        loop {
            let now = spent_ns();
            let still = before.iter().zip(&now).position(|(before, now)| before == now);
            match still {
                None => {
                    let (workers, connections) = (before.len(), self.server.connections());
                    return Ok(format!("alive: {workers} workers, {connections} connections\n"));
                }
                Some(worker) if Instant::now() > end => {
                    return Err(format!("worker {worker} does not move"));
                }
                Some(_) => std::thread::sleep(PING_POLL),
            }
        }
    }

    fn record(&self, options: &RecordOptions) -> Answer {
        let recorder = &self.server.shared.recorder;
        match &options.file {
            Some(path) => Recorder::start(&self.server, self.clock, path, options),
            None if options.stop => recorder.stop(End::Stopped),
            None => Ok(recorder.status()),
        }
    }

    fn snapshot(&self, path: &Path) -> Answer {
        let now_s = seconds(self.clock.now_ms());
        let copied = self.server.shared.cache.snapshot(path, now_s);
        let snapshot = copied.map_err(|error| format!("{}: {error}", path.display()))?;
        let left_out = match snapshot.left_out {
            0 => String::new(),
            count => format!("; {count} found no room in the copy"),
        };
        let (items, bytes) = (snapshot.items, snapshot.bytes);
        Ok(format!("{items} items, {bytes} bytes of keys and values{left_out}\n"))
    }
}

/// Describes what became of the modes that partitions had: all of them, or this one.
fn mode_text(before: &[Access], after: Access, partition: Option<usize>) -> String {
    let after = after.name();
    if let (Some(partition), [before]) = (partition, before) {
        return format!("mode of partition {partition}: {} -> {after}\n", before.name());
    }
    let count = |mode: &Access| before.iter().filter(|before| *before == mode).count();
    let modes: Vec<_> = Access::ALL.iter().filter(|mode| count(mode) > 0).collect();
    let line = |mode: &&Access| match modes.len() {
        1 => format!("mode: {} -> {after}\n", mode.name()),
        _ => format!("mode of {} of {} partitions: {} -> {after}\n", count(mode), before.len(), mode.name()),
    };
    modes.iter().map(line).collect()
}
