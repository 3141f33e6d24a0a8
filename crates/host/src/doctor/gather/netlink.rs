//! What the kernel says of an interface over netlink: its XDP features and the XDP program on it, its addresses.
//! Anybody may ask.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::doctor::facts::{Attached, XdpMode};

/// Bytes of an answer, at most; the kernel sends no longer ones.
const ANSWER_BYTES: usize = 32 << 10;
/// How long an answer may take.
const TIMEOUT_S: i64 = 2;
/// `nlmsghdr`
const HEADER_BYTES: usize = 16;
/// `NLM_F_REQUEST`, `NLM_F_DUMP`
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `RTM_GETLINK`, `RTM_GETADDR`, and the bytes of `ifinfomsg` and `ifaddrmsg`.
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// `IFLA_XDP`, and in it `IFLA_XDP_ATTACHED`, `IFLA_XDP_PROG_ID`.
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
const XDP_PROGRAM: u16 = 4;
/// `IFA_ADDRESS`, `IFA_LOCAL`
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`; bytes of `genlmsghdr`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GENERIC_BYTES: usize = 4;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES`.
const DEVICE_GET: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;
/// Marks attributes that hold others, and numbers in network order.
const TYPE_MASK: u16 = 0x3fff;

/// The XDP features that the driver declares (`NETDEV_XDP_ACT_...`); `None`: the kernel does not tell (before 6.3).
pub fn features(index: u32) -> Option<u64> {
    let socket = open(SockProtocol::NetlinkGeneric).ok()?;
    let mut name = generic(GET_FAMILY);
    attribute(&mut name, FAMILY_NAME, b"netdev\0");
    let answer = ask(&socket, CONTROL, 0, &name).ok()?.pop()?;
    let family = number(find(answer.get(GENERIC_BYTES..)?, FAMILY_ID)?) as u16;
    let mut device = generic(DEVICE_GET);
    attribute(&mut device, DEVICE_INDEX, &index.to_ne_bytes());
    let answer = ask(&socket, family, 0, &device).ok()?.pop()?;
    Some(number(find(answer.get(GENERIC_BYTES..)?, DEVICE_FEATURES)?))
}

/// The XDP program on an interface, if there is one.
pub fn attached(index: u32) -> Option<Attached> {
    let socket = open(SockProtocol::NetlinkRoute).ok()?;
    let mut link = vec![0; LINK_BYTES];
    link[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(&socket, GET_LINK, 0, &link).ok()?.pop()?;
    let xdp = find(answer.get(LINK_BYTES..)?, LINK_XDP)?;
    let mode = match number(find(xdp, XDP_ATTACHED)?) {
        0 => return None,
        2 => XdpMode::Generic,
        _ => XdpMode::Native,
    };
    let program = find(xdp, XDP_PROGRAM).map_or(0, number) as u32;
    Some(Attached { mode, program })
}

/// The addresses of an interface, with the lengths of their prefixes.
pub fn addresses(index: u32) -> Vec<(IpAddr, u8)> {
    let Ok(socket) = open(SockProtocol::NetlinkRoute) else {
        return Vec::new();
    };
    let answers = ask(&socket, GET_ADDRESS, DUMP, &[0; ADDRESS_BYTES]).unwrap_or_default();
    answers.iter().filter_map(|it| address(it, index)).collect()
}

/// An address out of an answer, if it is that interface's.
fn address(answer: &[u8], index: u32) -> Option<(IpAddr, u8)> {
    let (head, attributes) = answer.split_at_checked(ADDRESS_BYTES)?;
    if head[4..8] != index.to_ne_bytes() {
        return None;
    }
    let bytes = find(attributes, ADDRESS_LOCAL).or_else(|| find(attributes, ADDRESS))?;
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some((address, head[1]))
}

fn open(protocol: SockProtocol) -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        protocol,
    )?;
    setsockopt(
        &socket,
        sockopt::ReceiveTimeout,
        &TimeVal::seconds(TIMEOUT_S),
    )?;
    Ok(socket)
}

/// Sends a request, and collects what is answered, without the headers.
fn ask(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> nix::Result<Vec<Vec<u8>>> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &message, &kernel, MsgFlags::empty())?;
    let mut answers = Vec::new();
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let bytes = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let done = collect(&buffer[..bytes], &mut answers)?;
        if done || flags & DUMP == 0 {
            return Ok(answers);
        }
    }
}

/// Takes the messages of one datagram. Returns whether the last of them was among these.
fn collect(mut bytes: &[u8], answers: &mut Vec<Vec<u8>>) -> nix::Result<bool> {
    while let Some(header) = bytes.get(..HEADER_BYTES) {
        let length = number(&header[..4]) as usize;
        let body = bytes.get(HEADER_BYTES..length).ok_or(Errno::EBADMSG)?;
        match number(&header[4..6]) as u16 {
            DONE => return Ok(true),
            ERROR => {
                let code = body.get(..4).map_or(0, number) as u32 as i32;
                return Err(Errno::from_raw(code.wrapping_neg()));
            }
            _ => answers.push(body.to_vec()),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The beginning of a request of a generic family.
fn generic(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The value of an attribute, among others.
fn find(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while let Some(header) = bytes.get(..4) {
        let length = number(&header[..2]) as usize;
        let value = bytes.get(4..length)?;
        if number(&header[2..4]) as u16 & TYPE_MASK == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// A number of up to eight bytes, in the machine's order.
fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    let count = bytes.len().min(8);
    if cfg!(target_endian = "big") {
        whole[8 - count..].copy_from_slice(&bytes[..count]);
    } else {
        whole[..count].copy_from_slice(&bytes[..count]);
    }
    u64::from_ne_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_of(name: &str) -> u32 {
        let path = format!("/sys/class/net/{name}/ifindex");
        let text = std::fs::read_to_string(path).unwrap();
        text.trim().parse().unwrap()
    }

    #[test]
    fn the_kernel_answers_for_the_loopback() {
        let index = index_of("lo");
        assert!(
            addresses(index)
                .iter()
                .all(|(address, _)| address.is_loopback())
        );
        assert_eq!(attached(index), None);
        assert_eq!(
            (attached(u32::MAX >> 1), features(u32::MAX >> 1)),
            (None, None)
        );
    }

    #[test]
    fn malformed_answers_end_the_search() {
        let mut message = Vec::new();
        attribute(&mut message, 7, b"seven");
        attribute(&mut message, 0x8000 | 9, &[1, 0, 0, 0]);
        assert_eq!(find(&message, 9), Some(&[1u8, 0, 0, 0][..]));
        assert_eq!(find(&message, 8), None);
        for cut in 0..message.len() {
            let found = find(&message[..cut], 9);
            assert_eq!(found, None, "{cut}");
        }
        // A length that says nothing must not be read for ever.
        assert_eq!(find(&[0; 16], 9), None);
        assert_eq!(collect(&[0; 32], &mut Vec::new()), Err(Errno::EBADMSG));
    }

    #[test]
    fn an_address_is_its_own_interfaces() {
        let mut answer = vec![2, 24, 0, 0];
        answer.extend_from_slice(&5u32.to_ne_bytes());
        attribute(&mut answer, ADDRESS, &[192, 0, 2, 9]);
        assert_eq!(address(&answer, 5), Some(([192, 0, 2, 9].into(), 24)));
        assert_eq!(address(&answer, 6), None);
    }
}
