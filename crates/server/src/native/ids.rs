//! Requests that must not be executed twice: what became of those that clients numbered.
//!
//! For each client the last [`IDS_WINDOW`] ids, each at its place in a ring, so that every look is
//! one comparison. Clients lie in sets; the one of a set that was quiet for longest makes room
//! for a new one, but no address takes more than half of a set from others. A client is its
//! address and the number that it drew.
//!
//! A client that was pushed out while it may still send something again looks like a new one.
//! Therefore a set that has lost somebody lately doubts: of a client that it does not know it
//! executes nothing again, not even in the first window of ids.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use micanite_wire::native::Status;

use crate::limits::{IDS_CLIENTS_PER_SET, IDS_RESENT_S_MAX, IDS_SETS, IDS_WINDOW};

/// Identity of a client that numbers its requests.
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
        Self { ip: ip.to_bits(), port: peer.port(), number }
    }

    fn set(&self) -> usize {
        let mixed =
            (self.ip as u64) ^ (self.ip >> 64) as u64 ^ u64::from(self.port) << 32 ^ u64::from(self.number);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % IDS_SETS
    }
}

/// Treatment of a numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// To be executed; [`Ids::finish`] follows.
    Execute,
    /// It was executed and ended so.
    Answer { status: Status, number: u64 },
    /// It is being executed now.
    Busy,
    /// The server does not remember whether it was executed.
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
    /// When it was heard of last, in the set's count and in time.
    used: u64,
    used_s: u32,
    /// Ids up to this one may have been executed and forgotten.
    floor: u64,
    ring: Box<[Remembered]>,
}

#[derive(Debug, Default)]
struct Set {
    clients: Vec<Client>,
    uses: u64,
    /// Until then, an unknown client may have been known.
    doubts_until_s: u32,
}

/// Memory of numbered requests, shared by all workers.
#[derive(Debug)]
pub struct Ids {
    sets: Box<[Mutex<Set>]>,
}

impl Default for Ids {
    fn default() -> Self {
        Self { sets: (0..IDS_SETS).map(|_| Mutex::default()).collect() }
    }
}

impl Ids {
    /// The most bytes that it takes.
    pub const BYTES_MAX: usize =
        IDS_SETS * IDS_CLIENTS_PER_SET * (size_of::<Client>() + IDS_WINDOW * size_of::<Remembered>());

    fn set(&self, key: &ClientKey) -> MutexGuard<'_, Set> {
        let set = &self.sets[key.set()];
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is known of what was executed before `now_s`, by an earlier run of the server.
    pub fn doubt(&self, now_s: u32) {
        for set in &self.sets {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            set.doubts_until_s = now_s.saturating_add(IDS_RESENT_S_MAX);
        }
    }

    /// A request of this id, not 0, is about to be executed. `resent`: it may have come before.
    pub fn begin(&self, key: ClientKey, (id, resent): (u64, bool), now_s: u32) -> Begin {
        let mut set = self.set(&key);
        set.uses += 1;
        let uses = set.uses;
        let client = match set.clients.iter().position(|client| client.key == key) {
            Some(place) => &mut set.clients[place],
            None if resent => return Begin::Forgotten,
            None => set.insert(key, id, now_s),
        };
        client.used = uses;
        client.used_s = now_s;
        let floor = client.floor;
        let place = &mut client.ring[(id % IDS_WINDOW as u64) as usize];
        if place.id == id {
            return match place.status {
                // It was refused, and not executed.
                Some(Status::SlowDown) => {
                    place.status = None;
                    Begin::Execute
                }
                Some(status) => Begin::Answer { status, number: place.number },
                None => Begin::Busy,
            };
        }
        if place.id > id || (resent && id <= floor) {
            return Begin::Forgotten;
        }
        *place = Remembered { id, number: 0, status: None };
        Begin::Execute
    }

