//! Addresses of servers: `SCHEME://ADDRESS`.

mod argument;
mod login;
mod tls;

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use micanite_client::{FabricUrl, LocalUrl};

pub(crate) use argument::AddressArgument;
pub(crate) use login::{Login, PASSWORD_VARIABLE, without_login};
pub(crate) use tls::{TlsArguments, TlsClient};

/// Time that a server may take to accept.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The protocols that can be spoken; all addresses of a run have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol over a stream.
    Memcached,
    /// memcached's text protocol in datagrams.
    MemcachedUdp,
    /// Redis's RESP2 over a stream.
    Redis,
    /// Micanite's native protocol, in datagrams to the core that owns the key.
    Native,
    /// The same in messages of a fabric, with one-sided reads.
    Fabric,
    /// Reads of the memory of a server on the same host; writes by memcached's meta commands.
    Local,
}

impl Protocol {
    /// Returns whether one client speaks to all targets, and shares the keys out among them.
    pub const fn shares_keys(self) -> bool {
        matches!(self, Self::Native | Self::Fabric)
    }
}

/// A place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `host:port`.
    Host(String),
    /// Path of a Unix socket.
    Path(PathBuf),
    /// Provider and address.
    Fabric(FabricUrl),
    /// Socket of a server on the same host.
    Local(LocalUrl),
}

/// One server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    protocol: Protocol,
    place: Place,
    /// The address without the login.
    text: String,
    login: Option<Login>,
    is_encrypted: bool,
    tls: Option<TlsClient>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An address of TCP or UDP.
    Inet(SocketAddr),
    Unix(PathBuf),
    Fabric(FabricUrl),
    Local(LocalUrl),
}

impl Endpoint {
    pub(crate) const fn fabric(&self) -> Option<&FabricUrl> {
        match self {
            Self::Fabric(url) => Some(url),
            Self::Inet(_) | Self::Unix(_) | Self::Local(_) => None,
        }
    }
}

/// The scheme of memcached's protocol over TLS.
const ENCRYPTED: &str = "memcacheds";

/// Names, protocols, and default ports.
const SCHEMES: [(&str, Protocol, u16); 5] = [
    ("native", Protocol::Native, 11300),
    ("memcached", Protocol::Memcached, 11211),
    (ENCRYPTED, Protocol::Memcached, 11211),
    ("memcached+udp", Protocol::MemcachedUdp, 11211),
    ("redis", Protocol::Redis, 6379),
];

impl Address {
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn new(protocol: Protocol, place: Place, text: String) -> Self {
        Self { protocol, place, text, login: None, is_encrypted: false, tls: None }
    }

    /// User and password, if there are some.
    pub(crate) const fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Returns whether connections to it begin with a TLS handshake.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The settings of a TLS connection to it, if it needs some.
    pub(crate) const fn tls(&self) -> Option<&TlsClient> {
        self.tls.as_ref()
    }

    /// Looks the host up.
    ///
    /// # Errors
    /// When it has no address.
    pub fn resolve(&self) -> Result<Endpoint, String> {
        match &self.place {
            Place::Path(path) => Ok(Endpoint::Unix(path.clone())),
            Place::Fabric(url) => Ok(Endpoint::Fabric(url.clone())),
            Place::Local(url) => Ok(Endpoint::Local(url.clone())),
            Place::Host(host) => {
                let found = host.to_socket_addrs();
                let found = found.map_err(|error| format!("{self}: cannot resolve '{host}': {error}"))?;
                let is_stream = matches!(self.protocol, Protocol::Memcached | Protocol::Redis);
                let address = one_of(&found.collect::<Vec<_>>(), is_stream);
                address.map(Endpoint::Inet).ok_or_else(|| format!("{self}: '{host}' has no address"))
            }
        }
    }

    /// `host:port`, as clients of several servers name them.
    pub(crate) fn host(&self) -> &str {
        match &self.place {
            Place::Host(host) => host,
            Place::Path(_) | Place::Fabric(_) | Place::Local(_) => &self.text,
        }
    }

