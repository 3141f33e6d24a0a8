//! Addresses: `PROVIDER,ADDRESS[:PORT]`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::limits::NAME_BYTES_MAX;
use crate::provider::{Addressing, PROVIDERS, Provider};

/// Room for libfabric's prefix of a name.
const NAME_SPARE_BYTES: usize = 16;

/// A provider, and an address that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricAddress {
    pub provider: &'static Provider,
    /// An IP address without its port, or a name of this machine.
    pub host: String,
    /// A listener without a port gets one from its provider.
    pub port: Option<u16>,
}

impl FromStr for FabricAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, address)) = text.split_once(',') else {
            return Err(format!(
                "'{text}' is not PROVIDER,ADDRESS[:PORT], as in net;ofi_rxm,127.0.0.1:11400"
            ));
        };
        let Some(provider) = Provider::by_name(name) else {
            let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
            return Err(format!("there is no provider '{name}'; these are known: {}", names.join(" ")));
        };
        let (host, port) = match provider.addressing {
            Addressing::Internet => internet(address)?,
            Addressing::Name => (local_name(address)?, None),
        };
        Ok(Self { provider, host, port })
    }
}

/// Parses `IP[:PORT]`, with brackets around an IPv6 address that has a port.
fn internet(text: &str) -> Result<(String, Option<u16>), String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), Some(address.port())));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok((address.to_string(), None)),
        Err(_) => Err(format!("'{text}' is not IP[:PORT], with brackets around IPv6: [::1]:11400")),
    }
}

/// Parses a name, which becomes a file's.
fn local_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > NAME_BYTES_MAX - NAME_SPARE_BYTES || !text.bytes().all(is_plain) {
        return Err(format!("'{text}' is not a name: use letters, digits, '-', '_' and '.'"));
    }
    Ok(text.to_owned())
}

impl fmt::Display for FabricAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.provider.name;
        match self.port {
            Some(port) if self.host.contains(':') => write!(out, "{name},[{}]:{port}", self.host),
            Some(port) => write!(out, "{name},{}:{port}", self.host),
            None => write!(out, "{name},{}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FabricAddress, String> {
        text.parse()
    }

    #[test]
    fn an_address_parses_back_from_its_text() {
        for text in [
            "net;ofi_rxm,127.0.0.1:11400",
            "tcp;ofi_rxm,127.0.0.1",
            "verbs;ofi_rxm,[::1]:7",
            "efa,fe80::1",
            "shm,micanite-1",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("net;ofi_rxm,[::1]").unwrap().host, "::1");
    }

    #[test]
    fn a_wrong_address_says_what_is_expected() {
        for (text, words) in [
            ("", "PROVIDER,ADDRESS[:PORT]"),
            ("shm", "PROVIDER,ADDRESS[:PORT]"),
            ("sockets,127.0.0.1", "net;ofi_rxm tcp;ofi_rxm shm verbs;ofi_rxm efa"),
            ("net;ofi_rxm,", "IP[:PORT]"),
            ("net;ofi_rxm,localhost:1", "IP[:PORT]"),
            ("net;ofi_rxm,127.0.0.1:65536", "IP[:PORT]"),
            ("net;ofi_rxm,::1:99999", "IP[:PORT]"),
            ("shm,", "letters, digits"),
            ("shm,../passwd", "letters, digits"),
            ("shm,name:1", "letters, digits"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
