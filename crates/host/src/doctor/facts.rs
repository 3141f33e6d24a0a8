//! Facts of the machine, without a judgement.

use std::collections::BTreeMap;
use std::net::IpAddr;

use micanite_fabric::Provider;
use micanite_net::netlink::Attached;

use crate::machine::facts::{Feature, InterfaceFacts};

/// The machine, this process, and its interfaces.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kernel.
    pub kernel: Kernel,
    /// This process, and its rights.
    pub process: Process,
    /// Processors.
    pub cpus: Processors,
    /// Pages of memory.
    pub pages: Pages,
    /// Trials of system calls.
    pub tried: Tried,
    /// Libraries and programs in this build.
    pub built: Built,
    /// Maker and model: `Amazon EC2 c7i.large`.
    pub maker: Option<String>,
    /// Network devices that a driver for user space has, or none.
    pub devices: Vec<Device>,
    /// Groups of the IOMMU.
    pub iommu_groups: usize,
    /// VFIO may do without an IOMMU; `None`: VFIO is not loaded.
    pub vfio_without_iommu: Option<bool>,
    /// Answer of a running server: where the memory of its partitions is. None on one NUMA node.
    pub memory_by_node: Option<Result<String, String>>,
    /// The interfaces that were asked for.
    pub interfaces: Vec<Interface>,
}

/// The kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The answer of `uname -r`.
    pub release: String,
    /// The first two numbers of the release.
    pub version: (u32, u32),
    /// The kernel shows its types (BTF).
    pub btf: bool,
    /// `kernel.unprivileged_bpf_disabled`
    pub unprivileged_bpf_disabled: Option<u8>,
    /// `kernel.io_uring_disabled`
    pub io_uring_disabled: Option<u8>,
}

/// This process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Effective user.
    pub user: u32,
    /// Effective capabilities, a bit each.
    pub capabilities: u64,
    /// Capabilities that any process started from here may have at most.
    pub bounding: u64,
    /// A filter of system calls (seccomp) is on.
    pub filtered: bool,
    /// Root here is another user outside (user namespace).
    pub user_namespace: bool,
    /// The runtime of this container, if it is one.
    pub container: Option<String>,
    /// Bytes that may be locked in memory, soft and hard; `None`: as many as there are.
    pub memlock: (Option<u64>, Option<u64>),
}

/// Processors.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    /// CPUs that this process may use.
    pub allowed: usize,
    /// Cores of these CPUs.
    pub cores: usize,
    /// The processors of each NUMA node, as a list.
    pub nodes: BTreeMap<usize, String>,
    /// irqbalance runs.
    pub irqbalance: bool,
}

/// Pages of memory.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Reserved pages of 2 MiB.
    pub huge: usize,
    /// Free ones of these.
    pub huge_free: usize,
    /// Reserved and free ones of each NUMA node, where there are several nodes.
    pub huge_by_node: BTreeMap<usize, (usize, usize)>,
    /// `always`, `madvise`, `never`: transparent huge pages.
    pub transparent: Option<String>,
}

/// The result of a trial: done, or the reason why not.
pub type Trial = Result<(), String>;

/// Trials of system calls.
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

/// Libraries and programs in this build.
#[derive(Clone, Debug)]
pub struct Built {
    /// AF_XDP, or what was missing.
    pub xdp: Result<(), String>,
    /// DPDK's version, or what was missing.
    pub dpdk: Result<String, String>,
    pub fabric: Result<Fabric, NoFabric>,
}

/// Reason why there is no libfabric.
#[derive(Clone, Debug)]
pub enum NoFabric {
    /// The program was built without the feature.
    NotBuilt,
    /// The library cannot be loaded, with the loader's words.
    NotLoaded(String),
}

/// libfabric, and what this machine has of it.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub version: String,
    /// The known providers, each with what is missing.
    pub providers: Vec<(&'static Provider, Result<(), String>)>,
}

/// A network device that the kernel has no interface for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Address on the bus.
    pub address: String,
    /// `vfio-pci`, for one.
    pub driver: Option<String>,
}

/// An interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Facts that `ctl nic` uses, too.
    pub nic: InterfaceFacts,
    /// It is up.
    pub up: bool,
    /// Bytes of a packet, at most.
    pub mtu: u32,
    /// Address on the bus.
    pub bus_address: Option<String>,
    /// The interface that it is a part of: a bridge, a bond.
    pub master: Option<String>,
    /// Addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The default route leads through it.
    pub default_route: bool,
    /// A thread of the kernel receives (threaded NAPI).
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
    /// Returns true if it has a capability.
    pub const fn may(&self, capability: Capability) -> bool {
        self.capabilities >> capability as u32 & 1 == 1
    }

    /// Returns true if it could be given a capability.
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
    /// Needed for BPF before Linux 5.8.
    SysAdmin = 21,
    /// BPF.
    Bpf = 39,
}

impl Capability {
    /// Name.
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
