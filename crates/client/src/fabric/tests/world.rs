//! A fabric without libfabric: its clock, its servers, and its faults. Each thread has its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use micanite_chunks::layout::CHECKED_BYTES_MAX;
use micanite_fabric::{Error, FabricAddress, RemoteArea};

use super::server::FakeServer;
use crate::fabric::transport::{BATCH, Ended, Range, Refused, Transport};

pub const MS: u64 = 1_000_000;

type Message = (Option<u64>, Vec<u8>);
type Posted = Result<(), Refused<Vec<u8>>>;

/// Everything that endpoints share.
pub struct World {
    pub now_ns: u64,
    /// Servers by the addresses of their workers, and the worker's number.
    addresses: HashMap<String, (usize, u16)>,
    pub servers: Vec<FakeServer>,
    wires: BTreeMap<u64, Wire>,
    next: u64,
    /// Messages to the servers get lost.
    pub is_silent: bool,
    /// Replies to requests get lost.
    pub loses_replies: bool,
    /// No server can be reached.
    pub is_unplugged: bool,
    /// Reads do not complete.
    pub holds_reads: bool,
    /// Buffers of messages with tags do not come back.
    pub holds_sends: bool,
    /// Replies to hellos come when this is false again.
    pub holds_hellos: bool,
    /// The next greetings are forgotten.
    pub lost_greetings: u32,
    /// The next posts are refused, because the endpoint is busy.
    pub busy: u32,
    /// The next reads bring a wrong byte.
    pub torn: u32,
    /// Called between the two reads of a long value.
    pub between: Option<fn(&mut FakeServer, u64)>,
    pub reads: u32,
    pub opened: u32,
}

#[derive(Default)]
struct Wire {
    server: usize,
    worker: u16,
    inbox: VecDeque<Message>,
    is_cut: bool,
    has_greeted: bool,
    /// Requests without a reply.
    outstanding: u32,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

impl World {
    fn new() -> Self {
        Self {
            now_ns: 1_000_000 * MS,
            addresses: HashMap::new(),
            servers: Vec::new(),
            wires: BTreeMap::new(),
            next: 0,
            is_silent: false,
            loses_replies: false,
            is_unplugged: false,
            holds_reads: false,
            holds_sends: false,
            holds_hellos: false,
            lost_greetings: 0,
            busy: 0,
            torn: 0,
            between: None,
            reads: 0,
            opened: 0,
        }
    }

    /// Cuts all connections.
    pub fn cut(&mut self) {
        self.wires.values_mut().for_each(|wire| wire.is_cut = true);
    }

    /// Adds a server, at the addresses of its workers.
    pub fn add(&mut self, server: FakeServer) {
        let number = self.servers.len();
        self.servers.push(server);
        for worker in 0..4_u16 {
            let address = format!("net;ofi_rxm,10.0.0.{}:{}", number + 1, 11400 + worker);
            self.addresses.insert(address, (number, worker));
        }
    }

    /// Makes a server unreachable.
    pub fn remove(&mut self, server: usize) {
        self.addresses.retain(|_, place| place.0 != server);
        for wire in self.wires.values_mut().filter(|wire| wire.server == server) {
            wire.is_cut = true;
        }
    }

    /// Pushes the entries of the server's sets to all its clients.
    pub fn push(&mut self) {
        let message = self.servers[0].push();
        for wire in self.wires.values_mut() {
            wire.inbox.push_back((Some(1), message.clone()));
        }
    }

    /// Returns the workers that have clients.
    pub fn workers(&self) -> Vec<u16> {
        self.wires.values().filter(|wire| !wire.is_cut).map(|wire| wire.worker).collect()
    }

    fn deliver(&mut self, id: u64, tag: Option<u64>, message: &[u8]) {
        let Some(wire) = self.wires.get_mut(&id).filter(|wire| !wire.is_cut) else {
            return;
        };
        // A stranger cannot be answered.
        let (true, false) = (wire.has_greeted, self.is_silent) else {
            return;
        };
        let Some(server) = self.servers.get_mut(wire.server) else {
            return;
        };
        let reply = match tag {
            None => server.hello(message, wire.worker, self.now_ns).map(|reply| (None, reply)),
            Some(tag) => server.message(message, tag, self.now_ns).map(|reply| (Some(tag), reply)),
        };
        if let Some(reply) = reply {
            if tag.is_some() {
                wire.outstanding += 1;
                assert_eq!(wire.outstanding, 1, "a second message before the reply to the first");
            }
            if tag.is_none() || !self.loses_replies {
                wire.inbox.push_back(reply);
            }
        }
    }
}

/// Calls a function with this thread's world.
pub fn world<R>(does: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| does(&mut world.borrow_mut()))
}

