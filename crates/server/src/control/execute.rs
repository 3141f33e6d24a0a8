//! Executes requests. The control thread is no worker: it posts work for a worker to the first one.

use std::fmt::Write;
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
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::native::directory_text;
use crate::output::Output;
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::hot::{self, HotKey};
use crate::telemetry::record::Recorder;
use crate::telemetry::stats;
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
                let follow = self.change(*partition, |before| Route { owner: *owner, ..before })?;
                Ok(follow.text(*partition))
            }
            Request::Routes => Ok(self.routes()),
            Request::Directory => match &self.server.shared.native {
                Some(native) => Ok(directory_text(&self.server.shared.cache, native)),
                None => Err("the native protocol is not spoken: see --native".into()),
            },
            Request::Balance { balance } => {
                self.several_workers()?;
                self.server.balance.set(*balance);
                Ok(String::new())
            }
            Request::Invalidate { name } => self.invalidate(name),
            Request::Numa => Ok(self.server.numa.report(&self.server.shared.cache)),
            Request::Hotkeys => Ok(self.hot_keys()),
            Request::Stats => Ok(self.stats()),
            Request::Memory { limit_bytes: None } => Ok(memory::report(&self.server)),
            Request::Memory { limit_bytes: Some(bytes) } => memory::set(&self.server, *bytes),
            Request::Record(options) => self.record(options),
            Request::Snapshot { path } => self.snapshot(path),
            Request::Ping => self.ping(),
            Request::Restart { .. } => Err("the control thread restarts".into()),
        }
    }

    fn several_workers(&self) -> Result<(), String> {
        match self.server.settings.threads {
            1 => Err("there is one worker, which does everything: see -t".into()),
            _ => Ok(()),
        }
    }

    fn partitions(&self) -> usize {
        self.server.shared.cache.layout().partitions
    }

    fn mode(&self, access: Access, partition: Option<usize>) -> Answer {
        let all = 0..self.partitions();
        let which = partition.map_or(all, |one| one..one.saturating_add(1));
        let mut follows = Vec::new();
        for partition in which {
            let follow = self.change(partition, |before| Route { access, ..before })?;
            follows.extend((follow != Follow::Nothing).then_some((partition, follow)));
        }
        Ok(match follows.as_slice() {
            [] => String::new(),
            [(partition, follow)] => follow.text(*partition),
            several => format!("the memory of {} partitions follows, see ctl numa\n", several.len()),
        })
    }

    fn change(&self, partition: usize, change: impl Fn(Route) -> Route) -> Result<Follow, String> {
        self.several_workers()?;
        let _routing = self.server.balance.routing();
        let before =
            self.server.shared.cache.route(partition).unwrap_or(Route { access: Access::Crcw, owner: 0 });
        self.server.set_route(partition, change(before)).map_err(|error| error.to_string())
    }

    /// A table. A single worker counts nothing by partition.
    fn routes(&self) -> String {
        let mut text = format!(
            "{:>9}  {:<4}  {:>5}  {:>12}  {:>15}  {:>6}\n",
            "partition", "mode", "owner", "requests/s", "requests", "busy"
        );
        let counts = self.server.shared.loads.now(&self.server.shared.cache);
        let (rates, costs) = (self.server.balance.rates(), self.server.balance.costs());
        let several = self.several_workers().is_ok();
        let number = |number: Option<u64>| match number {
            Some(number) if several => number.to_string(),
            _ => "-".into(),
        };
        for partition in 0..self.partitions() {
            let Some(Route { access, owner }) = self.server.shared.cache.route(partition) else {
                continue;
            };
            let sum = counts.iter().map(|of_worker| of_worker[partition]).sum();
            let (rate, sum) = (number(rates.get(partition).copied()), number(Some(sum)));
            let busy =
                costs.get(partition).map_or_else(|| "-".into(), |ns| format!("{:.2}%", *ns as f64 / 1e7));
            let mode = access.name();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{partition:>9}  {mode:<4}  {owner:>5}  {rate:>12}  {sum:>15}  {busy:>6}");
        }
        text
    }

    /// A table. Workers are not asked: each writes a sketch of its own.
    fn hot_keys(&self) -> String {
        let now_s = seconds(self.clock.now_ms());
        let hottest = hot::hottest(&self.server.shared.hot, now_s, hot::KEYS_MAX);
        let mut text = format!("{:>8}  key\n", "share");
        for HotKey { key, share } in &hottest.keys {
            let (percent, key) = (100.0 * share, hot::printed(key));
            let _ = writeln!(text, "{percent:>7.3}%  {key}");
        }
        text
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
        let post = Post::Invalidate { name: name.as_bytes().into(), answer };
        let ending = "the server is ending";
        self.worker.send(post).map_err(|_| ending)?;
        self.server.shared.wakers[0].wake();
        match answered.recv_timeout(WORKER_TIMEOUT) {
            Ok(Ok(())) => Ok(String::new()),
            Ok(Err(too_many)) => Err(too_many.to_string()),
            Err(_) => Err("the worker does not answer".into()),
        }
    }

    fn stats(&self) -> String {
        let mut bytes = vec![0; STATS_REPLY_BYTES_MAX];
        let mut output = Output::new(&mut bytes, 0);
        stats::general(&self.server, seconds(self.clock.now_ms()), &mut output);
        let filled = output.filled();
        String::from_utf8_lossy(&bytes[..filled]).replace('\r', "")
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
