//! GETs over memcached's UDP. The server answers them, or its program in the kernel.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::{Failure, Outcome, Port, Reply, Request};
use crate::Result;
use crate::consistency::reply;
use crate::linearizability::operation::Found;

const HEADER_BYTES: usize = 8;
const DATAGRAM_BYTES_MAX: usize = 65536;
/// A reply that takes longer is lost.
const SILENCE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Datagrams {
    socket: UdpSocket,
    number: u16,
    buffer: Vec<u8>,
}

impl Datagrams {
    pub fn open(server: SocketAddr) -> Result<Self> {
        let any: SocketAddr = if server.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { socket, number: 0, buffer: vec![0; DATAGRAM_BYTES_MAX] })
    }

    /// Receives all datagrams of the reply.
    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut pieces = Vec::new();
        loop {
            let bytes = self.socket.recv(&mut self.buffer)?;
            let Some((header, content)) = self.buffer[..bytes].split_first_chunk::<HEADER_BYTES>() else {
                return Err(std::io::Error::other(format!("a datagram of {bytes} bytes")));
            };
            let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            let (number, sequence, total) = (word(0), usize::from(word(2)), usize::from(word(4)));
            if number != self.number {
                continue;
            }
            pieces.resize(total.max(sequence + 1), Vec::new());
            pieces[sequence] = content.to_vec();
            if pieces.iter().all(|piece| !piece.is_empty()) {
                return Ok(pieces.concat());
            }
        }
    }
}

impl Port for Datagrams {
    fn call(&mut self, requests: &[Request<'_>], replies: &mut [Reply]) -> Outcome {
        let ([request], [reply]) = (requests, replies) else {
            return Err(Failure::Wrong("this port takes one request at a time".to_owned()));
        };
        self.number = self.number.wrapping_add(1);
        let header = [&self.number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
        let datagram = [&header, &b"get "[..], request.name, b"\r\n"].concat();
        let received = self.socket.send(&datagram).and_then(|_| self.receive());
        let bytes = match received {
            Ok(bytes) => bytes,
            Err(_) => {
                reply.found = Some(Found::Unknown);
                return Ok(());
            }
        };
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Wrong(format!("{why}: {}", bytes[..bytes.len().min(80)].escape_ascii()))
        };
        let items = reply::parse(&bytes, false).map_err(|why| wrong(&why))?;
        match items.as_slice() {
            [] => reply.found = Some(Found::Missing),
            [item] if item.name == request.name => {
                reply.value.extend(item.value);
                reply.flags = item.flags;
            }
            _ => return Err(wrong(&"a reply to something else")),
        }
        Ok(())
    }
}
