//! An AF_XDP socket of one queue of an interface, with its mapped rings.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, socklen_t};

use super::rings::{Consumer, Producer, RingMemory};
use super::umem::{CHUNK_BYTES, Umem};

/// Entries of each of the four rings. This also bounds the frames in flight in each direction.
pub(super) const RING_ENTRIES: u32 = 4096;
/// Kernel memory for sent frames (copy mode), so that a whole ring fits.
const SEND_BUFFER_BYTES: c_int = 16 << 20;
/// Frames of one turn of busy polling.
const BUSY_POLL_FRAMES: c_int = 64;

/// Longest wait for a queue that is taken: the kernel frees the queue of a closed socket a little
/// later.
const BIND_TIMEOUT: Duration = Duration::from_secs(10);
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// Binding of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Requests no zero copy, because the program runs in generic mode.
    pub(super) copy_only: bool,
    /// 0 = none.
    pub(super) busy_poll_us: u32,
}

/// A socket. Only it uses its rings.
#[derive(Debug)]
pub(super) struct Socket {
    // Drop order: the ends of the rings before their memory.
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<libc::xdp_desc>,
    pub(super) transmit: Producer<libc::xdp_desc>,
    _rings: [Mapping; 4],
    descriptor: OwnedFd,
    zero_copy: bool,
    busy_polls: bool,
    /// Describes a refused option.
    refused: Option<String>,
}