/// Calls a function with the first server, and the time.
pub fn server<R>(does: impl FnOnce(&mut FakeServer, u64) -> R) -> R {
    world(|world| does(&mut world.servers[0], world.now_ns))
}

/// An endpoint of the world.
pub struct FakeEndpoint {
    id: u64,
    receives: Vec<(Option<u64>, Vec<u8>, u64)>,
    ended: VecDeque<Ended<Vec<u8>>>,
    /// Held completions.
    sends: Vec<Ended<Vec<u8>>>,
    reads: VecDeque<(u64, Vec<Range>, Vec<u8>)>,
}

impl std::fmt::Debug for FakeEndpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "FakeEndpoint({})", self.id)
    }
}

impl FakeEndpoint {
    fn is_busy() -> bool {
        world(|world| {
            let is_busy = world.busy > 0;
            world.busy = world.busy.saturating_sub(1);
            is_busy
        })
    }

    fn transmit(&mut self, tag: Option<u64>, buffer: Vec<u8>, bytes: usize, token: u64) -> Posted {
        if Self::is_busy() {
            return Err(Refused { buffer, error: Error::Busy });
        }
        let is_cut = world(|world| world.wires[&self.id].is_cut);
        let result = if is_cut { Err(Error::Closed) } else { Ok(bytes) };
        world(|world| world.deliver(self.id, tag, &buffer[..bytes]));
        let ended = Ended { token, buffer, result };
        match tag.is_some() && world(|world| world.holds_sends) {
            true => self.sends.push(ended),
            false => self.ended.push_back(ended),
        }
        Ok(())
    }

    fn start_read(&mut self, ranges: Vec<Range>, buffer: Vec<u8>, token: u64) -> Posted {
        if Self::is_busy() {
            return Err(Refused { buffer, error: Error::Busy });
        }
        self.reads.push_back((token, ranges, buffer));
        Ok(())
    }

    /// Matches messages with posted buffers. Pushes have the tag of no session here.
    fn match_messages(&mut self, world: &mut World) {
        let Some(wire) = world.wires.get_mut(&self.id) else {
            return;
        };
        let matches = |tag: Option<u64>, posted: Option<u64>| match (tag, posted) {
            (Some(1), Some(posted)) => posted & 3 == 1,
            (tag, posted) => tag == posted,
        };
        for _ in 0..wire.inbox.len() {
            let Some((tag, message)) = wire.inbox.pop_front() else {
                return;
            };
            let is_held = tag.is_none() && world.holds_hellos;
            let posted = self.receives.iter().position(|(posted, ..)| matches(tag, *posted));
            let Some(at) = posted.filter(|_| !is_held) else {
                wire.inbox.push_back((tag, message));
                continue;
            };
            let (posted, mut buffer, token) = self.receives.remove(at);
            if posted.is_some_and(|posted| posted & 3 == 0) {
                wire.outstanding = 0;
            }
            buffer[..message.len()].copy_from_slice(&message);
            self.ended.push_back(Ended { token, buffer, result: Ok(message.len()) });
        }
    }

    fn carry_out_reads(&mut self, world: &mut World) {
        if world.holds_reads {
            return;
        }
        while let Some((token, ranges, mut buffer)) = self.reads.pop_front() {
            let wire = &world.wires[&self.id];
            let Some(server) = world.servers.get_mut(wire.server) else {
                return; // a test has taken it away before its client went
            };
            if ranges.len() == 1
                && let Some(between) = world.between.take()
            {
                between(server, world.now_ns);
            }
            let mut at = 0;
            for (offset, bytes) in &ranges {
                assert!(offset + *bytes as u64 <= server.area.geometry().bytes() as u64, "beyond the area");
                server.read(*offset, &mut buffer[at..at + bytes]);
                at += bytes;
            }
            world.reads += 1;
            // The bytes of long values have no checksum: their header tells.
            if world.torn > 0 && at < CHECKED_BYTES_MAX {
                world.torn -= 1;
                buffer[at - 1] ^= 1;
            }
            self.ended.push_back(Ended { token, buffer, result: Ok(at) });
        }
    }

