//! Declarations of `shims/dpdk.h`. Change both together.

use std::ffi::{c_char, c_int};

/// A buffer and the frame in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ShimFrame {
    pub buffer: *mut u8,
    pub handle: u64,
    pub room_bytes: u32,
    pub start: u32,
    pub bytes: u32,
    pub link_bytes: u8,
    pub network_bytes: u8,
    pub verified: u8,
    pub unused: u8,
}

/// An opaque queue, only used behind a pointer.
#[repr(C)]
pub(super) struct ShimQueue {
    _opaque: [u8; 0],
}

/// Options to open a port.
#[repr(C)]
pub(super) struct ShimPortOptions {
    pub device: *const c_char,
    pub queues: u16,
    pub unused: u16,
    pub descriptors: u32,
    pub buffers_per_queue: u32,
    pub buffer_bytes: u32,
    pub mtu_wanted: u32,
    pub link_wait_ms: u32,
}

/// Properties of an open port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShimPort {
    pub port: u16,
    pub mtu: u16,
    pub descriptors_receive: u16,
    pub descriptors_transmit: u16,
    pub numa_node: i32,
    pub mac: [u8; 6],
    pub link_up: u8,
    pub receive_checksums: u8,
    pub transmit_checksums: u8,
    pub unguarded: u8,
    pub driver: [u8; 32],
}

/// Counters of all queues of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShimPortStatistics {
    pub lost_full: u64,
    pub lost_no_buffer: u64,
    pub errors_receive: u64,
    pub gate_closed: u64,
}

/// Counters of one queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShimQueueCounters {
    pub unsent: u64,
    pub chained: u64,
}

unsafe extern "C" {
    pub(super) fn micanite_dpdk_start(
        argc: c_int,
        argv: *mut *mut c_char,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;

    pub(super) fn micanite_dpdk_open(
        options: *const ShimPortOptions,
        port: *mut ShimPort,
        queues: *mut *mut ShimQueue,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;

    pub(super) fn micanite_dpdk_close(port: *const ShimPort, queues: *mut *mut ShimQueue, count: u16);

    pub(super) fn micanite_dpdk_steer(
        port: u16,
        udp_port: u16,
        queue: u16,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;

    pub(super) fn micanite_dpdk_revive(port: u16) -> c_int;

    pub(super) fn micanite_dpdk_statistics(port: u16, statistics: *mut ShimPortStatistics) -> c_int;

    pub(super) safe fn micanite_dpdk_register_thread() -> c_int;
    pub(super) safe fn micanite_dpdk_unregister_thread();
    pub(super) safe fn micanite_dpdk_ticks() -> u64;
    pub(super) safe fn micanite_dpdk_ticks_per_second() -> u64;

    pub(super) fn micanite_dpdk_receive(queue: *mut ShimQueue, frames: *mut ShimFrame, count: u32) -> u32;

    pub(super) fn micanite_dpdk_allocate(queue: *mut ShimQueue, frame: *mut ShimFrame) -> c_int;

    pub(super) fn micanite_dpdk_send(queue: *mut ShimQueue, frames: *const ShimFrame, count: u32);

    pub(super) fn micanite_dpdk_free(handle: u64);

    pub(super) fn micanite_dpdk_counters(queue: *const ShimQueue, counters: *mut ShimQueueCounters);

    pub(super) fn micanite_dpdk_buffers_free(queue: *const ShimQueue) -> u32;
}

/// Calls a function that returns its error as text.
pub(super) fn or_message(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), String> {
    let mut message = [0u8; 512];
    if call(message.as_mut_ptr().cast(), message.len()) == 0 {
        return Ok(());
    }
    let end = message.iter().position(|byte| *byte == 0);
    let text = &message[..end.unwrap_or(message.len())];
    Err(String::from_utf8_lossy(text).into_owned())
}
