//! Servers by URL: `fabric://ADDRESS[:PORT][?provider=..][&user=..&password=..]`.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;

use micanite_fabric::{Addressing, FabricAddress, PROVIDERS, Provider};

use crate::error::{Error, FABRIC_SCHEME as SCHEME};

const PROVIDER: &str = "net;ofi_rxm";
const PORT: u16 = 11400;

/// A server that is reached over a fabric.
///
/// `fabric://10.0.0.1:11400?provider=tcp;ofi_rxm&user=me&password=secret`; the provider is `net;ofi_rxm` and
/// the port 11400 if they are missing. `shm` has a name instead of an address. `%3B` and the like stand for
/// bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct FabricUrl {
    address: FabricAddress,
    name: String,
    weight: u32,
    login: Option<(String, String)>,
}

impl FabricUrl {
    /// Returns whether a server's name is one of these.
    pub fn is_one(name: &str) -> bool {
        name.starts_with(SCHEME)
    }

    /// Parses a URL, and resolves the host.
    ///
    /// # Errors
    /// It is malformed, its provider is unknown, or its host has no address.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|reason| Error::Address { name: without_login(text).to_owned(), reason })
    }

    /// Sets the server's share of the keys, relative to the other servers.
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Returns the provider and the address of the first worker.
    pub fn address(&self) -> &FabricAddress {
        &self.address
    }

    /// Returns the name on the continuum: address and port as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns user and password, if the URL has them.
    pub(super) fn login(&self) -> Option<&(String, String)> {
        self.login.as_ref()
    }

    /// Returns the share of the keys.
    pub fn weight(&self) -> u32 {
        self.weight
    }
}

impl FromStr for FabricUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Debug for FabricUrl {
    /// Leaves out the login.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl fmt::Display for FabricUrl {
    /// Leaves out the login.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}?provider={}", self.name, self.address.provider.name)
    }
}

fn without_login(text: &str) -> &str {
    text.split_once('?').map_or(text, |(before, _)| before)
}

fn parse(text: &str) -> Result<FabricUrl, String> {
    let rest = text.strip_prefix(SCHEME).ok_or("it does not begin with fabric://")?;
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut provider, mut user, mut password) = (PROVIDER.to_owned(), None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (word, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value)?;
        match word {
            "provider" => provider = value,
            "user" => user = Some(value),
            "password" => password = Some(value),
            _ => return Err(format!("'{word}' is not provider, user or password")),
        }
    }
    let Some(provider) = Provider::by_name(&provider) else {
        let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        return Err(format!("there is no provider '{provider}'; these are known: {}", names.join(" ")));
    };
    let login = match (user, password) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user, password)),
        _ => return Err("a login has user and password".to_owned()),
    };
    let address = match provider.addressing {
        Addressing::Internet => internet(provider, name)?,
        Addressing::Name => format!("{},{name}", provider.name).parse()?,
    };
    Ok(FabricUrl { address, name: name.to_owned(), weight: 1, login })
}

/// Finds the address of a host.
fn internet(provider: &'static Provider, name: &str) -> Result<FabricAddress, String> {
    let (host, port) = split_port(name)?;
    let ip = match host.parse::<IpAddr>() {
        Ok(ip) => ip,
        Err(_) => {
            let mut found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
            found.next().ok_or("the name has no address")?.ip()
        }
    };
    Ok(FabricAddress { provider, host: ip.to_string(), port: Some(port) })
}

/// Splits `HOST[:PORT]`, with brackets around an IPv6 address that has a port.
fn split_port(name: &str) -> Result<(&str, u16), String> {
    let (host, port) = match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("a port follows ']:'")?)),
        None if name.matches(':').count() > 1 => (name, None),
        None => name.split_once(':').map_or((name, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("the address is missing".to_owned());
    }
    let port = port.map(|port| port.parse().map_err(|_| format!("'{port}' is no port"))).transpose()?;
    Ok((host, port.unwrap_or(PORT)))
}

/// Decodes `%3B` and the like.
///
/// # Errors
/// A `%` without two digits, or bytes that are no UTF-8.
pub fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("two hexadecimal digits follow '%'")?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> String {
        FabricUrl::parse(text).unwrap().address.to_string()
    }

    /// Proves the defaults and the forms of addresses.
    #[test]
    fn a_url_names_a_provider_and_an_address() {
        assert_eq!(address("fabric://127.0.0.1"), "net;ofi_rxm,127.0.0.1:11400");
        assert_eq!(address("fabric://127.0.0.1:7?provider=tcp;ofi_rxm"), "tcp;ofi_rxm,127.0.0.1:7");
        assert_eq!(address("fabric://127.0.0.1:7?provider=tcp%3Bofi_rxm"), "tcp;ofi_rxm,127.0.0.1:7");
        assert_eq!(address("fabric://[::1]:7?provider=efa"), "efa,[::1]:7");
        assert_eq!(address("fabric://[::1]"), "net;ofi_rxm,[::1]:11400");
        assert_eq!(address("fabric://::1"), "net;ofi_rxm,[::1]:11400");
        assert_eq!(address("fabric://cache-1?provider=shm"), "shm,cache-1");
        let name = |text: &str| FabricUrl::parse(text).unwrap().name().to_owned();
        assert_eq!(name("fabric://10.0.0.1:7?provider=efa"), "10.0.0.1:7");
        assert_eq!(name("fabric://10.0.0.1"), "10.0.0.1");
    }

    /// Proves that a login is decoded, and that texts for people leave it out.
    #[test]
    fn a_login_is_not_shown() {
        let url = FabricUrl::parse("fabric://127.0.0.1?user=me&password=a%26b%25").unwrap();
        assert_eq!(url.login, Some(("me".to_owned(), "a&b%".to_owned())));
        assert_eq!(format!("{url:?} {url}").matches("a&b").count(), 0);
        let error = FabricUrl::parse("fabric://127.0.0.1:x?user=me&password=secret").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    /// Proves that an error says what is wrong.
    #[test]
    fn a_wrong_url_says_what_is_expected() {
        for (text, words) in [
            ("127.0.0.1:11400", "fabric://"),
            ("fabric://", "address is missing"),
            ("fabric://127.0.0.1:x", "'x' is no port"),
            ("fabric://[::1]7", "']:'"),
            ("fabric://127.0.0.1?provider=sockets", "net;ofi_rxm tcp;ofi_rxm shm"),
            ("fabric://127.0.0.1?colour=red", "'colour'"),
            ("fabric://127.0.0.1?user=me", "user and password"),
            ("fabric://127.0.0.1?user=%4", "hexadecimal"),
            ("fabric://127.0.0.1?user=%é", "hexadecimal"),
            ("fabric://127.0.0.1?user=%ff&password=", "UTF-8"),
            ("fabric://../passwd?provider=shm", "letters, digits"),
        ] {
            let error = FabricUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
