//! A client of a world without libfabric.

use std::collections::HashMap;

use super::server::FakeServer;
use super::world::{FakeEndpoint, world};
use crate::driver::SubmitError;
use crate::fabric::options::FabricOptions;
use crate::fabric::pool::Pool;
use crate::fabric::url::FabricUrl;
use crate::operation::{Completion, Operation, Outcome};

/// Time that passes with each poll.
const STEP_NS: u64 = 10_000;

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub outcome: Outcome,
    pub value: Vec<u8>,
    pub number: u64,
    pub flags: u32,
    pub one_sided: bool,
    pub resent: bool,
}

impl Got {
    pub fn of(completion: &Completion<'_>) -> Self {
        Self {
            outcome: completion.outcome,
            value: completion.value.to_vec(),
            number: completion.number,
            flags: completion.flags,
            one_sided: completion.one_sided,
            resent: completion.resent,
        }
    }
}

/// A client of the world.
pub struct Client {
    pub pool: Pool<FakeEndpoint>,
    pub ended: HashMap<u64, Got>,
    next: u64,
}

impl Client {
    /// Makes a world of so many servers, and connects to them.
    pub fn new(servers: usize, options: &FabricOptions) -> Self {
        let mut client = Self::unconnected(servers, options);
        client.run(100);
        client
    }

    pub fn unconnected(servers: usize, options: &FabricOptions) -> Self {
        world(|world| (0..servers).for_each(|_| world.add(FakeServer::new())));
        let url = |server: usize| FabricUrl::parse(&format!("fabric://10.0.0.{}:11400", server + 1)).unwrap();
        let urls: Vec<_> = (0..servers).map(url).collect();
        let pool = Pool::new(&urls, options, 42).unwrap();
        Self { pool, ended: HashMap::new(), next: 0 }
    }

    pub fn submit(&mut self, operation: &Operation<'_>) -> Result<u64, SubmitError> {
        let token = self.next;
        self.pool.submit(operation, token)?;
        self.next += 1;
        Ok(token)
    }

    /// Polls so many times.
    pub fn run(&mut self, polls: u32) {
        for _ in 0..polls {
            world(|world| world.now_ns += STEP_NS);
            let ended = &mut self.ended;
            self.pool.poll(|completion| {
                let before = ended.insert(completion.token, Got::of(&completion));
                assert_eq!(before, None, "a token ends once");
            });
        }
    }

    /// Polls until an operation has ended.
    pub fn wait(&mut self, token: u64) -> Got {
        for _ in 0..1_000_000 {
            if let Some(got) = self.ended.remove(&token) {
                return got;
            }
            self.run(1);
        }
        panic!("operation {token} does not end");
    }

    pub fn call(&mut self, operation: &Operation<'_>) -> Got {
        let token = self.submit(operation).unwrap();
        self.wait(token)
    }

    pub fn get(&mut self, key: &[u8]) -> Got {
        self.call(&Operation::get(key))
    }

    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        assert_eq!(self.call(&Operation::set(key, value)).outcome, Outcome::Ok);
    }

    /// Makes the client know the entry of an item that it stores.
    pub fn know(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, value);
        assert!(!self.get(key).one_sided);
        assert!(self.get(key).one_sided);
    }
}
