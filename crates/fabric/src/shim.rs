//! Declarations of `shims/fabric.h`. Change both together.

use std::ffi::{c_char, c_int, c_void};

use crate::limits::NAME_BYTES_MAX;

/// An opaque endpoint with its domain, only used behind a pointer.
#[repr(C)]
pub(crate) struct ShimFabric {
    _opaque: [u8; 0],
}

/// An opaque registration, only used behind a pointer.
#[repr(C)]
pub(crate) struct ShimMemory {
    _opaque: [u8; 0],
}

/// Options to open an endpoint.
#[repr(C)]
pub(crate) struct ShimOptions {
    pub provider: *const c_char,
    pub node: *const c_char,
    pub service: *const c_char,
    pub transfers_max: u32,
    pub slots_max: u32,
    pub zero: u32,
    pub peers_max: u32,
    pub listens: u8,
    pub progresses: u8,
    pub has_descriptor: u8,
    pub writes: u8,
}

/// Properties of an open endpoint.
#[repr(C)]
pub(crate) struct ShimFacts {
    pub server: u64,
    pub message_bytes_max: u64,
    pub descriptor: i32,
    pub name_bytes: u32,
    pub ranges_max: u32,
    pub zero: u32,
    pub name: [u8; NAME_BYTES_MAX],
}

/// Registered memory.
#[repr(C)]
pub(crate) struct ShimRegistration {
    pub memory: *mut ShimMemory,
    pub key: u64,
    pub base: u64,
}

/// A finished transfer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ShimCompletion {
    pub bytes: u64,
    pub peer: u64,
    pub slot: u32,
    pub error: i32,
}

unsafe extern "C" {
    pub(crate) safe fn micanite_fabric_load() -> *const c_char;

    pub(crate) fn micanite_fabric_version() -> u32;

    pub(crate) fn micanite_fabric_probe(provider: *const c_char, progresses: u8) -> c_int;

    pub(crate) fn micanite_fabric_error(error: c_int) -> *const c_char;

    pub(crate) fn micanite_fabric_open(
        options: *const ShimOptions,
        fabric: *mut *mut ShimFabric,
        facts: *mut ShimFacts,
        step: *mut *const c_char,
    ) -> c_int;

    pub(crate) fn micanite_fabric_shut(fabric: *mut ShimFabric) -> c_int;

    pub(crate) fn micanite_fabric_close(fabric: *mut ShimFabric);

    pub(crate) fn micanite_fabric_insert(
        fabric: *mut ShimFabric,
        name: *const c_void,
        peer: *mut u64,
    ) -> c_int;

    pub(crate) fn micanite_fabric_remove(fabric: *mut ShimFabric, peer: u64) -> c_int;

    pub(crate) fn micanite_fabric_register(
        fabric: *mut ShimFabric,
        memory: *mut c_void,
        bytes: usize,
        is_remote: c_int,
        wanted_key: u64,
        registration: *mut ShimRegistration,
    ) -> c_int;

    pub(crate) fn micanite_fabric_unregister(memory: *mut ShimMemory) -> c_int;

    pub(crate) fn micanite_fabric_receive(
        fabric: *mut ShimFabric,
        slot: u32,
        registered: *mut ShimMemory,
        memory: *mut c_void,
        bytes: usize,
    ) -> c_int;

    pub(crate) fn micanite_fabric_send(
        fabric: *mut ShimFabric,
        slot: u32,
        peer: u64,
        registered: *mut ShimMemory,
        memory: *const c_void,
        bytes: usize,
    ) -> c_int;

    pub(crate) fn micanite_fabric_receive_tagged(
        fabric: *mut ShimFabric,
        slot: u32,
        registered: *mut ShimMemory,
        memory: *mut c_void,
        bytes: usize,
        tag: u64,
    ) -> c_int;

    pub(crate) fn micanite_fabric_send_tagged(
        fabric: *mut ShimFabric,
        slot: u32,
        peer: u64,
        registered: *mut ShimMemory,
        memory: *const c_void,
        bytes: usize,
        tag: u64,
    ) -> c_int;

    pub(crate) fn micanite_fabric_cancel(fabric: *mut ShimFabric, slot: u32) -> c_int;

    pub(crate) fn micanite_fabric_read_two(
        fabric: *mut ShimFabric,
        slot: u32,
        peer: u64,
        registered: *mut ShimMemory,
        memory: *mut c_void,
        from: *const u64,
        bytes: *const usize,
        key: u64,
    ) -> c_int;

    pub(crate) fn micanite_fabric_read(
        fabric: *mut ShimFabric,
        slot: u32,
        peer: u64,
        registered: *mut ShimMemory,
        memory: *mut c_void,
        bytes: usize,
        from: u64,
        key: u64,
    ) -> c_int;

    #[cfg(feature = "testing")]
    pub(crate) fn micanite_fabric_write(
        fabric: *mut ShimFabric,
        slot: u32,
        peer: u64,
        registered: *mut ShimMemory,
        memory: *const c_void,
        bytes: usize,
        to: u64,
        key: u64,
    ) -> c_int;

    pub(crate) fn micanite_fabric_poll(
        fabric: *mut ShimFabric,
        completions: *mut ShimCompletion,
        count_max: u32,
    ) -> c_int;

    pub(crate) fn micanite_fabric_may_sleep(fabric: *mut ShimFabric) -> c_int;
}
