//! One run, completely described.

use std::time::Duration;

use micanite_client::{BypassPort, PortName};
use micanite_workload::{DataSet, ITEMS_MAX, Items, Mix, Popularity, Workload};
use serde::Serialize;

use crate::address::{Address, Protocol};
use crate::options::Spacing;
use crate::profile::RateProfile;

/// What a run does. [`Plan::new`] gives something sensible for every field.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The servers; connections go to them in turn.
    #[serde(serialize_with = "as_text_list")]
    pub targets: Vec<Address>,
    /// Operations per second that are offered (open loop); without it every connection sends as
    /// soon as it may (closed loop).
    pub rate_ops: Option<f64>,
    /// How the rate changes.
    #[serde(serialize_with = "as_text_option")]
    pub rate_profile: Option<RateProfile>,
    /// How requests of the open loop follow each other.
    pub arrivals: Spacing,
    /// Connections (or UDP sockets) in total.
    pub connections: usize,
    /// Requests in flight per connection, at most.
    pub pipeline: usize,
    /// Requests that are handed to a connection together.
    pub batch: usize,
    /// Native protocol: the client chooses how many requests share a datagram, by its own rate.
    pub adaptive_batch: bool,
    /// Native protocol: datagrams may be joined on their way through the kernel (GRO, GSO).
    pub offload: bool,
    /// Native protocol: a port around the kernel's network stack; each thread has a queue of it.
    #[serde(serialize_with = "as_port")]
    pub port: Option<BypassPort>,
    /// Keys per reading request.
    pub multiget: usize,
    /// Threads that send and receive.
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn.
    pub cpus: Vec<usize>,
    /// Load before the measured part.
    pub warmup: Duration,
    /// Length of the measured part.
    pub duration: Duration,
    /// After this a datagram's reply counts as lost; at the end of a run replies are waited for as
    /// long.
    pub timeout: Duration,
    /// A published workload, instead of the data set; a pool's has its own popularity and operations.
    #[serde(serialize_with = "as_text_option")]
    pub workload: Option<Workload>,
    /// Percentages of GET, UPDATE and DELETE instead of the pool's.
    pub mix_percent: Option<[f64; 3]>,
    /// Whether what a GET misses is stored.
    pub demand_fill: bool,
    /// Whether only GETs go by datagrams, and all else over TCP.
    pub tcp_writes: bool,
    /// Lengths of keys and values.
    #[serde(serialize_with = "as_text")]
    pub dataset: DataSet,
    /// Items that are asked for.
    pub items: u64,
    /// How often each of them.
    #[serde(serialize_with = "as_text")]
    pub popularity: Popularity,
    /// Percentage of the operations that read.
    pub get_percent: f64,
    /// Whether an operation that writes reads the same item first.
    pub reads_before_writing: bool,
    /// Seconds after which what is written expires; 0 is never.
    pub expiry_s: u32,
    /// Whether all items are written before the run.
    pub fill: bool,
    /// Of everything random.
    pub seed: u64,
    /// Process of the server, for its CPU time.
    pub server_pid: Option<u32>,
}

/// Requests in flight per connection that an open loop allows if nothing else is said.
const OPEN_PIPELINE: usize = 1024;
/// Operations that one native client keeps in flight.
const NATIVE_OPERATIONS_MAX: usize = 16_384;
/// Key and value, each rounded up to 8 bytes, beside the headers of datagram and request.
const NATIVE_ITEM_BYTES_MAX: usize = 1472 - 40 - 24;
/// memcached takes a larger number for a time of the clock.
const EXPIRY_S_MAX: u32 = 30 * 24 * 3600;

impl Plan {
    /// A closed loop of one connection with one request in flight: ten seconds, a million tiny
    /// items, uniform, 95 % GET.
    pub fn new(targets: Vec<Address>) -> Self {
        Self {
            targets,
            rate_ops: None,
            rate_profile: None,
            arrivals: Spacing::Poisson,
            connections: 1,
            pipeline: 1,
            batch: 1,
            adaptive_batch: false,
            offload: true,
            port: None,
            multiget: 1,
            threads: 1,
            cpus: Vec::new(),
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            workload: None,
            mix_percent: None,
            demand_fill: false,
            tcp_writes: false,
            dataset: DataSet {
                key_bytes: 8,
                value_bytes: 8,
            },
            items: 1_000_000,
            popularity: Popularity::Uniform,
            get_percent: 95.0,
            reads_before_writing: false,
            expiry_s: 0,
            fill: false,
            seed: 1,
            server_pid: None,
        }
    }

