//! System calls of datagrams.

use std::io;
use std::mem::{self, size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_uint, c_void, iovec, mmsghdr, socklen_t};

use super::address::{NAME_BYTES, Name};
use super::control::{CONTROL_BYTES, Control};
use crate::limits::{BURST_MESSAGES_MAX, SEND_PIECES_MAX};

/// Metadata of one received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub name: Name,
    pub control: Control,
    /// Received bytes.
    pub bytes: usize,
    /// Bytes of the name and of the control messages.
    pub name_bytes: usize,
    pub control_bytes: usize,
    /// `MSG_TRUNC`, `MSG_CTRUNC`.
    pub flags: c_int,
}

impl Slot {
    pub const EMPTY: Self = Self {
        name: Name::EMPTY,
        control: Control::EMPTY,
        bytes: 0,
        name_bytes: 0,
        control_bytes: 0,
        flags: 0,
    };
}

/// Receives available messages into `buffers`, one each. Never waits. Returns their number.
pub(super) fn receive<'a>(
    socket: BorrowedFd<'_>,
    slots: &mut [Slot],
    buffers: impl Iterator<Item = &'a mut [u8]>,
) -> io::Result<usize> {
    // SAFETY: structures of integers and pointers, which may all be zero.
    let mut vectors: [iovec; BURST_MESSAGES_MAX] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [mmsghdr; BURST_MESSAGES_MAX] = unsafe { mem::zeroed() };
    let mut count = 0;
    let places = headers.iter_mut().zip(&mut vectors).zip(&mut *slots);
    for (((header, vector), slot), buffer) in places.zip(buffers) {
        vector.iov_base = buffer.as_mut_ptr().cast();
        vector.iov_len = buffer.len();
        let header = &mut header.msg_hdr;
        header.msg_name = slot.name.bytes.as_mut_ptr().cast();
        header.msg_namelen = NAME_BYTES as socklen_t;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_control = slot.control.bytes.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        count += 1;
    }
    // SAFETY: the first `count` headers lead to buffers, names and control messages that are
    // borrowed mutably for the duration of this function, with their lengths; no time limit.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (slot, header) in slots.iter_mut().zip(&headers).take(received) {
        slot.bytes = header.msg_len as usize;
        slot.name_bytes = header.msg_hdr.msg_namelen as usize;
        slot.control_bytes = header.msg_hdr.msg_controllen as _;
        slot.flags = header.msg_hdr.msg_flags;
    }
    Ok(received)
}

/// A message to send.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub peer: &'a Name,
    /// Length of its datagrams, if there are several.
    pub segment_bytes: Option<u16>,
    /// Number of its pieces.
    pub pieces: usize,
}

/// Sends at most [`BURST_MESSAGES_MAX`] messages of at most [`SEND_PIECES_MAX`] pieces. The pieces
/// are in the order of the messages. Never waits. Returns how many messages were sent. An error
/// concerns the first message.
pub(super) fn send<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Outgoing<'a>>,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let mut controls = [Control::EMPTY; BURST_MESSAGES_MAX];
    // SAFETY: structures of integers and pointers, which may all be zero.
    let mut vectors: [iovec; SEND_PIECES_MAX] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [mmsghdr; BURST_MESSAGES_MAX] = unsafe { mem::zeroed() };
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        // The kernel only reads what it sends.
        vector.iov_base = piece.as_ptr().cast::<c_void>().cast_mut();
        vector.iov_len = piece.len();
    }
    let mut count = 0;
    let mut unused = &mut vectors[..];
    for ((header, control), message) in headers.iter_mut().zip(&mut controls).zip(messages) {
        let header = &mut header.msg_hdr;
        header.msg_name = message.peer.bytes.as_ptr().cast::<c_void>().cast_mut();
        header.msg_namelen = message.peer.len() as socklen_t;
        let (own, rest) = unused.split_at_mut(message.pieces);
        unused = rest;
        header.msg_iov = own.as_mut_ptr();
        header.msg_iovlen = own.len() as _;
        if let Some(segment_bytes) = message.segment_bytes {
            header.msg_controllen = control.set_segment(segment_bytes) as _;
            header.msg_control = control.bytes.as_mut_ptr().cast();
        }
        count += 1;
    }
    // SAFETY: the first `count` headers lead to names and pieces that are borrowed for 'a, which
    // outlives this call, and to control messages and vectors of this function, with their
    // lengths. None of them is written.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

pub(super) fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let bytes = size_of::<c_int>() as socklen_t;
    // SAFETY: the pointer leads to `bytes` bytes that outlive the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes) };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Reads an option that consists of integers. Returns how many the kernel wrote.
pub(super) fn get_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    values: &mut [u32],
) -> io::Result<usize> {
    let mut bytes = size_of_val(values) as socklen_t;
    // SAFETY: the kernel writes no more than `bytes` bytes, which is the length of `values`, and
    // any bytes are integers.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, values.as_mut_ptr().cast(), &raw mut bytes)
    };
    if result == 0 {
        return Ok(bytes as usize / size_of::<u32>());
    }
    Err(io::Error::last_os_error())
}
