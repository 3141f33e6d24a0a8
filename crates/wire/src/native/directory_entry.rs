//! Entries of the directory.

use std::net::IpAddr;

use super::bytes::{put_u16, u16_at};

/// Bytes of a number of entries.
pub(super) const ENTRY_BYTES: usize = 4;
/// Numbers that an address takes.
pub(super) const ADDRESS_NUMBERS: u32 = 5;

const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// Access mode of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartitionAccess {
    /// Only the owner reads and writes.
    Erew = 0,
    /// Every core reads, the owner writes.
    Crew = 1,
    /// Every core reads and writes.
    Crcw = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreEntry {
    /// UDP port of the core, or of a core that answers for it, at the address that the client was given.
    pub port: u16,
    /// NUMA node of the core.
    pub node: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Core that owns the partition.
    pub owner: u16,
    pub access: PartitionAccess,
}

/// Place of a core among several interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePlace {
    /// UDP port of the core at the addresses of its interface.
    pub port: u16,
    /// Number of the interface.
    pub interface: u16,
}

/// One address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Number of the interface.
    pub interface: u16,
    pub ip: IpAddr,
}

/// An entry. Cores come first, then partitions, then the places of cores, then addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Core(CoreEntry),
    Partition(PartitionEntry),
    Place(CorePlace),
    Address(InterfaceAddress),
}

impl Entry {
    /// Returns how many numbers the entry takes.
    pub const fn numbers(&self) -> u32 {
        match self {
            Self::Address(_) => ADDRESS_NUMBERS,
            _ => 1,
        }
    }

    /// Fills the bytes of its numbers.
    pub(super) fn write(&self, out: &mut [u8]) {
        out.fill(0);
        match self {
            Self::Core(core) => {
                put_u16(out, 0, core.port);
                put_u16(out, 2, core.node);
            }
            Self::Partition(partition) => {
                put_u16(out, 0, partition.owner);
                out[2] = partition.access as u8;
            }
            Self::Place(place) => {
                put_u16(out, 0, place.port);
                put_u16(out, 2, place.interface);
            }
            Self::Address(address) => {
                put_u16(out, 0, address.interface);
                match address.ip {
                    IpAddr::V4(ip) => {
                        out[2] = IPV4;
                        out[4..8].copy_from_slice(&ip.octets());
                    }
                    IpAddr::V6(ip) => {
                        out[2] = IPV6;
                        out[4..20].copy_from_slice(&ip.octets());
                    }
                }
            }
        }
    }
}

impl CoreEntry {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..ENTRY_BYTES)?;
        let (port, node) = (u16_at(bytes, 0), u16_at(bytes, 2));
        (port != 0).then_some(Self { port, node })
    }
}

impl PartitionEntry {
    pub(super) fn read(bytes: &[u8], cores: u16) -> Option<Self> {
        let bytes = bytes.get(..ENTRY_BYTES)?;
        let owner = u16_at(bytes, 0);
        let access = match bytes[2] {
            0 => PartitionAccess::Erew,
            1 => PartitionAccess::Crew,
            2 => PartitionAccess::Crcw,
            _ => return None,
        };
        (owner < cores).then_some(Self { owner, access })
    }
}

impl CorePlace {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..ENTRY_BYTES)?;
        let (port, interface) = (u16_at(bytes, 0), u16_at(bytes, 2));
        (port != 0).then_some(Self { port, interface })
    }
}

impl InterfaceAddress {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..ADDRESS_NUMBERS as usize * ENTRY_BYTES)?;
        let ip = match bytes[2] {
            IPV4 => IpAddr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?),
            IPV6 => IpAddr::from(<[u8; 16]>::try_from(&bytes[4..20]).ok()?),
            _ => return None,
        };
        Some(Self { interface: u16_at(bytes, 0), ip })
    }
}
