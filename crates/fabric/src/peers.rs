//! The peers of an endpoint.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc;

use crate::error::Error;
use crate::limits::EndpointOptions;
use crate::limits::{NAME_BYTES_MAX, REMOVALS_MAX};

/// The beginning of a greeting, and its version. Behind it is the greeter's own address.
pub(crate) const GREETING: [u8; 8] = *b"\xffFabric\x01";

/// Addresses of IP begin with their family; the port follows, and over IPv6 a flow.
const FAMILY_BYTES: usize = 2;
const IPV4_AT: usize = 2;
const IPV6_AT: usize = 6;

/// A peer of one endpoint, until it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) number: u32,
    generation: u32,
}

/// Peers by their places in libfabric's address vector.
///
/// A connection may outlive its peer, and bring messages with the place that it had before. So places of
/// forgotten peers are freed as late as possible: when there are as many as there may be, that of the peer
/// that was forgotten first.
#[derive(Debug)]
pub(crate) struct Peers {
    known: Vec<Option<Known>>,
    /// Number of those that are known.
    count: usize,
    /// Places by the names of greetings.
    names: HashMap<Arc<[u8]>, u32>,
    /// Forgotten peers, the first one first. Some are peers again.
    forgotten: VecDeque<Peer>,
    generations: u32,
    peers_max: u32,
    busy_max: Duration,
}

#[derive(Debug)]
struct Known {
    generation: u32,
    /// Only its place is left.
    is_forgotten: bool,
    /// It has taken nothing since.
    busy_since: Option<Instant>,
    /// Name of the greeting.
    name: Option<Arc<[u8]>>,
}

impl Peers {
    pub(crate) fn new(options: &EndpointOptions) -> Self {
        let busy_max = Duration::from_millis(options.busy_ms_max);
        let (known, names, forgotten) = (Vec::new(), HashMap::new(), VecDeque::new());
        Self { known, count: 0, names, forgotten, generations: 0, peers_max: options.peers_max, busy_max }
    }

    /// Returns the peer that greets with a name. `insert` finds a place for a name that has none. `remove`
    /// frees the place of a forgotten peer, or returns false.
    pub(crate) fn greeted(
        &mut self,
        name: &[u8],
        insert: impl FnOnce() -> Result<u64, Error>,
        remove: impl FnMut(u32) -> bool,
    ) -> Result<Peer, Error> {
        if let Some(number) = self.names.get(name) {
            return self.add(u64::from(*number));
        }
        if self.count >= self.peers_max as usize && !self.make_room(remove) {
            return Err(Error::Full);
        }
        let peer = self.add(insert()?)?;
        let name: Arc<[u8]> = name.into();
        if let Some(Some(known)) = self.known.get_mut(peer.number as usize) {
            known.name = Some(Arc::clone(&name));
        }
        self.names.insert(name, peer.number);
        Ok(peer)
    }

    /// Returns whether this peer is still forgotten, and nobody else has its place.
    fn is_forgotten(known: &[Option<Known>], peer: Peer) -> bool {
        let place = known.get(peer.number as usize).and_then(Option::as_ref);
        place.is_some_and(|known| known.is_forgotten && known.generation == peer.generation)
    }

    /// Frees the place of one of the peers that were forgotten first; returns false if there is none.
    fn make_room(&mut self, mut remove: impl FnMut(u32) -> bool) -> bool {
        let mut tries = 0;
        while tries < REMOVALS_MAX.min(self.forgotten.len())
            && let Some(peer) = self.forgotten.pop_front()
        {
            if !Self::is_forgotten(&self.known, peer) {
                continue;
            }
            if !remove(peer.number) {
                self.forgotten.push_back(peer);
                tries += 1;
                continue;
            }
            if let Some(name) = self.known[peer.number as usize].take().and_then(|known| known.name) {
                self.names.remove(&name);
            }
            self.count -= 1;
            return true;
        }
        false
    }

    /// Adds the peer that libfabric has put at a place. A peer that is there already stays the same; one that
    /// was forgotten is a new one.
    pub(crate) fn add(&mut self, place: u64) -> Result<Peer, Error> {
        let number = u32::try_from(place).map_err(|_| Error::Full)?;
        if number >= self.peers_max {
            return Err(Error::Full);
        }
        if let Some(peer) = self.at(place) {
            return Ok(peer);
        }
        if self.known.len() <= number as usize {
            self.known.resize_with(number as usize + 1, || None);
        }
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        let place = &mut self.known[number as usize];
        self.count += usize::from(place.is_none());
        let name = place.take().and_then(|known| known.name);
        *place = Some(Known { generation, is_forgotten: false, busy_since: None, name });
        Ok(Peer { number, generation })
    }

