//! Every limit of this crate's datagrams, of its TLS, of its rings and of its idle policy, and the
//! relations between them.

/// The longest payload of a UDP datagram over IPv4 without options: 65,535 bytes less the headers.
pub const DATAGRAM_PAYLOAD_BYTES_MAX: usize = 65_507;
/// Messages of one `recvmmsg` or `sendmmsg`. More gain nothing: the stack is the cost by then.
pub const BURST_MESSAGES_MAX: usize = 32;
/// Messages of one `recvmmsg` when each can be a super-packet: 1 MiB of buffers, which is only
/// touched as far as super-packets reach.
pub const BURST_SUPER_PACKETS_MAX: usize = 16;
/// The least room of a receive buffer.
pub const RECEIVE_BYTES_MIN: usize = 2048;
/// The room of a receive buffer that a super-packet must fit into.
pub const SUPER_PACKET_BYTES: usize = 65_536;
/// Datagrams of a super-packet that leaves. Kernels before 6.9 take no more.
pub const SEND_SEGMENTS_MAX: usize = 64;
/// Datagrams of a super-packet that arrives, for the first size of a table that can grow.
pub const RECEIVE_SEGMENTS: usize = 128;
/// Datagrams that a sender holds.
pub const SEND_DATAGRAMS_MAX: usize = 256;
/// Bytes of datagrams that a sender holds besides one of the greatest length.
pub const SEND_BYTES: usize = 256 << 10;
/// Pieces of memory of one `sendmmsg`.
pub const SEND_PIECES_MAX: usize = 128;
/// Super-packets that a sender fills at the same time, each for one peer and one length.
pub const SEND_OPEN_MAX: usize = 8;
/// After a super-packet was refused, this many others with datagrams as long as its own leave one
/// by one before the next attempt.
pub const GSO_REFUSED_MESSAGES: u32 = 1024;

/// Frames of a burst (MICA 4.2.1: bursts of 32).
pub const FRAME_BURST_MAX: usize = 32;
/// Ethernet with a VLAN tag, IPv6 and UDP.
pub const FRAME_HEADER_BYTES_MAX: usize = 14 + 4 + 40 + 8;
/// Neighbours that a port without a kernel beside it knows: the one that was asked for longest ago
/// makes room.
pub const NEIGHBOURS_MAX: usize = 256;
/// Questions for an address of ours, and echo requests, that are answered of one burst.
pub const NEIGHBOUR_ANSWERS_MAX: usize = 8;

/// Descriptors of each direction of a DPDK queue, as far as the device has as many.
pub const DPDK_DESCRIPTORS: u32 = 1024;
/// Buffers of a DPDK queue besides those that its descriptors hold: bursts and a thread's cache.
pub const DPDK_SPARE_BUFFERS: u32 = 1024;
/// The least room of a DPDK buffer: a request and its reply behind it.
pub const DPDK_BUFFER_BYTES_MIN: usize = 4096;
/// The room of a DPDK buffer for an AF_XDP driver: with what DPDK puts before it no more than a page,
/// which is the kernel's limit, and an odd number of cache lines, to which DPDK adds none.
pub const DPDK_AF_XDP_BUFFER_BYTES: usize = 63 * 64 - 320;
/// How long the link of a NIC is waited for, and the other end of a memif client.
pub const DPDK_LINK_WAIT_MS: u32 = 3000;
/// How often a DPDK port's statistics are looked at.
pub const DPDK_STATISTICS_PER_SECOND: u64 = 100;

/// Default rounds of an idle worker without leaving its CPU: about as long as a sleep and the
/// wake-up from it take, when a round looks at a socket or two.
pub const IDLE_SPIN_ROUNDS: u32 = 256;
/// Default rounds in which it lets others run in between, before it blocks.
pub const IDLE_YIELD_ROUNDS: u32 = 64;

/// Encrypted bytes that a TLS connection holds for a peer that does not take them, and a record's
/// frame.
pub const TLS_OUTPUT_BYTES_MAX: usize = 16 << 10;
/// Reads of a TLS connection, of 4 KiB each, that one `recv` makes at most.
pub const TLS_READS_MAX: usize = 16;
/// What a TLS connection takes at most: a handshake message of 64 KiB on its way in, or after the
/// handshake a record on its way in, two decrypted and one encrypted; keys and state.
pub const TLS_CONNECTION_BYTES_MAX: usize = 96 << 10;

/// Buffers that a ring receives into.
pub const URING_BUFFERS: usize = 256;
/// The length of each: together they stay in a core's cache.
pub const URING_BUFFER_BYTES: usize = 4096;
/// What is told to a ring in one enter. It may be more: then it enters twice.
pub const URING_SUBMISSIONS: u32 = 256;
/// What a ring tells after one enter. It may be more: then the kernel keeps the rest for the next.
pub const URING_COMPLETIONS: u32 = 1024;

const _: () = {
    assert!(TLS_CONNECTION_BYTES_MAX >= (64 << 10) + TLS_OUTPUT_BYTES_MAX);
    // The kernel wants a power of two, and numbers them in 16 bits; the last number is ours.
    assert!(URING_BUFFERS.is_power_of_two() && URING_BUFFERS < 1 << 15);
    assert!(URING_COMPLETIONS as usize >= 2 * URING_BUFFERS);
    assert!(DATAGRAM_PAYLOAD_BYTES_MAX < SUPER_PACKET_BYTES);
    assert!(BURST_SUPER_PACKETS_MAX <= BURST_MESSAGES_MAX);
    // One message always fits into one call, and the kernel takes 1,024 pieces of a message.
    assert!(SEND_SEGMENTS_MAX <= SEND_PIECES_MAX && SEND_PIECES_MAX <= 1024);
    // Numbers of datagrams, messages and peers are stored in 16 bits.
    assert!(SEND_DATAGRAMS_MAX < u16::MAX as usize);
};
