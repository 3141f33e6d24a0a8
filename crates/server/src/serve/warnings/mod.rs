//! Warnings about a configuration that works, and not as one would expect.

mod crossing;
mod exposure;
mod idle;

use micanite_control::size;

use crate::shared::Server;
use crate::shared::clock::unix_now_s;
use crate::telemetry::log::start;
pub(super) use exposure::is_reachable;

/// Warns of an image that needs more memory than the limit of the options. That happens when the limit was
/// raised while a server ran.
pub(super) fn of_memory(server: &Server) {
    let (limit_bytes, wanted_bytes) =
        (server.shared.cache.memory_limit_bytes(), server.settings.memory_bytes);
    if limit_bytes > wanted_bytes {
        let limit = size::text(limit_bytes);
        start!(
            WARN,
            "what the image holds has no room in {} (-m): the limit is {limit}, the least that fits; start \
             with a larger -m, or lower the limit when less is stored (ctl memory)",
            size::text(wanted_bytes)
        );
    }
}

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