    /// Returns the peer at a place, unless it was forgotten.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> Option<Peer> {
        let number = u32::try_from(place).ok()?;
        let known = self.known.get(number as usize)?.as_ref().filter(|known| !known.is_forgotten)?;
        Some(Peer { number, generation: known.generation })
    }

    /// Returns the IP address in the name with which a peer has greeted, if its provider has them.
    pub(crate) fn ip_of(&self, peer: Peer) -> Option<IpAddr> {
        let known = self.known.get(peer.number as usize)?.as_ref();
        let name = known.filter(|known| known.generation == peer.generation)?.name.as_deref()?;
        let (family, rest) = name.split_first_chunk::<FAMILY_BYTES>()?;
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => Some(IpAddr::from(*rest.get(IPV4_AT..)?.first_chunk::<4>()?)),
            libc::AF_INET6 => Some(IpAddr::from(*rest.get(IPV6_AT..)?.first_chunk::<16>()?)),
            _ => None,
        }
    }

    /// Returns whether the endpoint still knows this peer.
    #[inline]
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.at(u64::from(peer.number)) == Some(peer)
    }

    pub(crate) fn forget(&mut self, peer: Peer) {
        if self.knows(peer)
            && let Some(known) = &mut self.known[peer.number as usize]
        {
            known.is_forgotten = true;
            if self.forgotten.len() >= 2 * self.known.len() {
                self.forgotten.retain(|peer| Self::is_forgotten(&self.known, *peer));
            }
            self.forgotten.push_back(peer);
        }
    }

    /// Notes that a peer takes transfers.
    #[inline]
    pub(crate) fn took(&mut self, peer: Peer) {
        if let Some(Some(known)) = self.known.get_mut(peer.number as usize) {
            known.busy_since = None;
        }
    }

    /// Notes that a peer is busy; returns the error for it.
    pub(crate) fn is_busy(&mut self, peer: Peer) -> Error {
        let Some(Some(known)) = self.known.get_mut(peer.number as usize) else {
            return Error::PeerGone;
        };
        let since = *known.busy_since.get_or_insert_with(Instant::now);
        match since.elapsed() < self.busy_max {
            true => Error::Busy,
            false => Error::PeerGone,
        }
    }
}

/// Writes a greeting with an endpoint's own address; returns its length, or `None` if there is no room.
pub(crate) fn write_greeting(own: &[u8], into: &mut [u8]) -> Option<usize> {
    let bytes = GREETING.len() + own.len();
    let greeting = into.get_mut(..bytes)?;
    greeting[..GREETING.len()].copy_from_slice(&GREETING);
    greeting[GREETING.len()..].copy_from_slice(own);
    Some(bytes)
}

