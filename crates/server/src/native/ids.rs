//! Requests that must not be executed twice: what became of those that clients numbered.
//!
//! For each client the last [`IDS_WINDOW`] ids, each at its place in a ring, so that every look is
//! one comparison. Clients lie in sets; the one of a set that was quiet for longest makes room
//! for a new one. A client is its address and the number that it drew.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use micanite_wire::native::Status;

use crate::limits::{IDS_CLIENTS_PER_SET, IDS_SETS, IDS_WINDOW};

/// Who numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientKey {
    ip: u128,
    port: u16,
    number: u32,
}

impl ClientKey {
    /// A client by its address and its own number.
    pub fn of(peer: SocketAddr, number: u32) -> Self {
        let ip = match peer.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self {
            ip: ip.to_bits(),
            port: peer.port(),
            number,
        }
    }

    fn set(&self) -> usize {
        let mixed = (self.ip as u64)
            ^ (self.ip >> 64) as u64
            ^ u64::from(self.port) << 32
            ^ u64::from(self.number);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % IDS_SETS
    }
}

/// What is to be done with a numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// To be executed; [`Ids::finish`] follows.
    Execute,
    /// It was executed and ended so.
    Answer {
        /// Its status.
        status: Status,
        /// Its number.
        number: u64,
    },
    /// It is being executed now.
    Busy,
    /// Nobody knows.
    Forgotten,
}

#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    /// 0: none yet.
    id: u64,
    number: u64,
    /// `None` while it is executed.
    status: Option<Status>,
}

#[derive(Clone, Debug)]
struct Client {
    key: ClientKey,
    /// When it was heard of last, in the set's count.
    used: u64,
    /// Ids up to this one may have been executed and forgotten.
    floor: u64,
    ring: Box<[Remembered]>,
}

#[derive(Debug, Default)]
struct Set {
    clients: Vec<Client>,
    uses: u64,
}

/// What all workers remember together.
#[derive(Debug)]
pub struct Ids {
    sets: Box<[Mutex<Set>]>,
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            sets: (0..IDS_SETS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Ids {
    /// The most bytes that it takes.
    pub const BYTES_MAX: usize = IDS_SETS
        * IDS_CLIENTS_PER_SET
        * (size_of::<Client>() + IDS_WINDOW * size_of::<Remembered>());

    fn set(&self, key: &ClientKey) -> MutexGuard<'_, Set> {
        let set = &self.sets[key.set()];
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request of this id, not 0, is about to be executed. `resent`: it may have come before.
    pub fn begin(&self, key: ClientKey, id: u64, resent: bool) -> Begin {
        let mut set = self.set(&key);
        set.uses += 1;
        let uses = set.uses;
        let client = match set.clients.iter().position(|client| client.key == key) {
            Some(place) => &mut set.clients[place],
            None if resent => return Begin::Forgotten,
            None => set.insert(key, id),
        };
        client.used = uses;
        let floor = client.floor;
        let place = &mut client.ring[(id % IDS_WINDOW as u64) as usize];
        if place.id == id {
            return match place.status {
                Some(status) => Begin::Answer {
                    status,
                    number: place.number,
                },
                None => Begin::Busy,
            };
        }
        if place.id > id || (resent && id <= floor) {
            return Begin::Forgotten;
        }
        *place = Remembered {
            id,
            number: 0,
            status: None,
        };
        Begin::Execute
    }

    /// The request has ended.
    pub fn finish(&self, key: ClientKey, id: u64, status: Status, number: u64) {
        let mut set = self.set(&key);
        let client = set.clients.iter_mut().find(|client| client.key == key);
        let Some(client) = client else {
            return; // pushed out meanwhile
        };
        let place = &mut client.ring[(id % IDS_WINDOW as u64) as usize];
        if place.id == id {
            place.status = Some(status);
            place.number = number;
        }
    }
}

impl Set {
    /// A place for a new client whose first request has this id.
    fn insert(&mut self, key: ClientKey, id: u64) -> &mut Client {
        // A client in its first window has not been forgotten yet; one further on may have been.
        let floor = if id <= IDS_WINDOW as u64 { 0 } else { id - 1 };
        if self.clients.len() < IDS_CLIENTS_PER_SET {
            self.clients.push(Client {
                key,
                used: 0,
                floor,
                ring: vec![Remembered::default(); IDS_WINDOW].into(),
            });
            let last = self.clients.len() - 1;
            return &mut self.clients[last];
        }
        let mut oldest = 0;
        for place in 1..self.clients.len() {
            if self.clients[place].used < self.clients[oldest].used {
                oldest = place;
            }
        }
        let client = &mut self.clients[oldest];
        client.key = key;
        client.floor = floor;
        client.ring.fill(Remembered::default());
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = IDS_WINDOW as u64;

    fn client(number: u32) -> ClientKey {
        ClientKey::of("10.0.0.1:1000".parse().unwrap(), number)
    }

    fn answer(number: u64) -> Begin {
        let status = Status::Ok;
        Begin::Answer { status, number }
    }

    #[test]
    fn what_was_executed_is_answered_and_not_executed_again() {
        let (ids, one) = (Ids::default(), client(1));
        assert_eq!(ids.begin(one, 1, false), Begin::Execute);
        assert_eq!(ids.begin(one, 1, true), Begin::Busy);
        ids.finish(one, 1, Status::Ok, 7);
        for resent in [false, true] {
            assert_eq!(ids.begin(one, 1, resent), answer(7));
        }
        assert_eq!(
            ids.begin(client(2), 1, false),
            Begin::Execute,
            "another client's"
        );
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let (ids, one) = (Ids::default(), client(1));
        for id in 1..=WINDOW + 1 {
            assert_eq!(ids.begin(one, id, false), Begin::Execute);
            ids.finish(one, id, Status::Ok, id);
        }
        assert_eq!(ids.begin(one, 1, true), Begin::Forgotten);
        assert_eq!(ids.begin(one, 2, true), answer(2));
    }

    #[test]
    fn a_resent_request_that_never_came_is_executed_if_that_is_certain() {
        let (ids, one) = (Ids::default(), client(1));
        assert_eq!(
            ids.begin(one, 3, true),
            Begin::Forgotten,
            "an unknown client"
        );
        assert_eq!(ids.begin(one, 3, false), Begin::Execute);
        assert_eq!(
            ids.begin(one, 2, true),
            Begin::Execute,
            "the first was lost"
        );
        let two = client(2);
        assert_eq!(ids.begin(two, 1000, false), Begin::Execute);
        assert_eq!(ids.begin(two, 999, true), Begin::Forgotten, "from before");
        assert_eq!(ids.begin(two, 1001, true), Begin::Execute);
    }

    #[test]
    fn clients_that_were_quiet_make_room() {
        let ids = Ids::default();
        let of_set = |number: &u32| client(*number).set() == client(0).set();
        let many: Vec<_> = (0..).filter(of_set).take(IDS_CLIENTS_PER_SET + 1).collect();
        for number in &many {
            assert_eq!(ids.begin(client(*number), 1, false), Begin::Execute);
            ids.finish(client(*number), 1, Status::Ok, 0);
        }
        assert_eq!(ids.begin(client(many[0]), 1, true), Begin::Forgotten);
        assert_eq!(ids.begin(client(many[1]), 1, true), answer(0));
        ids.finish(client(many[0]), 1, Status::Ok, 0); // nobody's any more
    }
}