    /// The number of requests in flight per connection if the person did not say.
    pub fn default_pipeline(open_loop: bool, batch: usize) -> usize {
        if open_loop {
            OPEN_PIPELINE.max(batch)
        } else {
            batch
        }
    }

    /// Reads and writes.
    pub fn mix(&self) -> Mix {
        let gets = match self.operations() {
            None => self.get_percent / 100.0,
            Some([gets, updates, deletes]) => gets / (gets + updates + deletes),
        };
        Mix {
            gets,
            gets_per_request: self.multiget,
        }
    }

    /// Parts of GET, UPDATE and DELETE in a pool's requests.
    pub(crate) fn operations(&self) -> Option<[f64; 3]> {
        let pool = self.workload.and_then(Workload::pool)?;
        Some(self.mix_percent.unwrap_or_else(|| pool.mix()))
    }

    /// Keys and values.
    pub(crate) fn data(&self) -> Items {
        match self.workload {
            None => Items::from(self.dataset),
            Some(workload) => workload.items(),
        }
    }

    /// How many items filling stores.
    pub(crate) fn items_to_fill(&self) -> u64 {
        let pool = self.workload.and_then(Workload::pool);
        pool.map_or(self.items, |pool| pool.prefill_items(self.items))
    }

    /// The protocol of all targets.
    pub(crate) fn protocol(&self) -> Protocol {
        self.targets[0].protocol()
    }

    /// Looks for what cannot be done.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn check(&self) -> Result<(), String> {
        self.check_targets()?;
        self.check_numbers()?;
        self.check_items()?;
        self.check_workload()?;
        self.check_datagrams()?;
        match &self.port {
            Some(port) => self.check_port(port.name()),
            None => Ok(()),
        }
    }

    fn check_targets(&self) -> Result<(), String> {
        let Some(first) = self.targets.first() else {
            return Err("name a target, say memcached://127.0.0.1:11211".to_owned());
        };
        if let Some(other) = self
            .targets
            .iter()
            .find(|target| target.protocol() != first.protocol())
        {
            return Err(format!(
                "{first} and {other} speak different protocols: load them one after the other"
            ));
        }
        if self.port.is_none() && self.connections < self.targets.len() {
            let targets = self.targets.len();
            return Err(format!(
                "{targets} targets need at least --connections {targets}"
            ));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), String> {
        let bounds = [
            ("--connections", self.connections, 65_536),
            ("--pipeline", self.pipeline, 4096),
            ("--batch", self.batch, 4096),
            ("--multiget", self.multiget, 1024),
            ("--threads", self.threads, 256),
        ];
        for (option, number, most) in bounds {
            if !(1..=most).contains(&number) {
                return Err(format!("{option} is 1 to {most}, not {number}"));
            }
        }
        if self.threads > self.connections {
            return Err(format!(
                "{} threads have only {} connections: raise --connections",
                self.threads, self.connections
            ));
        }
        if self.batch > self.pipeline {
            return Err(format!(
                "--batch {} does not fit --pipeline {}: raise the pipeline",
                self.batch, self.pipeline
            ));
        }
        if self.expiry_s > EXPIRY_S_MAX {
            return Err(format!(
                "--expiry is at most {EXPIRY_S_MAX} seconds (30 days): memcached takes more for a date"
            ));
        }
        if self.duration.is_zero() {
            return Err("--duration is more than nothing".to_owned());
        }
        if self.rate_profile.is_some() && self.rate_ops.is_none() {
            return Err("--rate-profile changes a rate: give --rate too".to_owned());
        }
        Ok(())
    }

    fn check_items(&self) -> Result<(), String> {
        if !(1..=ITEMS_MAX).contains(&self.items) {
            return Err(format!("--items is 1 to {ITEMS_MAX}"));
        }
        let keys = self.data().items_max();
        if self.items > keys {
            return Err(format!(
                "keys of {} bytes tell {keys} items apart, not {}: longer keys or fewer items",
                self.dataset.key_bytes, self.items
            ));
        }
        Ok(())
    }

    fn check_workload(&self) -> Result<(), String> {
        if self.mix_percent.is_some() && self.operations().is_none() {
            return Err(
                "--mix changes the operations of a pool: give --workload too, or use --get"
                    .to_owned(),
            );
        }
        if self.reads_before_writing && self.multiget > 1 {
            return Err(
                "this workload reads each item before it writes it: leave out --multiget"
                    .to_owned(),
            );
        }
        if self.demand_fill && self.multiget > 1 {
            return Err("--demand-fill takes one key per GET: leave out --multiget".to_owned());
        }
        if self.tcp_writes && self.protocol() != Protocol::MemcachedUdp {
            return Err(
                "--tcp-writes is for memcached+udp://: the others have one way for all".to_owned(),
            );
        }
        Ok(())
    }

    fn check_datagrams(&self) -> Result<(), String> {
        if self.protocol() == Protocol::Native {
            return self.check_native();
        }
        const DATAGRAM_BYTES_MAX: usize = 65_507;
        if self.protocol() != Protocol::MemcachedUdp {
            return Ok(());
        }
        if self.batch > 1 {
            return Err(
                "memcached takes one request per datagram: use --multiget instead of --batch"
                    .to_owned(),
            );
        }
        let DataSet {
            key_bytes,
            value_bytes,
        } = self.data().longest();
        let keys = self.multiget * (key_bytes + 1) + 16;
        let writes = self.mix().gets < 1.0 || self.fill || self.demand_fill;
        let set = key_bytes + value_bytes + 64;
        let longest = keys.max(if writes && !self.tcp_writes { set } else { 0 });
        if longest > DATAGRAM_BYTES_MAX {
            return Err(format!(
                "a request of {longest} bytes does not fit a datagram: use memcached:// for it, or --tcp-writes if it stores"
            ));
        }
        Ok(())
    }

    /// Whether this can be done by a port.
    pub(crate) fn check_port(&self, name: &PortName) -> Result<(), String> {
        let threads = self.threads;
        let others = |target: &&Address| target.protocol() != Protocol::Native;
        if let Some(target) = self.targets.iter().find(others) {
            return Err(format!(
                "--port {name} carries the native protocol only: native://HOST:PORT, not {target}"
            ));
        }
        if self.connections != threads {
            return Err(format!(
                "--port {name} gives each of the {threads} threads one connection, its queue: leave out --connections, and raise --pipeline for more requests in flight"
            ));
        }
        Ok(())
    }

    fn check_native(&self) -> Result<(), String> {
        let operations = self.pipeline * self.multiget;
        if operations > NATIVE_OPERATIONS_MAX {
            return Err(format!(
                "--pipeline times --multiget is {operations}; a native client has at most {NATIVE_OPERATIONS_MAX} operations in flight"
            ));
        }
        let DataSet {
            key_bytes,
            value_bytes,
        } = self.data().longest();
        let request_bytes = key_bytes.next_multiple_of(8) + value_bytes.next_multiple_of(8);
        if request_bytes > NATIVE_ITEM_BYTES_MAX {
            return Err(format!(
                "keys and values of {request_bytes} bytes do not fit a native datagram ({NATIVE_ITEM_BYTES_MAX} do): use memcached:// for them"
            ));
        }
        if self.adaptive_batch && self.batch > 1 {
            return Err("--batch and --adaptive exclude each other".to_owned());
        }
        Ok(())
    }
}

