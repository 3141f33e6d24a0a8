//! Numbers of transfers: whose buffer it is, and which.

/// Buffers of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// For anybody's greeting or hello.
    Hello,
    /// With the answer to a hello.
    HelloReply,
    /// A client's requests.
    Request,
    /// The replies to them.
    Reply,
    /// Entries for a client.
    Push,
    /// A client's accesses.
    History,
}

impl Part {
    const ALL: [Self; 6] =
        [Self::Hello, Self::HelloReply, Self::Request, Self::Reply, Self::Push, Self::History];
}

/// Number of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub part: Part,
    /// Place of the client.
    pub place: u32,
    /// Number of the client that had the place when the transfer began.
    pub generation: u32,
}

const PART_BITS: u32 = 3;
const PLACE_BITS: u32 = 29;

impl Token {
    /// A transfer of no client.
    pub const fn of(part: Part) -> Self {
        Self { part, place: 0, generation: 0 }
    }

    pub fn encode(self) -> u64 {
        let place = u64::from(self.place) & ((1 << PLACE_BITS) - 1);
        self.part as u64 | place << PART_BITS | u64::from(self.generation) << (PART_BITS + PLACE_BITS)
    }

    /// Returns `None` for a number that no transfer has.
    pub fn decode(number: u64) -> Option<Self> {
        Some(Self {
            part: *Part::ALL.get((number & ((1 << PART_BITS) - 1)) as usize)?,
            place: (number >> PART_BITS) as u32 & ((1 << PLACE_BITS) - 1),
            generation: (number >> (PART_BITS + PLACE_BITS)) as u32,
        })
    }
}

/// Returns whether a transfer was that of a list, for which nobody waits.
pub fn is_of_lists(token: u64) -> bool {
    Token::decode(token).is_some_and(|token| matches!(token.part, Part::Push | Part::History))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        for part in Part::ALL {
            for (place, generation) in [(0, 0), (4095, u32::MAX), ((1 << PLACE_BITS) - 1, 7)] {
                let token = Token { part, place, generation };
                assert_eq!(Token::decode(token.encode()), Some(token));
            }
        }
        assert_eq!(Token::decode(7), None);
    }
}
