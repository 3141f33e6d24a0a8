//! Control messages, which accompany the bytes of a message.

use std::mem::{offset_of, size_of};

use libc::{c_int, cmsghdr};

const HEADER_BYTES: usize = size_of::<cmsghdr>();
const WORD_BYTES: usize = size_of::<usize>();
/// Length of a control message with at most 4 bytes of data, with padding for the next one.
const SMALL_BYTES: usize = HEADER_BYTES + 4usize.next_multiple_of(WORD_BYTES);
/// Room for both messages that a socket of this crate receives: overflow and segment length.
pub(super) const CONTROL_BYTES: usize = 2 * SMALL_BYTES;

const _: () = {
    // The code below relies on this layout.
    assert!(size_of::<cmsghdr>() == WORD_BYTES + 8);
    assert!(offset_of!(cmsghdr, cmsg_len) == 0);
    assert!(offset_of!(cmsghdr, cmsg_level) == WORD_BYTES);
    assert!(offset_of!(cmsghdr, cmsg_type) == WORD_BYTES + 4);
};

/// Memory for the control messages of one message.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control {
    pub bytes: [u8; CONTROL_BYTES],
}

/// Parsed control messages of a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ControlMessages {
    /// The message is a super-packet of datagrams of this length.
    pub segment_bytes: Option<usize>,
    /// Messages that the socket dropped before this one, since it was opened.
    pub dropped: Option<u32>,
}

impl Control {
    pub const EMPTY: Self = Self { bytes: [0; CONTROL_BYTES] };

    /// Requests that the kernel cuts the message into datagrams of this length. Returns the bytes
    /// used.
    pub fn set_segment(&mut self, segment_bytes: u16) -> usize {
        let data = segment_bytes.to_ne_bytes();
        let bytes = HEADER_BYTES + data.len();
        self.put(0, &bytes.to_ne_bytes());
        self.put(WORD_BYTES, &libc::SOL_UDP.to_ne_bytes());
        self.put(WORD_BYTES + 4, &libc::UDP_SEGMENT.to_ne_bytes());
        self.put(HEADER_BYTES, &data);
        SMALL_BYTES
    }

    /// Parses what the kernel wrote into the first `len` bytes.
    pub fn parse(&self, len: usize) -> ControlMessages {
        let mut messages = ControlMessages::default();
        let mut rest = &self.bytes[..len.min(CONTROL_BYTES)];
        while rest.len() >= HEADER_BYTES {
            let bytes = usize::from_ne_bytes(array(rest, 0));
            let level = c_int::from_ne_bytes(array(rest, WORD_BYTES));
            let kind = c_int::from_ne_bytes(array(rest, WORD_BYTES + 4));
            if bytes < HEADER_BYTES || bytes > rest.len() {
                break;
            }
            let data = &rest[HEADER_BYTES..bytes];
            match (level, kind, data.len()) {
                (libc::SOL_UDP, libc::UDP_GRO, 4) => {
                    let segment_bytes = c_int::from_ne_bytes(array(data, 0));
                    messages.segment_bytes = usize::try_from(segment_bytes).ok().filter(|&b| b > 0);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 4) => {
                    messages.dropped = Some(u32::from_ne_bytes(array(data, 0)));
                }
                _ => {}
            }
            let next = bytes.next_multiple_of(WORD_BYTES).min(rest.len());
            rest = &rest[next..];
        }
        messages
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one control message with 4 bytes of data.
    fn write(control: &mut Control, at: usize, level: c_int, kind: c_int, data: u32) {
        control.put(at, &(HEADER_BYTES + 4).to_ne_bytes());
        control.put(at + WORD_BYTES, &level.to_ne_bytes());
        control.put(at + WORD_BYTES + 4, &kind.to_ne_bytes());
        control.put(at + HEADER_BYTES, &data.to_ne_bytes());
    }

    #[test]
    fn reads_segment_and_overflow_in_either_order() {
        let expected = ControlMessages { segment_bytes: Some(48), dropped: Some(7) };
        for (gro_at, overflow_at) in [(0, SMALL_BYTES), (SMALL_BYTES, 0)] {
            let mut control = Control::EMPTY;
            write(&mut control, gro_at, libc::SOL_UDP, libc::UDP_GRO, 48);
            let overflow = (libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
            write(&mut control, overflow_at, overflow.0, overflow.1, 7);
            assert_eq!(control.parse(2 * SMALL_BYTES), expected);
            // The kernel omits padding after the last message.
            assert_eq!(control.parse(SMALL_BYTES + HEADER_BYTES + 4), expected);
        }
    }

    #[test]
    fn empty_and_invalid_control_parse_to_nothing() {
        let mut control = Control::EMPTY;
        assert_eq!(control.parse(0), ControlMessages::default());
        assert_eq!(control.parse(CONTROL_BYTES), ControlMessages::default());
        write(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, 0);
        assert_eq!(control.parse(SMALL_BYTES), ControlMessages::default());
        write(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, 48);
        assert_eq!(control.parse(HEADER_BYTES), ControlMessages::default());
        control.put(0, &usize::MAX.to_ne_bytes());
        assert_eq!(control.parse(usize::MAX), ControlMessages::default());
    }
}
