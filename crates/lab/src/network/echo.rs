//! The limit that the kernel sets: a server that sends every datagram back.

use std::net::Ipv4Addr;

use clap::Args;
use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use micanite_net::{Idle, IdleRounds, Interest, Poller, Step};
use micanite_wire::native::PAYLOAD_BYTES;

use crate::Result;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// UDP port
    #[arg(long)]
    port: u16,
    /// Join and split datagrams (GRO, GSO)
    #[arg(long)]
    offload: bool,
}

/// Serves until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    serve(options.port, options.offload, |socket, receiver, sender| {
        for datagram in receiver.datagrams().filter(|datagram| !datagram.truncated) {
            if sender.is_full() {
                sender.send(socket)?;
            }
            let bytes = datagram.bytes.len();
            if let Some(room) = sender.begin(datagram.peer) {
                room[..bytes].copy_from_slice(datagram.bytes);
                sender.commit(bytes);
            }
        }
        sender.send(socket)?;
        Ok(())
    })
}

/// Takes bursts of datagrams until the process ends, and waits as the server's workers do.
pub(crate) fn serve(
    port: u16,
    offload: bool,
    mut answer: impl FnMut(&UdpSocket, &Receiver, &mut Sender) -> Result<()>,
) -> Result<()> {
    let asked = UdpOptions {
        gro: offload,
        gso: offload,
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
