//! A device with its queues.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::DpdkQueue;
use super::environment;
use super::memif::Memif;
use super::shim::{
    ShimPort, ShimPortOptions, ShimPortStatistics, ShimQueue, micanite_dpdk_close, micanite_dpdk_open,
    micanite_dpdk_revive, micanite_dpdk_statistics, micanite_dpdk_steer, micanite_dpdk_ticks,
    micanite_dpdk_ticks_per_second, or_message,
};
use crate::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use crate::frames::ReceiveChecksums;
use crate::limits::{
    DPDK_AF_XDP_BUFFER_BYTES, DPDK_BUFFER_BYTES_MIN, DPDK_DESCRIPTORS, DPDK_LINK_WAIT_MS, DPDK_SPARE_BUFFERS,
    DPDK_STATISTICS_PER_SECOND, FRAME_HEADER_BYTES_MAX,
};

/// Bytes of Ethernet's header, which are not part of an MTU.
const ETHERNET_BYTES: usize = 14;
/// Bytes of IPv6's and UDP's headers.
const HEADERS_IN_MTU_BYTES: usize = 48;

/// An open port. It stops and closes when this and the last of its queues are dropped.
#[derive(Debug)]
pub struct DpdkPort {
    port: ShimPort,
    queues: Vec<*mut ShimQueue>,
    unverified: ReceiveChecksums,
    /// Lost frames of all queues at the last look, and its time.
    lost: AtomicU64,
    looked: LastTime,
    /// Restarts the port after its other end was away: for a memif client.
    revives: bool,
    revived: LastTime,
    is_reviving: AtomicBool,
    ticks_per_second: u64,
    /// Number of the process that opened the device.
    process: u32,
}

// SAFETY: the queues are only handed on, once each, until the end; DPDK's control functions that
// any thread calls here may run concurrently to read statistics.
unsafe impl Send for DpdkPort {}
// SAFETY: as above.
unsafe impl Sync for DpdkPort {}

impl DpdkPort {
    /// Opens a port with its queues, in order.
    pub(crate) fn open(options: &BypassOptions) -> Result<(Bypass, Vec<BypassQueue>), String> {
        let PortName::Dpdk { device } = &options.name else {
            return Err("this is not a DPDK device".to_owned());
        };
        let queues = u16::try_from(options.queues).map_err(|_| "too many queues".to_owned())?;
        if options.addresses.is_empty() {
            return Err("it has no address: the kernel does not know this port; give it one with \
                 --bypass-ip ADDRESS/PREFIX (--port-ip of load)"
                .to_owned());
        }
        let device = environment::full_name(device);
        let wanted = wanted(options, queues, &device);
        let memory_bytes =
            u64::from(wanted.buffers_per_queue) * u64::from(wanted.buffer_bytes + 512) * u64::from(queues);
        let memory = environment::start(&device, memory_bytes, &options.dpdk_arguments)?;
        let port = Arc::new(Self::open_device(wanted, &device)?);
        let payload_bytes_max = payload_bytes_max(port.port.mtu)?;
        let steering = port.steer(options);
        let bypass = Bypass {
            addresses: options.addresses.clone(),
            mac: port.port.mac,
            receive_queues: options.queues,
            payload_bytes_max,
            memory_bytes: memory_bytes as usize,
            description: port.describe(&memory, &steering),
            program: None,
        };
        let queue = |(number, queue): (usize, &*mut ShimQueue)| {
            let queue = NonNull::new(*queue)?;
            let queue = DpdkQueue::new(queue, number as u16, Arc::clone(&port));
            Some(BypassQueue::Dpdk(queue))
        };
        let queues = port.queues.iter().enumerate().filter_map(queue).collect();
        Ok((bypass, queues))
    }

