//! Next hops without a kernel (DPDK), by the port's own ARP and neighbour discovery.

use super::hops::Hops;
use super::source::Bound;
use micanite_net::frames::{FramePort, FrameQueue, Header, MacAddress, Neighbours};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of shared stations.
const LEARNT_MAX: usize = 1024;

/// Stations found by the queues of a port, because an answer may arrive at another queue than that
/// of the request.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedNeighbours {
    stations: Arc<Mutex<Vec<(IpAddr, MacAddress)>>>,
}

impl SharedNeighbours {
    fn tell(&self, address: IpAddr, mac: MacAddress) {
        let stations = self.stations.lock();
        let mut stations = stations.unwrap_or_else(PoisonError::into_inner);
        let known = stations.iter().position(|(known, _)| *known == address);
        match known {
            Some(at) => stations[at].1 = mac,
            None if stations.len() < LEARNT_MAX => stations.push((address, mac)),
            None => {}
        }
    }

    fn find(&self, address: IpAddr) -> Option<MacAddress> {
        let stations = self.stations.lock();
        let stations = stations.unwrap_or_else(PoisonError::into_inner);
        let known = stations.iter().find(|(known, _)| *known == address);
        known.map(|(_, mac)| *mac)
    }
}

/// Next hops that a port resolves itself.
#[derive(Debug)]
pub(super) struct OwnHops {
    /// Only for own addresses. The port has the table of others.
    own: Neighbours,
    port: u16,
    shared: SharedNeighbours,
}

impl OwnHops {
    pub const fn new(own: Neighbours, port: u16, shared: SharedNeighbours) -> Self {
        Self { own, port, shared }
    }
}

impl<Q: FrameQueue> Hops<Q> for OwnHops {
    fn header(&mut self, port: &mut FramePort<Q>, to: SocketAddr, now_ns: u64) -> Option<Header> {
        if let Ok(header) = port.header_to(self.port, to, now_ns / 1_000_000) {
            if let Some(mac) = header.as_bytes().first_chunk() {
                self.shared.tell(to.ip(), *mac);
            }
            return Some(header);
        }
        let mac = self.shared.find(to.ip())?;
        let from = SocketAddr::new(self.own.source_for(to.ip())?, self.port);
        Some(Header::new((self.own.mac(), from), (mac, to), None))
    }

    fn send_slowly(&mut self, _: SocketAddr, _: &[u8]) -> bool {
        false
    }

    /// The port itself repeats requests.
    fn suspect_move(&mut self, _: &mut FramePort<Q>, _: SocketAddr) -> bool {
        false
    }

    fn take_kernel_datagrams(&mut self, _: u64, _: impl FnMut(&[u8], SocketAddr)) -> usize {
        0
    }

    fn bound(&self) -> &[Bound] {
        &[]
    }
}
