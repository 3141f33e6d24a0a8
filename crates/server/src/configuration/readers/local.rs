//! `--local`: readers on the same host, in other processes.

use std::path::PathBuf;

use crate::configuration::{Options, Settings, UsageError, checks};

/// Settings of `--local`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    /// The socket where readers come, absolute.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// Readers at the same time.
    pub clients_max: usize,
}

/// Checks them. The other settings are complete.
pub(in crate::configuration) fn local(
    options: &Options,
    settings: &Settings,
) -> Result<Option<LocalSettings>, UsageError> {
    let Some(path) = checks::path_or_none(&options.local)? else {
        let others = [&options.local_mode, &options.local_clients];
        return match others.into_iter().find(|option| option.is_said()) {
            Some(option) => Err(option.wrong("there is no --local PATH that it is for")),
            None => Ok(None),
        };
    };
    if settings.kernel_get.is_some() {
        return Err(options.local.wrong(
            "other processes cannot read the maps of --kernel-get without being able to write them: leave \
             one of the two out",
        ));
    }
    if settings.speaks_binary_only() {
        return Err(options.local.wrong("readers send their writes as text, which -B binary refuses"));
    }
    if settings.unix_socket.as_ref() == Some(&path) {
        return Err(options
            .local
            .wrong("it is the socket of -s, which other clients use: choose another path"));
    }
    Ok(Some(LocalSettings {
        path,
        mode: checks::unix_mode(&options.local_mode)?,
        clients_max: options.local_clients.number()?,
    }))
}
