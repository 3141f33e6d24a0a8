//! Parts of a request, each alone on one core: what a calibration shows beside the costs of whole ports.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use micanite_engine::{
    Cache, Config, Expiry, Footprint, Operation, Outcome, ReplySink, Request, Semantics, ValueMeta, Worker,
};
use micanite_wire::memcache::text::{Parser, Step};
use micanite_wire::native;
use micanite_workload::Random;

/// Requests of a batch of the engine.
const BATCH: usize = 16;
/// Items that fit the second-level cache, and items that fit none.
const ITEMS_HOT: u64 = 4 << 10;
const ITEMS_COLD: u64 = 4 << 20;
const MEMORY_BYTES: usize = 512 << 20;
const ROUNDS: u64 = 40_000;
const DATAGRAMS: usize = 64;
/// Where the caches hold nearly all items, their size tells nothing.
const MISSED_MIN: f64 = 0.25;

/// Nanoseconds.
#[derive(Clone, Debug)]
pub struct Stages {
    /// A GET of the engine in a batch, its item in the cache.
    pub engine_hot_ns: f64,
    /// The same, its item in memory.
    pub engine_cold_ns: f64,
    index_ns: f64,
    parse_native_ns: f64,
    parse_text_ns: f64,
    datagram_ns: [f64; 2],
    stream_ns: [f64; 2],
}

impl Stages {
    /// Returns all of them by their names.
    pub fn named(&self) -> BTreeMap<String, f64> {
        let rows = [
            ("receive, a datagram", self.datagram_ns[0]),
            ("receive, a read of a stream", self.stream_ns[0]),
            ("parse, native", self.parse_native_ns),
            ("parse, text", self.parse_text_ns),
            ("index, cached", self.index_ns),
            ("item, cached", (self.engine_hot_ns - self.index_ns).max(0.0)),
            ("index and item, not cached", self.engine_cold_ns),
            ("reply, a datagram", self.datagram_ns[1]),
            ("reply, a write of a stream", self.stream_ns[1]),
        ];
        rows.map(|(name, ns)| (name.to_owned(), ns)).into()
    }
}

/// Returns the share of the items that are in no cache of this size when [`Stages::engine_cold_ns`] is
/// measured.
pub fn missed_share(cache_bytes: f64) -> f64 {
    let all_bytes = Footprint::of(8, 8, Semantics::Cache).memory_bytes(ITEMS_COLD as f64);
    (1.0 - cache_bytes / all_bytes).max(MISSED_MIN)
}

/// Measures.
///
/// # Errors
/// When there is no memory for the engine, or no loopback interface: a sentence.
pub fn measure() -> Result<Stages, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot measure the engine: {error}");
    let config = Config { memory_bytes: MEMORY_BYTES, item_bytes_hint: Some(16), ..Config::default() };
    let cache = Arc::new(Cache::new(&config).map_err(|error| failed(&error))?);
    let mut worker = cache.worker(0).ok_or_else(|| failed(&"it has no worker"))?;
    for item in 0..ITEMS_COLD {
        worker.set(&item.to_le_bytes(), &item.to_le_bytes(), Expiry::NEVER, 1);
    }
    let io = |error: std::io::Error| format!("cannot measure the loopback interface: {error}");
    Ok(Stages {
        engine_hot_ns: gets_ns(&cache, &mut worker, 0..ITEMS_HOT),
        engine_cold_ns: gets_ns(&cache, &mut worker, 0..ITEMS_COLD),
        index_ns: gets_ns(&cache, &mut worker, ITEMS_COLD..ITEMS_COLD + ITEMS_HOT),
        parse_native_ns: parse_native_ns(),
        parse_text_ns: parse_text_ns(),
        datagram_ns: datagram_ns().map_err(io)?,
        stream_ns: stream_ns().map_err(io)?,
    })
}

/// Takes values as a server does: copies them.
struct Sink([u8; 64]);

impl ReplySink for Sink {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.0.get_mut(..meta.value_bytes)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        black_box(outcome);
    }
}

