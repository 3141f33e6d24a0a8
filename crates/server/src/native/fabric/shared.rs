//! State of the fabric that workers share.

use std::net::{Ipv6Addr, SocketAddr};

use micanite_chunks::Area;
use micanite_wire::native::CoreEntry;

use super::buffers::BufferLimit;
use super::counters::FabricCounters;
use crate::configuration::FabricSettings;
use crate::native::{NativeCounters, NativeShared};
use crate::telemetry::table::Counter;

/// The prefix of the addresses that stand for clients: no network has them (RFC 6666).
const CLIENT_PREFIX: u64 = 0x0100 << 48;
/// A port that is none of the network's.
const CLIENT_PORT: u16 = 1;

/// The cache area, and the number of the process that fills it.
#[derive(Debug)]
pub struct FabricArea {
    pub area: Area,
    pub incarnation: u64,
}

/// State of the fabric that workers share.
#[derive(Debug)]
pub struct FabricShared {
    /// Requests are executed as those of the native protocol. Its counters count them.
    pub native: NativeShared,
    /// One of each per worker.
    pub counters: Box<[FabricCounters]>,
    /// None: clients have to ask for everything.
    pub area: Option<FabricArea>,
    /// Buffers of all workers.
    pub buffers: BufferLimit,
}

impl FabricShared {
    /// For so many workers. `random` is drawn anew by each server.
    pub fn new(
        settings: &FabricSettings,
        workers: usize,
        area: Option<FabricArea>,
        random: [u64; 3],
    ) -> Self {
        let port = |worker| settings.address.port.map_or(0, |port| port + worker as u16);
        let cores = (0..workers).map(|worker| CoreEntry { port: port(worker), node: 0 }).collect();
        Self {
            native: NativeShared::new(cores, settings.message_bytes, random),
            counters: (0..workers).map(|_| FabricCounters::default()).collect(),
            area,
            buffers: BufferLimit::new(settings.clients_max),
        }
    }

    /// Returns the sums over workers.
    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let mut totals: Vec<(&'static str, u64)> = Vec::new();
        for (worker, counters) in self.counters.iter().enumerate() {
            let mut place = 0;
            counters.each(|name, count| {
                match worker {
                    0 => totals.push((name, count)),
                    _ => totals[place].1 += count,
                }
                place += 1;
            });
        }
        totals
    }

    /// Returns the sums over workers of what is counted as for the native protocol.
    pub fn requests(&self) -> [(&'static str, u64); 5] {
        let sum = |of: fn(&NativeCounters) -> &Counter| {
            self.native.counters.iter().map(|counters| of(counters).get()).sum()
        };
        [
            ("requests", sum(|of| &of.requests)),
            ("requests_bad", sum(|of| &of.bad_requests)),
            ("requests_answered_again", sum(|of| &of.answered_again)),
            ("requests_turned_away", sum(|of| &of.turned_away)),
            ("messages_bad", sum(|of| &of.bad_datagrams)),
        ]
    }
}

/// Returns the address that stands for a client: its numbered requests are known by it.
pub fn identity(nonce: u64) -> SocketAddr {
    let bits = u128::from(CLIENT_PREFIX) << 64 | u128::from(nonce);
    SocketAddr::new(Ipv6Addr::from_bits(bits).into(), CLIENT_PORT)
}
