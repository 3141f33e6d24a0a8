//! Servers and settings of a client.

use super::{Client, Streams};
use crate::error::Error;
use crate::link::Link;
use crate::options::{Options, ServerAddress};
use micanite_net::datagram::UdpOptions;
use std::time::Duration;

/// Chooses servers and settings of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    servers: Vec<(String, u32)>,
    options: Options,
    udp: UdpOptions,
}

impl Builder {
    /// One more server, by its `host:port`.
    pub fn server(self, name: &str) -> Self {
        self.weighted_server(name, 1)
    }

    /// One more server, with a share of the keys relative to the other servers'.
    pub fn weighted_server(mut self, name: &str, weight: u32) -> Self {
        self.servers.push((name.to_owned(), weight));
        self
    }

    /// Settings of the protocol.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Settings of the sockets.
    pub fn udp(mut self, udp: UdpOptions) -> Self {
        self.udp = udp;
        self
    }

    /// Finds the servers and fetches their directories.
    ///
    /// # Errors
    /// A name has no address; no server replies.
    pub fn connect(self) -> Result<Client, Error> {
        let resolve = |(name, weight): &(String, u32)| {
            ServerAddress::resolve(name).map(|server| server.with_weight(*weight))
        };
        let servers = self
            .servers
            .iter()
            .map(resolve)
            .collect::<Result<Vec<_>, _>>()?;
        let deadline = Duration::from_nanos(self.options.deadline_ns);
        let link = Link::connect(&servers, self.options, &self.udp)?;
        Ok(Client {
            link,
            streams: Streams::new(servers.len(), deadline),
        })
    }
}
