//! The sockets of the relay.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use super::directory::PortMap;
use super::queue::Way;
use crate::Result;

/// The most clients that are relayed; those that come later are not.
const CLIENTS_MAX: usize = 512;
/// Attempts to find free consecutive ports.
const TRIES: usize = 100;

/// One socket for each port that clients send to, and one for each client towards the server.
pub(super) struct Ports {
    /// Sockets that clients send to.
    pub listening: Vec<UdpSocket>,
    /// Sockets that the server answers to, one for each client.
    pub upstream: Vec<(SocketAddr, UdpSocket)>,
    by_client: HashMap<SocketAddr, usize>,
    server: SocketAddr,
    pub map: PortMap,
}

impl Ports {
    pub fn bind(listen: SocketAddr, server: SocketAddr, count: u16) -> Result<Self> {
        if server.port().checked_add(count - 1).is_none() || server.port() == 0 {
            return Err(format!("{server}: no {count} ports from there on").into());
        }
        let tries = if listen.port() == 0 { TRIES } else { 1 };
        let mut last = None;
        for _ in 0..tries {
            match consecutive(listen, count) {
                Ok(listening) => {
                    let map =
                        PortMap { server: server.port(), relay: listening[0].local_addr()?.port(), count };
                    return Ok(Self {
                        listening,
                        upstream: Vec::new(),
                        by_client: HashMap::new(),
                        server,
                        map,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        let reason = last.map_or_else(String::new, |error| format!(": {error}"));
        Err(format!("{count} ports from {listen} on are not to be had{reason}").into())
    }

    /// The first address that clients send to.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listening[0].local_addr()?)
    }

    /// The way of a datagram from a client to a port of the relay; none if there are too many
    /// clients.
    pub fn way_to_server(&mut self, number: usize, client: SocketAddr) -> Result<Option<Way>> {
        let known = self.by_client.get(&client).copied();
        let upstream = match known {
            Some(upstream) => upstream,
            None if self.upstream.len() >= CLIENTS_MAX => return Ok(None),
            None => {
                let any: SocketAddr = match self.server {
                    SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                self.upstream.push((client, socket(any)?));
                self.by_client.insert(client, self.upstream.len() - 1);
                self.upstream.len() - 1
            }
        };
        let port = self.map.server + number as u16;
        Ok(Some(Way::ToServer { client: upstream, port }))
    }

    /// The way of a datagram that came to the socket of a client; none if no port of the server
    /// has sent it.
    pub fn way_to_client(&self, upstream: usize, sender: SocketAddr) -> Option<Way> {
        let number = sender.port().checked_sub(self.map.server)?;
        let ours = number < self.map.count && sender.ip() == self.server.ip();
        ours.then(|| Way::ToClient { port: number, client: self.upstream[upstream].0 })
    }

    /// Sends; a network that refuses has lost the datagram. Returns whether it took it.
    pub fn send(&self, way: Way, datagram: &[u8]) -> bool {
        let sent = match way {
            Way::ToServer { client, port } => {
                let server = SocketAddr::new(self.server.ip(), port);
                self.upstream[client].1.send_to(datagram, server)
            }
            Way::ToClient { port, client } => self.listening[usize::from(port)].send_to(datagram, client),
        };
        sent.is_ok()
    }
}

/// Receives what has come; none if nothing has, or an earlier datagram was not wanted (its "port
/// unreachable" is a datagram lost, not an error of this socket).
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<Option<(usize, SocketAddr)>> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Ok(Some(received)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(None),
                ErrorKind::ConnectionRefused | ErrorKind::Interrupted => {}
                _ => return Err(error.into()),
            },
        }
    }
}

fn consecutive(listen: SocketAddr, count: u16) -> std::io::Result<Vec<UdpSocket>> {
    let first = socket(listen)?;
    let mut address = first.local_addr()?;
    let base = address.port();
    let mut sockets = vec![first];
    for number in 1..count {
        let port = base.checked_add(number).ok_or(ErrorKind::AddrNotAvailable)?;
        address.set_port(port);
        sockets.push(socket(address)?);
    }
    Ok(sockets)
}

fn socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
