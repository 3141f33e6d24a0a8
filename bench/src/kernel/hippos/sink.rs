//! One place on the way of a datagram, which counts what reaches it and drops it there, or sends it back.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use micanite_bpf::{
    Bound, MODE_GENERIC, MODE_NATIVE, Map, MapOptions, MapType, Object, ProgramType, attach,
    attach_before_routing, attach_to_ingress, attach_to_lookups, attach_to_sockets, filter_socket,
    load_program, possible_cpus,
};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

use crate::Result;
use crate::kernel::injector::interface;

#[cfg(all(count_program, return_same_program, return_new_program))]
mod compiled {
    pub mod count {
        include!(concat!(env!("OUT_DIR"), "/count_program.rs"));
    }
    pub mod return_same {
        include!(concat!(env!("OUT_DIR"), "/return_same_program.rs"));
    }
    pub mod return_new {
        include!(concat!(env!("OUT_DIR"), "/return_new_program.rs"));
    }
}
#[cfg(not(all(count_program, return_same_program, return_new_program)))]
mod compiled {
    pub mod none {
        pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
    }
    pub use none as count;
    pub use none as return_new;
    pub use none as return_same;
}

/// Places in the order in which a datagram reaches them, and two that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::kernel) enum Place {
    /// XDP in the driver.
    Driver,
    /// XDP behind the driver, where the packet of the stack exists.
    Generic,
    /// Ingress of traffic control.
    Ingress,
    /// Netfilter's PRE_ROUTING, before IP.
    PreRouting,
    /// Search for the socket, after IP.
    Lookup,
    /// The socket's filter, in front of its queue.
    Filter,
    /// A queue that is full, for nobody reads.
    FullQueue,
    /// Behind the queue, without a change of context.
    Sockmap,
    /// A process that receives.
    Reader,
    /// Ingress of traffic control; sends the packet back.
    ReturnSame,
    /// The same, in a new packet.
    ReturnNew,
}

impl Place {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Driver => "1 driver",
            Self::Generic => "2 behind the driver",
            Self::Ingress => "3 traffic control",
            Self::PreRouting => "4 PRE_ROUTING",
            Self::Lookup => "5 socket lookup",
            Self::Filter => "6 before the queue",
            Self::FullQueue => "7 full queue",
            Self::Sockmap => "8 behind the queue",
            Self::Reader => "9 user space",
            Self::ReturnSame => "same packet",
            Self::ReturnNew => "new packet",
        }
    }

    pub const fn answers(self) -> bool {
        matches!(self, Self::ReturnSame | Self::ReturnNew)
    }

    /// Type of the program, and its verdict for dropping.
    const fn program(self) -> (ProgramType, u64) {
        match self {
            Self::Driver | Self::Generic => (ProgramType::Xdp, 1),
            Self::Ingress | Self::ReturnSame | Self::ReturnNew => (ProgramType::TrafficControl, 2),
            Self::PreRouting => (ProgramType::Netfilter, 0),
            Self::Lookup => (ProgramType::SocketLookup, 0),
            Self::Filter | Self::FullQueue | Self::Reader => (ProgramType::SocketFilter, 0),
            Self::Sockmap => (ProgramType::SocketSegments, 0),
        }
    }

    const fn object(self) -> &'static Object {
        match self {
            Self::ReturnSame => &compiled::return_same::OBJECT,
            Self::ReturnNew => &compiled::return_new::OBJECT,
            _ => &compiled::count::OBJECT,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[arg(long)]
    place: Place,
    /// The interface that datagrams come to
    #[arg(long)]
    interface: String,
    /// Their destination
    #[arg(long)]
    address: SocketAddr,
    /// Unix socket that tells how many have come
    #[arg(long)]
    counts: PathBuf,
}

/// Stands at the place until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    let sink = Sink::new(options.place, &options.interface, options.address)?;
    let _ = std::fs::remove_file(&options.counts);
    let listener = UnixListener::bind(&options.counts)?;
    for stream in listener.incoming() {
        stream?.write_all(&sink.count()?.to_le_bytes())?;
    }
    Ok(())
}

