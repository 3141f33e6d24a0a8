//! Limits of this crate's datagrams, TLS, rings and idle policy, and relations between them.

/// Longest payload of a UDP datagram over IPv4 without options: 65,535 bytes less the headers.
pub const DATAGRAM_PAYLOAD_BYTES_MAX: usize = 65_507;
/// Messages of one `recvmmsg` or `sendmmsg`. More bring no gain, because the network stack
/// dominates.
pub const BURST_MESSAGES_MAX: usize = 32;
/// Messages of one `recvmmsg` when each can be a super-packet: 1 MiB of buffers, of which only the
/// filled part is touched.
pub const BURST_SUPER_PACKETS_MAX: usize = 16;
/// Smallest receive buffer.
pub const RECEIVE_BYTES_MIN: usize = 2048;
/// Size of a receive buffer for super-packets.
pub const SUPER_PACKET_BYTES: usize = 65_536;
/// Datagrams of a sent super-packet. Kernels before 6.9 accept no more.
pub const SEND_SEGMENTS_MAX: usize = 64;
/// Datagrams of a received super-packet: initial size of a table that can grow.
pub const RECEIVE_SEGMENTS: usize = 128;
/// Datagrams that a sender holds.
pub const SEND_DATAGRAMS_MAX: usize = 256;
/// Bytes of datagrams that a sender holds, besides one of the greatest length.
pub const SEND_BYTES: usize = 256 << 10;
/// Pieces of memory of one `sendmmsg`.
pub const SEND_PIECES_MAX: usize = 128;
/// Super-packets that a sender fills at the same time, each for one peer and one length.
pub const SEND_OPEN_MAX: usize = 8;
/// Number of super-packets that are sent datagram by datagram after one with the same or a smaller
/// length was refused, before the next attempt.
pub const GSO_REFUSED_MESSAGES: u32 = 1024;

/// Frames of a burst (MICA 4.2.1: bursts of 32).
pub const FRAME_BURST_MAX: usize = 32;
/// Ethernet with a VLAN tag, IPv6 and UDP.
pub const FRAME_HEADER_BYTES_MAX: usize = 14 + 4 + 40 + 8;
/// Neighbours that a port without a kernel remembers. The least recently requested one is replaced.
pub const NEIGHBOURS_MAX: usize = 256;
/// Neighbour requests for own addresses, and echo requests, that are answered per burst.
pub const NEIGHBOUR_ANSWERS_MAX: usize = 8;

/// Descriptors of each direction of a DPDK queue, if the device has as many.
pub const DPDK_DESCRIPTORS: u32 = 1024;
/// Buffers of a DPDK queue besides those in its descriptors: for bursts and a thread's cache.
pub const DPDK_SPARE_BUFFERS: u32 = 1024;
/// Smallest DPDK buffer: a request with its reply behind it.
pub const DPDK_BUFFER_BYTES_MIN: usize = 4096;
/// Size of a DPDK buffer for an AF_XDP driver. With DPDK's headroom it takes at most a page, which
/// is the kernel's limit, and an odd number of cache lines, to which DPDK adds no padding.
pub const DPDK_AF_XDP_BUFFER_BYTES: usize = 63 * 64 - 320;
/// Longest wait for a NIC's link, and for a memif client's peer.
pub const DPDK_LINK_WAIT_MS: u32 = 3000;
/// Rate of reading a DPDK port's statistics.
pub const DPDK_STATISTICS_PER_SECOND: u64 = 100;

/// Default number of rounds in which an idle worker spins: about as long as a sleep and a wake-up
/// take, when a round checks a socket or two.
pub const IDLE_SPIN_ROUNDS: u32 = 256;
/// Default number of rounds in which an idle worker yields, before it blocks.
pub const IDLE_YIELD_ROUNDS: u32 = 64;

/// Encrypted bytes that a TLS connection holds for a slow peer, besides a record's frame.
pub const TLS_OUTPUT_BYTES_MAX: usize = 16 << 10;
/// Maximum number of reads of 4 KiB in one `recv` of a TLS connection.
pub const TLS_READS_MAX: usize = 16;
/// Most memory of a TLS connection: an incoming handshake message of 64 KiB, or after the handshake
/// one incoming record, two decrypted and one encrypted; keys and state.
pub const TLS_CONNECTION_BYTES_MAX: usize = 96 << 10;

/// Buffers that a ring receives into.
pub const URING_BUFFERS: usize = 256;
/// Size of a buffer. Together they stay in a core's cache.
pub const URING_BUFFER_BYTES: usize = 4096;
/// Submissions per enter. Further ones cost another enter.
pub const URING_SUBMISSIONS: u32 = 256;
/// Completions per enter. The kernel keeps further ones for the next enter.
pub const URING_COMPLETIONS: u32 = 1024;

const _: () = {
    assert!(TLS_CONNECTION_BYTES_MAX >= (64 << 10) + TLS_OUTPUT_BYTES_MAX);
    // The kernel requires a power of two and numbers buffers with 16 bits. This crate uses the last
    // number.
    assert!(URING_BUFFERS.is_power_of_two() && URING_BUFFERS < 1 << 15);
    assert!(URING_COMPLETIONS as usize >= 2 * URING_BUFFERS);
    assert!(DATAGRAM_PAYLOAD_BYTES_MAX < SUPER_PACKET_BYTES);
    assert!(BURST_SUPER_PACKETS_MAX <= BURST_MESSAGES_MAX);
    // One message always fits one call, and the kernel accepts 1,024 pieces of a message.
    assert!(SEND_SEGMENTS_MAX <= SEND_PIECES_MAX && SEND_PIECES_MAX <= 1024);
    // Numbers of datagrams, messages and peers are stored in 16 bits.
    assert!(SEND_DATAGRAMS_MAX < u16::MAX as usize);
};
