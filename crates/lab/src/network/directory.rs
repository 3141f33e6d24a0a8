//! Asks a server for its directory, once, before the clock runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use micanite_net::datagram::UdpSocket as Port;
use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind};

use crate::Result;
use crate::packets::Terms;

/// Asks for a directory from its begin, in as many bytes as the answer may have.
pub(crate) fn request() -> [u8; 512] {
    let mut request = [0; 512];
    let header = Header {
        kind: Kind::DirectoryRequest,
        client: 1,
        ..Header::REQUESTS
    };
    DirectoryRequest { first: 0 }.write(&header, &mut request);
    request
}

/// What an answer says, if it is one.
pub(crate) fn read(reply: &[u8]) -> Option<(Terms, Directory)> {
    let header = Header::read(reply).ok()?;
    let (directory, ..) = Directory::read(reply)?;
    let terms = Terms {
        hash_seed: directory.hash_seed,
        generation: header.generation,
        cookie: header.cookie,
        partition_bits: directory.partitions.ilog2(),
    };
    Some((terms, directory))
}

/// The terms of a server at this address, for a client that sends through `socket`.
pub(crate) fn fetch(server: SocketAddr, socket: &Port) -> Result<(Terms, Directory)> {
    use std::os::fd::AsFd;
    // The same socket, since the cookie is for its port.
    let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
    let request = request();
    for _ in 0..100 {
        socket.send_to(&request, server)?;
        std::thread::sleep(Duration::from_millis(10));
        let mut reply = [0; 2048];
        while let Ok((bytes, from)) = socket.recv_from(&mut reply) {
            let reply = &reply[..bytes];
            if from != server {
                continue;
            }
            if let Some(read) = read(reply) {
                return Ok(read);
            }
        }
    }
    Err(format!("{server} sends no directory").into())
}