    fn open_device(mut wanted: ShimPortOptions, device: &str) -> Result<Self, String> {
        let memif = Memif::of(device);
        if let Some(memif) = memif {
            memif.remove_stale_socket();
        }
        // With zero copy, the driver never returns buffers that were in flight when the server
        // left.
        let revives = memif.is_some_and(|memif| !memif.is_server && !memif.is_zero_copy);
        let device = CString::new(device).map_err(|_| "its name has a zero byte".to_owned())?;
        wanted.device = device.as_ptr();
        let _one_at_a_time = environment::lock();
        let mut port = ShimPort::default();
        let mut queues = vec![std::ptr::null_mut(); usize::from(wanted.queues)];
        // SAFETY: there is room for so many queues; the name lives until the end of this function.
        or_message(|error, bytes| unsafe {
            micanite_dpdk_open(&raw const wanted, &raw mut port, queues.as_mut_ptr(), error, bytes)
        })?;
        let driver = driver_name(&port);
        let on_this_machine = ["net_af_packet", "net_af_xdp", "net_tap"];
        let unverified = match on_this_machine.contains(&driver.as_str()) {
            true => ReceiveChecksums::UnverifiedOrPartial,
            false => ReceiveChecksums::Unverified,
        };
        Ok(Self {
            port,
            queues,
            unverified,
            lost: AtomicU64::new(0),
            looked: LastTime::default(),
            revives,
            revived: LastTime::default(),
            is_reviving: AtomicBool::new(false),
            process: std::process::id(),
            ticks_per_second: micanite_dpdk_ticks_per_second(),
        })
    }

    /// Requests flow rules that direct each UDP port to the queue of its number. Returns a
    /// description of the result.
    fn steer(&self, options: &BypassOptions) -> String {
        if self.queues.len() < 2 {
            return "one queue".to_owned();
        }
        for (queue, udp_port) in (0..self.queues.len() as u16).zip(options.ports.clone()) {
            let port = self.port.port;
            // SAFETY: it takes numbers, and writes only the error.
            let steered = or_message(|error, bytes| unsafe {
                micanite_dpdk_steer(port, udp_port, queue, error, bytes)
            });
            if let Err(why) = steered {
                return format!("no flow rules ({why}): requests on wrong queues are forwarded");
            }
        }
        format!("{} queues, steered by flow rules", self.queues.len())
    }

    fn describe(&self, memory: &str, steering: &str) -> String {
        let port = &self.port;
        let either = |yes, what: &str, not: &str| if yes { what } else { not }.to_owned();
        [
            driver_name(port),
            steering.to_owned(),
            format!("{} and {} descriptors", port.descriptors_receive, port.descriptors_transmit),
            format!("MTU {}", port.mtu),
            memory.to_owned(),
            either(
                port.receive_checksums != 0,
                "checksums verified by the device",
                "checksums verified here",
            ),
            either(port.transmit_checksums != 0, "computed by the device", "computed here"),
            either(port.link_up != 0, "link up", "link still down"),
            either(
                port.unguarded == 0,
                "",
                "bursts are not guarded: a peer that leaves may end this process",
            ),
        ]
        .join(", ")
        .trim_end_matches(", ")
        .to_owned()
    }

    /// Returns what is known about checksums that the device did not verify.
    pub(super) const fn unverified(&self) -> ReceiveChecksums {
        self.unverified
    }

    /// Returns whether the device verifies checksums.
    #[inline]
    pub(super) const fn verifies_checksums(&self) -> bool {
        self.port.receive_checksums != 0
    }

    /// Returns whether the device computes checksums.
    #[inline]
    pub(super) const fn computes_checksums(&self) -> bool {
        self.port.transmit_checksums != 0
    }

    /// Returns the longest frame, without the Ethernet checksum.
    pub(super) const fn frame_bytes_max(&self) -> usize {
        self.port.mtu as usize + ETHERNET_BYTES
    }

    /// Returns a queue's share in the port's lost frames, because the device counts only the total.
    /// The shares of all queues add up to the total.
    pub(super) fn lost(&self, queue: u16) -> u32 {
        self.look();
        share(self.lost.load(Ordering::Relaxed), u64::from(queue), self.queues.len() as u64)
    }

    /// Updates the device's counters and checks for the other end, at most at intervals. A queue
    /// that receives nothing has to call it, too: an absent end sends nothing.
    #[inline]
    pub(super) fn look(&self) {
        if self.looked.is_due(self.ticks_per_second / DPDK_STATISTICS_PER_SECOND) {
            let statistics = self.statistics();
            let lost = statistics.lost_full + statistics.lost_no_buffer + statistics.errors_receive;
            self.lost.store(lost, Ordering::Relaxed);
            if self.revives && self.revived.is_due(self.ticks_per_second) {
                self.revive();
            }
        }
    }

