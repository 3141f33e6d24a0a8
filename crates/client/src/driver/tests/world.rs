//! Drivers, servers, and a seeded network between them that loses, duplicates and delays. Time is
//! simulated.

use super::fake::Fake;
use crate::driver::{Driver, SubmitError};
use crate::operation::{Opcode, Operation, Outcome};
use crate::options::{Options, ServerAddress};
use crate::random::Random;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A completion that owns its value.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) token: u64,
    pub(crate) opcode: Opcode,
    pub(crate) outcome: Outcome,
    pub(crate) number: u64,
    pub(crate) cas: Option<u64>,
    pub(crate) value: Vec<u8>,
    pub(crate) at_ns: u64,
}

struct Packet {
    to_server: bool,
    /// Address of the server.
    address: SocketAddr,
    bytes: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) driver: Driver,
    pub(crate) fakes: Vec<Fake>,
    pub(crate) now_ns: u64,
    pub(crate) ended: Vec<Ended>,
    /// In percent, for each direction.
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
    pub(crate) delay_ns: u64,
    random: Random,
    packets: BTreeMap<(u64, u64), Packet>,
    number: u64,
}

impl World {
    pub(crate) fn new(options: Options, fakes: Vec<Fake>) -> Self {
        let address =
            |fake: &Fake| ServerAddress { address: fake.base, name: fake.base.to_string(), weight: 1 };
        let servers: Vec<_> = fakes.iter().map(address).collect();
        Self {
            driver: Driver::new(options, &servers, 1),
            fakes,
            now_ns: 1,
            ended: Vec::new(),
            loss: 0,
            duplication: 0,
            reordering: 0,
            delay_ns: 50_000,
            random: Random::new(42),
            packets: BTreeMap::new(),
            number: 0,
        }
    }

    /// Creates a world and waits for the directories.
    pub(crate) fn connected(options: Options, fakes: Vec<Fake>) -> Self {
        let mut world = Self::new(options, fakes);
        world.settle();
        assert!(world.driver.is_alive(0));
        world
    }

    /// Reseeds the network.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.next() % 100 < percent
    }

    fn carry(&mut self, to_server: bool, address: SocketAddr, bytes: &[u8]) {
        if self.chance(self.loss) {
            return;
        }
        let copies = 1 + u64::from(self.chance(self.duplication));
        for _ in 0..copies {
            let late = u64::from(self.chance(self.reordering)) * 10 * self.delay_ns;
            self.number += 1;
            let packet = Packet { to_server, address, bytes: bytes.to_vec() };
            let arrives = self.now_ns + self.delay_ns + late;
            self.packets.insert((arrives, self.number), packet);
        }
    }

    fn transmit(&mut self) {
        let mut sent = Vec::new();
        self.driver.transmit(self.now_ns, |to, bytes| {
            sent.push((to, bytes.to_vec()));
            true
        });
        for (to, bytes) in sent {
            self.carry(true, to, &bytes);
        }
    }

    /// Passes a datagram to the driver.
    pub(crate) fn show(&mut self, bytes: &[u8], from: SocketAddr) {
        let (now_ns, ended) = (self.now_ns, &mut self.ended);
        let mut sink = |completion: crate::Completion<'_>| ended.push(own(&completion, now_ns));
        self.driver.on_datagram(now_ns, bytes, from, &mut sink);
    }

    /// Returns the driver's datagrams instead of sending them.
    pub(crate) fn intercept(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        self.driver.transmit(self.now_ns, |to, bytes| {
            sent.push((to, bytes.to_vec()));
            true
        });
        sent
    }

    /// Processes the next event; returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.step_until(u64::MAX)
    }

    /// Processes the next event unless it is later.
    fn step_until(&mut self, latest_ns: u64) -> bool {
        self.transmit();
        let arrival = self.packets.first_key_value().map(|(key, _)| key.0);
        let due = self.driver.next_time().map(|due| due.max(self.now_ns));
        let Some(next) = [arrival, due].into_iter().flatten().min() else {
            return false;
        };
        if next >= latest_ns {
            return false;
        }
        // Advances a little further, so that time never stops.
        self.now_ns = self.now_ns.max(next) + 1;
        while let Some(entry) = self.packets.first_entry() {
            if entry.key().0 > self.now_ns {
                break;
            }
            let packet = entry.remove();
            self.arrive(packet);
        }
        let (now_ns, ended) = (self.now_ns, &mut self.ended);
        let mut sink = |completion: crate::Completion<'_>| ended.push(own(&completion, now_ns));
        self.driver.on_time(now_ns, &mut sink);
        true
    }

    fn arrive(&mut self, packet: Packet) {
        if !packet.to_server {
            self.show(&packet.bytes, packet.address);
            return;
        }
        let mut fakes = self.fakes.iter_mut();
        let fake = fakes.find(|fake| fake.core_of(packet.address).is_some());
        let reply = fake.and_then(|fake| fake.answer(packet.address, &packet.bytes));
        if let Some(reply) = reply {
            self.carry(false, packet.address, &reply);
        }
    }

    /// Runs until nothing is in flight, and every server has replied or is dead.
    pub(crate) fn settle(&mut self) {
        let until = |world: &Self| {
            let driver = &world.driver;
            let known = |server| driver.is_alive(server) || driver.is_dead(server);
            driver.pending() == 0 && (0..driver.servers()).all(known)
        };
        while !until(self) {
            assert!(self.step(), "something is pending and nothing will happen");
        }
    }

    /// Runs for a span of time.
    pub(crate) fn pass(&mut self, span_ns: u64) {
        let until = self.now_ns + span_ns;
        while self.now_ns < until && self.step_until(until) {}
        self.now_ns = self.now_ns.max(until);
    }

    /// Submits an operation, and runs while there is no room.
    pub(crate) fn submit(&mut self, operation: &Operation<'_>, token: u64) {
        loop {
            match self.driver.submit(self.now_ns, operation, token) {
                Ok(()) => return,
                Err(SubmitError::Full) => assert!(self.step()),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Executes one operation.
    pub(crate) fn call(&mut self, operation: &Operation<'_>) -> Ended {
        self.ended.clear();
        self.submit(operation, 1);
        self.settle();
        let ended = self.ended.pop().expect("one completion");
        assert!(self.ended.is_empty() && ended.token == 1 && ended.opcode == operation.opcode);
        ended
    }
}

fn own(completion: &crate::Completion<'_>, at_ns: u64) -> Ended {
    Ended {
        token: completion.token,
        opcode: completion.opcode,
        outcome: completion.outcome,
        number: completion.number,
        cas: completion.cas,
        value: completion.value.to_vec(),
        at_ns,
    }
}
