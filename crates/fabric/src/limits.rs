//! Limits of an endpoint.

/// Completions that one poll returns at most.
pub const BATCH: usize = 16;
/// Transfers under way in one endpoint, if not configured.
pub const TRANSFERS_MAX: u32 = 256;
/// Addresses that one endpoint keeps, those of forgotten peers among them, if not configured. Memory grows
/// with their number.
pub const PEERS_MAX: u32 = 1 << 16;
/// Transfers that an endpoint may give up in its life.
pub const GIVEN_UP_MAX: u32 = 1 << 14;
/// Forgotten addresses that one greeting tries to remove.
pub(crate) const REMOVALS_MAX: usize = 8;
/// Time after which a peer that takes nothing is gone, if not configured.
pub const BUSY_MS_MAX: u64 = 5000;
/// Bytes of an endpoint's own address.
pub const NAME_BYTES_MAX: usize = 256;

/// Limits of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointOptions {
    /// Transfers under way, posted receives among them.
    pub transfers_max: u32,
    /// Addresses that the endpoint keeps, those of forgotten peers among them. A further one takes the place
    /// of the peer that was forgotten first.
    pub peers_max: u32,
    /// A peer that takes nothing for so long is gone.
    pub busy_ms_max: u64,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { transfers_max: TRANSFERS_MAX, peers_max: PEERS_MAX, busy_ms_max: BUSY_MS_MAX }
    }
}
