//! What is known of the machine, without a judgement.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use crate::machine::facts::{Feature, InterfaceFacts};

/// The machine, this process, and its interfaces.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kernel.
    pub kernel: Kernel,
    /// Who asks, and what that may do.
    pub process: Process,
    /// Processors.
    pub cpus: Processors,
    /// Pages of memory.
    pub pages: Pages,
    /// What was really tried.
    pub tried: Tried,
    /// What this program was built with.
    pub built: Built,
    /// Who has made the machine, and which it is: `Amazon EC2 c7i.large`.
    pub maker: Option<String>,
    /// Network devices that a driver for user space has, or none.
    pub devices: Vec<Device>,
    /// Groups of the IOMMU.
    pub iommu_groups: usize,
    /// Whether VFIO may do without an IOMMU; `None`: VFIO is not loaded.
    pub vfio_without_iommu: Option<bool>,
    /// The interfaces that were asked for.
    pub interfaces: Vec<Interface>,
}

/// The kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// Its first two numbers.
    pub version: (u32, u32),
    /// Whether BPF's types are there.
    pub btf: bool,
    /// `kernel.unprivileged_bpf_disabled`
    pub unprivileged_bpf_disabled: Option<u8>,
    /// `kernel.io_uring_disabled`
    pub io_uring_disabled: Option<u8>,
}

/// Who asks.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Effective user.
    pub user: u32,
    /// Effective capabilities, a bit each.
    pub capabilities: u64,
    /// Capabilities that any process started from here may have at most.
    pub bounding: u64,
    /// Whether a filter of system calls is on.
    pub filtered: bool,
    /// Whether root here is somebody else outside.
    pub user_namespace: bool,
    /// What says that this is a container.
    pub container: Option<String>,
    /// Bytes that may be locked in memory, soft and hard; `None`: as many as there are.
    pub memlock: (Option<u64>, Option<u64>),
}

/// Processors.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    /// How many this process may use.
    pub allowed: usize,
    /// How many cores these are on.
    pub cores: usize,
    /// The processors of each NUMA node, as a list.
    pub nodes: BTreeMap<usize, String>,
    /// Whether irqbalance runs.
    pub irqbalance: bool,
}

/// Pages of memory.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Reserved pages of 2 MiB.
    pub huge: usize,
    /// Of these, nobody's.
    pub huge_free: usize,
    /// The same on each NUMA node, where there are several: all, and nobody's.
    pub huge_by_node: BTreeMap<usize, (usize, usize)>,
    /// `always`, `madvise`, `never`: transparent huge pages.
    pub transparent: Option<String>,
}

/// What became of a trial: done, or the reason why not.
pub type Trial = Result<(), String>;

/// What was really tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// An AF_XDP socket.
    pub socket: Trial,
    /// Memory for the frames of one queue.
    pub memory: Trial,
    /// An XDP program.
    pub program: Trial,
    /// A map of AF_XDP sockets.
    pub map: Trial,
    /// io_uring.
    pub io_uring: Trial,
}

/// What this program was built with.
#[derive(Clone, Debug)]
pub struct Built {
    /// AF_XDP, or what was missing.
    pub xdp: Result<(), String>,
    /// DPDK's version, or what was missing.
    pub dpdk: Result<String, String>,
}

/// A network device that the kernel has no interface for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its place on the bus.
    pub address: String,
    /// `vfio-pci`, for one.
    pub driver: Option<String>,
}

/// How XDP programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// Behind it, on the kernel's copy of each packet.
    Generic,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// How it runs.
    pub mode: XdpMode,
    /// Its number, as bpftool lists it.
    pub program: u32,
}

/// An interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// What `ctl nic` knows of it, too.
    pub nic: InterfaceFacts,
    /// Whether it is up.
    pub up: bool,
    /// Bytes of a packet, at most.
    pub mtu: u32,
    /// Its place on the bus.
    pub bus_address: Option<String>,
    /// The interface that it is a part of: a bridge, a bond.
    pub master: Option<String>,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Whether the default route leads through it.
    pub default_route: bool,
    /// Whether a thread of the kernel's receives.
    pub threaded: bool,
    /// XDP features that its driver declares; `None`: the kernel does not tell.
    pub features: Option<u64>,
    /// The XDP program on it.
    pub attached: Option<Attached>,
    /// Large receive offload.
    pub lro: Option<Feature>,
    /// Receive offload in hardware.
    pub gro_hw: Option<Feature>,
}

impl Process {
    /// Whether it has a capability.
    pub const fn may(&self, capability: Capability) -> bool {
        self.capabilities >> capability as u32 & 1 == 1
    }

    /// Whether it could have it.
    pub const fn could(&self, capability: Capability) -> bool {
        self.bounding >> capability as u32 & 1 == 1
    }
}

/// A capability, by its number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Interfaces and their programs.
    NetAdmin = 12,
    /// Raw sockets.
    NetRaw = 13,
    /// Memory that stays in place.
    IpcLock = 14,
    /// What was needed for BPF before Linux 5.8.
    SysAdmin = 21,
    /// BPF.
    Bpf = 39,
}

impl Capability {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Bpf => "CAP_BPF",
        }
    }
}