/// Asks a sink how many datagrams have come.
pub(in crate::kernel) fn count(counts: &Path) -> Result<u64> {
    let mut bytes = [0; 8];
    UnixStream::connect(counts)?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Datagrams that the process has received.
static RECEIVED: AtomicU64 = AtomicU64::new(0);

struct Sink {
    place: Place,
    counts: Map,
    _kept: Vec<OwnedFd>,
}

impl Sink {
    fn new(place: Place, name: &str, address: SocketAddr) -> Result<Self> {
        let counts = Map::create(&MapOptions::new((MapType::PerCpuArray, "counts"), 4, 8, 1))?;
        let (kind, verdict) = place.program();
        let constant = MapOptions::new((MapType::Array, "verdict"), 4, 8, 1);
        let constant = Map::create(&MapOptions { program_reads_only: true, ..constant })?;
        constant.set(&[0; 4], &verdict.to_ne_bytes())?;
        constant.freeze()?;
        let bound = |name: &str| match name {
            "counts" => Bound::Map(&counts),
            _ => Bound::Value(&constant),
        };
        let program = load_program((kind, "count"), place.object(), bound)
            .map_err(|refused| format!("the kernel refuses the program of {}: {refused}", place.name()))?;
        let mut kept = stand(place, program, name, address)?;
        kept.push(constant.into());
        Ok(Self { place, counts, _kept: kept })
    }

    fn count(&self) -> Result<u64> {
        match self.place {
            Place::Reader => Ok(RECEIVED.load(Ordering::Relaxed)),
            Place::FullQueue => lost_in_queues(),
            _ => Ok(self.counts.sum(0, possible_cpus())?),
        }
    }
}

/// Puts the program, or a socket, at its place; returns what has to be kept.
fn stand(place: Place, program: OwnedFd, name: &str, address: SocketAddr) -> Result<Vec<OwnedFd>> {
    let fd = program.as_fd();
    let link = match place {
        Place::Driver => Some(attach(fd, interface(name)?, MODE_NATIVE)?),
        Place::Generic => Some(attach(fd, interface(name)?, MODE_GENERIC)?),
        Place::Ingress | Place::ReturnSame | Place::ReturnNew => {
            Some(attach_to_ingress(fd, interface(name)?)?)
        }
        Place::PreRouting => Some(attach_before_routing(fd)?),
        Place::Lookup => {
            let network = std::fs::File::open("/proc/thread-self/ns/net")?;
            Some(attach_to_lookups(fd, network.as_fd())?)
        }
        Place::Filter | Place::FullQueue | Place::Sockmap | Place::Reader => None,
    };
    if let Some(link) = link {
        return Ok(vec![link, program]);
    }
    let socket = UdpSocket::bind(address)?;
    match place {
        Place::Filter => filter_socket(fd, socket.as_fd())?,
        Place::Sockmap => {
            let sockets = Map::create(&MapOptions::new((MapType::SocketMap, "sockets"), 4, 4, 1))?;
            attach_to_sockets(fd, &sockets)?;
            sockets.set(&[0; 4], &socket.as_raw_fd().to_ne_bytes())?;
            return Ok(vec![sockets.into(), socket.into(), program]);
        }
        Place::Reader => {
            let reader = socket.try_clone()?;
            std::thread::spawn(move || {
                let ended = receive(&reader);
                eprintln!("receiving: {ended:?}");
                std::process::exit(1);
            });
        }
        // A queue that nobody reads is full soon.
        _ => {}
    }
    Ok(vec![socket.into(), program])
}

const RECEIVE_BYTES: usize = 8 << 20;

/// Receives as memcached does: after each event, one datagram per system call until there is none.
fn receive(socket: &UdpSocket) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    // Packets of this cable count as a page each, so the usual room is that of some fifty.
    setsockopt(socket, RcvBufForce, &RECEIVE_BYTES)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    let (mut events, mut buffer) = ([EpollEvent::empty()], [0; 2048]);
    loop {
        match epoll.wait(&mut events, EpollTimeout::NONE) {
            // It was stopped and goes on.
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        loop {
            match socket.recv_from(&mut buffer) {
                Ok(_) => drop(RECEIVED.fetch_add(1, Ordering::Relaxed)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Datagrams of this network for which a socket's queue had no room.
fn lost_in_queues() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = lines.next().zip(lines.next()).ok_or("no counters of UDP")?;
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(name, _)| *name == "RcvbufErrors").ok_or("no RcvbufErrors")?;
    Ok(found.1.parse()?)
}

#[cfg(all(test, count_program))]
mod tests {
    use super::*;
    use micanite_test_skip::skip;
    use nix::sched::{CloneFlags, unshare};
    use std::time::{Duration, Instant};

    /// Each place gets every datagram, in a network of this thread's own; the driver's place needs another
    /// interface than loopback.
    #[test]
    fn every_place_counts_what_comes() {
        if !nix::unistd::geteuid().is_root() {
            return skip("loading a BPF program needs root");
        }
        const SENT: u64 = 2000;
        const PIECE: u64 = 100;
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        crate::harness::namespace::call("ip", &["link", "set", "lo", "up"]).unwrap();
        let places = Place::value_variants().iter().filter(|place| !place.answers());
        for place in places.filter(|place| **place != Place::Driver) {
            let address: SocketAddr = "127.0.0.1:21300".parse().unwrap();
            let sink = Sink::new(*place, "lo", address).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            let before = sink.count().unwrap();
            let await_count = |wanted: u64| {
                let end = Instant::now() + Duration::from_secs(10);
                while sink.count().unwrap() - before < wanted {
                    assert!(
                        Instant::now() < end,
                        "{place:?}: {} of {wanted}",
                        sink.count().unwrap() - before
                    );
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            for sent in 1..=SENT {
                client.send_to(&[b'x'; 200], address).unwrap();
                // A reader that gets no core for a while would lose what its queue does not hold.
                if *place != Place::FullQueue && sent.is_multiple_of(PIECE) {
                    await_count(sent);
                }
            }
            // The first of them fill the queue that nobody reads; the others are lost there.
            await_count(if *place == Place::FullQueue { 1 } else { SENT });
        }
    }
}
