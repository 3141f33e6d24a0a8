//! A worker's sockets: bursts in, bursts out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use micanite_net::datagram::{Receiver, Sender, UdpSocket};
use micanite_net::limits::{
    BURST_SUPER_PACKETS_MAX, DATAGRAM_PAYLOAD_BYTES_MAX, SEND_BYTES, SUPER_PACKET_BYTES,
};
use micanite_wire::memcache::udp::{self, HEADER_BYTES, REPLY_DATAGRAM_BYTES_MAX};

use super::answer::{Answer, answer};
use super::{AllowList, UdpCounters};
use crate::limits::{UDP_REPLY_BYTES_MAX, UDP_TURN_BYTES_MAX};
use crate::session::Context;

/// Sockets of all workers: by worker, then by address.
pub type UdpSockets = Vec<Box<[UdpSocket]>>;

/// UDP sockets of a worker.
#[derive(Debug)]
pub struct UdpPort {
    worker: usize,
    arrivals: Vec<Arrival>,
    sender: Sender,
    /// The reply that is being written. Its first datagram says how many it takes.
    reply: Box<[u8]>,
    allowed: AllowList,
}

/// A socket and the datagrams that it has received.
#[derive(Debug)]
struct Arrival {
    socket: UdpSocket,
    own_port: u16,
    receiver: Receiver,
    /// Next datagram of the last burst.
    next: usize,
    count: usize,
    /// Datagrams that the kernel had dropped before the last burst.
    dropped: u32,
    /// Datagrams may have come.
    ready: bool,
}

impl UdpPort {
    /// Returns the memory of a worker's port with so many addresses.
    pub const fn bytes(addresses: usize) -> usize {
        addresses * BURST_SUPER_PACKETS_MAX * SUPER_PACKET_BYTES + SEND_BYTES + UDP_REPLY_BYTES_MAX
    }

    /// Makes a worker's port.
    pub fn new(worker: usize, sockets: Box<[UdpSocket]>, allowed: AllowList) -> Self {
        let gso = sockets.iter().all(|socket| socket.granted().gso);
        let arrival = |socket: UdpSocket| Arrival {
            own_port: socket.local_addr().map_or(0, |address| address.port()),
            receiver: Receiver::new(socket.granted().gro, DATAGRAM_PAYLOAD_BYTES_MAX),
            next: 0,
            count: 0,
            dropped: 0,
            ready: true,
            socket,
        };
        Self {
            worker,
            arrivals: sockets.into_iter().map(arrival).collect(),
            sender: Sender::new(gso, REPLY_DATAGRAM_BYTES_MAX),
            reply: vec![0; UDP_REPLY_BYTES_MAX].into(),
            allowed,
        }
    }

    /// Returns the descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = impl AsFd + '_> {
        self.arrivals.iter().map(|arrival| &arrival.socket)
    }

    /// Notes that datagrams have come.
    pub fn wake(&mut self) {
        self.arrivals.iter_mut().for_each(|arrival| arrival.ready = true);
    }

    /// Returns whether datagrams may have come.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.arrivals.iter().any(|arrival| arrival.ready)
    }

    /// Answers datagrams, but not for longer than a stream's turn. Returns whether there may be more.
    ///
    /// # Errors
    /// Returns the error of a broken socket.
    #[inline]
    pub fn turn(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut more = false;
        for number in 0..self.arrivals.len() {
            if self.arrivals[number].ready {
                self.serve(number, context)?;
                more |= self.arrivals[number].ready;
            }
        }
        Ok(more)
    }

    fn serve(&mut self, number: usize, context: &mut Context<'_>) -> io::Result<()> {
        let Some(shared) = &context.shared.udp else {
            return Ok(());
        };
        let counters = &shared.counters[self.worker];
        let arrival = &mut self.arrivals[number];
        let descriptor = arrival.socket.as_fd().as_raw_fd();
        context.shared.watch.set_serving(self.worker, descriptor);
        let mut outbox = Outbox { sender: &mut self.sender, socket: &arrival.socket, counters };
        let (mut received_bytes, mut written_bytes, mut sent_bytes) = (0, 0, 0);
        let mut requests_left = context.shared.turn_requests_max;
        let mut moves_left_bytes = context.worker.cache().turn_moved_bytes();
        while received_bytes + written_bytes < UDP_TURN_BYTES_MAX && requests_left > 0 && moves_left_bytes > 0
        {
            if arrival.next == arrival.count {
                arrival.next = 0;
                arrival.count = arrival.receiver.recv(&arrival.socket)?;
                arrival.ready = arrival.count > 0;
                if arrival.count == 0 {
                    break;
                }
                counters.datagrams_received.add(arrival.count as u64);
                let dropped = arrival.receiver.dropped();
                let since = dropped.wrapping_sub(arrival.dropped);
                counters.dropped_by_kernel.add(since.into());
                arrival.dropped = dropped;
            }
            let Some(datagram) = arrival.receiver.get(arrival.next) else {
                break;
            };
            arrival.next += 1;
            received_bytes += datagram.bytes.len();
            // Empty and refused datagrams count as a request, too.
            requests_left -= 1;
            if !self.allowed.allows(datagram.peer, arrival.own_port) {
                counters.not_allowed.add(1);
                continue;
            }
            if datagram.truncated {
                counters.bad_frames.add(1);
                continue;
            }
            if let Some(answer) = answer(datagram.bytes, &mut self.reply, counters, context) {
                outbox.put(answer, &self.reply, datagram.peer);
                sent_bytes += answer.reply_bytes;
                written_bytes += answer.written_bytes;
                requests_left = requests_left.saturating_sub(answer.requests.saturating_sub(1));
                moves_left_bytes = moves_left_bytes.saturating_sub(context.worker.moved_bytes());
            }
        }
        outbox.send();
        context.counters.bytes_read.add(received_bytes as u64);
        context.counters.bytes_written.add(sent_bytes as u64);
        Ok(())
    }
}

/// A sender and its socket.
struct Outbox<'a> {
    sender: &'a mut Sender,
    socket: &'a UdpSocket,
    counters: &'a UdpCounters,
}

impl Outbox<'_> {
    /// Cuts a reply into datagrams. Sends earlier ones when there is no room.
    #[inline]
    fn put(&mut self, answer: Answer, reply: &[u8], peer: SocketAddr) {
        let reply = &reply[..answer.reply_bytes];
        for (header, piece) in udp::datagrams(answer.request_id, reply) {
            if self.sender.is_full() {
                self.send();
            }
            let room = self.sender.begin(peer);
            let room = room.expect("an empty sender takes a datagram");
            let bytes = HEADER_BYTES + piece.len();
            room[..HEADER_BYTES].copy_from_slice(&header);
            room[HEADER_BYTES..bytes].copy_from_slice(piece);
            self.sender.commit(bytes);
        }
    }

    /// Sends complete datagrams. Those that the network does not take at once are lost.
    fn send(&mut self) {
        if self.sender.pending() == 0 {
            return;
        }
        let failed = self.sender.sent().failed;
        // Datagrams lost to an error of the socket are counted below.
        let sent = self.sender.send(self.socket).unwrap_or(0);
        self.counters.datagrams_sent.add(sent as u64);
        let unsent = self.sender.discard() as u64 + self.sender.sent().failed - failed;
        self.counters.datagrams_unsent.add(unsent);
    }
}

const _: () = assert!(UDP_REPLY_BYTES_MAX <= udp::REPLY_BYTES_MAX);
