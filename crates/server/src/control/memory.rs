//! The limit of the memory, as operators see and set it.

use micanite_control::size;
use micanite_engine::{LimitError, Semantics};

use crate::shared::Server;
use crate::telemetry::admin::resident_bytes;

/// Returns the limit, how far the server has followed it, and what the process has in use.
pub(crate) fn report(server: &Server) -> String {
    let cache = &server.shared.cache;
    let followed = match cache.follows_memory_limit() {
        true => String::new(),
        false => format!(", followed to {}", size::text(cache.memory_used_bytes())),
    };
    format!(
        "limit {}{followed}, at most {} (--memory-max), {} resident of the process\n",
        size::text(cache.memory_limit_bytes()),
        size::text(server.settings.memory_bytes_max),
        size::text(resident_bytes() as usize),
    )
}

/// Changes the limit; returns a report.
///
/// # Errors
/// The reason for a refusal, and the remedy.
pub(crate) fn set(server: &Server, bytes: usize) -> Result<String, String> {
    let before = size::text(server.shared.cache.memory_limit_bytes());
    match server.shared.cache.set_memory_limit(bytes) {
        Ok(()) => Ok(format!("memory: {before} -> {}\n{}", size::text(bytes), report(server))),
        Err(error) => Err(reason(server, bytes, error)),
    }
}

fn reason(server: &Server, bytes: usize, error: LimitError) -> String {
    let wanted = size::text(bytes);
    let whole_mib = |bytes: usize| size::text(bytes.next_multiple_of(1 << 20));
    match error {
        LimitError::TooSmall { least_bytes } => {
            let holds = match server.settings.semantics {
                Semantics::Store => "the items that are stored, the index",
                Semantics::Cache => "the index",
            };
            let least = whole_mib(least_bytes);
            format!("{wanted} have no room for {holds} and the largest value (-I): at least {least}")
        }
        LimitError::TooLarge { most_bytes } => format!(
            "{wanted} are more than the {} that the server has reserved: start it with a larger --memory-max",
            size::text(most_bytes)
        ),
        LimitError::Fixed => {
            "the memory keeps its size with --kernel-get, and with --local without --image: \
             start the server with another -m"
                .into()
        }
        LimitError::NoSpace { free_bytes } => format!(
            "the file system of the image has {} free, too few for {wanted}: make room there",
            size::text(free_bytes as usize)
        ),
    }
}
