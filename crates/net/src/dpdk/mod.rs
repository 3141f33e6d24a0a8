//! DPDK: devices that their drivers poll within this process (cargo feature `dpdk`).
//!
//! ```text
//!  environment   EAL, started once in a process with suitable arguments
//!    DpdkPort      a device with as many queue pairs as there are threads, each with its buffers
//!      DpdkQueue     frames of one of them, by bursts of the shim
//!        shim          shims/dpdk*.c: the only code that knows mbufs
//! ```
//!
//! One thread uses one receive and one transmit queue of one port. Their buffers come from the queue's
//! own pool on the port's NUMA node (MICA 4.2.1: each core on its port, not all on all).
//!
//! **Untested without a NIC**, because no virtual device supports it: flow rules (`rte_flow`; without
//! them the port falls back and says so), checksums computed and verified by the device, disabled
//! spreading by hash (RSS), pools on a NUMA node, the link's state, a longer MTU.

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
