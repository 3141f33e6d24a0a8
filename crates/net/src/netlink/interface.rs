//! Queries about an interface: its addresses, its XDP features, the XDP program on it.

use std::net::IpAddr;

use nix::sys::socket::SockProtocol;

use super::Netlink;
use super::message::{address, attribute, find, number};

/// `RTM_GETLINK`, `RTM_GETADDR`, and the bytes of `ifinfomsg` and `ifaddrmsg`.
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// `IFLA_XDP`; in it `IFLA_XDP_ATTACHED`, and `IFLA_XDP_PROG_ID` or that of a mode.
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
const XDP_PROGRAMS: [u16; 4] = [4, 5, 6, 7];
/// `XDP_ATTACHED_NONE`, `XDP_ATTACHED_SKB`
const ATTACHED_NONE: u64 = 0;
const ATTACHED_GENERIC: u64 = 2;
/// `IFA_ADDRESS`, `IFA_LOCAL`
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`; bytes of
/// `genlmsghdr`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GENERIC_BYTES: usize = 4;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES`.
const DEVICE_GET: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;

/// A mode of XDP programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver runs the program.
    Native,
    /// The kernel runs the program after the driver, on a copy of each packet.
    Generic,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    pub mode: XdpMode,
    /// Number of the program, as bpftool lists it; 0 if the kernel does not tell.
    pub program: u32,
}

/// Returns the XDP features that the driver declares (`NETDEV_XDP_ACT_...`); `None` if the kernel
/// does not tell (before 6.3).
pub fn features(index: u32) -> Option<u64> {
    let mut netlink = Netlink::of(SockProtocol::NetlinkGeneric).ok()?;
    let mut name = generic(GET_FAMILY);
    attribute(&mut name, FAMILY_NAME, b"netdev\0");
    let answer = netlink.ask(CONTROL, &name).ok()?;
    let family = number(find(answer.get(GENERIC_BYTES..)?, FAMILY_ID)?) as u16;
    let mut device = generic(DEVICE_GET);
    attribute(&mut device, DEVICE_INDEX, &index.to_ne_bytes());
    let answer = netlink.ask(family, &device).ok()?;
    find(answer.get(GENERIC_BYTES..)?, DEVICE_FEATURES).map(number)
}

/// Returns the XDP program on an interface, if there is one.
pub fn attached(index: u32) -> Option<Attached> {
    let mut link = [0; LINK_BYTES];
    link[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = Netlink::open().ok()?.ask(GET_LINK, &link).ok()?;
    let xdp = find(answer.get(LINK_BYTES..)?, LINK_XDP)?;
    let mode = match number(find(xdp, XDP_ATTACHED)?) {
        ATTACHED_NONE => return None,
        ATTACHED_GENERIC => XdpMode::Generic,
        _ => XdpMode::Native,
    };
    let program = XDP_PROGRAMS.iter().find_map(|kind| find(xdp, *kind));
    Some(Attached { mode, program: program.map_or(0, number) as u32 })
}

/// Returns the addresses of an interface, with prefix lengths.
pub fn addresses(index: u32) -> Vec<(IpAddr, u8)> {
    let answers = Netlink::open().and_then(|mut it| it.list(GET_ADDRESS, &[0; ADDRESS_BYTES]));
    let answers = answers.unwrap_or_default();
    answers.iter().filter_map(|it| prefix(it, index)).collect()
}

/// Returns the address in an answer, if it belongs to that interface.
fn prefix(answer: &[u8], index: u32) -> Option<(IpAddr, u8)> {
    let (head, attributes) = answer.split_at_checked(ADDRESS_BYTES)?;
    if head[4..8] != index.to_ne_bytes() {
        return None;
    }
    let octets = find(attributes, ADDRESS_LOCAL).or_else(|| find(attributes, ADDRESS))?;
    Some((address(octets)?, head[1]))
}

/// Returns the beginning of a request of a generic family.
fn generic(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_of(name: &str) -> u32 {
        let path = format!("/sys/class/net/{name}/ifindex");
        let text = std::fs::read_to_string(path).unwrap();
        text.trim().parse().unwrap()
    }

    /// The kernel answers for the loopback, and not for a missing interface.
    #[test]
    fn the_kernel_answers_for_the_loopback() {
        let index = index_of("lo");
        assert!(addresses(index).iter().all(|(address, _)| address.is_loopback()));
        assert_eq!(attached(index), None);
        assert_eq!((attached(u32::MAX >> 1), features(u32::MAX >> 1)), (None, None));
    }

    /// An address counts only for its own interface.
    #[test]
    fn addresses_belong_to_one_interface() {
        let mut answer = vec![2, 24, 0, 0];
        answer.extend_from_slice(&5u32.to_ne_bytes());
        attribute(&mut answer, ADDRESS, &[192, 0, 2, 9]);
        assert_eq!(prefix(&answer, 5), Some(([192, 0, 2, 9].into(), 24)));
        assert_eq!(prefix(&answer, 6), None);
    }
}