    /// The request has ended; with [`Status::SlowDown`], without having been executed.
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
    fn insert(&mut self, key: ClientKey, id: u64, now_s: u32) -> &mut Client {
        let place = if self.clients.len() < IDS_CLIENTS_PER_SET {
            self.clients.push(Client {
                key,
                used: 0,
                used_s: 0,
                floor: 0,
                ring: vec![Remembered::default(); IDS_WINDOW].into(),
            });
            self.clients.len() - 1
        } else {
            let place = self.oldest(key.ip);
            let quiet_s = self.clients[place].used_s;
            let until_s = quiet_s.saturating_add(IDS_RESENT_S_MAX);
            self.doubts_until_s = self.doubts_until_s.max(until_s);
            place
        };
        // An id of the first window means a new client, unless the set has lost clients lately. No request
        // that a new client has in flight was executed before.
        let is_new = id <= IDS_WINDOW as u64 && now_s >= self.doubts_until_s;
        let client = &mut self.clients[place];
        client.key = key;
        client.floor = if is_new { 0 } else { id - 1 };
        client.ring.fill(Remembered::default());
        client
    }

    /// Returns the entry that makes room for a client at this address: the one that was silent for longest.
    /// If half of the set is at this address, it is one of those.
    fn oldest(&self, ip: u128) -> usize {
        let at_home = |client: &Client| client.key.ip == ip;
        let own = self.clients.iter().filter(|client| at_home(client)).count();
        let only_own = own >= IDS_CLIENTS_PER_SET / 2;
        let clients = self.clients.iter().enumerate();
        let candidates = clients.filter(|(_, client)| !only_own || at_home(client));
        let oldest = candidates.min_by_key(|(_, client)| client.used);
        oldest.map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = IDS_WINDOW as u64;
    const NOW_S: u32 = 1_800_000_000;

    fn client(number: u32) -> ClientKey {
        ClientKey::of("10.0.0.1:1000".parse().unwrap(), number)
    }

    fn answer(number: u64) -> Begin {
        let status = Status::Ok;
        Begin::Answer { status, number }
    }

    #[test]
    fn executed_requests_are_answered_and_not_repeated() {
        let (ids, one) = (Ids::default(), client(1));
        assert_eq!(ids.begin(one, (1, false), NOW_S), Begin::Execute);
        assert_eq!(ids.begin(one, (1, true), NOW_S), Begin::Busy);
        ids.finish(one, 1, Status::Ok, 7);
        for resent in [false, true] {
            assert_eq!(ids.begin(one, (1, resent), NOW_S), answer(7));
        }
        assert_eq!(ids.begin(client(2), (1, false), NOW_S), Begin::Execute, "another client's");
    }

    #[test]
    fn what_was_refused_is_executed_when_it_comes_again() {
        let (ids, one) = (Ids::default(), client(1));
        assert_eq!(ids.begin(one, (1, false), NOW_S), Begin::Execute);
        ids.finish(one, 1, Status::SlowDown, 0);
        assert_eq!(ids.begin(one, (1, true), NOW_S), Begin::Execute);
        assert_eq!(ids.begin(one, (1, true), NOW_S), Begin::Busy);
        ids.finish(one, 1, Status::Ok, 7);
        assert_eq!(ids.begin(one, (1, true), NOW_S), answer(7));
    }

    #[test]
    fn ids_older_than_the_window_are_forgotten() {
        let (ids, one) = (Ids::default(), client(1));
        for id in 1..=WINDOW + 1 {
            assert_eq!(ids.begin(one, (id, false), NOW_S), Begin::Execute);
            ids.finish(one, id, Status::Ok, id);
        }
        assert_eq!(ids.begin(one, (1, true), NOW_S), Begin::Forgotten);
        assert_eq!(ids.begin(one, (2, true), NOW_S), answer(2));
    }

    #[test]
    fn a_resent_request_that_never_came_is_executed_if_that_is_certain() {
        let (ids, one) = (Ids::default(), client(1));
        assert_eq!(ids.begin(one, (3, true), NOW_S), Begin::Forgotten, "an unknown client");
        assert_eq!(ids.begin(one, (3, false), NOW_S), Begin::Execute);
        assert_eq!(ids.begin(one, (2, true), NOW_S), Begin::Execute, "the first was lost");
        let two = client(2);
        assert_eq!(ids.begin(two, (1000, false), NOW_S), Begin::Execute);
        assert_eq!(ids.begin(two, (999, true), NOW_S), Begin::Forgotten, "from before");
        assert_eq!(ids.begin(two, (1001, true), NOW_S), Begin::Execute);
    }

    #[test]
    fn clients_that_were_quiet_make_room() {
        let ids = Ids::default();
        let of_set = |number: &u32| client(*number).set() == client(0).set();
        let many: Vec<_> = (0..).filter(of_set).take(IDS_CLIENTS_PER_SET + 1).collect();
        for number in &many {
            assert_eq!(ids.begin(client(*number), (1, false), NOW_S), Begin::Execute);
            ids.finish(client(*number), 1, Status::Ok, 0);
        }
        assert_eq!(ids.begin(client(many[0]), (1, true), NOW_S), Begin::Forgotten);
        assert_eq!(ids.begin(client(many[1]), (1, true), NOW_S), answer(0));
        ids.finish(client(many[0]), 1, Status::Ok, 0); // nobody's any more
    }

    /// Clients of one set: at an address, by their numbers.
    fn of_one_set(ip: &str, count: usize) -> Vec<ClientKey> {
        let at = |number| ClientKey::of(format!("{ip}:1000").parse().unwrap(), number);
        let in_set = |key: &ClientKey| key.set() == client(0).set();
        (0..).map(at).filter(in_set).take(count).collect()
    }

    fn execute(ids: &Ids, key: ClientKey, id: u64, now_s: u32) {
        assert_eq!(ids.begin(key, (id, false), now_s), Begin::Execute);
        ids.finish(key, id, Status::Ok, id);
    }

    #[test]
    fn a_client_that_was_pushed_out_executes_nothing_twice() {
        let half = IDS_CLIENTS_PER_SET / 2;
        let others = [of_one_set("10.0.0.8", half), of_one_set("10.0.0.9", half)].concat();
        // Pushed out at once, and introduced again while it may still send again; and later.
        for (after_s, then) in [
            (0, Begin::Forgotten),
            (IDS_RESENT_S_MAX - 1, Begin::Forgotten),
            (IDS_RESENT_S_MAX, Begin::Execute),
        ] {
            let (ids, one) = (Ids::default(), of_one_set("10.0.0.1", 1)[0]);
            (1..=3).for_each(|id| execute(&ids, one, id, NOW_S));
            for other in &others {
                execute(&ids, *other, 1, NOW_S);
            }
            let now_s = NOW_S + after_s;
            let again = ids.begin(one, (2, true), now_s);
            assert_eq!(again, Begin::Forgotten, "nobody knows it");
            // It makes itself known. So much later it would not send again, were it the same one.
            execute(&ids, one, 4, now_s);
            assert_eq!(ids.begin(one, (2, true), now_s), then, "after {after_s} s");
            assert_eq!(ids.begin(one, (4, true), now_s), answer(4));
        }
    }

    #[test]
    fn after_a_restart_with_an_image_nothing_is_executed_twice() {
        let (ids, one, two) = (Ids::default(), client(1), client(2));
        ids.doubt(NOW_S);
        execute(&ids, one, 3, NOW_S + 1);
        assert_eq!(ids.begin(one, (2, true), NOW_S + 1), Begin::Forgotten);
        let later_s = NOW_S + IDS_RESENT_S_MAX;
        execute(&ids, two, 3, later_s);
        assert_eq!(ids.begin(two, (2, true), later_s), Begin::Execute);
    }

    #[test]
    fn clients_without_end_at_one_address_push_out_no_more_than_half_of_the_others() {
        let ids = Ids::default();
        let half = IDS_CLIENTS_PER_SET / 2;
        let good = of_one_set("10.0.0.1", IDS_CLIENTS_PER_SET);
        good.iter().for_each(|key| execute(&ids, *key, 1, NOW_S));
        for key in of_one_set("10.0.0.66", 100) {
            execute(&ids, key, 1, NOW_S);
        }
        for key in &good[..half] {
            assert_eq!(ids.begin(*key, (1, true), NOW_S), Begin::Forgotten);
        }
        for key in &good[half..] {
            assert_eq!(ids.begin(*key, (1, true), NOW_S), answer(1));
        }
    }
}