/// Reads the address of a greeting. All addresses of a provider are like the reader's own: of the same length
/// and family, or names of any length that end with a zero byte.
pub(crate) fn read_greeting<'a>(message: &'a [u8], own: &[u8], are_names: bool) -> Option<&'a [u8]> {
    let address = message.strip_prefix(&GREETING)?;
    let is_one = match are_names {
        true => {
            let zero = address.iter().position(|byte| *byte == 0);
            address.len() <= NAME_BYTES_MAX && zero.is_some_and(|zero| zero + 1 == address.len())
        }
        false => address.len() == own.len() && address.get(..2) == own.get(..2),
    };
    is_one.then_some(address)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const OWN: [u8; 16] = [2, 0, 1, 2, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        let mut message = [0; 64];
        let bytes = write_greeting(&OWN, &mut message).unwrap();
        assert_eq!(read_greeting(&message[..bytes], &OWN, false), Some(&OWN[..]));
        let bytes = write_greeting(b"fi_shm://1\0", &mut message).unwrap();
        assert_eq!(read_greeting(&message[..bytes], b"fi_ns://name\0", true), Some(&b"fi_shm://1\0"[..]));
        assert_eq!(write_greeting(&OWN, &mut [0; 23]), None);
    }

    #[test]
    fn a_peer_has_the_ip_of_its_name() {
        let mut peers = Peers::new(&EndpointOptions::default());
        let mut v6 = vec![10, 0, 1, 2, 0, 0, 0, 0];
        v6.extend([0; 15]);
        v6.extend([1, 0, 0, 0, 0]);
        for (place, name, ip) in
            [(0, &OWN[..], Some("127.0.0.1")), (1, &v6, Some("::1")), (2, b"fi_shm://1\0", None)]
        {
            let peer = peers.greeted(name, || Ok(place), |_| false).unwrap();
            assert_eq!(peers.ip_of(peer), ip.map(|ip| ip.parse().unwrap()));
            peers.forget(peer);
            let next = peers.add(place).unwrap();
            assert_eq!((peers.ip_of(peer), peers.ip_of(next).is_some()), (None, ip.is_some()));
        }
    }

    #[test]
    fn a_malformed_greeting_is_none() {
        let mut message = [0; 64];
        let bytes = write_greeting(&OWN, &mut message).unwrap();
        for wrong in [&message[..bytes - 1], &message[..bytes + 1], &message[..8], &message[1..bytes], b""] {
            assert_eq!(read_greeting(wrong, &OWN, false), None, "{wrong:?}");
        }
        // Another family, and names without an end or with more behind it.
        message[8] = 10;
        assert_eq!(read_greeting(&message[..bytes], &OWN, false), None);
        for name in [&b"fi_shm://1"[..], b"", b"fi_shm://1\0\0", b"fi_shm://1\0rest\0"] {
            let bytes = write_greeting(name, &mut message).unwrap();
            assert_eq!(read_greeting(&message[..bytes], &OWN, true), None, "{name:?}");
        }
    }

    #[test]
    fn a_forgotten_peer_is_not_its_successor() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 2, ..EndpointOptions::default() });
        let first = peers.add(1).unwrap();
        assert_eq!(peers.add(1), Ok(first));
        assert_eq!(peers.at(0), None);
        peers.forget(first);
        assert!(!peers.knows(first) && peers.at(1).is_none());
        let second = peers.add(1).unwrap();
        assert!(peers.knows(second) && !peers.knows(first));
        peers.forget(first);
        assert!(peers.knows(second));
        assert_eq!(peers.add(2), Err(Error::Full));
        assert_eq!(peers.add(u64::MAX), Err(Error::Full));
        assert_eq!(peers.at(u64::MAX), None);
    }

    fn stays(_: u32) -> bool {
        panic!("removed without need")
    }

    #[test]
    fn a_name_that_greets_again_is_not_inserted_again() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 3, ..EndpointOptions::default() });
        let first = peers.greeted(b"a", || Ok(0), stays).unwrap();
        assert_eq!(peers.greeted(b"a", || panic!("inserted again"), stays), Ok(first));
        peers.forget(first);
        let again = peers.greeted(b"a", || panic!("inserted again"), stays).unwrap();
        assert!(peers.knows(again) && !peers.knows(first));
        assert_eq!(peers.greeted(b"b", || Err(Error::OutOfRange), stays), Err(Error::OutOfRange));
        assert!(peers.greeted(b"b", || Ok(1), stays).is_ok());
    }

    #[test]
    fn the_peer_that_was_forgotten_first_makes_room() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 3, ..EndpointOptions::default() });
        let all = [0u8, 1, 2].map(|place| peers.greeted(&[place], || Ok(u64::from(place)), stays).unwrap());
        assert_eq!(peers.greeted(b"new", || panic!("inserted beyond the limit"), stays), Err(Error::Full));
        for number in [1, 0, 2] {
            peers.forget(all[number]);
        }
        // The first one is a peer again, so it is not forgotten; transfers to the next one are under way.
        let again = peers.greeted(&[1], || panic!("inserted again"), stays).unwrap();
        let new = peers.greeted(b"new", || Ok(2), |place| place == 2).unwrap();
        assert!(peers.knows(again) && peers.knows(new) && !peers.knows(all[2]));
        assert_eq!(new.number, all[2].number);
        let next = peers.greeted(&[2], || Ok(0), |place| place == 0).unwrap();
        assert!(peers.knows(next) && next.number == 0);
        assert_eq!(peers.greeted(b"more", || panic!("inserted beyond the limit"), stays), Err(Error::Full));
    }

    #[test]
    fn addresses_that_come_and_go_take_no_memory() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 16, ..EndpointOptions::default() });
        let free = RefCell::new((0..16).collect::<Vec<u64>>());
        for number in 0..10_000_u32 {
            let name = number.to_le_bytes();
            let insert = || free.borrow_mut().pop().ok_or(Error::Full);
            let remove = |place| {
                free.borrow_mut().push(u64::from(place));
                true
            };
            for _ in 0..5 {
                let peer = peers.greeted(&name, insert, remove).unwrap();
                peers.forget(peer);
            }
            assert!(peers.known.len() <= 16 && peers.names.len() <= 16 && peers.forgotten.len() <= 32);
        }
    }
}
