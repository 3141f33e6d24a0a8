//! Source addresses and UDP ports. Under AF_XDP a socket of the kernel is bound to each port, so
//! that no other program gets it.

use crate::random;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockaddrStorage;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::ops::RangeInclusive;

/// Maximum number of attempts to find free consecutive ports.
const ATTEMPTS_MAX: usize = 64;
/// Ports for dynamic use (RFC 6335).
const DYNAMIC: RangeInclusive<u16> = 49_152..=65_535;

/// A socket of the kernel for one own address and port.
#[derive(Debug)]
pub(super) struct Bound {
    pub address: IpAddr,
    pub socket: UdpSocket,
}

/// Returns the number of an interface and its addresses with prefix lengths.
pub(super) fn interface(name: &str) -> Result<(u32, Vec<(IpAddr, u8)>), String> {
    let Ok(index) = if_nametoindex(name) else {
        return Err("no such interface; ip -brief link lists them".to_owned());
    };
    let all = getifaddrs().map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for one in all.filter(|one| one.interface_name == name) {
        let address = one.address.as_ref().and_then(ip);
        let mask = one.netmask.as_ref().and_then(ip);
        if let (Some(address), Some(mask)) = (address, mask) {
            addresses.push((address, prefix_bits(mask)));
        }
    }
    Ok((index, addresses))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

fn prefix_bits(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().leading_ones() as u8,
    }
}

/// Returns whether an address has the prefix of another.
pub(super) fn is_in(address: IpAddr, (network, bits): (IpAddr, u8)) -> bool {
    let bits = u32::from(bits);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
}

/// Binds consecutive ports, one for each queue, each with its sockets: from `first` on if it is
/// given, otherwise free ones.
pub(super) fn bind(
    (interface, addresses): (u32, &[(IpAddr, u8)]),
    queues: usize,
    first: Option<u16>,
) -> Result<(u16, Vec<Vec<Bound>>), String> {
    if let Some(first) = first {
        let sockets = block((interface, addresses), queues, first);
        return match sockets {
            Ok(sockets) => Ok((first, sockets)),
            Err(error) => Err(format!(
                "UDP port {first} and those that follow are not available: {error}; \
                 ss -ulpn shows who uses them; without a first port, free ones are chosen"
            )),
        };
    }
    let mut last = String::from("no address");
    for _ in 0..ATTEMPTS_MAX {
        let first = random_first(queues);
        match block((interface, addresses), queues, first) {
            Ok(sockets) if !sockets.iter().all(Vec::is_empty) => return Ok((first, sockets)),
            Ok(_) => return Err("it has no address; ip address add assigns one".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(error.to_string());
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("no {queues} consecutive UDP ports are free: {last}"))
}

/// Returns a random first port for as many ports as there are queues.
pub(super) fn random_first(queues: usize) -> u16 {
    let random = random::seed();
    let choices = DYNAMIC.len().saturating_sub(queues).max(1) as u64;
    DYNAMIC.start() + (random % choices) as u16
}

/// Binds the sockets of ports from `first` on.
fn block(
    (interface, addresses): (u32, &[(IpAddr, u8)]),
    queues: usize,
    first: u16,
) -> io::Result<Vec<Vec<Bound>>> {
    let mut block = Vec::new();
    for queue in 0..queues {
        let port = u16::try_from(usize::from(first) + queue)
            .map_err(|_| io::Error::other("there are no ports above 65535"))?;
        let mut bound = Vec::new();
        let mut refused = None;
        for (address, _) in addresses {
            match UdpSocket::bind(with_port(*address, port, interface)) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    let address = *address;
                    bound.push(Bound { address, socket });
                }
                // A new address may be unavailable while the kernel checks for duplicates.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(error)) = (bound.is_empty(), refused) {
            return Err(io::Error::new(
                error.kind(),
                "none of its addresses belongs to this interface (ip -brief address)",
            ));
        }
        block.push(bound);
    }
    Ok(block)
}

/// Combines address and port for a socket. A link-local address includes its interface.
pub(super) fn with_port(address: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) if is_of_link(address) => {
            SocketAddr::V6(SocketAddrV6::new(address, port, 0, interface))
        }
        address => SocketAddr::new(address, port),
    }
}

/// Returns whether an address is valid only on its link.
pub(super) fn is_of_link(address: Ipv6Addr) -> bool {
    address.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: [(IpAddr, u8); 1] = [(IpAddr::V4(Ipv4Addr::LOCALHOST), 8)];

    #[test]
    fn addresses_of_an_interface() {
        let (index, addresses) = interface("lo").unwrap();
        assert_eq!(index, 1);
        assert!(addresses.contains(&LOOPBACK[0]));
        assert!(interface("nothing0").unwrap_err().contains("no such"));
    }

    #[test]
    fn prefixes() {
        let net = |text: &str, bits| (text.parse::<IpAddr>().unwrap(), bits);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(is_in(address("10.0.0.7"), net("10.0.0.1", 29)));
        assert!(!is_in(address("10.0.0.8"), net("10.0.0.1", 29)));
        assert!(is_in(address("9.9.9.9"), net("10.0.0.1", 0)));
        assert!(!is_in(address("fd00::1"), net("10.0.0.1", 0)));
        assert!(is_in(address("fd00::1:2"), net("fd00::1:1", 112)));
        assert!(!is_in(address("fd00::2:2"), net("fd00::1:1", 112)));
    }

    #[test]
    fn consecutive_ports_are_exclusive() {
        let (first, sockets) = bind((1, &LOOPBACK), 3, None).unwrap();
        assert_eq!(sockets.len(), 3);
        for (port, bound) in (first..).zip(&sockets) {
            assert_eq!(bound[0].socket.local_addr().unwrap().port(), port);
        }
        let taken = bind((1, &LOOPBACK), 1, Some(first + 2)).unwrap_err();
        assert!(taken.contains("ss -ulpn"), "{taken}");
        drop(sockets);
        assert_eq!(bind((1, &LOOPBACK), 3, Some(first)).unwrap().0, first);
        assert!(bind((1, &LOOPBACK), 2, Some(65_535)).is_err());
        let foreign = [("192.0.2.1".parse().unwrap(), 24)];
        let refused = bind((1, &foreign), 1, None).unwrap_err();
        assert!(refused.contains("none of its addresses"), "{refused}");
        assert!(bind((1, &[]), 1, None).unwrap_err().contains("no address"));
    }
}
