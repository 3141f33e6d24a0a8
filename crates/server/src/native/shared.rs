//! State of the native protocol that workers share.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

use micanite_engine::Cache;
use micanite_net::Waker;
use micanite_net::bypass::Bypass;
use micanite_net::limits::FRAME_HEADER_BYTES_MAX;
use micanite_net::xdp::FilterCounters;
use micanite_wire::native::{ADDRESSES_MAX, CoreEntry, CorePlace, Entry, InterfaceAddress};

use super::cookie::CookieKey;
use super::counters::{FrameStats, NativeCounters};
use super::forward::SleepFlag;
use super::ids::Ids;
use crate::configuration::NativeInterface;

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
    /// Interfaces that share the workers; none if each worker answers at all addresses.
    pub interfaces: Box<[NativeInterface]>,
    /// The addresses that the directory names; none if there is one interface at most.
    named: Box<[InterfaceAddress]>,
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
            interfaces: Box::default(),
            named: Box::default(),
            cores,
            ids: Ids::default(),
            cookie_key: CookieKey([random[0], random[1]]),
            generation_first: random[2] as u32,
            stream_port: AtomicU16::new(0),
        }
    }

    /// The same over ports around the kernel.
    #[must_use]
    pub fn over(mut self, ports: Vec<Bypass>) -> Self {
        self.frames = self.cores.iter().map(|_| FrameStats::default()).collect();
        self.ports = ports;
        self
    }

    /// The same at interfaces that share the workers.
    #[must_use]
    pub fn at(mut self, interfaces: Vec<NativeInterface>) -> Self {
        self.named = match interfaces.len() {
            0 | 1 => Box::default(),
            count => {
                let each_max = (usize::from(ADDRESSES_MAX) / count).max(1);
                let of = |(number, its): (usize, &NativeInterface)| {
                    let interface = number as u16;
                    let ips: Vec<_> =
                        its.addresses.iter().filter(|ip| is_named(**ip)).take(each_max).collect();
                    ips.into_iter().map(move |ip| InterfaceAddress { interface, ip: *ip }).collect::<Vec<_>>()
                };
                let named = interfaces.iter().enumerate().flat_map(of);
                named.take(usize::from(ADDRESSES_MAX)).collect()
            }
        };
        self.interfaces = interfaces.into();
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

    /// Workers that can answer what reaches this one: those of its interface.
    pub fn colleagues(&self, worker: usize) -> Range<usize> {
        let own = self.interface_of(worker);
        own.map_or(0..self.cores.len(), |(_, its)| its.workers.clone())
    }

    /// Returns the interface of a worker with its number, if workers are shared among interfaces.
    pub fn interface_of(&self, worker: usize) -> Option<(usize, &NativeInterface)> {
        self.interfaces.iter().enumerate().find(|(_, its)| its.workers.contains(&worker))
    }

    /// Returns the number of addresses that the directory names.
    pub fn named_addresses(&self) -> u16 {
        self.named.len() as u16
    }

    /// Returns the entry of the directory that has this number among those of interfaces.
    pub fn interface_entry(&self, number: usize) -> Option<Entry> {
        if let Some(core) = self.cores.get(number) {
            let interface = self.interface_of(number).map_or(0, |(number, _)| number as u16);
            return Some(Entry::Place(CorePlace { port: core.port, interface }));
        }
        // All of them are equally long.
        let numbers = Entry::Address(*self.named.first()?).numbers() as usize;
        self.named.get((number - self.cores.len()) / numbers).copied().map(Entry::Address)
    }

    /// Returns where clients that reach a worker reach another one: at its own UDP port, or at that of a
    /// substitute at the same interface.
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

/// Returns whether the directory names an address: one that leads to this machine from another one, or to
/// loopback for clients that are there.
fn is_named(ip: IpAddr) -> bool {
    !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) && !ip.is_unspecified()
}
