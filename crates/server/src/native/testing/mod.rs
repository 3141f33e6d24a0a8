//! The native protocol without sockets: rounds over datagrams that a test has written, what they
//! send, and what holds for the answers to any datagrams at all.

mod answers;
#[cfg(test)]
mod requester;

use std::net::SocketAddr;
use std::sync::Arc;

use micanite_engine::{Cache, Config, Worker};
use micanite_wire::native::CoreEntry;

use super::{Cookies, NativeShared, Outbox, Round, Source, Taken};
use crate::configuration::{Options, Settings};
use crate::session::Context;
use crate::shared::Server;
use crate::testing::NOW_S;
pub(crate) use answers::check;
#[cfg(test)]
pub(crate) use answers::{Answer, OwnedReply};
#[cfg(test)]
pub(crate) use requester::{Requester, request};

/// State that workers share, and their engines, driven by hand.
pub(crate) struct NativeBench {
    pub server: Arc<Server>,
    pub workers: Vec<Bench>,
    pub now_s: u32,
    pub pressure: u16,
}

/// State of one worker.
pub(crate) struct Bench {
    pub engine: Worker,
    cookies: Cookies,
}

/// A datagram that arrives.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub peer: SocketAddr,
    pub bytes: Vec<u8>,
    /// Another worker has forwarded it.
    pub forwarded: bool,
}

/// Result of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub datagrams: Vec<(SocketAddr, Vec<u8>)>,
    /// Datagrams by their place in the burst, and their owners.
    pub elsewhere: Vec<(usize, usize)>,
}

/// Settings of a server with these options beside a test's own defaults: 4 MiB, a fixed seed, one
/// worker unless `threads` is among them.
pub(crate) fn settings(options: &str) -> Settings {
    let mut options: Options = toml::from_str(options).expect("options of a test");
    options.threads.set_unsaid(1);
    options.memory_limit.set_unsaid(4);
    options.hash_seed.set(1);
    Settings::of(&options, 1).expect("settings of a test")
}

/// The cookie of an address.
pub(crate) fn cookie(native: &NativeShared, peer: SocketAddr, now_s: u32) -> u64 {
    let mut cookies = Cookies::new(native.cookie_key);
    cookies.check(peer, 0, now_s).renewal
}

impl NativeBench {
    /// A server with these options ([`settings`]), and datagrams of at most so many bytes.
    pub fn new(options: &str, payload_bytes: usize) -> Self {
        Self::with(options, payload_bytes, |native| native)
    }

    /// The same, with something more in what workers share.
    pub fn with(
        options: &str,
        payload_bytes: usize,
        more: impl FnOnce(NativeShared) -> NativeShared,
    ) -> Self {
        Self::over(options, payload_bytes, |config| config, more)
    }

    /// The same, with something else in what the engine is told.
    pub fn over(
        options: &str,
        payload_bytes: usize,
        engine: impl FnOnce(Config) -> Config,
        more: impl FnOnce(NativeShared) -> NativeShared,
    ) -> Self {
        let settings = settings(options);
        let threads = settings.threads;
        let cache = Cache::new(&engine(settings.engine(1))).expect("memory for a test");
        let cache = Arc::new(cache);
        let core = |worker| CoreEntry { port: 20_000 + worker as u16, node: 0 };
        let cores = (0..threads).map(core).collect();
        let native = more(NativeShared::new(cores, payload_bytes, [1, 2, 3]));
        let worker = |number| Bench {
            engine: cache.worker(number).expect("each worker once"),
            cookies: Cookies::new(native.cookie_key),
        };
        let workers = (0..threads).map(worker).collect();
        let server = Server::new(settings, cache, Some(native), NOW_S);
        Self { server: Arc::new(server.expect("wakers")), workers, now_s: NOW_S, pressure: 0 }
    }

    pub fn native(&self) -> &NativeShared {
        self.server.shared.native.as_ref().expect("made with it")
    }

    /// The directory's generation.
    pub fn generation(&self) -> u32 {
        self.native().generation(&self.server.shared.cache)
    }

    /// The cookie of an address now.
    pub fn cookie(&self, peer: SocketAddr) -> u64 {
        cookie(self.native(), peer, self.now_s)
    }

    /// A round of one worker. `full`: what is for another worker finds its ring full.
    pub fn round(&mut self, worker: usize, burst: &[Arrival], full: bool) -> Sent {
        let Self { server, workers, .. } = self;
        workers[worker].round(server, (self.now_s, self.pressure), burst, full)
    }
}

impl Bench {
    /// See [`NativeBench::round`].
    pub fn round(
        &mut self,
        server: &Server,
        (now_s, pressure): (u32, u16),
        burst: &[Arrival],
        full: bool,
    ) -> Sent {
        let native = server.shared.native.as_ref().expect("made with it");
        let mut memory = Memory::new(native.payload_bytes);
        let mut elsewhere = Vec::new();
        let context = Context::new(&mut self.engine, server, now_s);
        let mut round = Round::new(context, native, &mut self.cookies, &mut memory, pressure);
        for (number, arrival) in burst.iter().enumerate() {
            let taken = round.take(&arrival.bytes, arrival.peer.into(), arrival.forwarded);
            if let Taken::Elsewhere { owner } = taken {
                elsewhere.push((number, owner));
                if full {
                    round.turn_away(&arrival.bytes, arrival.peer.into());
                }
            }
        }
        round.finish();
        Sent { datagrams: memory.sent, elsewhere }
    }
}

/// Keeps what would be sent. What it lends is full of what must not leave.
struct Memory {
    sent: Vec<(SocketAddr, Vec<u8>)>,
    open: Option<SocketAddr>,
    slot: Vec<u8>,
}

const GARBAGE: u8 = 0xa5;

impl Memory {
    fn new(payload_bytes: usize) -> Self {
        Self { sent: Vec::new(), open: None, slot: vec![GARBAGE; payload_bytes] }
    }
}

impl Outbox for Memory {
    fn open(&mut self, to: Source) {
        self.open = Some(to.peer);
        self.slot.fill(GARBAGE);
    }

    fn slot(&mut self) -> &mut [u8] {
        assert!(self.open.is_some(), "no datagram is open");
        &mut self.slot
    }

    fn commit(&mut self, bytes: usize) {
        let peer = self.open.take().expect("a datagram is open");
        self.sent.push((peer, self.slot[..bytes].to_vec()));
    }
}
