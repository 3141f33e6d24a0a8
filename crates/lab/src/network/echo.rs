//! The limit that the kernel sets: a server that sends every datagram back.

use clap::Args;
use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use micanite_net::{Idle, IdleRounds, Interest, Poller, Step};

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

/// Serves until it is ended. It waits as the server's workers do.
pub(crate) fn run(options: &Options) -> Result<()> {
    const PAYLOAD_BYTES: usize = 1472;
    let asked = UdpOptions {
        gro: options.offload,
        gso: options.offload,
        receive_buffer_bytes: 8 << 20,
        send_buffer_bytes: 8 << 20,
        ..UdpOptions::default()
    };
    let socket = UdpSocket::bind(([127, 0, 0, 1], options.port).into(), &asked)?;
    let granted = socket.granted();
    let mut receiver = Receiver::new(granted.gro, PAYLOAD_BYTES);
    let mut sender = Sender::new(granted.gso, PAYLOAD_BYTES);
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    let mut idle = Idle::new(IdleRounds::default());
    loop {
        if receiver.recv(&socket)? == 0 {
            match idle.step() {
                Step::Spin => std::hint::spin_loop(),
                Step::Yield => std::thread::yield_now(),
                Step::Block => drop(poller.wait(100)?),
            }
            continue;
        }
        idle.busy();
        for datagram in receiver.datagrams().filter(|datagram| !datagram.truncated) {
            if sender.is_full() {
                sender.send(&socket)?;
            }
            let bytes = datagram.bytes.len();
            if let Some(room) = sender.begin(datagram.peer) {
                room[..bytes].copy_from_slice(datagram.bytes);
                sender.commit(bytes);
            }
        }
        sender.send(&socket)?;
    }
}
