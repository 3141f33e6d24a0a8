//! memcached's datagrams in a worker's loop: turns between those of connections, while datagrams come.

use std::io;
use std::os::fd::AsFd;

use micanite_net::Streams;

use super::upkeep::begin_second;
use super::{UDP, Worker};
use crate::session::Context;
use crate::shared::clock::seconds;
use crate::telemetry::latency::Transport;
use crate::udp::UdpPort;

impl<P: Streams> Worker<P> {
    /// Adds a port.
    ///
    /// # Errors
    /// Returns errors of the kernel.
    pub fn with_udp(mut self, port: Option<UdpPort>) -> io::Result<Self> {
        for descriptor in port.iter().flat_map(UdpPort::descriptors) {
            self.streams.watch(descriptor.as_fd(), UDP)?;
        }
        self.udp = port;
        Ok(self)
    }

    /// Notes that datagrams have come.
    pub(super) fn udp_is_busy(&mut self) {
        if let Some(port) = &mut self.udp {
            port.wake();
        }
    }

    /// Takes a turn for datagrams, if there are any. Returns whether the worker must not sleep.
    #[inline]
    pub(super) fn serve_udp(&mut self) -> io::Result<bool> {
        let Some(port) = self.udp.as_mut().filter(|port| port.is_ready()) else {
            return Ok(false);
        };
        if self.is_one_of_several {
            // Datagrams without requests to the engine must not keep other workers waiting.
            self.engine.serve();
        }
        let (now_ms, shared) = (self.clock.now_ms(), &self.server.shared);
        let counters = &shared.counters[self.number];
        let latency = &shared.latency[self.number];
        let began = latency.begin(Transport::Udp, now_ms, counters);
        begin_second(&mut self.engine, &self.server, now_ms);
        let mut context = Context::new(&mut self.engine, &self.server, seconds(now_ms));
        let more = port.turn(&mut context);
        latency.record(Transport::Udp, began, counters);
        more
    }
}
