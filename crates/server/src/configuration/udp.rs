//! memcached's protocols over UDP: `-U` and `--udp-allow`. There is no TLS in datagrams.

use std::net::SocketAddr;

use super::settings::Listen;
use super::tls::ListenTls;
use super::{Options, UsageError, address};
use crate::udp::AllowList;

/// Addresses of the sockets, and the networks that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Addresses of the sockets; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// As given: -1 for a free one.
    pub port: i64,
    /// Networks whose datagrams are answered.
    pub allow: AllowList,
}

/// Checks both options. It listens where TCP would, on its own port; a port in a word of `-l` is
/// for both, as with memcached.
pub(super) fn udp(options: &Options, listen: &Listen) -> Result<Option<UdpSettings>, UsageError> {
    let port = options.udp_port.port()?;
    let allow = options.udp_allow.parse()?;
    if port == 0 {
        return Ok(None);
    }
    let mut addresses = Vec::new();
    for word in &listen.words {
        let (_, word) = ListenTls::split(word);
        let found = address::resolve(word, port.max(0) as u16);
        addresses.extend(found.map_err(|what| options.listen.wrong(what))?);
    }
    Ok(Some(UdpSettings { addresses, port, allow }))
}
