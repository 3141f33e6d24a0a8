//! libfabric's objects of one endpoint, over the shim.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use micanite_memory::{ForkMark, Region};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::address::FabricAddress;
use crate::endpoint::Opened;
use crate::error::Error;
use crate::limits::{BATCH, EndpointOptions, GIVEN_UP_MAX, NAME_BYTES_MAX};
use crate::memory::Place;
use crate::provider::{Addressing, Provider};
use crate::shim::{
    ShimCompletion, ShimFabric, ShimFacts, ShimMemory, ShimOptions, ShimRegistration, micanite_fabric_cancel,
    micanite_fabric_close, micanite_fabric_error, micanite_fabric_insert, micanite_fabric_load,
    micanite_fabric_may_sleep, micanite_fabric_open, micanite_fabric_poll, micanite_fabric_probe,
    micanite_fabric_read, micanite_fabric_read_two, micanite_fabric_receive, micanite_fabric_receive_tagged,
    micanite_fabric_register, micanite_fabric_remove, micanite_fabric_send, micanite_fabric_send_tagged,
    micanite_fabric_shut, micanite_fabric_unregister, micanite_fabric_version,
};
use crate::transfer::Action;

/// Names that an endpoint over shm tries.
const NAMES_TRIED_MAX: usize = 64;
/// The numbers of libfabric's errors for a name that another one has, and for "nothing matches".
const BUSY: i32 = nix::errno::Errno::EBUSY as i32;
const NO_DATA: i32 = nix::errno::Errno::ENODATA as i32;

/// An open fabric and domain; the endpoint in it is open until [`Domain::shut`].
///
/// In the child of a fork it starts and ends nothing, because its connections are the parent's, and the
/// threads of its provider are not in the child.
#[derive(Debug)]
pub(crate) struct Domain {
    fabric: NonNull<ShimFabric>,
    process: ForkMark,
    /// No call of the provider may begin any more: the thread of the endpoint stands within one.
    is_given_up: AtomicBool,
    /// Memory that peers could read. It lives until no endpoint can send from it.
    retired: Mutex<Vec<Arc<Region>>>,
}

// SAFETY: libfabric was opened with FI_THREAD_SAFE, so that any thread may register and unregister memory
// meanwhile; only the endpoint, which one thread has, calls the other functions.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// Registered memory. [`Domain::unregister`] ends it.
#[derive(Debug)]
pub(crate) struct Registration {
    memory: NonNull<ShimMemory>,
    pub key: u64,
    pub base: u64,
}

// SAFETY: it is a handle; the functions that take it are thread-safe (see Domain).
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

/// A finished transfer.
pub(crate) type Finished = ShimCompletion;

/// Returns libfabric's version.
pub fn version() -> Result<String, String> {
    load()?;
    // SAFETY: libfabric is loaded.
    let version = unsafe { micanite_fabric_version() };
    Ok(format!("libfabric {}.{}", version >> 16, version & 0xffff))
}

/// Asks libfabric for a provider.
pub(crate) fn probe(provider: &Provider) -> Result<(), String> {
    load()?;
    let name = text(provider.name)?;
    // SAFETY: libfabric is loaded, and the name lives until the call returns.
    let result =
        unsafe { micanite_fabric_probe(name.as_ptr(), u8::from(provider.wants_automatic_progress())) };
    match result {
        0 => Ok(()),
        NO_DATA => {
            Err(if provider.needs_device { "there is no such device" } else { "libfabric lacks it" }.into())
        }
        number => Err(reason(number)),
    }
}

