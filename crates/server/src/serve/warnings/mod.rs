//! Warnings about a configuration that works, and not as one would expect.

mod crossing;
mod exposure;
mod idle;

use crate::shared::Server;
use crate::shared::clock::unix_now_s;
use crate::telemetry::log::start;
pub(super) use exposure::is_reachable;

/// Logs warnings about listeners, and about the certificate that they present.
pub(super) fn of_listeners(server: &Server) {
    exposure::warn(&server.settings);
    if let Some(what) = server.tls.as_ref().and_then(|tls| tls.expired(unix_now_s())) {
        start!(WARN, "{what}");
    }
}

/// Logs warnings about workers, partitions and interfaces.
pub(super) fn of_workers(server: &Server) {
    let native = server.shared.native.as_ref();
    if let Some(native) = native {
        crossing::warn(native, &server.settings);
    }
    idle::warn(&server.settings, &server.shared.cache, native);
}
