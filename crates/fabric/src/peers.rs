//! The peers of an endpoint.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::limits::NAME_BYTES_MAX;
use crate::transfer::EndpointOptions;

/// The beginning of a greeting, and its version. Behind it is the greeter's own address.
pub(crate) const GREETING: [u8; 8] = *b"\xffFabric\x01";

/// A peer of one endpoint, until it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) number: u32,
    generation: u32,
}

/// Peers by their places in libfabric's address vector.
///
/// No place is freed: a connection may outlive its peer, and bring messages with the place that it had
/// before.
#[derive(Debug)]
pub(crate) struct Peers {
    known: Vec<Option<Known>>,
    /// Places by the names of greetings.
    names: HashMap<Box<[u8]>, u32>,
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
}

impl Peers {
    pub(crate) fn new(options: &EndpointOptions) -> Self {
        let busy_max = Duration::from_millis(options.busy_ms_max);
        let (known, names) = (Vec::new(), HashMap::new());
        Self { known, names, generations: 0, peers_max: options.peers_max, busy_max }
    }

    /// Returns the peer that greets with a name. `insert` finds a place for a name that has none.
    pub(crate) fn greeted(
        &mut self,
        name: &[u8],
        insert: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<Peer, Error> {
        if let Some(number) = self.names.get(name) {
            return self.add(u64::from(*number));
        }
        if self.known.len() >= self.peers_max as usize {
            return Err(Error::Full);
        }
        let peer = self.add(insert()?)?;
        self.names.insert(name.into(), peer.number);
        Ok(peer)
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
        self.known[number as usize] = Some(Known { generation, is_forgotten: false, busy_since: None });
        Ok(Peer { number, generation })
    }

    /// Returns the peer at a place, unless it was forgotten.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> Option<Peer> {
        let number = u32::try_from(place).ok()?;
        let known = self.known.get(number as usize)?.as_ref().filter(|known| !known.is_forgotten)?;
        Some(Peer { number, generation: known.generation })
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

    #[test]
    fn a_name_that_greets_again_is_not_inserted_again() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 3, ..EndpointOptions::default() });
        let first = peers.greeted(b"a", || Ok(0)).unwrap();
        assert_eq!(peers.greeted(b"a", || panic!("inserted again")), Ok(first));
        peers.forget(first);
        let again = peers.greeted(b"a", || panic!("inserted again")).unwrap();
        assert!(peers.knows(again) && !peers.knows(first));
        assert_eq!(peers.greeted(b"b", || Err(Error::OutOfRange)), Err(Error::OutOfRange));
        assert!(peers.greeted(b"b", || Ok(1)).is_ok());
    }

    #[test]
    fn forgotten_peers_count_as_peers() {
        let mut peers = Peers::new(&EndpointOptions { peers_max: 2, ..EndpointOptions::default() });
        for place in 0..2 {
            let peer = peers.greeted(&[place], || Ok(u64::from(place))).unwrap();
            peers.forget(peer);
        }
        assert_eq!(peers.greeted(b"c", || panic!("inserted beyond the limit")), Err(Error::Full));
        assert!(peers.greeted(&[0], || panic!("inserted again")).is_ok());
    }
}
