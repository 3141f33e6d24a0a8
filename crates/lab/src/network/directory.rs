//! Asks a server for its directory, once, before the clock runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use micanite_net::datagram::UdpSocket as Port;
use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind};

use super::packets::Terms;
use crate::Result;

/// The terms of a server at this address, for a client that sends through `socket`.
pub(super) fn fetch(server: SocketAddr, socket: &Port) -> Result<(Terms, Directory)> {
    use std::os::fd::AsFd;
    // The same socket, since the cookie is for its port.
    let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
    let mut request = [0; 512];
    let header = Header {
        kind: Kind::DirectoryRequest,
        client: 1,
        ..Header::REQUESTS
    };
    DirectoryRequest { first: 0 }.write(&header, &mut request);
    for _ in 0..100 {
        socket.send_to(&request, server)?;
        std::thread::sleep(Duration::from_millis(10));
        let mut reply = [0; 2048];
        while let Ok((bytes, from)) = socket.recv_from(&mut reply) {
            let reply = &reply[..bytes];
            if from != server {
                continue;
            }
            if let (Ok(header), Some((directory, ..))) =
                (Header::read(reply), Directory::read(reply))
            {
                let terms = Terms {
                    hash_seed: directory.hash_seed,
                    generation: header.generation,
                    cookie: header.cookie,
                    partition_bits: directory.partitions.ilog2(),
                };
                return Ok((terms, directory));
            }
        }
    }
    Err(format!("{server} sends no directory").into())
}
