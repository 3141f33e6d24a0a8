//! The extension of an item for meta commands.

/// Words of the extension.
pub(super) const STATE_WORDS: usize = 2;

/// State of an item for meta commands, if one asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Second of the last access; 0 = accesses are not recorded.
    pub access_s: u32,
    /// Invalidated, but still served.
    pub stale: bool,
    /// A client was told to recreate it.
    pub token_sent: bool,
    /// CAS value that a client set; 0 = none.
    pub cas: u64,
}

impl State {
    const STALE: u64 = 1 << 32;
    const TOKEN_SENT: u64 = 1 << 33;

    /// Packs the two words of the extension.
    #[inline]
    pub const fn pack(self) -> [u64; STATE_WORDS] {
        let stale = if self.stale { Self::STALE } else { 0 };
        let sent = if self.token_sent { Self::TOKEN_SENT } else { 0 };
        [self.access_s as u64 | stale | sent, self.cas]
    }

    #[inline]
    pub const fn unpack([word, cas]: [u64; STATE_WORDS]) -> Self {
        Self {
            access_s: word as u32,
            stale: word & Self::STALE != 0,
            token_sent: word & Self::TOKEN_SENT != 0,
            cas,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacking_a_state_reverses_packing(access_s: u32, stale: bool, token_sent: bool, cas: u64) {
            let state = State { access_s, stale, token_sent, cas };
            prop_assert_eq!(State::unpack(state.pack()), state);
        }
    }
}
