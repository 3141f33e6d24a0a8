//! A server of one thread whose port is ours and whose table is any.

use std::net::SocketAddr;

use clap::Args;
use micanite_net::datagram::{Sender, UdpSocket};
use micanite_server::native::{Outbox, Source};

use super::round::Round;
use super::table::{TableKind, Tables};
use crate::Result;
use crate::network::echo::serve;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// UDP port
    #[arg(long)]
    port: u16,
    /// The table
    #[arg(long, value_enum)]
    table: TableKind,
    /// Items that are there
    #[arg(long)]
    items: u64,
}

/// Fills the table, and serves until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut tables = Tables::new(options.table, options.items, 1)?;
    let table = tables.of_worker.first_mut().ok_or("no worker")?;
    serve(options.port, true, |socket, receiver, sender| {
        let mut outbox = SocketOutbox { sender, socket, peer: None };
        let mut round = Round::new(table, &mut outbox);
        for datagram in receiver.datagrams().filter(|datagram| !datagram.truncated) {
            round.take(datagram.bytes, datagram.peer.into());
        }
        round.finish();
        // What the network does not take at once is lost, as on the way.
        sender.send(socket)?;
        sender.discard();
        Ok(())
    })
}

/// The sender, as the server's own port has it.
struct SocketOutbox<'a> {
    sender: &'a mut Sender,
    socket: &'a UdpSocket,
    peer: Option<SocketAddr>,
}

impl Outbox for SocketOutbox<'_> {
    #[inline]
    fn open(&mut self, to: Source) {
        self.peer = Some(to.peer);
        if self.sender.is_full() {
            // The client counts what is lost.
            let _ = self.sender.send(self.socket);
            self.sender.discard();
        }
    }

    #[inline]
    fn slot(&mut self) -> &mut [u8] {
        let peer = self.peer.expect("a reply was opened");
        self.sender.begin(peer).expect("an empty sender takes a datagram")
    }

    #[inline]
    fn commit(&mut self, bytes: usize) {
        self.sender.commit(bytes);
    }
}
