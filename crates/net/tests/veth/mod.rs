//! Two network namespaces with a veth pair between them, and an echo over AF_XDP in the second.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::frames::{FrameCounters, FramePort, FrameQueue, Local, ReplyTo};
use micanite_net::xdp::XdpQueue;
use micanite_net::{Interest, Poller};
use micanite_test_skip::skip;
use nix::sched::{CloneFlags, setns};

/// Interface of the echo, and its addresses.
pub const INTERFACE: &str = "v1";
pub const IPV4: &str = "10.9.0.2:11300";
pub const IPV6: &str = "[fd09::2]:11300";
const SETTLE: Duration = Duration::from_secs(60);

static BEDS: AtomicU32 = AtomicU32::new(0);

/// The namespaces, removed on drop.
pub struct VethPair {
    pub client: String,
    pub server: String,
}

impl VethPair {
    /// Creates the pair with so many queues on both ends; `None`, with a message, without
    /// permission.
    pub fn new(queues: usize) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let number = BEDS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("mc-net-{}-{number}", std::process::id());
        let veth = Self { client: format!("{prefix}-a"), server: format!("{prefix}-b") };
        for namespace in [&veth.client, &veth.server] {
            let added = Command::new("ip").args(["netns", "add", namespace]).output();
            match added {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let why = String::from_utf8_lossy(&output.stderr).into_owned();
                    skip(format_args!("no network namespaces: {why}"));
                    return None;
                }
                Err(why) => {
                    skip(format_args!("no iproute2: {why}"));
                    return None;
                }
            }
        }
        let ends = format!("numrxqueues {queues} numtxqueues {queues}");
        run(&format!(
            "ip link add v0 {ends} netns {} type veth peer name v1 {ends} netns {}",
            veth.client, veth.server
        ));
        for (namespace, device, host) in [(&veth.client, "v0", 1), (&veth.server, "v1", 2)] {
            run(&format!("ip -n {namespace} address add 10.9.0.{host}/24 dev {device}"));
            run(&format!("ip -n {namespace} address add fd09::{host}/64 dev {device} nodad"));
            run(&format!("ip -n {namespace} link set {device} up"));
        }
        Some(veth)
    }

    /// Returns a connected socket in the client's namespace.
    pub fn socket(&self, to: &str) -> UdpSocket {
        inside(&self.client, || {
            let from = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(from).unwrap();
            socket.connect(to).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            socket
        })
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        for namespace in [&self.client, &self.server] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

/// Runs a command, which has to succeed.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a function in a thread that is in a network namespace.
pub fn inside<T: Send>(namespace: &str, function: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/var/run/netns/{namespace}")).unwrap();
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            function()
        });
        thread.join().unwrap()
    })
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SETTLE, "{what} did not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a payload until it returns. The first ones may be lost, because neighbours have to be
/// resolved, or checksums are computed in software.
pub fn comes_back(socket: &UdpSocket, payload: &[u8]) {
    let mut buffer = vec![0; 4096];
    until("an echo", || {
        let _ = socket.send(payload);
        matches!(socket.recv(&mut buffer), Ok(bytes) if buffer[..bytes] == *payload)
    });
}

pub fn options(queues: usize) -> BypassOptions {
    BypassOptions {
        name: format!("xdp:{INTERFACE}").parse().unwrap(),
        addresses: Vec::new(),
        gateway: None,
        ports: 11300..=11303,
        queues,
        payload_bytes_max: 1452,
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    }
}

/// Results of a queue's thread.
pub struct QueueResult {
    pub counters: FrameCounters,
    /// Chunks by place: unused, with the kernel to receive, with it to send, elsewhere.
    pub chunks: [usize; 4],
    pub unsent: u64,
    pub error: Option<io::Error>,
}

/// An echo with one thread per queue.
pub struct Echo {
    pub port: Bypass,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<QueueResult>>,
}

impl Echo {
    pub fn open(veth: &VethPair, options: &BypassOptions) -> Result<Self, String> {
        let (port, queues) = inside(&veth.server, || Bypass::open(options))?;
        let local = Local {
            addresses: port.addresses.iter().map(|(address, _)| *address).collect(),
            ports: options.ports.clone(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |queue| {
            let queue = match queue {
                BypassQueue::Xdp(queue) => queue,
                BypassQueue::Dpdk(queue) => panic!("{queue:?}"),
            };
            let port = FramePort::new(queue, local.clone(), port.payload_bytes_max);
            let stop = Arc::clone(&stop);
            thread::spawn(move || echo(port, &stop))
        };
        let threads = queues.into_iter().map(thread).collect();
        Ok(Self { port, stop, threads })
    }

    /// Returns whether a thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the threads; the program stays.
    pub fn stop(&mut self) -> Vec<QueueResult> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.drain(..);
        threads.map(|thread| thread.join().unwrap()).collect()
    }

    pub fn finish(mut self) -> Vec<QueueResult> {
        self.stop()
    }
}

fn echo(mut port: FramePort<XdpQueue>, stop: &AtomicBool) -> QueueResult {
    let mut poller = Poller::new().unwrap();
    poller.add(port.queue().descriptor().unwrap(), 0, Interest::Read).unwrap();
    let mut error = None;
    while !stop.load(Ordering::Relaxed) && error.is_none() {
        match port.recv() {
            Ok(0) => drop(poller.wait(10)),
            Ok(_) => error = answer(&mut port).err(),
            Err(why) => error = Some(why),
        }
    }
    // Sent frames come back once the receiver has taken them.
    if error.is_none() {
        until("the end of what was sent", || match port.recv() {
            Ok(0) => port.queue_mut().chunks()[2] == 0,
            // These were sent before the client stopped.
            Ok(_) => {
                error = answer(&mut port).err();
                error.is_some()
            }
            Err(_) => true,
        });
    }
    QueueResult {
        counters: port.counters(),
        chunks: port.queue_mut().chunks(),
        unsent: port.queue().unsent(),
        error,
    }
}

fn answer(port: &mut FramePort<XdpQueue>) -> io::Result<()> {
    let (datagrams, mut replies) = port.split();
    for datagram in datagrams {
        replies.open(ReplyTo::Datagram(datagram.number));
        replies.slot()[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
        replies.commit(datagram.bytes.len());
    }
    port.send()
}