    /// Restarts the port if its other end has left. This may take longer than the interval after
    /// which another thread tries.
    #[cold]
    fn revive(&self) {
        if self.is_reviving.swap(true, Ordering::Acquire) {
            return;
        }
        // SAFETY: it takes a number, and one thread is here at a time.
        let _ = unsafe { micanite_dpdk_revive(self.port.port) };
        self.is_reviving.store(false, Ordering::Release);
    }

    /// Returns the device's counters; zeros if it has none.
    pub(super) fn statistics(&self) -> ShimPortStatistics {
        let mut statistics = ShimPortStatistics::default();
        // SAFETY: it fills the statistics, or leaves them unchanged.
        let _ = unsafe { micanite_dpdk_statistics(self.port.port, &raw mut statistics) };
        statistics
    }
}

/// Time of the last action, by any thread.
#[derive(Debug, Default)]
struct LastTime {
    ticks: AtomicU64,
}

impl LastTime {
    /// Returns whether the action is due. Then the calling thread has to perform it.
    fn is_due(&self, ticks: u64) -> bool {
        let (now, last) = (micanite_dpdk_ticks(), self.ticks.load(Ordering::Relaxed));
        now.wrapping_sub(last) >= ticks
            && self.ticks.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The device is that of the parent of this process.
            return;
        }
        let _one_at_a_time = environment::lock();
        let count = self.queues.len() as u16;
        // SAFETY: no queue exists any more: each would keep this alive.
        unsafe { micanite_dpdk_close(&raw const self.port, self.queues.as_mut_ptr(), count) };
    }
}

/// Returns the longest payload for an MTU. Drivers that do not report theirs say 0.
fn payload_bytes_max(mtu: u16) -> Result<usize, String> {
    usize::from(mtu)
        .checked_sub(HEADERS_IN_MTU_BYTES + 1)
        .map(|bytes| bytes + 1)
        .ok_or_else(|| format!("its MTU of {mtu} is too small"))
}

/// Returns one of `parts` shares, which add up to the whole.
const fn share(whole: u64, part: u64, parts: u64) -> u32 {
    ((whole + part) / parts) as u32
}

/// Chooses sizes for the options.
fn wanted(options: &BypassOptions, queues: u16, device: &str) -> ShimPortOptions {
    let frame_bytes_max = options.payload_bytes_max + FRAME_HEADER_BYTES_MAX;
    let buffer_bytes = if device.starts_with("net_af_xdp") {
        DPDK_AF_XDP_BUFFER_BYTES
    } else {
        // A reply of the request's length fits behind the request.
        let both = 2 * frame_bytes_max.next_multiple_of(64);
        both.clamp(DPDK_BUFFER_BYTES_MIN, usize::from(u16::MAX) - 1024)
    };
    // A memif client with zero-copy=yes fills its rings with buffers.
    let slots = Memif::of(device).map_or(0, |memif| memif.ring_slots);
    let ring = slots.max(DPDK_DESCRIPTORS);
    ShimPortOptions {
        device: std::ptr::null(),
        queues,
        unused: 0,
        descriptors: DPDK_DESCRIPTORS,
        buffers_per_queue: (2 * ring + DPDK_SPARE_BUFFERS).next_power_of_two() - 1,
        buffer_bytes: buffer_bytes as u32,
        mtu_wanted: (options.payload_bytes_max + HEADERS_IN_MTU_BYTES) as u32,
        // The other end of a virtual device may appear at any time. That of a memif client exists.
        link_wait_ms: match Memif::of(device) {
            Some(memif) if !memif.is_server => DPDK_LINK_WAIT_MS,
            None if environment::is_pci(device) => DPDK_LINK_WAIT_MS,
            _ => 0,
        },
    }
}

fn driver_name(port: &ShimPort) -> String {
    let end = port.driver.iter().position(|byte| *byte == 0);
    let name = &port.driver[..end.unwrap_or(port.driver.len())];
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_shares_add_up_to_the_ports_losses() {
        for parts in 1..9 {
            for whole in 0..100 {
                let sum: u32 = (0..parts).map(|part| share(whole, part, parts)).sum();
                assert_eq!(u64::from(sum), whole, "{parts} queues");
            }
        }
    }

    #[test]
    fn devices_with_a_small_mtu_are_refused() {
        assert_eq!(payload_bytes_max(1500), Ok(1452));
        assert_eq!(payload_bytes_max(49), Ok(1));
        for mtu in [0, 47, 48] {
            assert!(payload_bytes_max(mtu).is_err());
        }
    }
}
