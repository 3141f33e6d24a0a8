//! Configuration in two layers: [`Options`], what a person writes, and [`Settings`], what the
//! server checks and derives from it.
//!
//! Options come from the command line, the environment (`MICANITE_...`), a TOML file
//! (`--config`), and defaults; the first that says something wins.

mod address;
mod admin;
mod auth;
mod checks;
mod fabric;
mod io;
mod memcached;
mod native;
mod options;
mod readers;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod udp;

pub use auth::AuthSettings;
pub use fabric::{FabricCache, FabricSettings};
pub use io::{IoChoice, IoSettings};
pub use memcached::{Binding, Extended, Switches};
pub use native::{BypassSettings, NativeInterface, PortSettings};
pub use options::{
    Arguments, Offered, Options, Value, nearest, offered, reference, reread_names, tabled_names, tables,
    unknown_variables,
};
pub use readers::{KernelGetSettings, LocalSettings};
pub use settings::{ControlSocket, Listen, NativeSettings, Settings};
pub use tls::{ListenTls, TlsSettings};
pub use udp::UdpSettings;

/// A sentence for the person who configured the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
