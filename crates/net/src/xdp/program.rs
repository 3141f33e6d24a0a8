//! The program that selects the port's datagrams (`bpf/port.c`): its maps, and its attachment.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use micanite_bpf::{Bound, Map, MapOptions, MapType, ProgramType, load_program, possible_cpus};

use super::attach::{Attached, Mode, attach};
use super::interface::Interface;

#[cfg(xdp_program)]
mod compiled {
    include!(concat!(env!("OUT_DIR"), "/xdp_program.rs"));
}
#[cfg(not(xdp_program))]
mod compiled {
    pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
}

/// Tells whether the program was compiled into this build.
pub const IS_BUILT: bool = !compiled::OBJECT.instructions.is_empty();
/// Name of the program in the kernel's lists.
const NAME: &str = "micanite_port";
/// Maximum number of addresses of a port.
pub(super) const ADDRESSES_MAX: usize = 256;
const COUNTERS: usize = 8;

/// Counters of the program since it was attached, in frames of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounters {
    /// For the port, redirected to the socket of their queue.
    pub redirected: u64,
    /// For the port, on a queue without a socket. These and all others stay with the kernel.
    pub no_socket: u64,
    /// Neither IPv4 nor IPv6, or not UDP.
    pub other_protocol: u64,
    /// For other ports.
    pub other_port: u64,
    /// For other addresses, or multicast.
    pub other_address: u64,
    /// Parts of longer packets.
    pub fragments: u64,
    /// With IPv4 options or IPv6 extension headers.
    pub options: u64,
    /// Shorter than their headers.
    pub short: u64,
}

/// The program, attached to an interface until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Program {
    /// `None` in tests without an interface.
    attached: Option<Attached>,
    program: OwnedFd,
    maps: Maps,
    cpus: usize,
}

#[derive(Debug)]
struct Maps {
    sockets: Map,
    addresses: Map,
    configuration: Map,
    counters: Map,
}

impl Maps {
    fn create(queues: usize) -> io::Result<Self> {
        let map = |kind, name, key_bytes, value_bytes, entries| {
            Map::create(&MapOptions::new((kind, name), key_bytes, value_bytes, entries))
        };
        Ok(Self {
            sockets: map(MapType::XdpSockets, "sockets", 4, 4, queues)?,
            addresses: map(MapType::Hash, "addresses", 16, 1, ADDRESSES_MAX)?,
            configuration: map(MapType::Array, "configuration", 4, 4, 1)?,
            counters: map(MapType::PerCpuArray, "counters", 4, 8, COUNTERS)?,
        })
    }

    fn of_name(&self, name: &str) -> &Map {
        match name {
            "sockets" => &self.sockets,
            "addresses" => &self.addresses,
            "configuration" => &self.configuration,
            "counters" => &self.counters,
            other => unreachable!("bpf/port.c has no map {other}"),
        }
    }
}

impl Program {
    /// Loads the program for an interface with so many queues, without attaching it.
    pub(super) fn load(queues: usize, addresses: &[IpAddr], ports: (u16, u16)) -> Result<Self, String> {
        if !IS_BUILT {
            let text = "this program was built without clang; apt-get install clang, build again";
            return Err(text.to_owned());
        }
        let refused = |error: io::Error| format!("the kernel refuses a BPF map: {error}");
        let maps = Maps::create(queues).map_err(refused)?;
        let first_last = [ports.0.to_ne_bytes(), ports.1.to_ne_bytes()].concat();
        maps.configuration.set(&[0; 4], &first_last).map_err(refused)?;
        for address in addresses {
            let octets = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            maps.addresses.set(&octets, &[1]).map_err(refused)?;
        }
        let program =
            load_program((ProgramType::Xdp, NAME), &compiled::OBJECT, |name| Bound::Map(maps.of_name(name)))
                .map_err(|refused| format!("the kernel refuses the XDP program: {refused}"))?;
        Ok(Self { attached: None, program, maps, cpus: possible_cpus() })
    }

    /// Attaches it in the driver, else in generic mode. Never replaces another program.
    pub(super) fn attach(&mut self, interface: &Interface) -> Result<(), String> {
        self.attached = Some(attach(self.program.as_fd(), interface, Mode::Auto)?);
        Ok(())
    }

    pub(super) fn mode(&self) -> &str {
        self.attached.as_ref().map_or("", |attached| &attached.mode)
    }

