//! Servers and settings of a client.

use super::{Attempts, Client, ServerStream, TOKEN_FIRST, Way};
use crate::bypass::{BypassPort, PortOptions};
use crate::error::Error;
use crate::fabric::{FabricLink, FabricOptions, FabricUrl};
use crate::link::Link;
use crate::local::{LocalLink, LocalUrl};
use crate::options::{Options, ServerAddress};
use micanite_memory::ForkMark;
use micanite_net::datagram::UdpOptions;
use std::time::Duration;

/// Builds a [`Client`] from servers and settings.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    servers: Vec<(String, u32)>,
    options: Options,
    udp: UdpOptions,
    port: Option<Port>,
    fabric: Option<FabricOptions>,
}

/// A port that bypasses the kernel, as given.
#[derive(Clone, Debug)]
enum Port {
    Name(String),
    Options(PortOptions),
}

impl Builder {
    /// Adds a server, by its `host:port`, or by a URL of `fabric://` or `local://`. All servers of a list are
    /// reached in the same way; a server of `local://` is the only one.
    pub fn server(self, name: &str) -> Self {
        self.weighted_server(name, 1)
    }

    /// Adds a server with a share of the keys, relative to the other servers.
    pub fn weighted_server(mut self, name: &str, weight: u32) -> Self {
        self.servers.push((name.to_owned(), weight));
        self
    }

    /// Sets options of the protocol.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets options of the sockets.
    pub fn udp(mut self, udp: UdpOptions) -> Self {
        self.udp = udp;
        self
    }

    /// Bypasses the kernel's network stack by a port `xdp:INTERFACE`.
    pub fn port(mut self, name: &str) -> Self {
        self.port = Some(Port::Name(name.to_owned()));
        self
    }

    /// Bypasses the kernel's network stack by a port with options, which a DPDK port requires. One
    /// queue is used.
    pub fn port_options(mut self, options: PortOptions) -> Self {
        self.port = Some(Port::Options(options));
        self
    }

    /// Sets options of a fabric. Without them, deadline, `dead_for_ns` and `on_dead` are those of
    /// [`Builder::options`].
    pub fn fabric(mut self, options: FabricOptions) -> Self {
        self.fabric = Some(options);
        self
    }

    /// Resolves the servers and fetches their directories.
    ///
    /// # Errors
    /// A name has no address, no server replies, or the port cannot be opened.
    pub fn connect(self) -> Result<Client, Error> {
        let process = ForkMark::new()?;
        let (way, attempts) = (self.way()?, Attempts::default());
        Ok(Client { way, builder: self, process, attempts, next_token: TOKEN_FIRST })
    }

    /// Connects in the child of the process that has connected.
    pub(super) fn connect_in_child(self) -> Result<Client, Error> {
        // The device, and where queues are shared the mailboxes, are the parent's.
        if self.port.is_some() { Err(Error::Forked) } else { self.connect() }
    }

    /// Returns the longest pause between attempts to connect.
    pub(super) fn dead_for_ns(&self) -> u64 {
        self.fabric.as_ref().map_or(self.options.dead_for_ns, |fabric| fabric.dead_for_ns)
    }

    fn way(&self) -> Result<Way, Error> {
        if self.servers.iter().any(|(name, _)| FabricUrl::is_one(name)) {
            return self.fabric_way();
        }
        if let [(name, _)] = &self.servers[..]
            && LocalUrl::is_one(name)
        {
            return self.local_way(&LocalUrl::parse(name)?);
        }
        let resolve = |(name, weight): &(String, u32)| {
            ServerAddress::resolve(name).map(|server| server.with_weight(*weight))
        };
        let servers = self.servers.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
        let deadline = Duration::from_nanos(self.options.bounded_deadline_ns());
        let port = match &self.port {
            None => None,
            Some(Port::Options(options)) => Some(options.clone()),
            Some(Port::Name(name)) => {
                let name = name.parse().map_err(|reason| Error::Port { reason })?;
                Some(PortOptions::new(name))
            }
        };
        let link = match port {
            None => Link::connect(&servers, self.options.clone(), &self.udp)?,
            Some(mut port) => {
                (port.queues, port.payload_bytes) = (1, self.options.payload_bytes);
                let queue = BypassPort::open(&port)?.queue()?;
                Link::connect_on(&servers, self.options.clone(), queue)?
            }
        };
        let stream = |server| ServerStream::new(link.name(server), deadline, link.has_lost_port(server));
        let streams = (0..servers.len()).map(stream).collect();
        Ok(Way::Datagrams(Box::new((link, streams))))
    }

    fn local_way(&self, url: &LocalUrl) -> Result<Way, Error> {
        if self.port.is_some() {
            let reason = "a server of local:// is not reached by a port that bypasses the kernel";
            return Err(Error::Port { reason: reason.to_owned() });
        }
        let link = LocalLink::connect(url, &self.options)?;
        Ok(Way::Local(Box::new(link)))
    }

    fn fabric_way(&self) -> Result<Way, Error> {
        if self.port.is_some() {
            let reason = "servers of fabric:// are not reached by a port that bypasses the kernel";
            return Err(Error::Port { reason: reason.to_owned() });
        }
        let parse =
            |(name, weight): &(String, u32)| FabricUrl::parse(name).map(|url| url.with_weight(*weight));
        let urls = self.servers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let options = self.fabric.clone().unwrap_or_else(|| FabricOptions {
            deadline_ns: self.options.deadline_ns,
            silent_ns: self.options.bounded_deadline_ns() / 2,
            dead_for_ns: self.options.dead_for_ns,
            on_dead: self.options.on_dead,
            ..FabricOptions::default()
        });
        let link = FabricLink::connect(&urls, &options)?;
        Ok(Way::Fabric(Box::new(link)))
    }
}
