//! memcached with GETs in datagrams and everything else over TCP, as Facebook's web servers spoke it:
//! what is lost of a GET is a miss, while a write has to arrive.

use std::io;

use nix::sys::epoll::Epoll;

use super::{Connection, Memcached, Stamp, StreamConnection, UdpConnection};
use crate::run::clock::Clock;
use crate::run::recorder::Recorder;

/// A socket of each kind to the same server.
pub(crate) struct SplitConnection {
    pub reads: UdpConnection,
    pub writes: StreamConnection<Memcached>,
}

impl Connection for SplitConnection {
    #[inline]
    fn room(&self) -> usize {
        self.reads.room().min(self.writes.room())
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.reads.in_flight() + self.writes.in_flight()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        self.reads.read(items, stamp);
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        self.writes.write(item, version, stamp);
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        self.writes.delete(item, stamp);
    }

    fn flush(&mut self) -> Result<(), String> {
        self.reads.flush()?;
        self.writes.flush()
    }

    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String> {
        let read = self.reads.poll(clock, recorder)?;
        let written = self.writes.poll(clock, recorder)?;
        Ok(match (read, written) {
            (Some(read), Some(written)) => Some(read + written),
            (read, written) => read.or(written),
        })
    }

    fn expire(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize {
        self.reads.expire(now_ns, recorder) + self.writes.expire(now_ns, recorder)
    }

    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder) {
        self.reads.abandon(now_ns, recorder);
        self.writes.abandon(now_ns, recorder);
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        self.reads.watch(epoll, token)?;
        self.writes.watch(epoll, token)
    }
}