/// The refused call, and its error.
pub(super) type Refused = (&'static str, io::Error);

impl Socket {
    /// Opens a socket over a UMEM, bound to a queue.
    pub(super) fn open(umem: &Umem, binding: Binding) -> Result<Self, Refused> {
        let descriptor = socket().map_err(|error| ("socket(AF_XDP)", error))?;
        let register = libc::xdp_umem_reg {
            addr: umem.base().as_ptr() as u64,
            len: umem.bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&descriptor, libc::XDP_UMEM_REG, &register).map_err(|error| ("XDP_UMEM_REG", error))?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set(&descriptor, ring, &RING_ENTRIES).map_err(|error| ("rings", error))?;
        }
        let offsets: libc::xdp_mmap_offsets =
            get(&descriptor, libc::XDP_MMAP_OFFSETS).map_err(|error| ("rings", error))?;
        let places = [
            (offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as i64, 8),
            (offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, 8),
            (offsets.rx, libc::XDP_PGOFF_RX_RING, 16),
            (offsets.tx, libc::XDP_PGOFF_TX_RING, 16),
        ];
        let mut rings = Vec::with_capacity(places.len());
        for (offset, page, entry_bytes) in places {
            let bytes = offset.desc as usize + RING_ENTRIES as usize * entry_bytes;
            let ring = Mapping::new(&descriptor, page, bytes).map_err(|error| ("rings", error))?;
            rings.push((ring, offset));
        }
        let refused = set_buffers(&descriptor, binding);
        bind(&descriptor, binding).map_err(|error| ("bind", error))?;
        let options: libc::xdp_options =
            get(&descriptor, libc::XDP_OPTIONS).map_err(|error| ("XDP_OPTIONS", error))?;
        let Ok([fill, completion, receive, transmit]) = <[_; 4]>::try_from(rings) else {
            unreachable!("four places, four rings");
        };
        // SAFETY: each ring is mapped as long as the socket lives (the ends are dropped first), and
        // has one end of ours.
        let fill_end = unsafe { Producer::new(fill.0.ring(fill.1)) };
        // SAFETY: as above.
        let completion_end = unsafe { Consumer::new(completion.0.ring(completion.1)) };
        // SAFETY: as above.
        let receive_end = unsafe { Consumer::new(receive.0.ring(receive.1)) };
        // SAFETY: as above.
        let transmit_end = unsafe { Producer::new(transmit.0.ring(transmit.1)) };
        Ok(Self {
            fill: fill_end,
            completion: completion_end,
            receive: receive_end,
            transmit: transmit_end,
            _rings: [fill.0, completion.0, receive.0, transmit.0],
            descriptor,
            zero_copy: options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            busy_polls: binding.busy_poll_us > 0 && refused.is_none(),
            refused,
        })
    }

    pub(super) const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    pub(super) const fn busy_polls(&self) -> bool {
        self.busy_polls
    }

    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.descriptor)
    }

    /// Makes the kernel send the frames in the transmit ring.
    pub(super) fn kick(&self) -> io::Result<()> {
        let descriptor = self.descriptor.as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: nothing is passed but the descriptor.
        let result = unsafe { libc::sendto(descriptor, ptr::null(), 0, flags, ptr::null(), 0) };
        checked(result as c_int).map(drop)
    }

    /// Makes the driver look for frames (need-wakeup, busy polling).
    pub(super) fn poll_driver(&self) {
        let (descriptor, flags) = (self.descriptor.as_raw_fd(), libc::MSG_DONTWAIT);
        let nothing = ptr::null_mut();
        // SAFETY: nothing is passed but the descriptor. The result of the call does not matter:
        // frames are in the ring, or not; a dead socket is seen by `error`.
        unsafe { libc::recvfrom(descriptor, nothing, 0, flags, nothing.cast(), nothing.cast()) };
    }

    /// Returns how many frames were lost because of a lack of room.
    pub(super) fn lost(&self) -> u64 {
        // In copy mode, `rx_dropped` includes frames without a chunk. In zero-copy mode the driver
        // drops and counts those itself.
        get::<libc::xdp_statistics>(&self.descriptor, libc::XDP_STATISTICS)
            .map_or(0, |statistics| statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// Returns a lasting error: the interface is gone.
    pub(super) fn error(&self) -> io::Result<()> {
        match get_of::<c_int>(&self.descriptor, libc::SOL_SOCKET, libc::SO_ERROR)? {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    // All calls here return at once. The flag is for tokio, which refuses descriptors that may
    // block.
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    // SAFETY: the kernel has just made it for us.
    checked(socket).map(|socket| unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Sets options that may be refused without harm; describes refused ones.
fn set_buffers(descriptor: &OwnedFd, binding: Binding) -> Option<String> {
    let socket = |name, value: c_int| set_of(descriptor, libc::SOL_SOCKET, name, &value);
    if socket(libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES).is_err() {
        // As much as is permitted. Frames that do not fit are sent a little later.
        let _ = socket(libc::SO_SNDBUF, SEND_BUFFER_BYTES);
    }
    if binding.busy_poll_us == 0 {
        return None;
    }
    socket(libc::SO_PREFER_BUSY_POLL, 1)
        .and_then(|()| socket(libc::SO_BUSY_POLL, binding.busy_poll_us as c_int))
        .and_then(|()| socket(libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_FRAMES))
        .err()
        .map(|error| format!("busy polling refused ({error})"))
}

fn bind(descriptor: &OwnedFd, binding: Binding) -> io::Result<()> {
    let copy = match binding.copy_only {
        true => libc::XDP_COPY,
        // The kernel selects copy mode if the driver has no zero copy.
        false => 0,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy,
        sxdp_ifindex: binding.interface,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = size_of_val(&address) as socklen_t;
    let begin = Instant::now();
    loop {
        let (socket, address) = (descriptor.as_raw_fd(), (&raw const address).cast());
        // SAFETY: the address is of that length.
        let bound = checked(unsafe { libc::bind(socket, address, bytes) });
        match bound {
            Err(error) if is_busy(&error) && begin.elapsed() < BIND_TIMEOUT => {
                thread::sleep(BIND_PAUSE);
            }
            bound => return bound.map(drop),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Memory of a ring, unmapped on drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Mapping {
    fn new(descriptor: &OwnedFd, page: libc::off_t, bytes: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let descriptor = descriptor.as_raw_fd();
        // SAFETY: a fresh mapping where the kernel likes, which replaces nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, descriptor, page) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn ring<T>(&self, offset: libc::xdp_ring_offset) -> RingMemory<T> {
        let at = |offset: u64| {
            assert!((offset as usize) < self.bytes);
            // SAFETY: it lies in the mapping, as was just seen.
            unsafe { self.start.byte_add(offset as usize) }
        };
        RingMemory {
            producer: at(offset.producer).cast(),
            consumer: at(offset.consumer).cast(),
            flags: at(offset.flags).cast(),
            entries: at(offset.desc).cast(),
            size: RING_ENTRIES,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped like this; the ring's end is gone.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn set<T>(descriptor: &OwnedFd, name: c_int, value: &T) -> io::Result<()> {
    set_of(descriptor, libc::SOL_XDP, name, value)
}

fn set_of<T>(descriptor: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (descriptor, bytes) = (descriptor.as_raw_fd(), size_of::<T>() as socklen_t);
    let value = (&raw const *value).cast();
    // SAFETY: the value is of that length.
    checked(unsafe { libc::setsockopt(descriptor, level, name, value, bytes) }).map(drop)
}

fn get<T: Copy>(descriptor: &OwnedFd, name: c_int) -> io::Result<T> {
    get_of(descriptor, libc::SOL_XDP, name)
}

/// Reads an option. `T` consists of integers.
fn get_of<T: Copy>(descriptor: &OwnedFd, level: c_int, name: c_int) -> io::Result<T> {
    // Fields that an older kernel does not fill in stay zero.
    let mut value = MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as socklen_t;
    let (descriptor, at) = (descriptor.as_raw_fd(), value.as_mut_ptr().cast());
    // SAFETY: at most the value's length is written.
    checked(unsafe { libc::getsockopt(descriptor, level, name, at, &raw mut bytes) })?;
    // SAFETY: it was zeroed, and any bits are integers.
    Ok(unsafe { value.assume_init() })
}

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use micanite_test_skip::skip;

    #[test]
    fn tokio_accepts_the_socket() {
        let socket = match socket() {
            Ok(socket) => socket,
            Err(error) => return skip(format_args!("no raw socket, which needs CAP_NET_RAW: {error}")),
        };
        // SAFETY: it only asks for the flags.
        let flags = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) };
        assert!(flags >= 0 && flags & libc::O_NONBLOCK != 0);
    }
}