/// Returns the nanoseconds of a GET of random items, in batches.
fn gets_ns(cache: &Cache, worker: &mut Worker, items: std::ops::Range<u64>) -> f64 {
    let mut random = Random::new(1);
    let mut sink = Sink([0; 64]);
    let mut round = |worker: &mut Worker| {
        let keys: [[u8; 8]; BATCH] =
            std::array::from_fn(|_| (items.start + random.below(items.end - items.start)).to_le_bytes());
        let requests: [Request<'_>; BATCH] = std::array::from_fn(|at| Request {
            hash: cache.hash(&keys[at]),
            key: &keys[at],
            operation: Operation::Get { cas: false },
        });
        worker.execute(&requests, 1, &mut sink);
    };
    (0..ROUNDS / 4).for_each(|_| round(worker));
    let begin = Instant::now();
    (0..ROUNDS).for_each(|_| round(worker));
    begin.elapsed().as_secs_f64() * 1e9 / (ROUNDS * BATCH as u64) as f64
}

fn parse_native_ns() -> f64 {
    let mut datagram = vec![0; native::PAYLOAD_BYTES];
    let mut writer = native::RequestWriter::new(&mut datagram);
    for item in 0..BATCH as u64 {
        let key = item.to_le_bytes();
        let request = native::Request {
            opcode: native::Opcode::Get,
            wants_cas: false,
            wants_entry: false,
            hash: item,
            flags: 0,
            expiry_s: 0,
            argument: 0,
            id: 0,
            key: &key,
            value: &[],
        };
        // A batch of tiny requests fits a datagram.
        let _ = writer.push(&request);
    }
    let (count, bytes) = (writer.count(), writer.bytes());
    let begin = Instant::now();
    let mut requests = 0u64;
    for _ in 0..ROUNDS {
        if let Ok(all) = native::Requests::check(black_box(&datagram[..bytes]), count) {
            requests += all.map(|request| black_box(request.key).len().min(1) as u64).sum::<u64>();
        }
    }
    begin.elapsed().as_secs_f64() * 1e9 / requests.max(1) as f64
}

fn parse_text_ns() -> f64 {
    let text: String = (0..BATCH).map(|item| format!("get key-{item:04}\r\n")).collect();
    let mut parser = Parser::default();
    let begin = Instant::now();
    let mut requests = 0u64;
    for _ in 0..ROUNDS {
        let mut rest = black_box(text.as_bytes());
        while let Step::Command { line_bytes, command } = parser.step(rest, false) {
            black_box(command);
            rest = &rest[line_bytes..];
            requests += 1;
        }
    }
    begin.elapsed().as_secs_f64() * 1e9 / requests.max(1) as f64
}

/// Returns the nanoseconds of a receive and of a send of a datagram, one system call each.
fn datagram_ns() -> std::io::Result<[f64; 2]> {
    let (one, other) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    one.connect(other.local_addr()?)?;
    let mut bytes = [0u8; 128];
    let mut spent = [0.0; 2];
    for _ in 0..ROUNDS as usize / DATAGRAMS {
        let begin = Instant::now();
        for _ in 0..DATAGRAMS {
            one.send(&bytes[..72])?;
        }
        spent[1] += begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        for _ in 0..DATAGRAMS {
            other.recv(&mut bytes)?;
        }
        spent[0] += begin.elapsed().as_secs_f64();
    }
    Ok(spent.map(|seconds| seconds * 1e9 / (ROUNDS as usize / DATAGRAMS * DATAGRAMS) as f64))
}

/// Returns the nanoseconds of a read and of a write of a stream.
fn stream_ns() -> std::io::Result<[f64; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut one = TcpStream::connect(listener.local_addr()?)?;
    let (mut other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    let mut bytes = [0u8; 64];
    let mut spent = [0.0; 2];
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        one.write_all(&bytes)?;
        let between = Instant::now();
        other.read_exact(&mut bytes)?;
        spent[1] += (between - begin).as_secs_f64();
        spent[0] += between.elapsed().as_secs_f64();
    }
    Ok(spent.map(|seconds| seconds * 1e9 / ROUNDS as f64))
}
