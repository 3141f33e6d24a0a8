//! Asks a server for its directory, once, before the clock runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use micanite_net::datagram::UdpSocket as Port;
use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind, Status};

use crate::Result;
use crate::packets::Terms;

const PATIENCE: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_millis(10);

/// Asks for a directory from its begin, in as many bytes as the answer may have.
pub(crate) fn request(cookie: u64) -> [u8; 512] {
    let mut request = [0; 512];
    let header = Header {
        kind: Kind::DirectoryRequest,
        client: 1,
        cookie,
        ..Header::REQUESTS
    };
    DirectoryRequest { first: 0 }.write(&header, &mut request);
    request
}

enum Answer {
    /// The server wants to see this cookie first.
    Challenge(u64),
    Directory(Terms),
}

/// What an answer to a request with this cookie says, if it is one.
fn read(reply: &[u8], cookie: u64) -> Option<Answer> {
    let header = Header::read(reply).ok()?;
    if header.kind != Kind::DirectoryReply {
        return None;
    }
    if header.status == Status::Unproven {
        return (header.cookie != cookie).then_some(Answer::Challenge(header.cookie));
    }
    let (directory, ..) = Directory::read(reply)?;
    let renewed = header.cookie != 0;
    Some(Answer::Directory(Terms {
        hash_seed: directory.hash_seed,
        generation: header.generation,
        cookie: if renewed { header.cookie } else { cookie },
        partition_bits: directory.partitions.ilog2(),
    }))
}

/// Learns the terms of a server. `ask` sends a payload, again if need be, until the closure is satisfied with a
/// reply.
pub(crate) fn learn(
    mut ask: impl FnMut(&[u8], &mut dyn FnMut(&[u8]) -> bool) -> Result<()>,
) -> Result<Terms> {
    let mut cookie = 0;
    // A cookie may end between the challenge and the answer to it.
    for _ in 0..3 {
        let mut answer = None;
        let mut satisfies = |reply: &[u8]| {
            answer = answer.take().or_else(|| read(reply, cookie));
            answer.is_some()
        };
        ask(&request(cookie), &mut satisfies)?;
        match answer {
            Some(Answer::Directory(terms)) => return Ok(terms),
            Some(Answer::Challenge(given)) => cookie = given,
            None => break,
        }
    }
    Err("the server does not take its own cookies".into())
}

/// The terms of a server at this address, for a client that sends through `socket`.
pub(crate) fn fetch(server: SocketAddr, socket: &Port) -> Result<Terms> {
    use std::os::fd::AsFd;
    // The same socket, since the cookie is for its port.
    let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
    learn(|request, satisfies| {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            socket.send_to(request, server)?;
            std::thread::sleep(SILENCE);
            let mut reply = [0; 2048];
            let mut satisfied = false;
            while let Ok((bytes, from)) = socket.recv_from(&mut reply) {
                satisfied |= from == server && satisfies(&reply[..bytes]);
            }
            if satisfied {
                return Ok(());
            }
        }
        Err(format!("{server} sends no directory").into())
    })
}