fn as_text<T: ToString, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

fn as_port<S: serde::Serializer>(port: &Option<BypassPort>, to: S) -> Result<S::Ok, S::Error> {
    as_text_option(&port.as_ref().map(BypassPort::name), to)
}

fn as_text_option<T: ToString, S: serde::Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_some(&value.to_string()),
        None => to.serialize_none(),
    }
}

fn as_text_list<T: ToString, S: serde::Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(targets: &[&str]) -> Plan {
        Plan::new(targets.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn refused(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan(&["memcached+udp://x"]);
        plan.check().unwrap();
        change(&mut plan);
        plan.check().unwrap_err()
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_hint() {
        assert!(plan(&[]).check().is_err());
        assert!(plan(&["redis://x", "memcached://x"]).check().is_err());
        assert!(refused(|plan| plan.connections = 0).contains("--connections"));
        assert!(refused(|plan| plan.threads = 2).contains("raise --connections"));
        assert!(refused(|plan| plan.batch = 2).contains("pipeline"));
        assert!(refused(|plan| plan.items = 0).contains("--items"));
        assert!(refused(|plan| plan.dataset.key_bytes = 1).contains("64 items"));
        assert!(refused(|plan| plan.dataset.value_bytes = 70_000).contains("memcached://"));
        assert!(refused(|plan| plan.rate_profile = "spike:3@1+1".parse().ok()).contains("--rate"));
        let both = |plan: &mut Plan| (plan.batch, plan.pipeline) = (2, 2);
        assert!(refused(both).contains("--multiget"));
    }
}
