//! Limits of an endpoint.

/// Completions that one poll returns at most.
pub const BATCH: usize = 16;
/// Transfers under way in one endpoint, if not configured.
pub const TRANSFERS_MAX: u32 = 256;
/// Peers that one endpoint knows, if not configured.
pub const PEERS_MAX: u32 = 1024;
/// Time after which a peer that takes nothing is gone, if not configured.
pub const BUSY_MS_MAX: u64 = 5000;
/// Bytes of an endpoint's own address.
pub const NAME_BYTES_MAX: usize = 256;
