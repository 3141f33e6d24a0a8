//! Internet checksums (RFC 1071), and their incremental update (RFC 1624).

use std::net::IpAddr;

/// The ones' complement sum of bytes as big-endian 16-bit words, folded to 16 bits. An odd byte at
/// the end counts as if a zero followed.
#[inline]
pub fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut rest = [0; 4];
    let last = words.remainder();
    rest[..last.len()].copy_from_slice(last);
    fold(sum + u64::from(u32::from_be_bytes(rest)))
}

/// The sum of the pseudo header of UDP and others: addresses, protocol and length.
#[inline]
pub fn pseudo_header_sum(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    bytes: usize,
) -> u16 {
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => ones_complement_sum(&address.octets()),
        IpAddr::V6(address) => ones_complement_sum(&address.octets()),
    };
    let addresses = u64::from(of(source)) + u64::from(of(destination));
    fold(addresses + u64::from(protocol) + bytes as u64)
}

/// The checksum of a UDP header (whose own field counts as zero here: leave it zero) and payload.
#[inline]
pub fn udp_checksum(pseudo_header_sum: u16, datagram: &[u8]) -> u16 {
    let sum = u64::from(ones_complement_sum(datagram)) + u64::from(pseudo_header_sum);
    match !fold(sum) {
        // Zero would mean that there is none (RFC 768).
        0 => 0xffff,
        sum => sum,
    }
}

/// The checksum after 16-bit words have changed from the first to the second of each pair (RFC 1624,
/// equation 3).
#[inline]
pub fn updated(checksum: u16, changes: &[(u16, u16)]) -> u16 {
    let mut sum = u64::from(!checksum);
    for (before, after) in changes {
        sum += u64::from(!before) + u64::from(*after);
    }
    !fold(sum)
}

#[inline]
fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As RFC 1071 writes it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(ones_complement_sum(&bytes), 0xddf2);
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_naive_one(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(ones_complement_sum(&bytes), naive(&bytes));
        }

        #[test]
        fn an_update_is_what_computing_it_anew_gives(
            mut words in proptest::collection::vec(any::<u16>(), 3..20),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u16>()), 0..5),
        ) {
            // A checksum over all zeros does not occur in headers, and is the one ambiguous case.
            words[0] = 0x4500;
            let sum = |words: &[u16]| {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                !ones_complement_sum(&bytes)
            };
            let mut checksum = sum(&words);
            for (at, after) in changes {
                let at = 1 + at.index(words.len() - 1);
                checksum = updated(checksum, &[(words[at], after)]);
                words[at] = after;
            }
            prop_assert_eq!(checksum, sum(&words));
        }
    }
}
