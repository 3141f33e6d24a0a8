//! Fuzzes memcached's UDP frames.

use crate::memcache::udp::{Frame, FrameError, HEADER_BYTES, datagrams};

/// Checks that a datagram splits exactly behind its header, and that a reply of the same bytes can
/// be put together from its datagrams.
pub fn udp_frames(data: &[u8]) {
    match Frame::of_request(data) {
        Ok((frame, payload)) => {
            assert_eq!(frame.total, 1);
            assert_eq!(payload, &data[HEADER_BYTES..]);
            assert_eq!(frame.to_bytes()[..6], data[..6]);
        }
        Err(FrameError::Short) => assert!(data.len() < HEADER_BYTES),
        Err(FrameError::DatagramCount) => assert_ne!(data[4..6], [0, 1]),
    }
    let id = data.first().copied().unwrap_or(0).into();
    let mut joined = Vec::new();
    for (number, (header, piece)) in datagrams(id, data).enumerate() {
        let datagram = [&header[..], piece].concat();
        let (frame, payload) = Frame::split(&datagram).expect("a whole header");
        assert_eq!((frame.request_id, frame.sequence), (id, number as u16));
        assert!(frame.sequence < frame.total && !payload.is_empty());
        joined.extend_from_slice(payload);
    }
    assert_eq!(joined, data);
}
