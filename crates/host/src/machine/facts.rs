//! Facts of the machine and of an interface.

use std::collections::{BTreeMap, BTreeSet};

use super::cpus::Cpus;

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    /// CPUs that run.
    pub online: Cpus,
    /// The CPUs of each NUMA node; empty where the kernel does not tell.
    pub nodes: BTreeMap<usize, Cpus>,
    /// irqbalance runs: it moves interrupts again.
    pub irqbalance: bool,
}

impl MachineFacts {
    /// The NUMA node of a CPU.
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        let mut nodes = self.nodes.iter();
        nodes.find_map(|(node, cpus)| cpus.contains(&cpu).then_some(*node))
    }

    /// The CPUs that run and are not taken.
    pub fn without(&self, taken: &Cpus) -> Cpus {
        self.online.difference(taken).copied().collect()
    }
}

/// Kinds of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device on a bus.
    Device,
    /// Software without a device: veth, tap.
    Virtual,
    /// `lo`
    Loopback,
    /// An interface above these: a bond, a bridge, a VLAN.
    Above(Vec<String>),
}

/// Queues of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Queues for both directions in one, rather than receive and transmit apart.
    pub combined: bool,
    /// Receive queues at most, each with one to transmit.
    pub queues_max: usize,
    /// Receive queues at present.
    pub receive: usize,
    /// Transmit queues at present.
    pub transmit: usize,
}

/// A feature of the driver (`ethtool -k`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// It is on.
    pub on: bool,
    /// The driver lets nobody change it.
    pub fixed: bool,
}

/// The datagrams that a flow rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// UDP over IPv4
    Udp4,
    /// UDP over IPv6
    Udp6,
}

impl Family {
    /// The word of `ethtool`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp4 => "udp4",
            Self::Udp6 => "udp6",
        }
    }
}

/// A flow rule that takes the UDP datagrams to one port, whatever else is in them, to one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRule {
    /// Number in the interface's table.
    pub id: u32,
    /// Datagrams.
    pub family: Family,
    /// Their port.
    pub port: u16,
    /// Their queue.
    pub queue: usize,
}

/// The direction of the packets that an interrupt announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Receive,
    /// Sent.
    Transmit,
    /// Both.
    Both,
}

/// An interrupt of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Number in `/proc/interrupts`.
    pub number: u32,
    /// The queue.
    pub queue: usize,
    /// Direction.
    pub direction: Direction,
    /// The CPUs that may take it.
    pub cpus: Vec<usize>,
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct InterfaceFacts {
    /// Name.
    pub name: String,
    /// Driver, where it has one.
    pub driver: Option<String>,
    /// Kind.
    pub kind: Kind,
    /// The NUMA node that it is near to.
    pub node: Option<usize>,
    /// Receive queues at present.
    pub queues: usize,
    /// Queues of the driver; `Err`: their number cannot be changed, and why.
    pub channels: Result<Channels, String>,
    /// Flow rules of the kind that is made here; `Err`: the driver has no flow rules, and why.
    pub rules: Result<Vec<PortRule>, String>,
    /// The switch of flow rules.
    pub ntuple: Option<Feature>,
    /// Generic receive offload.
    pub gro: Option<Feature>,
    /// Queues that receive side scaling spreads over; `Err`: its table cannot be changed, and why.
    pub rss: Result<BTreeSet<usize>, String>,
    /// The interrupts of queues that were recognized.
    pub interrupts: Vec<Interrupt>,
    /// Names of the device's interrupts, for the case that none was.
    pub interrupt_names: Vec<String>,
    /// The CPUs that send through each transmit queue; no entry: there is nothing to choose.
    pub transmit_cpus: BTreeMap<usize, Cpus>,
    /// Receive queues whose packets the kernel passes on to other CPUs (RPS).
    pub passed_on: Vec<usize>,
    /// Microseconds for which the device collects packets before it interrupts.
    pub interrupt_delay_us: Option<u32>,
    /// The device chooses that delay by itself.
    pub interrupt_delay_adaptive: bool,
}
