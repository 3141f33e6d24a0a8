//! Warnings about a configuration that works, and not as one would expect.

mod crossing;
mod exposure;
mod idle;

use crate::shared::Server;
pub(super) use exposure::is_reachable;

/// Logs warnings about listeners.
pub(super) fn of_listeners(server: &Server) {
    exposure::warn(&server.settings);
}

/// Logs warnings about workers, partitions and interfaces.
pub(super) fn of_workers(server: &Server) {
    let native = server.shared.native.as_ref();
    if let Some(native) = native {
        crossing::warn(native, &server.settings);
    }
    idle::warn(&server.settings, &server.shared.cache, native);
}
