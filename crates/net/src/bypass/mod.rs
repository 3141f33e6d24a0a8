//! Ports that bypass the kernel's network stack, as options name them.

pub mod probe;

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::dpdk::{DpdkPort, DpdkQueue};
use crate::frames::MacAddress;
use crate::xdp::{self, FilterCounters, Program, XdpQueue};

/// Name of a port: `xdp:INTERFACE` or `dpdk:DEVICE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortName {
    /// AF_XDP on an interface that the kernel keeps.
    Xdp { interface: String },
    /// A DPDK device, in the form of DPDK's `--vdev` and `--allow`: `net_memif0,role=server`,
    /// `0000:03:00.0`.
    Dpdk {
        /// The device with its arguments.
        device: String,
    },
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let name = name.to_owned();
        match kind {
            "xdp" | "dpdk" if name.is_empty() => Err(format!("'{text}' names no device")),
            "xdp" => Ok(Self::Xdp { interface: name }),
            "dpdk" => Ok(Self::Dpdk { device: name }),
            _ => Err(format!("'{text}' is neither xdp:INTERFACE nor dpdk:DEVICE")),
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xdp { interface } => write!(f, "xdp:{interface}"),
            Self::Dpdk { device } => write!(f, "dpdk:{device}"),
        }
    }
}

/// Options to open a port.
#[derive(Clone, Debug)]
pub struct BypassOptions {
    pub name: PortName,
    /// Addresses of the port with prefix lengths. Empty: those of the interface (AF_XDP). A DPDK
    /// port requires at least one.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Gateway for addresses outside of the prefixes (DPDK).
    pub gateway: Option<IpAddr>,
    /// UDP ports to receive.
    pub ports: RangeInclusive<u16>,
    /// Number of queues to use: one per thread.
    pub queues: usize,
    /// Longest payload that has to fit a frame.
    pub payload_bytes_max: usize,
    /// Microseconds of busy polling in the kernel; 0 = none (AF_XDP).
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment (EAL).
    pub dpdk_arguments: Vec<String>,
}

/// An open port. Dropping it detaches it, and so does the kernel when the process is killed.
#[derive(Debug)]
pub struct Bypass {
    /// Addresses that the port answers.
    pub addresses: Vec<(IpAddr, u8)>,
    pub mac: MacAddress,
    /// Number of receive queues, used or not.
    pub receive_queues: usize,
    /// Longest payload of an IPv6 datagram that fits the port's MTU.
    pub payload_bytes_max: usize,
    /// Memory of the frames and rings of all queues.
    pub memory_bytes: usize,
    /// Describes what was granted and refused: mode, queues, pages.
    pub description: String,
    /// Redirects frames to the sockets as long as it exists (AF_XDP).
    pub(crate) program: Option<Program>,
}

impl Bypass {
    /// Opens a port with its queues, in order.
    ///
    /// # Errors
    /// Names what is missing, and how to get it.
    pub fn open(options: &BypassOptions) -> Result<(Self, Vec<BypassQueue>), String> {
        let opened = match &options.name {
            PortName::Xdp { interface } => xdp::open(interface, options),
            PortName::Dpdk { .. } => DpdkPort::open(options),
        };
        opened.map_err(|why| format!("{}: {why}", options.name))
    }

    /// Counts what the filter did with the frames of its interface (AF_XDP). Each number costs a
    /// system call.
    pub fn filter_counters(&self) -> Option<FilterCounters> {
        self.program.as_ref().map(Program::counters)
    }
}

/// One queue of a port. Match it once per burst.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per worker, moved once")]
pub enum BypassQueue {
    Xdp(XdpQueue),
    Dpdk(DpdkQueue),
}
