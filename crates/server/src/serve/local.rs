//! Starts with `--local`: the page and the socket of readers on the same host, and what they can see.

use std::time::Duration;

use micanite_control::size;
use micanite_engine::Cache;
use micanite_net::Listener;

use super::{Failure, process};
use crate::configuration::{LocalSettings, Settings};
use crate::control::local::LocalShared;
use crate::limits::LOCAL_GREETINGS_MAX;
use crate::telemetry::log::start;

/// Makes the page of readers, if there may be some.
pub(super) fn share(settings: &Settings, cache: &Cache, now_s: u32) -> Result<Option<LocalShared>, Failure> {
    if settings.local.is_none() {
        return Ok(None);
    }
    let shared = LocalShared::new(settings, cache, process::random_seed()?, now_s);
    let failed = |error| Failure::system(format!("cannot share memory with readers (--local): {error}"));
    shared.map(Some).map_err(failed)
}

/// Opens the socket of readers, if there may be some.
pub(super) fn listen(settings: &Settings) -> Result<Option<Listener>, Failure> {
    let Some(local) = &settings.local else {
        return Ok(None);
    };
    let listener = Listener::unix(&local.path, local.mode, LOCAL_GREETINGS_MAX as u32);
    listener.map(Some).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => "Another server is there, or it is no socket",
            _ => "The directory has to exist and to be writable",
        };
        let path = local.path.display();
        Failure::system(format!(
            "failed to listen on {path} (--local): {error}\n  {advice}: choose another path."
        ))
    })
}

/// Says how long memory took to make that other processes read.
pub(super) fn note_memory(settings: &Settings, took: Duration) {
    if settings.local.is_some() && settings.image.is_none() {
        let (bytes, ms) = (settings.memory_bytes, took.as_millis());
        let per_gib = took.as_secs_f64() * 1000.0 * (1u64 << 30) as f64 / bytes as f64;
        let memory = size::text(bytes);
        start!(INFO, "{memory} that readers map (--local) were made in {ms} ms, {per_gib:.0} ms per GiB");
    }
}

/// Returns a line for the log of the start.
pub(super) fn text(local: &LocalSettings) -> String {
    let bytes = size::text(LocalShared::bytes(local.clients_max));
    let (path, clients_max) = (local.path.display(), local.clients_max);
    format!("{path}, mode {:04o}: at most {clients_max} readers, {bytes} for their notes", local.mode)
}

/// Says what a reader can see.
pub(super) fn warn(settings: &Settings) {
    let Some(local) = &settings.local else {
        return;
    };
    start!(
        INFO,
        "every reader of --local can see the whole memory: all keys, values and flags, those of deleted and \
         expired items until their space is used again, and the secret of the index (docs/local.md); watch \
         and recordings do not see its gets"
    );
    if local.mode & 0o007 != 0 && settings.auth.is_none() {
        start!(
            WARN,
            "every user of this host may attach to --local: restrict --local-mode, or ask for \
             passwords (-Y)"
        );
    }
}
