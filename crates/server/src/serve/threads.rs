//! The threads beside the main one: the workers, and one that puts huge pages under an image.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use micanite_control::cores;
use micanite_memory::shorten_slices;
use micanite_net::{Poller, Streams, Uring, Waker};

use super::ports::Queues;
use crate::native::fabric::FabricPort;
use crate::native::{NativePort, Sockets, rings};
use crate::shared::clock::Clock;
use crate::shared::{Ending, Server};
use crate::telemetry::log::{error, warn};
use crate::udp::{UdpPort, UdpSockets};
use crate::worker::{Post, Worker};

/// Interval of checks for pages of the image that have come into use.
const PAGES_INTERVAL: Duration = Duration::from_millis(200);

/// The running threads.
#[derive(Debug)]
pub(super) struct Threads {
    /// Channel to each worker.
    pub links: Vec<Sender<Post>>,
    workers: Vec<JoinHandle<()>>,
    pages: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. If one cannot be started, ends those that run.
    pub fn start(
        server: &Arc<Server>,
        clock: Clock,
        (sockets, queues): (Option<Sockets>, Queues),
        others: (Option<UdpSockets>, Vec<FabricPort>),
    ) -> io::Result<Self> {
        let mut threads = Self { links: Vec::new(), workers: Vec::new(), pages: None };
        match threads.start_all(server, clock, (sockets, queues), others) {
            Ok(()) => Ok(threads),
            Err(error) => {
                threads.give_up(server);
                Err(error)
            }
        }
    }

    fn start_all(
        &mut self,
        server: &Arc<Server>,
        clock: Clock,
        (sockets, queues): (Option<Sockets>, Queues),
        (udp, fabrics): (Option<UdpSockets>, Vec<FabricPort>),
    ) -> io::Result<()> {
        let count = server.settings.threads;
        let mut ports = native_ports(server, sockets.as_ref(), queues);
        let mut udp_ports = udp_ports(server, udp);
        let mut fabrics = fabrics.into_iter();
        // Each connection goes to the worker that has fewest, so none ever has more than this.
        let connections_max = server.settings.connections_max.div_ceil(count);
        for number in 0..count {
            let (posts, receiver) = channel();
            self.links.push(posts);
            let port = ports.next().flatten();
            let server = Arc::clone(server);
            let poller = Poller::new()?;
            let start = Start {
                this: (number, server),
                clock,
                receiver,
                connections_max,
                native: port,
                udp: udp_ports.next(),
                fabric: fabrics.next(),
            };
            let thread = Builder::new().name(format!("worker-{number}"));
            let worker = thread.spawn(move || work(start, poller))?;
            self.workers.push(worker);
        }
        let pages = server.settings.image.is_some().then(|| {
            let server = Arc::clone(server);
            let thread = Builder::new().name("pages".into());
            thread.spawn(move || put_pages(&server))
        });
        self.pages = pages.transpose()?;
        Ok(())
    }

    /// Ends the threads when a start cannot go on, because they write the image.
    pub fn give_up(self, server: &Server) {
        server.end(Ending::AtOnce);
        // Running workers wait until all are done, so those that were not started count as done.
        for _ in self.workers.len()..server.settings.threads {
            server.worker_is_done();
        }
        self.join(server);
    }

    /// Waits until the threads have ended. The caller has requested that before.
    pub fn join(self, server: &Server) {
        server.shared.wakers.iter().for_each(Waker::wake);
        for worker in self.workers {
            // A panic ends the process before this.
            let _ = worker.join();
        }
        if let Some(pages) = self.pages {
            pages.thread().unpark();
            let _ = pages.join();
        }
    }
}

/// A port for each worker, if the native protocol is spoken; otherwise none.
fn native_ports(
    server: &Server,
    sockets: Option<&Sockets>,
    queues: Queues,
) -> impl Iterator<Item = Option<NativePort>> {
    let (native, mut queues) = (server.shared.native.as_ref(), queues.into_iter());
    let rings =
        native.map_or(Vec::new(), |native| rings(server.settings.threads, native.ring_datagram_bytes()));
    let port = move |(worker, rings)| {
        let native = native?;
        Some(match (sockets, queues.next()) {
            (_, Some(queue)) => NativePort::over(worker, queue, rings, native),
            (Some(sockets), None) => NativePort::new(worker, Arc::clone(sockets), rings, native),
            (None, None) => return None,
        })
    };
    rings.into_iter().enumerate().map(port)
}

/// A port for each worker, if memcached's protocols are spoken over UDP; otherwise none.
fn udp_ports(server: &Server, sockets: Option<UdpSockets>) -> impl Iterator<Item = UdpPort> {
    let allow = server.settings.udp.as_ref().map(|udp| udp.allow.clone());
    let allow = allow.unwrap_or_default();
    let workers = sockets.into_iter().flatten().enumerate();
    workers.map(move |(worker, sockets)| UdpPort::new(worker, sockets, allow.clone()))
}

/// Parts of a worker. The worker's own thread assembles them, because an io_uring belongs to the thread that
/// made it.
struct Start {
    this: (usize, Arc<Server>),
    clock: Clock,
    receiver: Receiver<Post>,
    connections_max: usize,
    native: Option<NativePort>,
    udp: Option<UdpPort>,
    fabric: Option<FabricPort>,
}

impl Start {
    fn serve(self, streams: impl Streams) -> io::Result<()> {
        let server = Arc::clone(&self.this.1);
        let (connections_max, native) = (self.connections_max, self.native);
        Worker::new(self.this, self.clock, self.receiver, connections_max, native, streams)
            .and_then(|worker| worker.with_udp(self.udp))
            .and_then(|worker| worker.with_fabric(self.fabric))
            .inspect_err(|_| {
                server.end(Ending::AtOnce);
                server.worker_is_done();
            })?
            .run()
    }
}

/// Runs a worker from its start to its end. Chooses between io_uring and epoll, once.
fn work(start: Start, poller: Poller) {
    let (number, settings) = (start.this.0, &start.this.1.settings);
    if let Some(cpus) = settings.placement.kept(number)
        && !cores::bind(cpus)
    {
        warn!("worker {number} could not be kept on the CPUs {cpus:?}");
    }
    // Others wait for a worker, clients and workers alike. A kernel may refuse it.
    shorten_slices();
    let ended = match settings.io.is_uring().then(Uring::new) {
        Some(Ok(uring)) => start.serve(uring),
        Some(Err(error)) => {
            warn!("worker {number} serves by epoll, there is no further io_uring: {error}");
            start.serve(poller)
        }
        None => start.serve(poller),
    };
    if let Err(error) = ended {
        error!("worker {number} cannot go on: {error}");
    }
}

/// Puts huge pages under what has come into use, and rests as long as that took: workers wait for the locks
/// of the mappings, and may have the same CPU.
fn put_pages(server: &Server) {
    while server.shared.ending() == Ending::Not {
        let began = Instant::now();
        let is_more_left = server.shared.cache.collapse_used();
        park_timeout(if is_more_left { began.elapsed() } else { PAGES_INTERVAL });
    }
}
