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
    /// Whether irqbalance runs: it moves interrupts again.
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

/// What kind of interface it is, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device on a bus.
    Device,
    /// Software without a device: veth, tap.
    Virtual,
    /// `lo`
    Loopback,
    /// It passes packets on to these: a bond, a bridge, a VLAN.
    Above(Vec<String>),
}

/// How the driver counts queues, and how many there may be.
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
    /// Whether it is on.
    pub on: bool,
    /// Whether the driver lets nobody change that.
    pub fixed: bool,
}

/// Which datagrams a flow rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// UDP over IPv4
    Udp4,
    /// UDP over IPv6
    Udp6,
}

impl Family {
    /// As `ethtool` calls it.
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
    /// Its number in the interface's table.
    pub id: u32,
    /// Which datagrams.
    pub family: Family,
    /// To which port.
    pub port: u16,
    /// Into which queue.
    pub queue: usize,
}

/// Which way the packets go that an interrupt announces.
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
    /// Its number in `/proc/interrupts`.
    pub number: u32,
    /// The queue.
    pub queue: usize,
    /// Which way.
    pub direction: Direction,
    /// The CPUs that may take it.
    pub cpus: Vec<usize>,
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// Its driver, where it has one.
    pub driver: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// The NUMA node that it is near to.
    pub node: Option<usize>,
    /// Receive queues at present.
    pub queues: usize,
    /// How many there may be; `Err`: their number cannot be changed, and why.
    pub channels: Result<Channels, String>,
    /// Flow rules of the kind that is made here; `Err`: the driver has no flow rules, and why.
    pub rules: Result<Vec<PortRule>, String>,
    /// Whether flow rules are switched on.
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
    /// Whether the device chooses that delay by itself.
    pub interrupt_delay_adaptive: bool,
}
