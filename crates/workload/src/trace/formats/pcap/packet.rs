//! Payload of TCP and UDP from a link layer's frame. `etherparse` reads the layers; it knows no cooked
//! captures of the second form, so this module reads the headers of both.

use etherparse::err::Layer;
use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::err::packet::SliceError;
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, LenSource, TcpSlice, TransportSlice};

use super::file::Packet;

/// Link layer before a packet's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    RawIp,
    /// Linux's cooked capture (of all interfaces), its first and its second form.
    Cooked,
    Cooked2,
}

/// The type of a loopback interface in cooked captures.
const LOOPBACK: u16 = 772;
/// Cooked captures say so of a packet that the machine itself sends.
const OUTGOING: u8 = 4;
/// A client and the server, which has the port that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub client: ([u8; 16], u16),
    pub server: [u8; 16],
    pub is_tcp: bool,
}

/// Payload of a packet between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub flow: Flow,
    pub is_from_client: bool,
    pub tcp: Tcp,
    pub payload: &'a [u8],
    /// Bytes behind the payload that were not captured.
    pub missing: usize,
}

/// Fields of TCP's header; all zero for UDP.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tcp {
    pub sequence: u32,
    pub acknowledged: Option<u32>,
    pub is_first: bool,
    pub is_last: bool,
    pub is_reset: bool,
}

/// Reason why a packet carries nothing for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skipped {
    /// Another protocol.
    Other,
    /// Part of a packet.
    Fragment,
    /// Headers were not captured whole.
    Cut,
}

impl Link {
    pub fn numbered(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            101 => Some(Self::RawIp),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }

    /// Returns the layers of a frame.
    fn layers(self, frame: &[u8]) -> Result<LaxSlicedPacket<'_>, Skipped> {
        match self {
            Self::Ethernet => LaxSlicedPacket::from_ethernet(frame).map_err(|_| Skipped::Cut),
            Self::RawIp => LaxSlicedPacket::from_ip(frame).map_err(|error| match error {
                LaxHeaderSliceError::Len(_) => Skipped::Cut,
                LaxHeaderSliceError::Content(_) => Skipped::Other,
            }),
            Self::Cooked => {
                let (header, behind) = frame.split_first_chunk::<16>().ok_or(Skipped::Cut)?;
                cooked(header[1], [header[2], header[3]], [header[14], header[15]], behind)
            }
            Self::Cooked2 => {
                let (header, behind) = frame.split_first_chunk::<20>().ok_or(Skipped::Cut)?;
                cooked(header[10], [header[8], header[9]], [header[0], header[1]], behind)
            }
        }
    }
}

/// Returns the layers of a cooked capture. On loopback, every packet is seen when it is sent and when it is
/// received.
fn cooked(
    direction: u8,
    interface_type: [u8; 2],
    ether_type: [u8; 2],
    behind: &[u8],
) -> Result<LaxSlicedPacket<'_>, Skipped> {
    if direction == OUTGOING && u16::from_be_bytes(interface_type) == LOOPBACK {
        return Err(Skipped::Other);
    }
    Ok(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(ether_type)), behind))
}

/// Addresses of a packet, and the bytes of its IP payload that were not captured.
struct Ip {
    from: [u8; 16],
    to: [u8; 16],
    missing: usize,
}

impl Ip {
    /// `cut_bytes` are missing at the end of the frame.
    fn of(layers: &LaxSlicedPacket<'_>, cut_bytes: usize) -> Result<Self, Skipped> {
        let net = layers.net.as_ref();
        let Some(payload) = net.and_then(LaxNetSlice::ip_payload_ref) else {
            return Err(skipped(layers));
        };
        if payload.fragmented {
            return Err(Skipped::Fragment);
        }
        let (from, to, declared_bytes) = match net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let payload_bytes = usize::from(header.total_len()).saturating_sub(header.slice().len());
                let [from, to] = [header.source_addr(), header.destination_addr()]
                    .map(|from| from.to_ipv6_mapped().octets());
                (from, to, payload_bytes)
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let extensions_bytes = ip.extensions().slice().len();
                let payload_bytes =
                    usize::from(ip.header().payload_length()).saturating_sub(extensions_bytes);
                (ip.header().source(), ip.header().destination(), payload_bytes)
            }
            _ => return Err(Skipped::Other),
        };
        let missing = match payload.len_source {
            _ if payload.incomplete => declared_bytes.saturating_sub(payload.payload.len()),
            // Packets that the interface itself is to split have no length yet.
            LenSource::Slice => cut_bytes,
            _ => 0,
        };
        Ok(Self { from, to, missing })
    }
}

/// Returns why a packet has no layer above those that it has.
fn skipped(layers: &LaxSlicedPacket<'_>) -> Skipped {
    match layers.stop_err {
        Some((_, Layer::Arp | Layer::Icmpv4 | Layer::Icmpv6 | Layer::Igmp | Layer::MacsecHeader)) => {
            Skipped::Other
        }
        Some((SliceError::Len(_), _)) => Skipped::Cut,
        _ => Skipped::Other,
    }
}

/// Returns what a captured frame carries to or from a port.
pub(super) fn decode<'a>(packet: &Packet<'a>, port: u16) -> Result<Piece<'a>, Skipped> {
    let layers = packet.link.layers(packet.bytes)?;
    let ip = Ip::of(&layers, packet.wire_bytes - packet.bytes.len())?;
    let (from_port, to_port, tcp, payload) = match &layers.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            (tcp.source_port(), tcp.destination_port(), Tcp::of(tcp), tcp.payload())
        }
        Some(TransportSlice::Udp(udp)) => {
            (udp.source_port(), udp.destination_port(), Tcp::default(), udp.payload())
        }
        Some(_) => return Err(Skipped::Other),
        None => return Err(skipped(&layers)),
    };
    let is_from_client = to_port == port;
    if !is_from_client && from_port != port {
        return Err(Skipped::Other);
    }
    let (client, server) =
        if is_from_client { ((ip.from, from_port), ip.to) } else { ((ip.to, to_port), ip.from) };
    let is_tcp = matches!(layers.transport, Some(TransportSlice::Tcp(_)));
    Ok(Piece { flow: Flow { client, server, is_tcp }, is_from_client, tcp, payload, missing: ip.missing })
}

impl Tcp {
    fn of(segment: &TcpSlice<'_>) -> Self {
        Self {
            sequence: segment.sequence_number(),
            acknowledged: segment.ack().then_some(segment.acknowledgment_number()),
            is_first: segment.syn(),
            is_last: segment.fin(),
            is_reset: segment.rst(),
        }
    }
}