    /// Says how to start something that listens there.
    pub fn how_to_start(&self) -> String {
        match (&self.place, self.protocol) {
            (_, Protocol::Redis) => "start a Redis server there".to_owned(),
            (Place::Fabric(url), _) => {
                format!("start a server there: micanite serve --fabric '{}'", url.address())
            }
            (Place::Local(url), _) => {
                format!("start a server there: micanite serve --local {}", url.path().display())
            }
            (Place::Path(path), _) => {
                format!("start a server there: micanite serve -s {}", path.display())
            }
            (Place::Host(host), Protocol::Memcached) if self.is_encrypted => {
                let port = host.rsplit(':').next().unwrap_or_default();
                format!("start a server there: micanite serve -p {port} --tls-cert FILE")
            }
            (Place::Host(host), Protocol::Memcached) => {
                let port = host.rsplit(':').next().unwrap_or_default();
                format!("start a server there: micanite serve -p {port}")
            }
            (Place::Host(host), Protocol::MemcachedUdp) => {
                let port = host.rsplit(':').next().unwrap_or_default();
                format!("start a server that listens on UDP: memcached -U {port}")
            }
            (Place::Host(host), Protocol::Native | Protocol::Fabric | Protocol::Local) => {
                let port = host.rsplit(':').next().unwrap_or_default();
                format!("start a server there: micanite serve --native {port}")
            }
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let what = || {
            format!(
                "'{}' is no target: native://HOST:PORT, fabric://HOST:PORT, local:///PATH, \
                 memcached://HOST:PORT, memcacheds://HOST:PORT (TLS), memcached+udp://HOST:PORT, \
                 unix:///PATH, redis://HOST:PORT or redis+unix:///PATH",
                without_login(text)
            )
        };
        let place = text.split_once("://").map_or("", |(_, rest)| rest.split('?').next().unwrap_or(rest));
        let has_queries = FabricUrl::is_one(text) || LocalUrl::is_one(text);
        if has_queries && place.contains('@') && !place.starts_with('/') {
            let shown = without_login(text);
            return Err(format!("{shown}: its login is written ?user=USER&password=PASSWORD"));
        }
        if FabricUrl::is_one(text) {
            let url: FabricUrl = text.parse().map_err(|error| format!("{error}"))?;
            // Without the login.
            let text = url.to_string();
            return Ok(Self::new(Protocol::Fabric, Place::Fabric(url), text));
        }
        if LocalUrl::is_one(text) {
            let url: LocalUrl = text.parse().map_err(|error| format!("{error}"))?;
            let text = url.to_string();
            return Ok(Self::new(Protocol::Local, Place::Local(url), text));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(what)?;
        let (login, rest) =
            Login::split(rest).map_err(|reason| format!("{}: {reason}", without_login(text)))?;
        let text = format!("{scheme}://{rest}");
        let (protocol, place) = if scheme == "unix" || scheme == "redis+unix" {
            if !rest.starts_with('/') {
                return Err(format!(
                    "'{}' should be {scheme}:///PATH, with three slashes",
                    without_login(&text)
                ));
            }
            let protocol = if scheme == "unix" { Protocol::Memcached } else { Protocol::Redis };
            (protocol, Place::Path(rest.into()))
        } else {
            let known = SCHEMES.into_iter().find(|(name, ..)| *name == scheme);
            let (_, protocol, port) = known.ok_or_else(what)?;
            (protocol, Place::Host(with_port(rest.trim_end_matches('/'), port).ok_or_else(what)?))
        };
        if login.is_some() && protocol != Protocol::Memcached {
            return Err(format!("{text}: {scheme}:// has no login; leave USER:PASSWORD@ out"));
        }
        Ok(Self { login, is_encrypted: scheme == ENCRYPTED, ..Self::new(protocol, place, text) })
    }
}

/// Returns the first of a host's addresses at which a stream can be opened, or else the first one.
fn one_of(addresses: &[SocketAddr], is_stream: bool) -> Option<SocketAddr> {
    let is_open = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok();
    let open = if is_stream && addresses.len() > 1 { addresses.iter().find(is_open) } else { None };
    open.or(addresses.first()).copied()
}

/// `host`, `host:port`, `[::1]`, `[::1]:port`, completed by the port.
fn with_port(host: &str, port: u16) -> Option<String> {
    let name = host.rsplit_once(']').map_or(host, |(_, after)| after);
    match name.rsplit_once(':') {
        Some((_, digits)) => digits.parse::<u16>().ok().map(|_| host.to_owned()),
        None => Some(format!("{host}:{port}")),
    }
    .filter(|_| !host.is_empty() && !host.starts_with(':') && !host.contains('/'))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        match text.parse::<Address>().unwrap().place {
            Place::Host(host) => host,
            Place::Path(path) => path.display().to_string(),
            Place::Fabric(url) => url.address().to_string(),
            Place::Local(url) => url.path().display().to_string(),
        }
    }

    /// A name may have an address at which nobody listens before the one of the server.
    #[test]
    fn streams_go_to_the_first_address_that_accepts() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = server.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(one_of(&[closed, open], true), Some(open));
        assert_eq!(one_of(&[closed, open], false), Some(closed));
        assert_eq!(one_of(&[closed], true), Some(closed));
        assert_eq!(one_of(&[], true), None);
    }

