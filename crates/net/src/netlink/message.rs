//! Messages of netlink, and their attributes.

use std::io;
use std::net::IpAddr;

/// Bytes of `nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `NLM_F_REQUEST`, `NLM_F_DUMP`
pub const REQUEST: u16 = 1;
pub const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The other bits mark nested attributes, and numbers in network order.
const TYPE_MASK: u16 = 0x3fff;

/// Builds a request of a kind, with flags.
pub fn request((kind, flags): (u16, u16), sequence: u32, body: &[u8]) -> Vec<u8> {
    let len = HEADER_BYTES + body.len();
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&(len as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(body);
    message
}

/// Collects the bodies of the answers to a request from a datagram. Returns true if the last answer
/// was among them.
///
/// # Errors
/// The kernel refuses the request, or the datagram is malformed.
pub fn collect(mut bytes: &[u8], sequence: u32, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(header) = bytes.get(..HEADER_BYTES) {
        let len = number(&header[..4]) as usize;
        let body = bytes.get(HEADER_BYTES..len);
        let body = body.ok_or(io::ErrorKind::InvalidData)?;
        let is_answer = number(&header[8..12]) as u32 == sequence;
        match number(&header[4..6]) as u16 {
            _ if !is_answer => {}
            DONE => return Ok(true),
            ERROR => {
                let code = body.get(..4).map_or(0, number) as u32;
                let errno = code.cast_signed().wrapping_neg();
                return Err(io::Error::from_raw_os_error(errno));
            }
            _ => answers.push(body.to_vec()),
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Appends an attribute.
pub fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Iterates over kinds and values of attributes. A malformed attribute ends the iteration.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.get(..4)?;
        let (len, kind) = (number(&header[..2]) as usize, number(&header[2..]) as u16);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

/// Finds the value of an attribute among others.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = attributes(bytes);
    all.find_map(|(found, value)| (found == kind).then_some(value))
}

/// Reads a number of up to eight bytes, in the machine's order.
pub fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    let count = bytes.len().min(8);
    if cfg!(target_endian = "big") {
        whole[8 - count..].copy_from_slice(&bytes[..count]);
    } else {
        whole[..count].copy_from_slice(&bytes[..count]);
    }
    u64::from_ne_bytes(whole)
}

/// Reads an address.
pub fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes are found by their kind; truncated or malformed ones end the search.
    #[test]
    fn malformed_attributes_end_the_search() {
        let mut message = Vec::new();
        attribute(&mut message, 7, b"seven");
        attribute(&mut message, 0x8000 | 9, &[1, 0, 0, 0]);
        assert_eq!(find(&message, 9), Some(&[1u8, 0, 0, 0][..]));
        assert_eq!(find(&message, 8), None);
        for cut in 0..message.len() {
            let found = find(&message[..cut], 9);
            assert_eq!(found, None, "{cut}");
        }
        // An attribute of length 0 must not loop for ever.
        assert_eq!(find(&[0; 16], 9), None);
    }

    /// Answers to other requests are skipped; refusals and malformed datagrams are errors.
    #[test]
    fn only_answers_to_the_request_count() {
        let mut datagram = request((24, 0), 6, &[6; 4]);
        datagram.extend(request((24, 0), 7, &[7; 6]));
        // Messages begin at multiples of four bytes.
        datagram.resize(datagram.len().next_multiple_of(4), 0);
        datagram.extend(request((DONE, 0), 7, &[0; 4]));
        let mut answers = Vec::new();
        assert!(collect(&datagram, 7, &mut answers).unwrap());
        assert_eq!(answers, [[7; 6]]);
        assert!(!collect(&datagram[..20], 6, &mut answers).unwrap());
        assert_eq!(answers.len(), 2);
        let refusal = request((ERROR, 0), 8, &(-2_i32).to_ne_bytes());
        let error = collect(&refusal, 8, &mut answers).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2));
        assert!(!collect(&refusal, 9, &mut answers).unwrap());
        assert!(collect(&[0; 32], 0, &mut answers).is_err());
        for cut in 0..datagram.len() {
            let _ = collect(&datagram[..cut], 7, &mut answers);
        }
    }
}
