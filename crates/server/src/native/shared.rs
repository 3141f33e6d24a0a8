//! What the workers share of the native protocol.

use micanite_engine::Cache;
use micanite_net::Waker;
use micanite_wire::native::CoreEntry;

use super::asleep::Asleep;
use super::cookie::CookieKey;
use super::counters::NativeCounters;
use super::ids::Ids;

/// See the module.
#[derive(Debug)]
pub struct NativeShared {
    /// The longest datagram.
    pub payload_bytes: usize,
    /// Port and NUMA node of each worker.
    pub cores: Box<[CoreEntry]>,
    /// One of each per worker.
    pub counters: Box<[NativeCounters]>,
    /// Numbered requests.
    pub ids: Ids,
    /// Proves addresses.
    pub cookie_key: CookieKey,
    /// Generations begin here, so that those of two runs differ.
    generation_first: u32,
    /// Workers that sleep, or are about to.
    asleep: Box<[Asleep]>,
}

impl NativeShared {
    /// For workers that answer at these ports. `random` is drawn anew by each server.
    pub fn new(cores: Box<[CoreEntry]>, payload_bytes: usize, random: [u64; 3]) -> Self {
        Self {
            payload_bytes,
            counters: cores.iter().map(|_| NativeCounters::default()).collect(),
            asleep: cores.iter().map(|_| Asleep::default()).collect(),
            cores,
            ids: Ids::default(),
            cookie_key: CookieKey([random[0], random[1]]),
            generation_first: random[2] as u32,
        }
    }

    /// The generation of the directory.
    #[inline]
    pub fn generation(&self, cache: &Cache) -> u32 {
        self.generation_first
            .wrapping_add(cache.generation() as u32)
    }

    /// A worker is about to sleep. To be followed by a last look at its rings.
    pub fn fall_asleep(&self, worker: usize) {
        self.asleep[worker].fall_asleep();
    }

    /// A worker has woken.
    pub fn wake_up(&self, worker: usize) {
        self.asleep[worker].wake_up();
    }

    /// Something was put into a ring of a worker.
    #[inline]
    pub fn notify(&self, worker: usize, wakers: &[Waker]) {
        if self.asleep[worker].is_to_be_woken() {
            wakers[worker].wake();
        }
    }
}
