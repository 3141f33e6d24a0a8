//! Socket addresses in the kernel's form.

use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr_in, sockaddr_in6};

/// Longest name: that of an IPv6 socket.
pub(super) const NAME_BYTES: usize = size_of::<sockaddr_in6>();
const V4_BYTES: usize = size_of::<sockaddr_in>();
const FAMILY_V4: u16 = libc::AF_INET as u16;
const FAMILY_V6: u16 = libc::AF_INET6 as u16;

const _: () = {
    // The conversions below rely on these layouts.
    assert!(NAME_BYTES == 28 && V4_BYTES == 16);
    assert!(offset_of!(sockaddr_in, sin_family) == 0 && offset_of!(sockaddr_in, sin_port) == 2);
    assert!(offset_of!(sockaddr_in, sin_addr) == 4);
    assert!(offset_of!(sockaddr_in6, sin6_family) == 0 && offset_of!(sockaddr_in6, sin6_port) == 2);
    assert!(offset_of!(sockaddr_in6, sin6_flowinfo) == 4);
    assert!(offset_of!(sockaddr_in6, sin6_addr) == 8);
    assert!(offset_of!(sockaddr_in6, sin6_scope_id) == 24);
};

/// A `sockaddr_in` or `sockaddr_in6`. The family in its first two bytes says which.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Name {
    pub bytes: [u8; NAME_BYTES],
}

impl Name {
    pub const EMPTY: Self = Self { bytes: [0; NAME_BYTES] };

    /// Returns how many bytes of it are used.
    pub fn len(&self) -> usize {
        match self.u16_at(0) {
            FAMILY_V4 => V4_BYTES,
            _ => NAME_BYTES,
        }
    }

    /// Returns the address if the kernel wrote `len` bytes; `None` for an unknown family.
    pub fn address(&self, len: usize) -> Option<SocketAddr> {
        let port = u16::from_be(self.u16_at(2));
        match self.u16_at(0) {
            FAMILY_V4 if len >= V4_BYTES => {
                let address = Ipv4Addr::from(self.array::<4>(4));
                Some(SocketAddrV4::new(address, port).into())
            }
            FAMILY_V6 if len >= NAME_BYTES => {
                let address = Ipv6Addr::from(self.array::<16>(8));
                let flow = u32::from_ne_bytes(self.array(4));
                let scope = u32::from_ne_bytes(self.array(24));
                Some(SocketAddrV6::new(address, port, flow, scope).into())
            }
            _ => None,
        }
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[at..at + N]);
        array
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl From<SocketAddr> for Name {
    fn from(address: SocketAddr) -> Self {
        let mut name = Self::EMPTY;
        name.set(2, &address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                name.set(0, &FAMILY_V4.to_ne_bytes());
                name.set(4, &address.ip().octets());
            }
            SocketAddr::V6(address) => {
                name.set(0, &FAMILY_V6.to_ne_bytes());
                name.set(4, &address.flowinfo().to_ne_bytes());
                name.set(8, &address.ip().octets());
                name.set(24, &address.scope_id().to_ne_bytes());
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_the_kernels_layout() {
        let name = Name::from("1.2.3.4:258".parse::<SocketAddr>().unwrap());
        assert_eq!(name.len(), 16);
        assert_eq!(name.bytes[..2], 2u16.to_ne_bytes());
        assert_eq!(name.bytes[2..16], [1, 2, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);

        let address = SocketAddrV6::new("fe80::1:2".parse().unwrap(), 0x1234, 5, 6);
        let name = Name::from(SocketAddr::from(address));
        assert_eq!(name.len(), 28);
        assert_eq!(name.bytes[..2], 10u16.to_ne_bytes());
        assert_eq!(name.bytes[2..4], [0x12, 0x34]);
        assert_eq!(name.bytes[4..8], 5u32.to_ne_bytes());
        assert_eq!(name.bytes[8..10], [0xfe, 0x80]);
        assert_eq!(name.bytes[20..24], [0, 1, 0, 2]);
        assert_eq!(name.bytes[24..28], 6u32.to_ne_bytes());
    }

    #[test]
    fn addresses_round_trip() {
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 65_535, 0x000f_ffff, 3);
        let addresses = [
            "0.0.0.0:0".parse().unwrap(),
            "127.0.0.1:1".parse().unwrap(),
            "255.255.255.255:65535".parse().unwrap(),
            "[::]:0".parse().unwrap(),
            "[::1]:11211".parse().unwrap(),
            "[2001:db8::ffff:1.2.3.4]:80".parse().unwrap(),
            SocketAddr::from(scoped),
        ];
        for address in addresses {
            let name = Name::from(address);
            assert_eq!(name.address(name.len()), Some(address));
        }
    }

    #[test]
    fn short_and_unknown_names_have_no_address() {
        for text in ["1.2.3.4:5", "[::1]:5"] {
            let mut name = Name::from(text.parse::<SocketAddr>().unwrap());
            assert_eq!(name.address(name.len() - 1), None);
            assert_eq!(name.address(0), None);
            name.bytes[..2].copy_from_slice(&1u16.to_ne_bytes());
            assert_eq!(name.address(NAME_BYTES), None);
        }
    }
}
