//! Ports around the kernel's network stack, as options name them.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::dpdk::{DpdkPort, DpdkQueue};
use crate::frames::MacAddress;
use crate::xdp::{self, FilterCounters, Program, XdpQueue};

/// Which port: `xdp:INTERFACE` or `dpdk:DEVICE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortName {
    /// AF_XDP on an interface that the kernel keeps.
    Xdp {
        /// Its name.
        interface: String,
    },
    /// A device of DPDK's, as its `--vdev` and `--allow` name it: `net_memif0,role=server`,
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

/// What a port is opened with.
#[derive(Clone, Debug)]
pub struct BypassOptions {
    /// Which.
    pub name: PortName,
    /// Its addresses with the lengths of their prefixes. Empty: those of the interface (AF_XDP);
    /// a DPDK port has to be given some.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where what is not in the prefixes is sent (DPDK).
    pub gateway: Option<IpAddr>,
    /// UDP ports that are ours.
    pub ports: RangeInclusive<u16>,
    /// Queues that are used: one per thread.
    pub queues: usize,
    /// The longest payload that is to fit a frame.
    pub payload_bytes_max: usize,
    /// Microseconds of busy polling in the kernel; 0 for none (AF_XDP).
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment (EAL).
    pub dpdk_arguments: Vec<String>,
}

/// An open port. It is detached when this is dropped, and by the kernel when the process is killed.
#[derive(Debug)]
pub struct Bypass {
    /// Addresses that are answered.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Of the port.
    pub mac: MacAddress,
    /// Receive queues that it has, used or not.
    pub receive_queues: usize,
    /// The longest payload of a datagram over IPv6 that fits the port's MTU.
    pub payload_bytes_max: usize,
    /// Memory that its frames and rings take, of all queues.
    pub memory_bytes: usize,
    /// What was got, in words: mode, queues, pages, what was refused.
    pub description: String,
    /// What sends us our frames, attached as long as this is here (AF_XDP).
    pub(crate) program: Option<Program>,
}

impl Bypass {
    /// Opens a port with its queues, in order.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn open(options: &BypassOptions) -> Result<(Self, Vec<BypassQueue>), String> {
        let opened = match &options.name {
            PortName::Xdp { interface } => xdp::open(interface, options),
            PortName::Dpdk { .. } => DpdkPort::open(options),
        };
        opened.map_err(|why| format!("{}: {why}", options.name))
    }

    /// What the filter in front of the port has done with the frames of its interface (AF_XDP). It
    /// takes a system call for each number.
    pub fn filter_counters(&self) -> Option<FilterCounters> {
        self.program.as_ref().map(Program::counters)
    }
}

/// One queue of a port. To be matched once per burst.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per worker, moved once")]
pub enum BypassQueue {
    /// AF_XDP.
    Xdp(XdpQueue),
    /// DPDK.
    Dpdk(DpdkQueue),
}