    fn fail_all(&mut self) {
        let receives = self.receives.drain(..).map(|(_, buffer, token)| (buffer, token));
        let reads = self.reads.drain(..).map(|(token, _, buffer)| (buffer, token));
        let all: Vec<_> = receives.chain(reads).collect();
        for (buffer, token) in all {
            self.ended.push_back(Ended { token, buffer, result: Err(Error::Closed) });
        }
    }
}

impl Transport for FakeEndpoint {
    type Buffer = Vec<u8>;

    fn now_ns() -> u64 {
        world(|world| world.now_ns)
    }

    fn open(address: &FabricAddress) -> Result<Self, Error> {
        world(|world| {
            world.next += 1;
            world.opened += 1;
            let found = world.addresses.get(&address.to_string()).filter(|_| !world.is_unplugged);
            let wire = match found {
                Some((server, worker)) => Wire { server: *server, worker: *worker, ..Wire::default() },
                None => Wire { is_cut: true, ..Wire::default() },
            };
            world.wires.insert(world.next, wire);
            let (ended, reads) = (VecDeque::new(), VecDeque::new());
            Ok(Self { id: world.next, receives: Vec::new(), ended, sends: Vec::new(), reads })
        })
    }

    fn buffer(&self, bytes: usize) -> Result<Vec<u8>, Error> {
        Ok(vec![0; bytes])
    }

    fn message_bytes_max(&self) -> u64 {
        1 << 30
    }

    fn greet(&mut self, buffer: Vec<u8>, token: u64) -> Posted {
        world(|world| {
            let is_lost = world.lost_greetings > 0;
            world.lost_greetings = world.lost_greetings.saturating_sub(1);
            world.wires.get_mut(&self.id).unwrap().has_greeted |= !is_lost;
        });
        self.ended.push_back(Ended { token, buffer, result: Ok(0) });
        Ok(())
    }

    fn receive(&mut self, buffer: Vec<u8>, token: u64) -> Posted {
        self.receives.push((None, buffer, token));
        Ok(())
    }

    fn send(&mut self, buffer: Vec<u8>, bytes: usize, token: u64) -> Posted {
        self.transmit(None, buffer, bytes, token)
    }

    fn receive_tagged(&mut self, buffer: Vec<u8>, tag: u64, token: u64) -> Posted {
        if Self::is_busy() {
            return Err(Refused { buffer, error: Error::Busy });
        }
        self.receives.push((Some(tag), buffer, token));
        Ok(())
    }

    fn send_tagged(&mut self, buffer: Vec<u8>, bytes: usize, tag: u64, token: u64) -> Posted {
        self.transmit(Some(tag), buffer, bytes, token)
    }

    fn read(&mut self, _: &RemoteArea, range: Range, buffer: Vec<u8>, token: u64) -> Posted {
        self.start_read(vec![range], buffer, token)
    }

    fn read_ranges(&mut self, _: &RemoteArea, ranges: [Range; 2], buffer: Vec<u8>, token: u64) -> Posted {
        self.start_read(ranges.to_vec(), buffer, token)
    }

    fn poll(&mut self, ended: &mut ArrayVec<Ended<Vec<u8>>, BATCH>) -> Result<(), Error> {
        world(|world| match world.wires[&self.id].is_cut {
            true => self.fail_all(),
            false => {
                self.match_messages(world);
                self.carry_out_reads(world);
                if !world.holds_sends {
                    self.ended.extend(self.sends.drain(..));
                }
            }
        });
        while !ended.is_full()
            && let Some(one) = self.ended.pop_front()
        {
            ended.push(one);
        }
        Ok(())
    }

    fn sleeper(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for FakeEndpoint {
    fn drop(&mut self) {
        world(|world| world.wires.remove(&self.id));
    }
}