impl Domain {
    pub(crate) fn open(
        address: &FabricAddress,
        listens: bool,
        options: &EndpointOptions,
    ) -> Result<Opened, Error> {
        let unavailable = |why: String| Error::Unavailable(format!("{address}: {why}"));
        load().map_err(unavailable)?;
        let process = ForkMark::new().map_err(|error| unavailable(error.to_string()))?;
        let provider = address.provider;
        let name = text(provider.name).map_err(unavailable)?;
        let host = text(&address.host).map_err(unavailable)?;
        let port = address.port.map(|port| text(&port.to_string())).transpose().map_err(unavailable)?;
        let null = std::ptr::null();
        let (node, service) = match provider.addressing {
            Addressing::Internet => (host.as_ptr(), port.as_ref().map_or(null, |port| port.as_ptr())),
            // A name without a node stands for itself; one with a node gets a suffix that only its owner
            // knows.
            Addressing::Name => (null, host.as_ptr()),
        };
        let shim = ShimOptions {
            provider: name.as_ptr(),
            node,
            service,
            transfers_max: options.transfers_max,
            slots_max: options.transfers_max.saturating_add(GIVEN_UP_MAX),
            zero: 0,
            peers_max: options.peers_max,
            listens: u8::from(listens),
            progresses: u8::from(provider.wants_automatic_progress()),
            has_descriptor: u8::from(provider.has_descriptor),
            writes: u8::from(cfg!(feature = "testing")),
        };
        let mut facts = ShimFacts {
            server: u64::MAX,
            message_bytes_max: 0,
            descriptor: -1,
            name_bytes: 0,
            ranges_max: 0,
            zero: 0,
            name: [0; NAME_BYTES_MAX],
        };
        let mut fabric = std::ptr::null_mut();
        let mut step = null;
        let signals = block_signals();
        let mut open = || {
            // SAFETY: the strings live until the end of this function, and all results have their places.
            unsafe { micanite_fabric_open(&raw const shim, &raw mut fabric, &raw mut facts, &raw mut step) }
        };
        // A client's endpoint over shm has the number of its process; a killed one may have left such names.
        let tries = if listens || provider.addressing != Addressing::Name { 1 } else { NAMES_TRIED_MAX };
        let result = (0..tries).map(|_| open()).find(|result| *result != BUSY).unwrap_or(BUSY);
        unblock_signals(signals);
        let Some(fabric) = NonNull::new(fabric).filter(|_| result == 0) else {
            let step = match step.is_null() {
                true => "begin".into(),
                // SAFETY: a step is a string literal of the shim.
                false => unsafe { CStr::from_ptr(step) }.to_string_lossy(),
            };
            let why = if result == NO_DATA { "no such device or address".to_owned() } else { reason(result) };
            return Err(unavailable(format!("cannot {step}: {why}")));
        };
        Ok(Opened {
            domain: Self { fabric, process, is_given_up: AtomicBool::new(false), retired: Mutex::default() },
            descriptor: (facts.descriptor >= 0).then_some(facts.descriptor),
            name: facts.name[..(facts.name_bytes as usize).min(NAME_BYTES_MAX)].to_vec(),
            server: (!listens).then_some(facts.server),
            message_bytes_max: facts.message_bytes_max,
            ranges_max: facts.ranges_max,
        })
    }

    /// Closes the endpoint, and ends all transfers. Only registrations may be ended afterwards. Returns false
    /// if libfabric keeps it open.
    ///
    /// # Safety
    /// It is called once, by the owner of the endpoint, who calls no function of the endpoint afterwards.
    pub(crate) unsafe fn shut(&self) -> bool {
        // SAFETY: the fabric is open until self is dropped.
        self.may_close() && unsafe { micanite_fabric_shut(self.fabric.as_ptr()) == 0 }
    }

