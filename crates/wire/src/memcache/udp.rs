//! memcached's UDP frames: a header in front of every datagram, in requests and replies alike.
//!
//! ```text
//!  0 .. 1  request id, chosen by the client and repeated by the server
//!  2 .. 3  number of this datagram in its message, from 0
//!  4 .. 5  datagrams of the message
//!  6 .. 7  0
//! ```
//!
//! All fields are big-endian. After the header comes a piece of the stream, in either protocol.
//! A request is one datagram. A reply is one or more datagrams.

pub const HEADER_BYTES: usize = 8;
/// Longest datagram of a reply.
pub const REPLY_DATAGRAM_BYTES_MAX: usize = 1400;
/// Longest piece of a reply in one datagram.
pub const REPLY_PAYLOAD_BYTES_MAX: usize = REPLY_DATAGRAM_BYTES_MAX - HEADER_BYTES;
/// Longest reply whose datagrams can be numbered.
pub const REPLY_BYTES_MAX: usize = REPLY_PAYLOAD_BYTES_MAX * u16::MAX as usize;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Identifies the request for the client.
    pub request_id: u16,
    /// Number of this datagram, from 0.
    pub sequence: u16,
    /// Datagrams of the message.
    pub total: u16,
}

/// Reasons to refuse a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The datagram is shorter than a header.
    Short,
    /// The message has several datagrams, or none.
    DatagramCount,
}

impl Frame {
    /// Splits a request into its header and its payload. Like memcached, it ignores the reserved
    /// word, and the number of a datagram that is the only one.
    ///
    /// # Errors
    /// The datagram is not a request of one datagram.
    #[inline]
    pub fn of_request(datagram: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let (frame, payload) = Self::split(datagram).ok_or(FrameError::Short)?;
        match frame.total {
            1 => Ok((frame, payload)),
            _ => Err(FrameError::DatagramCount),
        }
    }

    /// Splits any datagram into its header and its payload; `None` if it is too short.
    #[inline]
    pub fn split(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let [id0, id1, sequence0, sequence1, total0, total1, _, _] = *header;
        let frame = Self {
            request_id: u16::from_be_bytes([id0, id1]),
            sequence: u16::from_be_bytes([sequence0, sequence1]),
            total: u16::from_be_bytes([total0, total1]),
        };
        Some((frame, payload))
    }

    /// Encodes the header.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [id0, id1] = self.request_id.to_be_bytes();
        let [sequence0, sequence1] = self.sequence.to_be_bytes();
        let [total0, total1] = self.total.to_be_bytes();
        [id0, id1, sequence0, sequence1, total0, total1, 0, 0]
    }
}

/// Splits a reply into datagrams, each a header and its piece. An empty reply has none.
///
/// # Panics
/// If the reply is longer than [`REPLY_BYTES_MAX`].
#[inline]
pub fn datagrams(
    request_id: u16,
    reply: &[u8],
) -> impl ExactSizeIterator<Item = ([u8; HEADER_BYTES], &[u8])> {
    assert!(reply.len() <= REPLY_BYTES_MAX, "cannot be numbered");
    let pieces = reply.chunks(REPLY_PAYLOAD_BYTES_MAX);
    let total = pieces.len() as u16;
    pieces.enumerate().map(move |(number, piece)| {
        let frame = Frame { request_id, sequence: number as u16, total };
        (frame.to_bytes(), piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_four_big_endian_words() {
        let frame = Frame { request_id: 0x1234, sequence: 0, total: 1 };
        assert_eq!(frame.to_bytes(), [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        let datagram = *b"\x12\x34\0\0\0\x01\0\0get a\r\n";
        let (read, payload) = Frame::of_request(&datagram).unwrap();
        assert_eq!((read, payload), (frame, &b"get a\r\n"[..]));
    }

    #[test]
    fn a_request_is_one_datagram() {
        let short = FrameError::Short;
        for bytes in 0..HEADER_BYTES {
            assert_eq!(Frame::of_request(&[1; HEADER_BYTES][..bytes]), Err(short));
        }
        for total in [0, 2, 3, 256, u16::MAX] {
            let frame = Frame { request_id: 7, sequence: 0, total };
            let refused = Frame::of_request(&frame.to_bytes()).unwrap_err();
            assert_eq!(refused, FrameError::DatagramCount);
        }
        // memcached ignores these fields.
        let datagram = [0, 7, 0, 9, 0, 1, 3, 3, b'x'];
        let (frame, payload) = Frame::of_request(&datagram).unwrap();
        assert_eq!((frame.request_id, frame.sequence), (7, 9));
        assert_eq!(payload, b"x");
    }

    #[test]
    fn a_reply_is_numbered_from_its_first_datagram_to_its_last() {
        let lengths = [0, 1, REPLY_PAYLOAD_BYTES_MAX, REPLY_PAYLOAD_BYTES_MAX + 1, 1 << 20];
        for bytes in lengths {
            let reply: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let all = datagrams(0xabcd, &reply);
            let total = all.len();
            assert_eq!(total, bytes.div_ceil(REPLY_PAYLOAD_BYTES_MAX));
            let mut joined = Vec::new();
            for (number, (header, piece)) in all.enumerate() {
                let datagram = [&header[..], piece].concat();
                assert!(datagram.len() <= REPLY_DATAGRAM_BYTES_MAX);
                let (frame, payload) = Frame::split(&datagram).unwrap();
                assert_eq!(frame.request_id, 0xabcd);
                assert_eq!(usize::from(frame.sequence), number);
                assert_eq!(usize::from(frame.total), total);
                assert!(number + 1 == total || payload.len() == REPLY_PAYLOAD_BYTES_MAX);
                joined.extend_from_slice(payload);
            }
            assert_eq!(joined, reply);
        }
    }
}
