//! Stands in for libfabric in builds without it.

use std::sync::Arc;

use micanite_memory::Region;

use crate::address::FabricAddress;
use crate::endpoint::Opened;
use crate::error::Error;
use crate::limits::BATCH;
use crate::limits::EndpointOptions;
use crate::memory::Place;
use crate::provider::Provider;
use crate::transfer::Action;

/// The remedy, for all errors.
const MISSING: &str = "this program was built without libfabric: cargo build --release --features libfabric \
                       (needs libfabric-dev)";

/// A domain, which cannot exist in this build.
#[derive(Debug)]
pub(crate) enum Domain {}

/// Registered memory.
#[derive(Debug)]
pub(crate) struct Registration {
    pub key: u64,
    pub base: u64,
}

/// A finished transfer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Finished {
    pub bytes: u64,
    pub peer: u64,
    pub slot: u32,
    pub error: i32,
}

/// Returns an error that says how to get libfabric.
pub fn version() -> Result<String, String> {
    Err(MISSING.to_owned())
}

/// Returns an error that says how to get libfabric.
pub(crate) fn probe(_: &Provider) -> Result<(), String> {
    Err(MISSING.to_owned())
}

impl Domain {
    /// Returns an error that says how to get libfabric.
    pub(crate) fn open(address: &FabricAddress, _: bool, _: &EndpointOptions) -> Result<Opened, Error> {
        Err(Error::Unavailable(format!("{address}: {MISSING}")))
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn shut(&self) -> bool {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn register(&self, _: *mut u8, _: usize, _: bool) -> Result<Registration, Error> {
        match *self {}
    }

    pub(crate) fn give_up(&self) {
        match *self {}
    }

    pub(crate) fn unregister(&self, _: &Registration) -> bool {
        match *self {}
    }

    pub(crate) fn retire(&self, _: Arc<Region>) {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn insert(&self, _: &[u8]) -> Result<u64, Error> {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn remove(&self, _: u64) -> Result<(), Error> {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn cancel(&self, _: u32) {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn start(&self, _: u32, _: Place<'_>, _: Action) -> Result<(), Error> {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn poll(&self, _: &mut [Finished; BATCH], _: usize) -> Result<usize, Error> {
        match *self {}
    }

    /// # Safety
    /// There is no value of this type.
    pub(crate) unsafe fn may_sleep(&self) -> bool {
        match *self {}
    }
}
