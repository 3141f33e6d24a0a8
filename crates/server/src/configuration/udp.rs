//! memcached's protocols over UDP: `-U` and `--udp-allow`. There is no TLS in datagrams.

use std::net::SocketAddr;

use super::settings::Listen;
use super::tls::ListenTls;
use super::{Options, UsageError, Word, address};
use crate::udp::AllowList;

const NAME: &str = "-U/--udp-port";

/// Where and for whom datagrams are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Where it listens; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// As given: -1 for a free one.
    pub port: i64,
    /// Who is answered.
    pub allow: AllowList,
}

/// The port as given, 0 for none.
pub(super) fn port(options: &Options) -> Result<i64, UsageError> {
    match &options.udp_port {
        None => Ok(0),
        Some(Word(text)) => match text.parse() {
            Ok(port) if (-1..=65535).contains(&port) => Ok(port),
            _ => Err(UsageError(format!(
                "{NAME}: '{text}' is no port: 1 to 65535, 0 for none, -1 for a free one"
            ))),
        },
    }
}

/// Checks both options. It listens where TCP would, on its own port; a port in a word of `-l` is
/// for both, as with memcached.
pub(super) fn udp(options: &Options, listen: &Listen) -> Result<Option<UdpSettings>, UsageError> {
    let port = port(options)?;
    let allow = match &options.udp_allow {
        None => AllowList::default(),
        Some(Word(text)) => text.parse().map_err(|what| UsageError(format!("--udp-allow: {what}")))?,
    };
    if port == 0 {
        return Ok(None);
    }
    let mut addresses = Vec::new();
    for word in &listen.words {
        let (_, word) = ListenTls::split(word);
        let found = address::resolve(word, port.max(0) as u16);
        addresses.extend(found.map_err(|what| UsageError(format!("-l/--listen: {what}")))?);
    }
    Ok(Some(UdpSettings { addresses, port, allow }))
}