    #[test]
    fn addresses_are_read_with_default_ports() {
        assert_eq!(host("memcached://127.0.0.1:99"), "127.0.0.1:99");
        assert_eq!(host("memcached+udp://localhost"), "localhost:11211");
        assert_eq!(host("redis://[::1]"), "[::1]:6379");
        assert_eq!(host("redis://[::1]:7/"), "[::1]:7");
        assert_eq!(host("unix:///tmp/socket"), "/tmp/socket");
        assert_eq!(host("local:///run/m?user=a&password=b"), "/run/m");
        assert_eq!(host("fabric://127.0.0.1?provider=tcp;ofi_rxm"), "tcp;ofi_rxm,127.0.0.1:11400");
        let secret: Address = "fabric://127.0.0.1:7?user=me&password=secret".parse().unwrap();
        assert_eq!(secret.to_string(), "fabric://127.0.0.1:7?provider=net;ofi_rxm");
        assert!(secret.how_to_start().ends_with("serve --fabric 'net;ofi_rxm,127.0.0.1:7'"));
        let secret: Address = "memcacheds://me:se%40cret@cache:7".parse().unwrap();
        assert!(secret.is_encrypted() && host("memcacheds://cache") == "cache:11211");
        assert_eq!(secret.to_string(), "memcacheds://cache:7");
        assert_eq!(secret.login().map(Login::words).as_deref(), Some("me se@cret"));
        assert!(!format!("{secret:?}").contains("se@cret"));
        assert_eq!(host("unix://me:secret@/run/m"), "/run/m");
        for text in [
            "memcached+udp://a:secret@h",
            "native://a:secret@h",
            "memcached://a:secret@h:x",
            "unix://a:se/secret@/run/m",
            "fabric://a:secret@h",
            "local://a:secret@h",
        ] {
            let reason = text.parse::<Address>().unwrap_err();
            assert!(!reason.contains("secret"), "{reason}");
        }
        let address: Address = "memcached://[::1]:5".parse().unwrap();
        assert_eq!(address.resolve(), Ok(Endpoint::Inet("[::1]:5".parse().unwrap())));
        for text in [
            "",
            "127.0.0.1:1",
            "http://x:1",
            "unix://relative",
            "local://relative",
            "memcached://",
            "memcached://:1",
            "memcached://x:port",
            "memcached://x:70000",
            "fabric://",
            "fabric://127.0.0.1?provider=sockets",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
