//! Two questions to the kernel (rtnetlink, RFC 3549): which way an address is reached, and which
//! Ethernet address a neighbour has.

use micanite_net::frames::MacAddress;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

const HEADER_BYTES: usize = 16;
/// `rtmsg` and `ndmsg` are equally long.
const BODY_BYTES: usize = 12;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
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
/// Reachable, stale, delay, probe, no ARP, permanent: states in which the address can be used.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Messages that are read before an answer is given up: leftovers of questions that were.
const MESSAGES_MAX: usize = 16;

/// How an address is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The number of the interface.
    pub interface: u32,
    /// The next hop, if it is not the address itself.
    pub gateway: Option<IpAddr>,
    /// The address of ours that the kernel would send from.
    pub source: Option<IpAddr>,
}

/// A socket to ask the kernel by.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        // It answers within the call; this is for a kernel that does not.
        setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(500))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The way to an address.
    pub fn route(&mut self, to: IpAddr) -> io::Result<Route> {
        let mut body = [0; BODY_BYTES];
        (body[0], body[1]) = match to {
            IpAddr::V4(_) => (nix::libc::AF_INET as u8, 32),
            IpAddr::V6(_) => (nix::libc::AF_INET6 as u8, 128),
        };
        let answer = self.ask((GET_ROUTE, NEW_ROUTE), &body, (RTA_DST, to))?;
        match answer.get(7) {
            Some(&RTN_LOCAL) => Err(io::Error::other("it is an address of this machine")),
            _ => route(&answer).ok_or_else(|| io::ErrorKind::NetworkUnreachable.into()),
        }
    }

    /// The Ethernet address of a neighbour, if the kernel knows it.
    pub fn neighbour(&mut self, interface: u32, of: IpAddr) -> io::Result<Option<MacAddress>> {
        let mut body = [0; BODY_BYTES];
        body[0] = match of {
            IpAddr::V4(_) => nix::libc::AF_INET as u8,
            IpAddr::V6(_) => nix::libc::AF_INET6 as u8,
        };
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        match self.ask((GET_NEIGHBOUR, NEW_NEIGHBOUR), &body, (NDA_DST, of)) {
            Ok(answer) => Ok(neighbour(&answer)),
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks, and returns the message that answers, without its header.
    fn ask(
        &mut self,
        (question, answer): (u16, u16),
        body: &[u8; BODY_BYTES],
        (kind, address): (u16, IpAddr),
    ) -> io::Result<Vec<u8>> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = message(question, self.sequence, body, (kind, address));
        let (socket, kernel) = (self.socket.as_raw_fd(), NetlinkAddr::new(0, 0));
        sendto(socket, &message, &kernel, MsgFlags::empty())?;
        let mut received = [0; 8192];
        for _ in 0..MESSAGES_MAX {
            let bytes = recv(socket, &mut received, MsgFlags::empty())?;
            if let Some(found) = find(&received[..bytes], answer, self.sequence) {
                return found;
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// A question about an address.
fn message(
    kind: u16,
    sequence: u32,
    body: &[u8; BODY_BYTES],
    (attribute, address): (u16, IpAddr),
) -> Vec<u8> {
    let octets = octets(address);
    let attribute_bytes = 4 + octets.len();
    let len = HEADER_BYTES + BODY_BYTES + attribute_bytes;
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&(len as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(body);
    message.extend_from_slice(&(attribute_bytes as u16).to_ne_bytes());
    message.extend_from_slice(&attribute.to_ne_bytes());
    message.extend_from_slice(&octets);
    message
}

/// The answer among the messages of a datagram.
fn find(mut bytes: &[u8], answer: u16, sequence: u32) -> Option<io::Result<Vec<u8>>> {
    while let Some(len) = u32_at(bytes, 0).map(|len| len as usize) {
        if len < HEADER_BYTES || len > bytes.len() {
            return None;
        }
        let (kind, number) = (u16_at(bytes, 4)?, u32_at(bytes, 8)?);
        let payload = &bytes[HEADER_BYTES..len];
        if number == sequence && kind == ERROR {
            let errno = u32_at(payload, 0)?.cast_signed().wrapping_neg();
            return Some(Err(io::Error::from_raw_os_error(errno)));
        }
        if number == sequence && kind == answer {
            return Some(Ok(payload.to_vec()));
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// A route in the body of a message and its attributes; none if nothing is reached by it.
fn route(message: &[u8]) -> Option<Route> {
    if *message.get(7)? != RTN_UNICAST {
        return None;
    }
    let mut route = Route::default();
    for (kind, value) in attributes(message.get(BODY_BYTES..)?) {
        match kind {
            RTA_OIF => route.interface = u32_at(value, 0)?,
            RTA_GATEWAY => route.gateway = address(value),
            RTA_VIA => route.gateway = address(value.get(2..)?),
            RTA_PREFSRC => route.source = address(value),
            _ => {}
        }
    }
    Some(route)
}

/// The Ethernet address in a message about a neighbour, if it can be used.
fn neighbour(message: &[u8]) -> Option<MacAddress> {
    if u16_at(message, 8)? & NUD_VALID == 0 {
        return None;
    }
    let mut attributes = attributes(message.get(BODY_BYTES..)?);
    let (_, value) = attributes.find(|(kind, _)| *kind == NDA_LLADDR)?;
    value.try_into().ok()
}

/// The attributes of a message: kind and value of each.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & 0x3fff, value))
    })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        _ => None,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn routes_and_neighbours_are_read() {
        let mut message = vec![0; BODY_BYTES];
        message[7] = RTN_UNICAST;
        message.extend(attribute(RTA_OIF, &7_u32.to_ne_bytes()));
        message.extend(attribute(RTA_GATEWAY, &[10, 0, 0, 1]));
        message.extend(attribute(RTA_PREFSRC, &[10, 0, 0, 9]));
        let found = route(&message).unwrap();
        assert_eq!(found.interface, 7);
        assert_eq!(found.gateway, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(found.source, Some(Ipv4Addr::new(10, 0, 0, 9).into()));
        // IPv4 by a gateway that has an IPv6 address.
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let via = [&[10, 0][..], &gateway.octets()].concat();
        message.extend(attribute(RTA_VIA, &via));
        assert_eq!(route(&message).unwrap().gateway, Some(gateway.into()));
        message[7] = 7; // unreachable
        assert_eq!(route(&message), None);

        let mut message = vec![0; BODY_BYTES];
        message.extend(attribute(NDA_LLADDR, &[2, 0, 0, 0, 0, 9]));
        assert_eq!(neighbour(&message), None, "incomplete or failed");
        message[8..10].copy_from_slice(&4_u16.to_ne_bytes());
        assert_eq!(neighbour(&message), Some([2, 0, 0, 0, 0, 9]));
    }

    #[test]
    fn whatever_is_cut_short_is_nothing() {
        let mut message = vec![0; BODY_BYTES];
        (message[7], message[8]) = (RTN_UNICAST, 2);
        message.extend(attribute(RTA_OIF, &7_u32.to_ne_bytes()));
        message.extend(attribute(NDA_LLADDR, &[2, 0, 0, 0, 0, 9]));
        for len in 0..message.len() {
            route(&message[..len]);
            // The last attribute is padded by two bytes.
            assert_eq!(
                neighbour(&message[..len]).is_some(),
                len + 2 >= message.len()
            );
            find(&message[..len], NEW_ROUTE, 0);
        }
    }

    #[test]
    fn the_kernel_answers() {
        let mut netlink = Netlink::open().unwrap();
        // Loopback is a local route, not one out of an interface.
        let local = netlink.route(Ipv4Addr::LOCALHOST.into()).unwrap_err();
        assert!(local.to_string().contains("this machine"), "{local}");
        let nobody = netlink.neighbour(1, Ipv4Addr::new(192, 0, 2, 77).into());
        assert_eq!(nobody.unwrap(), None);
    }
}
