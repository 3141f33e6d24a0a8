//! One run, completely described.

mod check;
pub(crate) mod rate_profile;

use std::time::Duration;

use micanite_client::BypassPort;
use micanite_workload::{DataSet, Items, Mix, Popularity, Workload};
use serde::Serialize;

use crate::address::{Address, Protocol};
use crate::plan::rate_profile::RateProfile;

/// Gaps between requests of the open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// At random, independently of each other, as from many users
    Poisson,
    /// At random, all requests of a batch at once: none waits for another one
    Batches,
    /// At equal distances
    Even,
    /// At random, and oftener close together: by the published model of the ETC pool
    EtcModel,
}

/// A run. [`Plan::new`] gives something sensible for every field.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The servers; connections go to them in turn.
    #[serde(serialize_with = "as_text_list")]
    pub targets: Vec<Address>,
    /// Operations per second that are offered (open loop); without it every connection sends as
    /// soon as it may (closed loop).
    pub rate_ops: Option<f64>,
    #[serde(serialize_with = "as_text_option")]
    pub rate_profile: Option<RateProfile>,
    /// Spacing of the requests of the open loop.
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
    /// Over a fabric: the way of reading.
    pub reads: Option<Reads>,
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
    /// Operations after which the measured part ends before its time.
    pub operations_max: Option<u64>,
    /// After this a datagram's reply counts as lost; at the end of a run replies are waited for as
    /// long.
    pub timeout: Duration,
    /// A published workload, instead of the data set; a pool's has its own popularity and operations.
    #[serde(serialize_with = "as_text_option")]
    pub workload: Option<Workload>,
    /// Percentages of GET, UPDATE and DELETE instead of the pool's.
    pub mix_percent: Option<[f64; 3]>,
    /// True if what a GET misses is stored.
    pub demand_fill: bool,
    /// True if only GETs go by datagrams, and all else over TCP.
    pub tcp_writes: bool,
    /// Lengths of keys and values.
    #[serde(serialize_with = "as_text")]
    pub dataset: DataSet,
    pub items: u64,
    #[serde(serialize_with = "as_text")]
    pub popularity: Popularity,
    /// Items that each thread draws before the run, and takes in turns; 0 is none.
    pub draw_ahead: usize,
    /// Percentage of the operations that read.
    pub get_percent: f64,
    /// True if an operation that writes reads the same item first.
    pub reads_before_writing: bool,
    /// Seconds after which what is written expires; 0 is never.
    pub expiry_s: u32,
    /// True if all items are written before the run.
    pub fill: bool,
    /// True if the measured connections do that themselves.
    pub own_fill: bool,
    /// True if the measured connections read all items before the run.
    pub read_all: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Process of the server, for its CPU time.
    pub server_pid: Option<u32>,
}

/// Ways of reading over a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// One-sided where the client knows the place of a value, otherwise by a message that tells it
    #[default]
    #[serde(rename = "innercache")]
    #[value(name = "innercache")]
    InnerCache,
    /// The same after all items have been read once: for a server whose cache area holds everything
    OneSided,
    /// By messages only
    TwoSided,
}

impl From<Reads> for micanite_client::Reads {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::InnerCache => Self::InnerCache,
            Reads::OneSided => Self::OneSided,
            Reads::TwoSided => Self::TwoSided,
        }
    }
}

/// Requests in flight per connection that an open loop allows if nothing else is said.
const OPEN_PIPELINE: usize = 1024;

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
            reads: None,
            multiget: 1,
            threads: 1,
            cpus: Vec::new(),
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            operations_max: None,
            timeout: Duration::from_secs(1),
            workload: None,
            mix_percent: None,
            demand_fill: false,
            tcp_writes: false,
            dataset: DataSet { key_bytes: 8, value_bytes: 8 },
            items: 1_000_000,
            popularity: Popularity::Uniform,
            draw_ahead: 0,
            get_percent: 95.0,
            reads_before_writing: false,
            expiry_s: 0,
            fill: false,
            own_fill: false,
            read_all: false,
            seed: 1,
            server_pid: None,
        }
    }

    /// The number of requests in flight per connection if the person did not say.
    pub fn default_pipeline(open_loop: bool, batch: usize) -> usize {
        if open_loop { OPEN_PIPELINE.max(batch) } else { batch }
    }

    /// Reads and writes.
    pub fn mix(&self) -> Mix {
        let gets = match self.operations() {
            None => self.get_percent / 100.0,
            Some([gets, updates, deletes]) => gets / (gets + updates + deletes),
        };
        Mix { gets, gets_per_request: self.multiget }
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

    /// Number of items that filling stores.
    pub(crate) fn items_to_fill(&self) -> u64 {
        let pool = self.workload.and_then(Workload::pool);
        pool.map_or(self.items, |pool| pool.prefill_items(self.items))
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.targets[0].protocol()
    }
}

fn as_text<T: ToString, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

fn as_port<S: serde::Serializer>(port: &Option<BypassPort>, to: S) -> Result<S::Ok, S::Error> {
    as_text_option(&port.as_ref().map(BypassPort::name), to)
}

fn as_text_option<T: ToString, S: serde::Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_some(&value.to_string()),
        None => to.serialize_none(),
    }
}

fn as_text_list<T: ToString, S: serde::Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(ToString::to_string))
}
