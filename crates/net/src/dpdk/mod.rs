//! DPDK: devices that their drivers in this process poll (cargo feature `dpdk`).
//!
//! ```text
//!  environment   EAL, started once in a process with arguments that fit it
//!    DpdkPort      a device with as many queue pairs as there are threads, each with its buffers
//!      DpdkQueue     frames of one of them, by bursts of the shim
//!        shim          shims/dpdk*.c: the only place that knows mbufs
//! ```
//!
//! One thread uses one receive and one transmit queue of one port, whose buffers come from a pool of
//! that queue on the port's NUMA node (MICA 4.2.1: each core on its port, not all on all).
//!
//! **What only a NIC can exercise**, because no virtual device has it: flow rules (`rte_flow`; else
//! everything that asks for them falls back and says so), checksums computed and verified by the
//! device, the end of spreading by hash (RSS), pools on a NUMA node, the link's state, a longer MTU.

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(feature = "dpdk")]
mod environment;
#[cfg(feature = "dpdk")]
mod memif;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod queue;
#[cfg(feature = "dpdk")]
mod shim;

#[cfg(not(feature = "dpdk"))]
pub use absent::{DpdkPort, DpdkQueue, version};
#[cfg(feature = "dpdk")]
pub use {environment::version, port::DpdkPort, queue::DpdkQueue};
