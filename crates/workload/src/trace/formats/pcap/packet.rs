//! Payload of TCP and UDP from a link layer's frame.

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
const VLAN_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

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

    /// Returns the bytes behind the link layer's header, if they are IP.
    fn ip(self, frame: &[u8]) -> Result<&[u8], Skipped> {
        let (mut protocol, mut at) = match self {
            Self::RawIp => return Ok(frame),
            Self::Ethernet => (u16_at(frame, 12)?, 14),
            Self::Cooked => {
                // On loopback, every packet is seen when it is sent and when it is received.
                if u16_at(frame, 0)? == u16::from(OUTGOING) && u16_at(frame, 2)? == LOOPBACK {
                    return Err(Skipped::Other);
                }
                (u16_at(frame, 14)?, 16)
            }
            Self::Cooked2 => {
                let is_outgoing = frame.get(10) == Some(&OUTGOING);
                if is_outgoing && u16_at(frame, 8)? == LOOPBACK {
                    return Err(Skipped::Other);
                }
                (u16_at(frame, 0)?, 20)
            }
        };
        while VLAN_TYPES.contains(&protocol) {
            protocol = u16_at(frame, at + 2)?;
            at += 4;
        }
        match protocol {
            IPV4 | IPV6 => frame.get(at..).ok_or(Skipped::Cut),
            _ => Err(Skipped::Other),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Skipped> {
    let bytes = bytes.get(at..at + 2).ok_or(Skipped::Cut)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Skipped> {
    Ok(u32::from(u16_at(bytes, at)?) << 16 | u32::from(u16_at(bytes, at + 2)?))
}

struct Ip<'a> {
    from: [u8; 16],
    to: [u8; 16],
    protocol: u8,
    /// Captured bytes, without the link layer's padding.
    payload: &'a [u8],
    missing: usize,
}

impl<'a> Ip<'a> {
    /// `wire_bytes` is the length of the packet if it does not say it itself.
    fn of(packet: &'a [u8], wire_bytes: usize) -> Result<Self, Skipped> {
        match packet.first().ok_or(Skipped::Cut)? >> 4 {
            4 => Self::version_4(packet, wire_bytes),
            6 => Self::version_6(packet, wire_bytes),
            _ => Err(Skipped::Other),
        }
    }

    fn version_4(packet: &'a [u8], wire_bytes: usize) -> Result<Self, Skipped> {
        let header = packet.get(..20).ok_or(Skipped::Cut)?;
        let header_bytes = usize::from(header[0] & 15) * 4;
        // Packets that the interface itself is to split have no length yet.
        let total = match usize::from(u16_at(header, 2)?) {
            0 => wire_bytes,
            total => total,
        };
        // All but "do not fragment": parts of a packet.
        if u16_at(header, 6)? & 0x3fff != 0 {
            return Err(Skipped::Fragment);
        }
        let address = |at: usize| {
            let mut mapped = [0; 16];
            mapped[10..12].fill(0xff);
            mapped[12..].copy_from_slice(&header[at..at + 4]);
            mapped
        };
        Self {
            from: address(12),
            to: address(16),
            protocol: header[9],
            payload: packet.get(header_bytes.max(20)..).ok_or(Skipped::Cut)?,
            missing: 0,
        }
        .of_length(total.saturating_sub(header_bytes))
    }

    fn version_6(packet: &'a [u8], wire_bytes: usize) -> Result<Self, Skipped> {
        let header = packet.get(..40).ok_or(Skipped::Cut)?;
        let address = |at: usize| {
            let mut address = [0; 16];
            address.copy_from_slice(&header[at..at + 16]);
            address
        };
        let mut length = match usize::from(u16_at(header, 4)?) {
            0 => wire_bytes.saturating_sub(40),
            length => length,
        };
        let (mut protocol, mut payload) = (header[6], &packet[40..]);
        loop {
            let bytes = match protocol {
                // Hop-by-hop, routing, destination options.
                0 | 43 | 60 => 8 * (1 + usize::from(*payload.get(1).ok_or(Skipped::Cut)?)),
                44 if u16_at(payload, 2)? & 0xfff9 == 0 => 8,
                44 => return Err(Skipped::Fragment),
                _ => break,
            };
            protocol = payload[0];
            payload = payload.get(bytes..).ok_or(Skipped::Cut)?;
            length = length.saturating_sub(bytes);
        }
        Self { from: address(8), to: address(24), protocol, payload, missing: 0 }.of_length(length)
    }

    /// The length that the payload had.
    fn of_length(self, length: usize) -> Result<Self, Skipped> {
        let captured = self.payload.len().min(length);
        Ok(Self { payload: &self.payload[..captured], missing: length - captured, ..self })
    }
}

/// Returns what a captured frame carries to or from a port.
pub(super) fn decode(link: Link, frame: &[u8], wire_bytes: usize, port: u16) -> Result<Piece<'_>, Skipped> {
    let packet = link.ip(frame)?;
    let link_bytes = frame.len() - packet.len();
    let ip = Ip::of(packet, wire_bytes.saturating_sub(link_bytes))?;
    if ip.protocol != TCP && ip.protocol != UDP {
        return Err(Skipped::Other);
    }
    let (from_port, to_port) = (u16_at(ip.payload, 0)?, u16_at(ip.payload, 2)?);
    let is_from_client = to_port == port;
    if !is_from_client && from_port != port {
        return Err(Skipped::Other);
    }
    let (client, server) =
        if is_from_client { ((ip.from, from_port), ip.to) } else { ((ip.to, to_port), ip.from) };
    let is_tcp = ip.protocol == TCP;
    let (tcp, header_bytes) = if is_tcp { tcp(ip.payload)? } else { (Tcp::default(), 8) };
    Ok(Piece {
        flow: Flow { client, server, is_tcp },
        is_from_client,
        tcp,
        payload: ip.payload.get(header_bytes..).ok_or(Skipped::Cut)?,
        missing: ip.missing,
    })
}

/// The header and its length.
fn tcp(segment: &[u8]) -> Result<(Tcp, usize), Skipped> {
    let header = segment.get(..20).ok_or(Skipped::Cut)?;
    let has = |flag: u8| header[13] & flag != 0;
    let acknowledged = u32_at(header, 8)?;
    let tcp = Tcp {
        sequence: u32_at(header, 4)?,
        acknowledged: has(0x10).then_some(acknowledged),
        is_first: has(0x02),
        is_last: has(0x01),
        is_reset: has(0x04),
    };
    Ok((tcp, usize::from(header[12] >> 4).max(5) * 4))
}