    /// Registers memory, for the transfers of this endpoint or for reads by others.
    ///
    /// # Safety
    /// The memory is mapped, and neither freed nor moved, until the registration has been ended; if it is
    /// remote, until the endpoint is shut.
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        bytes: usize,
        is_remote: bool,
    ) -> Result<Registration, Error> {
        if !self.process.is_of_this_process() {
            return Err(Error::PeerGone);
        }
        // If the provider leaves the choice of the key to us, nobody can guess it.
        let key = getrandom::u64().map_err(|error| Error::Unavailable(error.to_string()))?;
        let mut shim = ShimRegistration { memory: std::ptr::null_mut(), key: 0, base: 0 };
        // SAFETY: the fabric is open; the memory is the caller's to register.
        let result = unsafe {
            micanite_fabric_register(
                self.fabric.as_ptr(),
                start.cast(),
                bytes,
                i32::from(is_remote),
                key,
                &raw mut shim,
            )
        };
        match NonNull::new(shim.memory) {
            Some(memory) if result == 0 => Ok(Registration { memory, key: shim.key, base: shim.base }),
            _ => Err(Error::from_number(result)),
        }
    }

    /// Lets no registration end any more, and the endpoint stay open.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether this process may close what it has opened.
    fn may_close(&self) -> bool {
        self.process.is_of_this_process() && !self.is_given_up.load(Ordering::Relaxed)
    }

    /// Ends a registration of this domain; returns false if libfabric keeps it.
    pub(crate) fn unregister(&self, registration: &Registration) -> bool {
        self.may_close()
            // SAFETY: registrations are ended once, by the drop of what has them, before the domain is
            // closed.
            && unsafe { micanite_fabric_unregister(registration.memory.as_ptr()) == 0 }
    }

    /// Keeps memory until no endpoint can send from it.
    pub(crate) fn retire(&self, region: Arc<Region>) {
        match self.retired.lock() {
            Ok(mut retired) => retired.push(region),
            Err(poisoned) => poisoned.into_inner().push(region),
        }
    }

    /// Adds the address of a peer; returns its place.
    ///
    /// # Safety
    /// The name has the form of this provider's addresses: the length of the endpoint's own, or a zero byte
    /// at its end. Only the owner of the endpoint calls this, before it is shut.
    pub(crate) unsafe fn insert(&self, name: &[u8]) -> Result<u64, Error> {
        let mut peer = u64::MAX;
        // SAFETY: the name has a complete address (by the contract); the endpoint is open.
        let result =
            unsafe { micanite_fabric_insert(self.fabric.as_ptr(), name.as_ptr().cast(), &raw mut peer) };
        if result == 0 { Ok(peer) } else { Err(Error::from_number(result)) }
    }

    /// Removes an address. Its place may be given to another one.
    ///
    /// # Safety
    /// The place has an address, and no transfer to it is under way. Only the owner of the endpoint calls
    /// this, before it is shut.
    pub(crate) unsafe fn remove(&self, place: u64) -> Result<(), Error> {
        // SAFETY: as the caller says; the endpoint is open.
        match unsafe { micanite_fabric_remove(self.fabric.as_ptr(), place) } {
            0 => Ok(()),
            number => Err(Error::from_number(number)),
        }
    }

    /// Asks for the end of a receive, which completes in any case. If it was too late, or the provider cannot
    /// do this, it completes as it would have otherwise.
    ///
    /// # Safety
    /// The slot is one of `transfers_max` and `GIVEN_UP_MAX`. Only the owner of the endpoint calls this,
    /// before it is shut.
    pub(crate) unsafe fn cancel(&self, slot: u32) {
        // SAFETY: as the caller says; the endpoint is open.
        let _ = unsafe { micanite_fabric_cancel(self.fabric.as_ptr(), slot) };
    }

    /// Starts a transfer.
    ///
    /// # Safety
    /// The slot is one of `transfers_max` and `GIVEN_UP_MAX`, and has no transfer. The place is registered
    /// memory of this domain that is neither accessed nor freed until the slot's transfer has finished or the
    /// endpoint is shut. The peer was inserted. Only the owner of the endpoint calls this, before it is shut.
    pub(crate) unsafe fn start(&self, slot: u32, place: Place<'_>, action: Action) -> Result<(), Error> {
        if !self.process.is_of_this_process() {
            return Err(Error::PeerGone);
        }
        let (fabric, memory) = (self.fabric.as_ptr(), place.registration.memory.as_ptr());
        let (start, bytes) = (place.start.cast(), place.bytes);
        #[cfg(feature = "testing")]
        if let Action::SendTagged { .. } = action {
            crate::given_up::stand_if_told();
        }
        let result = match action {
            // SAFETY: as the caller says.
            Action::Receive => unsafe { micanite_fabric_receive(fabric, slot, memory, start, bytes) },
            // SAFETY: as the caller says.
            Action::ReceiveTagged { tag } => unsafe {
                micanite_fabric_receive_tagged(fabric, slot, memory, start, bytes, tag)
            },
            // SAFETY: as the caller says.
            Action::Send { peer } => unsafe {
                micanite_fabric_send(fabric, slot, peer, memory, start, bytes)
            },
            // SAFETY: as the caller says.
            Action::SendTagged { peer, tag } => unsafe {
                micanite_fabric_send_tagged(fabric, slot, peer, memory, start, bytes, tag)
            },
            // SAFETY: as the caller says.
            Action::Read { peer, from, key } => unsafe {
                micanite_fabric_read(fabric, slot, peer, memory, start, bytes, from, key)
            },
            Action::ReadTwo { peer, from, lengths, key } => {
                assert_eq!(lengths[0].checked_add(lengths[1]), Some(bytes));
                let (from, lengths) = (from.as_ptr(), lengths.as_ptr());
                // SAFETY: as the caller says; both arrays have two numbers and live until the call returns,
                // and the place has room for both ranges.
                unsafe { micanite_fabric_read_two(fabric, slot, peer, memory, start, from, lengths, key) }
            }
            #[cfg(feature = "testing")]
            // SAFETY: as the caller says.
            Action::Write { peer, to, key } => unsafe {
                crate::shim::micanite_fabric_write(fabric, slot, peer, memory, start, bytes, to, key)
            },
        };
        if result == 0 { Ok(()) } else { Err(Error::from_number(result)) }
    }

    /// Takes finished transfers; returns their number.
    ///
    /// # Safety
    /// Only the owner of the endpoint calls this, before it is shut.
    pub(crate) unsafe fn poll(
        &self,
        finished: &mut [Finished; BATCH],
        count_max: usize,
    ) -> Result<usize, Error> {
        if !self.process.is_of_this_process() {
            return Err(Error::PeerGone);
        }
        let room = count_max.min(BATCH) as u32;
        // SAFETY: there is room for as many; the endpoint is open.
        let count = unsafe { micanite_fabric_poll(self.fabric.as_ptr(), finished.as_mut_ptr(), room) };
        usize::try_from(count).map_err(|_| Error::from_number(-count))
    }

    /// Returns whether a thread that sleeps on the descriptor misses nothing.
    ///
    /// # Safety
    /// Only the owner of the endpoint calls this, before it is shut.
    pub(crate) unsafe fn may_sleep(&self) -> bool {
        // SAFETY: the endpoint is open.
        unsafe { micanite_fabric_may_sleep(self.fabric.as_ptr()) == 0 }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.may_close() {
            // SAFETY: the endpoint is shut, because it has a reference to self until then, and all
            // registrations have ended for the same reason.
            unsafe { micanite_fabric_close(self.fabric.as_ptr()) };
        }
    }
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("'{text}' has a zero byte"))
}

