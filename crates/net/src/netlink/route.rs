//! Queries about an address: its route, and the Ethernet address of a neighbour.

use std::io;
use std::net::IpAddr;

use super::Netlink;
use super::message::{address, attribute, attributes, find, number};
use crate::frames::MacAddress;

/// Bytes of `rtmsg` and of `ndmsg`.
const BODY_BYTES: usize = 12;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_VIA: u16 = 18;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
/// Reachable, stale, delay, probe, no ARP, permanent: states in which the address is usable.
const NUD_VALID: u64 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Route to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Number of the interface.
    pub interface: u32,
    /// Next hop, if it is not the address itself.
    pub gateway: Option<IpAddr>,
    /// Own address that the kernel would send from.
    pub source: Option<IpAddr>,
}

impl Netlink {
    /// Returns the route to an address.
    ///
    /// # Errors
    /// There is no route, or it is an address of this machine.
    pub fn route(&mut self, to: IpAddr) -> io::Result<Route> {
        let (mut body, bits) = about(to);
        body[1] = bits;
        attribute_of(&mut body, RTA_DST, to);
        let answer = self.ask(GET_ROUTE, &body)?;
        match answer.get(7) {
            Some(&RTN_LOCAL) => Err(io::Error::other("it is an address of this machine")),
            _ => route(&answer).ok_or_else(|| io::ErrorKind::NetworkUnreachable.into()),
        }
    }

    /// Returns the Ethernet address of a neighbour; `None` if the kernel does not know it.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn neighbour(&mut self, interface: u32, of: IpAddr) -> io::Result<Option<MacAddress>> {
        let (mut body, _) = about(of);
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        attribute_of(&mut body, NDA_DST, of);
        match self.ask(GET_NEIGHBOUR, &body) {
            Ok(answer) => Ok(neighbour(&answer)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the beginning of a query about an address, and the length of such addresses in bits.
fn about(address: IpAddr) -> (Vec<u8>, u8) {
    let (family, bits) = match address {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    let mut body = vec![0; BODY_BYTES];
    body[0] = family as u8;
    (body, bits)
}

fn attribute_of(body: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => attribute(body, kind, &address.octets()),
        IpAddr::V6(address) => attribute(body, kind, &address.octets()),
    }
}

/// Parses a route; `None` if it leads to no unicast address.
fn route(answer: &[u8]) -> Option<Route> {
    if *answer.get(7)? != RTN_UNICAST {
        return None;
    }
    let mut route = Route::default();
    for (kind, value) in attributes(answer.get(BODY_BYTES..)?) {
        match kind {
            RTA_OIF => route.interface = number(value.get(..4)?) as u32,
            RTA_GATEWAY => route.gateway = address(value),
            RTA_VIA => route.gateway = address(value.get(2..)?),
            RTA_PREFSRC => route.source = address(value),
            _ => {}
        }
    }
    Some(route)
}

/// Parses the Ethernet address of a neighbour, if it is usable.
fn neighbour(answer: &[u8]) -> Option<MacAddress> {
    if number(answer.get(8..10)?) & NUD_VALID == 0 {
        return None;
    }
    find(answer.get(BODY_BYTES..)?, NDA_LLADDR)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Routes and neighbours are parsed from the kernel's answers.
    #[test]
    fn routes_and_neighbours_are_parsed() {
        let mut message = vec![0; BODY_BYTES];
        message[7] = RTN_UNICAST;
        attribute(&mut message, RTA_OIF, &7_u32.to_ne_bytes());
        attribute(&mut message, RTA_GATEWAY, &[10, 0, 0, 1]);
        attribute(&mut message, RTA_PREFSRC, &[10, 0, 0, 9]);
        let found = route(&message).unwrap();
        assert_eq!(found.interface, 7);
        assert_eq!(found.gateway, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(found.source, Some(Ipv4Addr::new(10, 0, 0, 9).into()));
        // An IPv4 route by a gateway with an IPv6 address.
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let via = [&[10, 0][..], &gateway.octets()].concat();
        attribute(&mut message, RTA_VIA, &via);
        assert_eq!(route(&message).unwrap().gateway, Some(gateway.into()));
        message[7] = 7; // unreachable
        assert_eq!(route(&message), None);

        let mut message = vec![0; BODY_BYTES];
        attribute(&mut message, NDA_LLADDR, &[2, 0, 0, 0, 0, 9]);
        assert_eq!(neighbour(&message), None, "incomplete or failed");
        message[8..10].copy_from_slice(&4_u16.to_ne_bytes());
        assert_eq!(neighbour(&message), Some([2, 0, 0, 0, 0, 9]));
    }

    /// A truncated answer is no answer.
    #[test]
    fn truncated_answers_parse_to_nothing() {
        let mut message = vec![0; BODY_BYTES];
        (message[7], message[8]) = (RTN_UNICAST, 2);
        attribute(&mut message, RTA_OIF, &7_u32.to_ne_bytes());
        attribute(&mut message, NDA_LLADDR, &[2, 0, 0, 0, 0, 9]);
        for len in 0..message.len() {
            route(&message[..len]);
            // The last attribute is padded by two bytes.
            assert_eq!(neighbour(&message[..len]).is_some(), len + 2 >= message.len());
        }
    }

    /// The kernel answers questions about routes and neighbours.
    #[test]
    fn the_kernel_answers() {
        let mut netlink = Netlink::open().unwrap();
        // The route to loopback is a local one and leads out of no interface.
        let local = netlink.route(Ipv4Addr::LOCALHOST.into()).unwrap_err();
        assert!(local.to_string().contains("this machine"), "{local}");
        let nobody = netlink.neighbour(1, Ipv4Addr::new(192, 0, 2, 77).into());
        assert_eq!(nobody.unwrap(), None);
    }
}
