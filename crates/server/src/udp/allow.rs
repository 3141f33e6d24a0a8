//! List of networks whose datagrams are answered.
//!
//! The source address of a datagram can be forged. A server that answers all sources amplifies attacks: a few
//! bytes with a victim's address send the victim a megabyte. So the list is checked first.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Most networks of a list.
const NETWORKS_MAX: usize = 64;
/// Least port of clients. Lower ports are servers'.
const CLIENT_PORT_MIN: u16 = 1024;

/// An address, and the number of its first bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// Networks whose datagrams are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowList {
    networks: Vec<Network>,
}

impl Default for AllowList {
    /// Returns the loopback networks.
    fn default() -> Self {
        let network = |address: [u8; 4], bits| Network { address: address.into(), bits };
        let loopback = Network { address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), bits: 128 };
        Self { networks: vec![network([127, 0, 0, 0], 8), loopback] }
    }
}

impl AllowList {
    /// Returns whether a datagram of `peer`, at a socket of `own_port`, is answered.
    ///
    /// Ports of servers are refused: a reply to a server would be a request there, and two servers would
    /// answer each other for ever.
    #[inline]
    pub fn allows(&self, peer: SocketAddr, own_port: u16) -> bool {
        peer.port() >= CLIENT_PORT_MIN
            && peer.port() != own_port
            && self.networks.iter().any(|network| network.has(peer.ip()))
    }
}

impl AllowList {
    /// Returns the first address of each network, and the number of its first bits that count.
    pub fn networks(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        self.networks.iter().map(|of| (of.address, of.bits))
    }

    /// Returns whether the list allows only this machine.
    pub fn is_loopback(&self) -> bool {
        self.networks.iter().all(Network::is_loopback)
    }
}

impl Network {
    fn is_loopback(&self) -> bool {
        let bits = if self.address.is_ipv4() { 8 } else { 128 };
        self.address.is_loopback() && self.bits >= bits
    }

    #[inline]
    fn has(&self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(address), IpAddr::V4(ip)) => {
                let differs = address.to_bits() ^ ip.to_bits();
                differs.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(address), IpAddr::V6(ip)) => {
                let differs = address.to_bits() ^ ip.to_bits();
                differs.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }

    fn of(word: &str) -> Result<Self, String> {
        let (address, bits) = match word.split_once('/') {
            None => (word, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!("'{word}' is no network, such as 10.1.0.0/16"));
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse::<u8>) {
            None => most,
            Some(Ok(bits)) if bits <= most => bits,
            Some(_) => return Err(format!("'{word}': the length is 0 to {most}")),
        };
        let zeros = match address {
            IpAddr::V4(address) => address.to_bits().trailing_zeros(),
            IpAddr::V6(address) => address.to_bits().trailing_zeros(),
        };
        if zeros < u32::from(most - bits) {
            return Err(format!("'{word}' is an address with bits behind its network's /{bits}"));
        }
        Ok(Self { address, bits })
    }
}

impl std::str::FromStr for AllowList {
    type Err = String;

    /// Parses networks with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let networks: Vec<_> = words.map(Network::of).collect::<Result<_, _>>()?;
        if networks.len() > NETWORKS_MAX {
            return Err(format!("more than {NETWORKS_MAX} networks"));
        }
        Ok(Self { networks })
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Network { address, bits }) in self.networks.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(formatter, "{comma}{address}/{bits}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, peer: &str) -> bool {
        let list: AllowList = list.parse().unwrap();
        list.allows(peer.parse().unwrap(), 11211)
    }

    #[test]
    fn loopback_is_allowed_by_default() {
        let list = AllowList::default();
        assert_eq!(list.to_string(), "127.0.0.0/8,::1/128");
        assert_eq!(list.to_string().parse(), Ok(list.clone()));
        for (peer, allowed) in [
            ("127.0.0.1:5000", true),
            ("127.255.255.255:5000", true),
            ("[::1]:5000", true),
            ("128.0.0.1:5000", false),
            ("126.255.255.255:5000", false),
            ("[::2]:5000", false),
            ("[::]:5000", false),
            ("[::ffff:127.0.0.1]:5000", false),
        ] {
            let peer: SocketAddr = peer.parse().unwrap();
            assert_eq!(list.allows(peer, 11211), allowed, "{peer}");
        }
    }

    #[test]
    fn only_loopback_networks_are_this_machine() {
        assert!(AllowList::default().is_loopback());
        for (list, is_loopback) in [
            ("127.0.0.0/8", true),
            ("127.1.2.3,::1", true),
            ("126.0.0.0/7", false),
            ("127.0.0.0/8,10.0.0.1", false),
            ("::/127", false),
            ("0.0.0.0/0", false),
        ] {
            let parsed: AllowList = list.parse().unwrap();
            assert_eq!(parsed.is_loopback(), is_loopback, "{list}");
        }
    }

    #[test]
    fn networks_end_where_their_length_says() {
        assert!(allows("10.1.0.0/16", "10.1.255.255:5000"));
        assert!(!allows("10.1.0.0/16", "10.2.0.0:5000"));
        assert!(allows("10.0.0.4/30", "10.0.0.7:5000"));
        assert!(!allows("10.0.0.4/30", "10.0.0.8:5000"));
        assert!(allows("10.0.0.7", "10.0.0.7:5000"));
        assert!(!allows("10.0.0.7", "10.0.0.6:5000"));
        assert!(allows("0.0.0.0/0", "203.0.113.9:5000"));
        assert!(!allows("0.0.0.0/0", "[2001:db8::1]:5000"));
        assert!(allows("::1, fd00::/8", "[fdff::1]:5000"));
        assert!(!allows("::1,fd00::/8", "[fe00::1]:5000"));
    }

    #[test]
    fn ports_of_servers_are_not_answered() {
        for (port, allowed) in [(0, false), (53, false), (1023, false), (1024, true), (11211, false)] {
            assert_eq!(allows("127.0.0.0/8", &format!("127.0.0.1:{port}")), allowed, "{port}");
        }
    }

    #[test]
    fn wrong_networks_are_refused() {
        for (word, part) in [
            ("", "is no network"),
            ("10.0.0.0/8,", "is no network"),
            ("localhost", "is no network"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/-1", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0.1/8", "bits behind"),
            ("::1/64", "bits behind"),
        ] {
            let error = word.parse::<AllowList>().expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
        assert!(vec!["10.0.0.0/8"; 65].join(",").parse::<AllowList>().is_err());
    }
}
