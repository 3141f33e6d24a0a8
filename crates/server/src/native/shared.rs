//! State of the native protocol that workers share.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

use micanite_engine::Cache;
use micanite_net::Waker;
use micanite_net::bypass::Bypass;
use micanite_net::limits::FRAME_HEADER_BYTES_MAX;
use micanite_net::xdp::FilterCounters;
use micanite_wire::native::CoreEntry;

use super::cookie::CookieKey;
use super::counters::{FrameStats, NativeCounters};
use super::forward::SleepFlag;
use super::ids::Ids;

/// State of the native protocol that workers share.
#[derive(Debug)]
pub struct NativeShared {
    /// The longest datagram.
    pub payload_bytes: usize,
    /// Port and NUMA node of each worker.
    pub cores: Box<[CoreEntry]>,
    /// One of each per worker.
    pub counters: Box<[NativeCounters]>,
    /// The same of queues of frames; none over sockets.
    pub frames: Box<[FrameStats]>,
    /// The ports around the kernel, attached as long as they are here; none over sockets.
    pub ports: Vec<Bypass>,
    /// Workers that have queues of the same port; none over sockets.
    shares: Box<[Range<usize>]>,
    /// Numbered requests.
    pub ids: Ids,
    /// Proves addresses.
    pub cookie_key: CookieKey,
    /// Generations begin here, so that those of two runs differ.
    generation_first: u32,
    sleep_flags: Box<[SleepFlag]>,
    stream_port: AtomicU16,
}

impl NativeShared {
    /// For workers that answer at these ports. `random` is drawn anew by each server.
    pub fn new(cores: Box<[CoreEntry]>, payload_bytes: usize, random: [u64; 3]) -> Self {
        Self {
            payload_bytes,
            counters: cores.iter().map(|_| NativeCounters::default()).collect(),
            sleep_flags: cores.iter().map(|_| SleepFlag::default()).collect(),
            frames: Box::default(),
            ports: Vec::new(),
            shares: Box::default(),
            cores,
            ids: Ids::default(),
            cookie_key: CookieKey([random[0], random[1]]),
            generation_first: random[2] as u32,
            stream_port: AtomicU16::new(0),
        }
    }

    /// The same over ports around the kernel, each of which has these workers.
    #[must_use]
    pub fn over(mut self, ports: Vec<Bypass>, shares: Box<[Range<usize>]>) -> Self {
        self.frames = self.cores.iter().map(|_| FrameStats::default()).collect();
        (self.ports, self.shares) = (ports, shares);
        self
    }

    /// Returns the counters of the filters in front of the ports that have one, with each port's number. It
    /// takes system calls.
    pub fn filters(&self) -> impl Iterator<Item = (usize, FilterCounters)> {
        let numbered = self.ports.iter().enumerate();
        numbered.filter_map(|(number, port)| Some((number, port.filter_counters()?)))
    }

    /// The longest datagram with what a ring has to keep of its frame.
    pub fn ring_datagram_bytes(&self) -> usize {
        match self.frames.is_empty() {
            true => self.payload_bytes,
            false => self.payload_bytes + FRAME_HEADER_BYTES_MAX,
        }
    }

    /// Workers that can answer what reaches this one: those of its port.
    pub fn colleagues(&self, worker: usize) -> Range<usize> {
        let own = self.shares.iter().find(|workers| workers.contains(&worker));
        own.map_or(0..self.cores.len(), Clone::clone)
    }

    /// Returns where clients of a worker's port reach another worker: at its own UDP port, or at that of a
    /// substitute.
    pub fn core_for(&self, worker: usize, other: usize) -> Option<CoreEntry> {
        let core = *self.cores.get(other)?;
        let reachable = self.colleagues(worker);
        if reachable.contains(&other) {
            return Some(core);
        }
        let stead = reachable.start + other % reachable.len();
        let port = self.cores[stead].port;
        Some(CoreEntry { port, ..core })
    }

    /// The generation of the directory.
    #[inline]
    pub fn generation(&self, cache: &Cache) -> u32 {
        self.generation_first.wrapping_add(cache.generation() as u32)
    }

    /// Returns the TCP port that the directory names, 0 if there is none.
    pub fn stream_port(&self) -> u16 {
        self.stream_port.load(Ordering::Relaxed)
    }

    /// Notes the TCP port that the directory names.
    pub fn set_stream_port(&self, port: u16) {
        self.stream_port.store(port, Ordering::Relaxed);
    }

    /// Notes that a worker is about to sleep. A last look at its rings has to follow.
    pub fn fall_asleep(&self, worker: usize) {
        self.sleep_flags[worker].fall_asleep();
    }

    /// Notes that a worker has woken.
    pub fn wake_up(&self, worker: usize) {
        self.sleep_flags[worker].wake_up();
    }

    /// Wakes a worker, if it sleeps, after a datagram was put into one of its rings.
    #[inline]
    pub fn notify(&self, worker: usize, wakers: &[Waker]) {
        if self.sleep_flags[worker].take_wake() {
            wakers[worker].wake();
        }
    }
}
