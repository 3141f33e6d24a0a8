//! Internet checksums (RFC 1071), and their incremental update (RFC 1624).

use std::net::IpAddr;

/// Returns the ones' complement sum of bytes as big-endian 16-bit words, folded to 16 bits. An odd
/// last byte counts as if a zero followed.
#[inline]
pub fn ones_complement_sum(bytes: &[u8]) -> u16 {
    folded(unfolded_sum(bytes))
}

/// Returns a sum to be added to others and then [`folded`]. It sums words in this machine's order,
/// which gives the same result (RFC 1071, 2 B).
#[inline]
pub(super) fn unfolded_sum(bytes: &[u8]) -> u64 {
    let (mut sum, mut high) = (0, 0);
    let (words, mut rest) = bytes.as_chunks();
    for word in words {
        let word = u64::from_ne_bytes(*word);
        sum += word & 0xffff_ffff;
        high += word >> 32;
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        (sum, rest) = (sum + u64::from(u32::from_ne_bytes(*word)), behind);
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        (sum, rest) = (sum + u64::from(u16::from_ne_bytes(*word)), behind);
    }
    if let [last] = rest {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum + high
}

/// Converts a number to its contribution to an [`unfolded_sum`]: two bytes in network order.
#[inline]
pub(super) const fn unfolded_word(word: u16) -> u64 {
    word.to_be() as u64
}

/// Folds a sum to the form that is written and compared.
#[inline]
pub(super) fn folded(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    u16::from_be(fold((sum & 0xffff_ffff) + (sum >> 32)))
}

/// Returns the sum of the pseudo header of UDP and other protocols: addresses, protocol and length.
#[inline]
pub fn pseudo_header_sum((source, destination): (IpAddr, IpAddr), protocol: u8, bytes: usize) -> u16 {
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => unfolded_sum(&address.octets()),
        IpAddr::V6(address) => unfolded_sum(&address.octets()),
    };
    folded(of(source) + of(destination) + unfolded_pseudo(protocol, bytes))
}

/// Returns the contribution of a pseudo header without the addresses.
#[inline]
pub(super) const fn unfolded_pseudo(protocol: u8, bytes: usize) -> u64 {
    unfolded_word(protocol as u16) + unfolded_word(bytes as u16)
}

/// Computes the checksum of a UDP header and payload. The checksum field has to be zero.
#[inline]
pub fn udp_checksum(pseudo_header_sum: u16, datagram: &[u8]) -> u16 {
    nonzero(!folded(unfolded_sum(datagram) + unfolded_word(pseudo_header_sum)))
}

/// Returns a UDP checksum in the form to send: zero would mean that there is none (RFC 768).
#[inline]
pub(super) const fn nonzero(checksum: u16) -> u16 {
    match checksum {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Updates a checksum after 16-bit words changed from the first to the second of each pair (RFC
/// 1624, equation 3).
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

    /// Sums as in RFC 1071.
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
        fn sums_match_the_naive_version(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(ones_complement_sum(&bytes), naive(&bytes));
        }

        #[test]
        fn updated_checksums_match_recomputed_ones(
            mut words in proptest::collection::vec(any::<u16>(), 3..20),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u16>()), 0..5),
        ) {
            // No header has a checksum over all zeros, and it is the one ambiguous case.
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
