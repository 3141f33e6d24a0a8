//! A server of one thread whose port is ours and whose table is any.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use micanite_net::{Idle, IdleRounds, Interest, Poller, Step};
use micanite_server::native::{Outbox, Source};
use micanite_wire::native::PAYLOAD_BYTES;

use super::round::Round;
use super::table::{TableKind, Tables};
use crate::Result;

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
    serve(options.port, |socket, receiver, sender| {
        let mut outbox = SocketOutbox { sender, socket, peer: None };
        let mut round = Round::new(table, &mut outbox);
        for datagram in receiver.datagrams().filter(|datagram| !datagram.truncated) {
            round.take(datagram.bytes, datagram.peer.into());
        }
        round.finish();
        // Datagrams that the network does not accept at once are lost, as on the way.
        sender.send(socket)?;
        sender.discard();
        Ok(())
    })
}

/// Takes bursts of datagrams until the process ends, and waits as the server's workers do.
fn serve(port: u16, mut answer: impl FnMut(&UdpSocket, &Receiver, &mut Sender) -> Result<()>) -> Result<()> {
    let asked = UdpOptions {
        gro: true,
        gso: true,
        receive_buffer_bytes: 8 << 20,
        send_buffer_bytes: 8 << 20,
        ..UdpOptions::default()
    };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port).into(), &asked)?;
    let granted = socket.granted();
    let mut receiver = Receiver::new(granted.gro, PAYLOAD_BYTES);
    let mut sender = Sender::new(granted.gso, PAYLOAD_BYTES);
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    let mut idle = Idle::new(IdleRounds::default());
    loop {
        if receiver.recv(&socket)? > 0 {
            idle.busy();
            answer(&socket, &receiver, &mut sender)?;
            continue;
        }
        match idle.step() {
            Step::Spin => std::hint::spin_loop(),
            Step::Yield => std::thread::yield_now(),
            Step::Block => drop(poller.wait(100)?),
        }
    }
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
