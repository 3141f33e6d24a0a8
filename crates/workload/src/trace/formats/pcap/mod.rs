//! Captured traffic (pcap or pcapng, as tcpdump and Wireshark write it) of memcached: requests from what
//! clients send, outcomes and lengths of values from what servers answer.
//!
//! ```text
//! file -Packet-> packet -Piece-> flows --> reassembly --bytes--> framing --messages--> requests --> queue
//!                                                                            `-> replies --settle-^
//! ```
//!
//! A stream with something missing goes on at the next line that is certainly a message. A request
//! waits for its answer for a short time and keeps its place among the others meanwhile.

mod conversation;
mod expected;
mod file;
mod flows;
mod framing;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod packet;
mod queue;
mod reassembly;
mod replies;
mod requests;
#[cfg(test)]
mod tests;

use std::io::BufRead;

pub(crate) use file::is_one;

use file::Packets;
use flows::Flows;
use packet::{Skipped, decode};
use queue::{Queue, Waiting};

use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Request};

/// memcached's port.
pub(crate) const PORT: u16 = 11211;

pub(crate) struct Pcap {
    packets: Packets,
    port: u16,
    flows: Flows,
    queue: Queue,
    request: Waiting,
    is_end: bool,
    requests: u64,
}

impl Pcap {
    /// Conversations with servers on this port.
    ///
    /// # Errors
    /// When it is no pcap file, or of a link layer that we do not know.
    pub fn new(bytes: Box<dyn BufRead>, name: String, port: u16) -> Result<Self, Failure> {
        Ok(Self {
            packets: Packets::new(bytes, name)?,
            port,
            flows: Flows::default(),
            queue: Queue::default(),
            request: Waiting::new(0, Operation::Get, b""),
            is_end: false,
            requests: 0,
        })
    }

    /// Reads a packet; at the end, nobody waits any more.
    fn advance(&mut self) -> Result<(), Failure> {
        let Self { packets, port, flows, queue, .. } = self;
        let is_packet = packets.advance(|packet| {
            queue.go_on(packet.time_ms);
            match decode(packet, *port) {
                Ok(piece) => flows.piece(&piece, queue),
                Err(Skipped::Other) => {}
                Err(Skipped::Fragment) => flows.counts.fragments += 1,
                Err(Skipped::Cut) => flows.counts.cut_packets += 1,
            }
        })?;
        self.is_end = !is_packet;
        Ok(())
    }
}

impl Reader for Pcap {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        loop {
            if let Some(request) = self.queue.pop(self.is_end) {
                self.request = request;
                self.requests += 1;
                break;
            }
            if self.is_end {
                return Ok(None);
            }
            self.advance()?;
        }
        let request = &self.request;
        Ok(Some(Request {
            time_ms: request.time_ms,
            key: Key::Text(request.key()),
            operation: request.operation,
            key_bytes: request.key().len() as u32,
            value_bytes: request.value_bytes,
            expiry_s: request.expiry_s,
            outcome: request.outcome,
        }))
    }

    fn is_dated(&self) -> bool {
        true
    }

    fn remarks(&self) -> Vec<String> {
        let counts = &self.flows.counts;
        let told = [
            (
                counts.gaps,
                "times something was missing in a stream: requests or their outcomes are not known there",
            ),
            (counts.refused_lines, "lines to the server were no requests"),
            (counts.tls_connections, "connections are encrypted (TLS) and cannot be read"),
            (counts.fragments, "packets are fragments of packets, which are not put together"),
            (
                counts.cut_packets,
                "packets were captured without all of their headers: capture with 'tcpdump -s 0'",
            ),
            (counts.split_requests, "datagrams are no request: memcached's frame of 8 bytes says so"),
            (counts.dropped, "times a conversation was forgotten, because there were too many"),
        ];
        let mut remarks: Vec<String> = told
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.packets.is_cut() {
            remarks.push("it ends within a packet: the capture was cut off".to_owned());
        }
        if self.is_end && self.requests == 0 {
            let port = self.port;
            remarks.push(format!(
                "no request to port {port} is in it: '--format pcap:PORT' looks at another one"
            ));
        }
        remarks
    }
}
