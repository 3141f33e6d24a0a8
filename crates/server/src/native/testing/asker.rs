//! A client without a socket.

use std::net::SocketAddr;

use micanite_wire::native::{Header, Request, RequestWriter, padded};

use super::{Arrival, NativeBench, cookie};
use crate::shared::Shared;

/// Somebody who asks.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub peer: SocketAddr,
    /// Of the header: client, generation, cookie, partition and so on; the sequence goes up.
    pub header: Header,
    /// The last id that was given out.
    pub id: u64,
    /// Bytes behind the last request.
    pub padding: usize,
}

impl Asker {
    /// One that has learned everything: cookie, generation.
    pub fn new(bench: &NativeBench, peer: &str) -> Self {
        let peer = peer.parse().expect("an address");
        Self::at(&bench.shared, peer, bench.now_s)
    }

    /// The same, of a server that runs.
    pub fn at(shared: &Shared, peer: SocketAddr, now_s: u32) -> Self {
        let native = shared.native.as_ref().expect("made with it");
        Self {
            peer,
            header: Header {
                client: 7,
                generation: native.generation(&shared.cache),
                cookie: cookie(native, peer, now_s),
                ..Header::REQUESTS
            },
            id: 0,
            padding: 0,
        }
    }

    /// The same without a cookie.
    pub fn unproven(mut self) -> Self {
        self.header.cookie = 0;
        self
    }

    /// A datagram of these requests.
    pub fn datagram(&mut self, requests: &[Request<'_>]) -> Arrival {
        self.header.sequence += 1;
        let bytes = |request: &Request<'_>| {
            24 + 16 + padded(request.key.len()) + padded(request.value.len())
        };
        let room = Header::BYTES + requests.iter().map(bytes).sum::<usize>();
        let mut datagram = vec![0; room];
        let mut writer = RequestWriter::new(&mut datagram);
        for request in requests {
            writer.push(request).expect("room for all");
        }
        let bytes = writer.finish(&self.header);
        datagram.truncate(bytes);
        datagram.resize(bytes + self.padding, 0);
        Arrival {
            peer: self.peer,
            bytes: datagram,
            handed_over: false,
        }
    }

    /// The next id.
    pub fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }
}