    /// Returns whether it runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.is_native)
    }

    /// Redirects the port's frames of a queue to this socket.
    pub(super) fn set_socket(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let (queue, socket) = (queue.to_ne_bytes(), socket.to_ne_bytes());
        self.maps.sockets.set(&queue, &socket)
    }

    pub(crate) fn counters(&self) -> FilterCounters {
        // In the order of `enum counter`. A read of this process's own map should succeed; a
        // failure shows as zeros.
        let of = |counter| self.maps.counters.sum(counter, self.cpus).unwrap_or(0);
        FilterCounters {
            redirected: of(0),
            no_socket: of(1),
            other_protocol: of(2),
            other_port: of(3),
            other_address: of(4),
            fragments: of(5),
            options: of(6),
            short: of(7),
        }
    }
}

#[cfg(all(test, xdp_program))]
mod tests {
    use super::*;
    use crate::frames::{Header, MacAddress};
    use micanite_test_skip::skip;
    use std::net::SocketAddr;

    const PEER: MacAddress = [2, 0, 0, 0, 0, 1];
    const OWN: MacAddress = [2, 0, 0, 0, 0, 2];

    fn datagram(from: &str, to: &str, vlan: Option<u16>) -> Vec<u8> {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let mut frame = Header::new((PEER, from), (OWN, to), vlan).as_bytes().to_vec();
        frame.extend_from_slice(b"payload");
        frame
    }

    fn changed(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
        frame[at] = byte;
        frame
    }

    /// Checks each verdict of the program, and its counter. No queue has a socket here, so frames
    /// for the port count as `no_socket`. Tests with interfaces check that they reach a socket.
    #[test]
    fn the_program_selects_only_own_datagrams() {
        if !nix::unistd::geteuid().is_root() {
            return skip("loading a BPF program needs root");
        }
        let addresses = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let program = Program::load(1, &addresses, (11300, 11303)).unwrap();
        let v4 = |port| datagram("10.0.0.1:9", &format!("10.0.0.2:{port}"), None);
        let v6 = |port| datagram("[fd00::1]:9", &format!("[fd00::2]:{port}"), None);
        type Counter = fn(&mut FilterCounters) -> &mut u64;
        let cases: Vec<(&str, Vec<u8>, Counter)> = vec![
            ("first port", v4(11300), |c| &mut c.no_socket),
            ("last port", v4(11303), |c| &mut c.no_socket),
            ("IPv6", v6(11301), |c| &mut c.no_socket),
            ("VLAN", datagram("10.0.0.1:9", "10.0.0.2:11300", Some(7)), |c| &mut c.no_socket),
            ("IPv6 VLAN", datagram("[fd00::1]:9", "[fd00::2]:11300", Some(7)), |c| &mut c.no_socket),
            ("port below", v4(11299), |c| &mut c.other_port),
            ("port above", v6(11304), |c| &mut c.other_port),
            ("address", datagram("10.0.0.1:9", "10.0.0.3:11300", None), |c| &mut c.other_address),
            ("IPv6 address", datagram("[fd00::1]:9", "[fd00::3]:11300", None), |c| &mut c.other_address),
            ("to many", changed(v4(11300), 0, 3), |c| &mut c.other_address),
            ("TCP", changed(v4(11300), 23, 6), |c| &mut c.other_protocol),
            ("ICMPv6", changed(v6(11300), 20, 58), |c| &mut c.other_protocol),
            ("ARP", changed(v4(11300), 13, 6), |c| &mut c.other_protocol),
            ("more fragments", changed(v4(11300), 20, 0x20), |c| &mut c.fragments),
            ("later fragment", changed(v4(11300), 21, 1), |c| &mut c.fragments),
            ("IPv6 fragment", changed(v6(11300), 20, 44), |c| &mut c.fragments),
            ("IPv4 options", changed(v4(11300), 14, 0x46), |c| &mut c.options),
            ("IPv6 hop by hop", changed(v6(11300), 20, 0), |c| &mut c.options),
            ("cut in UDP", v4(11300)[..40].to_vec(), |c| &mut c.short),
            ("cut in IPv6", v6(11300)[..50].to_vec(), |c| &mut c.short),
            ("cut in the VLAN tag", changed(v4(11300), 12, 0x81)[..16].to_vec(), |c| &mut c.short),
        ];
        for (name, mut frame, counter) in cases {
            if name.ends_with("the VLAN tag") {
                frame[13] = 0;
            }
            let mut expected = program.counters();
            *counter(&mut expected) += 1;
            let (verdict, ..) = micanite_bpf::run(program.program.as_fd(), &frame, 1).unwrap();
            assert_eq!(verdict, 2, "{name}: XDP_PASS");
            assert_eq!(program.counters(), expected, "{name}");
        }
    }
}
