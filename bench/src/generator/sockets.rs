//! A port of the kernel's UDP: one socket, bursts, GRO and GSO if wanted.

use std::net::SocketAddr;
use std::time::Duration;

use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};

use super::load::{BURST, Port};
use super::packets::Packets;
use crate::Result;

/// No more are sent at a time.
const BURST_MAX: usize = 4 * BURST;
/// The longest datagram that is expected.
const PAYLOAD_BYTES: usize = 1472;

/// A socket before a server.
pub(crate) struct Datagrams {
    server: SocketAddr,
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
}

impl Datagrams {
    pub fn new(server: SocketAddr, offload: bool) -> Result<Self> {
        let options = UdpOptions {
            gro: offload,
            gso: offload,
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: 8 << 20,
            ..UdpOptions::default()
        };
        let socket = UdpSocket::bind("127.0.0.1:0".parse()?, &options)?;
        Ok(Self {
            server,
            receiver: Receiver::new(socket.granted().gro, PAYLOAD_BYTES),
            sender: Sender::new(socket.granted().gso, PAYLOAD_BYTES),
            socket,
        })
    }
}

/// Holds a datagram for the next burst.
#[inline]
fn hold(sender: &mut Sender, to: (&UdpSocket, SocketAddr), payload: &[u8]) -> Result<()> {
    let (socket, server) = to;
    if sender.is_full() || sender.pending() >= BURST_MAX {
        sender.send(socket)?;
    }
    let room = sender.begin(server).ok_or("the socket is stuck")?;
    room[..payload.len()].copy_from_slice(payload);
    sender.commit(payload.len());
    Ok(())
}

impl Port for Datagrams {
    const SILENCE: Duration = Duration::from_millis(200);

    fn receive(
        &mut self,
        mut requests: Option<&mut Packets>,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize> {
        let received = self.receiver.recv(&self.socket)?;
        if received == 0 {
            return Ok(0);
        }
        for datagram in self.receiver.datagrams() {
            if each(datagram.bytes)
                && let Some(requests) = &mut requests
            {
                let (_, payload) = requests.take();
                hold(&mut self.sender, (&self.socket, self.server), payload)?;
            }
        }
        Ok(received)
    }

    fn push(&mut self, requests: &mut Packets) -> Result<Option<u16>> {
        let (number, payload) = requests.take();
        hold(&mut self.sender, (&self.socket, self.server), payload)?;
        Ok(Some(number))
    }

    fn push_payload(&mut self, payload: &[u8]) -> Result<()> {
        hold(&mut self.sender, (&self.socket, self.server), payload)
    }

    fn flush(&mut self, all: bool) -> Result<()> {
        if self.sender.pending() >= if all { 1 } else { BURST } {
            self.sender.send(&self.socket)?;
        }
        Ok(())
    }
}