/// Loads libfabric, once in a process.
fn load() -> Result<(), String> {
    let signals = block_signals();
    let why = micanite_fabric_load();
    unblock_signals(signals);
    if why.is_null() {
        return Ok(());
    }
    // SAFETY: the shim returns a string that ends with a zero byte and does not change.
    let why = unsafe { CStr::from_ptr(why) };
    Err(format!("libfabric cannot be loaded (Debian: libfabric1): {}", why.to_string_lossy()))
}

/// Returns libfabric's words for an error of it.
fn reason(number: i32) -> String {
    // SAFETY: libfabric is loaded, since it returned the number.
    let words = unsafe { micanite_fabric_error(number) };
    // SAFETY: the string ends with a zero byte and is not freed; this copies it at once.
    let words = unsafe { CStr::from_ptr(words) };
    words.to_string_lossy().into_owned()
}

/// Blocks signals, for the threads that a provider starts: they inherit this. Signals are handled by the
/// program's threads.
fn block_signals() -> Option<SigSet> {
    let mut signals = SigSet::all();
    for fault in [Signal::SIGBUS, Signal::SIGSEGV, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT] {
        signals.remove(fault);
    }
    signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()
}

fn unblock_signals(before: Option<SigSet>) {
    // It fails only for wrong arguments.
    let _ = before.map(|mask| mask.thread_set_mask());
}
