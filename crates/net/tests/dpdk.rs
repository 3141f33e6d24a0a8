//! DPDK ports without a NIC: rings, null devices, and memif between two processes.
#![cfg(feature = "dpdk")]

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::dpdk::DpdkQueue;
use micanite_net::frames::{FrameBurst, FramePort, FrameQueue, Header, Local, MacAddress, ReplyTo};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

const OURS: [u8; 4] = [10, 0, 0, 1];
const THEIRS: [u8; 4] = [10, 0, 0, 2];
const PORT: u16 = 11300;
const THEIR_PORT: u16 = 40000;
const THEIR_MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const PAYLOAD_BYTES_MAX: usize = 1452;
const DEADLINE: Duration = Duration::from_secs(60);

fn options(device: &str, queues: usize) -> BypassOptions {
    BypassOptions {
        name: format!("dpdk:{device}").parse().unwrap(),
        addresses: vec![(OURS.into(), 24)],
        gateway: None,
        ports: PORT..=PORT + queues as u16 - 1,
        queues,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    }
}

fn open(device: &str, queues: usize) -> (Bypass, Vec<DpdkQueue>) {
    let (bypass, queues) = Bypass::open(&options(device, queues)).unwrap();
    let dpdk = |queue| match queue {
        BypassQueue::Dpdk(queue) => queue,
        BypassQueue::Xdp(_) => unreachable!(),
    };
    (bypass, queues.into_iter().map(dpdk).collect())
}

fn open_one(device: &str) -> (Bypass, DpdkQueue) {
    let (bypass, mut queues) = open(device, 1);
    assert_eq!(queues.len(), 1);
    (bypass, queues.remove(0))
}

fn frame_port(queue: DpdkQueue) -> FramePort<DpdkQueue> {
    let local = Local { addresses: vec![OURS.into()], ports: PORT..=PORT + 7 };
    FramePort::new(queue, local, PAYLOAD_BYTES_MAX)
}

/// Creates headers for datagrams from the peer to this port.
fn to_us(mac: MacAddress, port: u16) -> Header {
    let from = (THEIR_MAC, (THEIRS, THEIR_PORT).into());
    Header::new(from, (mac, (OURS, port).into()), None)
}

/// Sends datagrams with these payloads.
fn send(port: &mut FramePort<DpdkQueue>, header: &Header, payloads: &[&[u8]]) {
    let (_, mut replies) = port.split();
    for payload in payloads {
        replies.open(ReplyTo::Header(header));
        replies.slot()[..payload.len()].copy_from_slice(payload);
        replies.commit(payload.len());
    }
    port.send().unwrap();
}

/// Receives so many datagrams; returns their payloads.
fn receive(port: &mut FramePort<DpdkQueue>, count: usize) -> Vec<Vec<u8>> {
    let (begun, mut payloads) = (Instant::now(), Vec::new());
    while payloads.len() < count {
        assert!(begun.elapsed() < DEADLINE, "{} of {count}", payloads.len());
        if port.recv().unwrap() == 0 {
            thread::yield_now();
        }
        let (datagrams, _) = port.split();
        payloads.extend(datagrams.map(|datagram| datagram.bytes.to_vec()));
    }
    payloads
}

#[test]
fn replies_leave_in_the_frames_of_their_requests() {
    let (bypass, queue) = open_one("net_ring0");
    assert_eq!(bypass.payload_bytes_max, 1452);
    assert_eq!(bypass.addresses, [(OURS.into(), 24)]);
    let buffers_free = queue.buffers_free();
    let mut port = frame_port(queue);
    let longest = [7; PAYLOAD_BYTES_MAX];
    let payloads: [&[u8]; 3] = [b"", b"a request", &longest];
    send(&mut port, &to_us(bypass.mac, PORT), &payloads);
    assert_eq!(port.recv().unwrap(), 3);
    let (datagrams, mut replies) = port.split();
    for datagram in datagrams {
        assert_eq!(datagram.bytes, payloads[datagram.number]);
        replies.open(ReplyTo::Datagram(datagram.number));
        let bytes = datagram.bytes.len();
        replies.slot()[..bytes].copy_from_slice(datagram.bytes);
        replies.commit(bytes);
    }
    port.send().unwrap();
    // Everything that leaves a ring comes back to it: the replies, whose destination is the peer.
    assert_eq!(port.recv().unwrap(), 0);
    let counters = port.counters();
    assert_eq!((counters.copied, counters.reused), (3, 3));
    assert_eq!((counters.frames, counters.not_ours), (6, 3));
    assert_eq!(port.recv().unwrap(), 0);
    assert_eq!(port.queue().buffers_free(), buffers_free);
}

#[test]
fn each_thread_has_a_queue_of_the_port() {
    let (bypass, queues) = open("net_ring1", 2);
    let mac = bypass.mac;
    let threads = queues.into_iter().zip(PORT..).map(|(queue, udp_port)| {
        thread::spawn(move || {
            let mut port = frame_port(queue);
            let header = to_us(mac, udp_port);
            for round in 0..1000u32 {
                let payload = [u32::from(udp_port), round].map(u32::to_be_bytes).concat();
                send(&mut port, &header, &[&payload]);
                assert_eq!(receive(&mut port, 1), [payload]);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

#[test]
fn ports_close_with_their_last_queue_and_reopen() {
    for _ in 0..3 {
        let (bypass, queue) = open_one("net_null2");
        drop(bypass);
        let mut port = frame_port(queue);
        port.recv().unwrap();
        assert_eq!(port.counters().frames, 32);
    }
}

#[test]
fn empty_frames_are_dropped_and_freed() {
    let (_bypass, queue) = open_one("net_null0,size=64");
    let buffers_free = queue.buffers_free();
    let mut port = frame_port(queue);
    for _ in 0..1000 {
        assert_eq!(port.recv().unwrap(), 0);
    }
    let counters = port.counters();
    assert_eq!(counters.frames, 32_000);
    assert_eq!(counters.not_ours + counters.bad_lengths, 32_000);
    // The buffers of the last burst are held until the next.
    assert_eq!(port.queue().buffers_free(), buffers_free - 32);
    assert_eq!(port.queue().unsent(), 0);
}

#[test]
fn exhausted_buffers_do_no_harm() {
    let (_bypass, mut queue) = open_one("net_null1,size=64");
    let buffers_free = queue.buffers_free();
    let mut held: Vec<_> = std::iter::from_fn(|| queue.alloc()).collect();
    assert_eq!(held.len(), buffers_free as usize);
    let mut burst = FrameBurst::new();
    queue.recv(&mut burst).unwrap();
    assert!(burst.is_empty());
    let mut given: FrameBurst = held.drain(..32).collect();
    for frame in &mut given {
        let start = frame.start();
        frame.place(start, 60);
    }
    queue.send(&mut given).unwrap();
    assert!(given.is_empty());
    queue.recv(&mut burst).unwrap();
    assert_eq!(burst.len(), 32);
    for frame in held.drain(..).chain(burst.drain(..)) {
        queue.free(frame);
    }
    assert_eq!(queue.buffers_free(), buffers_free);
}

#[test]
fn wrong_options_are_refused_before_opening() {
    let refused = |options: &BypassOptions| Bypass::open(options).unwrap_err();
    let without_address = BypassOptions { addresses: Vec::new(), ..options("net_null7", 1) };
    assert!(refused(&without_address).contains("--port-ip"));
    let unknown = refused(&options("net_nothing0", 1));
    assert!(unknown.starts_with("dpdk:net_nothing0: DPDK finds no driver"), "{unknown}");
    let queues = refused(&options("net_af_packet0,iface=lo", 2));
    assert!(queues.contains("1 queue(s)"), "{queues}");
    let (_bypass, _queue) = open_one("net_null8");
    let twice = refused(&options("net_null8", 1));
    assert!(twice.contains("open already"), "{twice}");
}

/// A signal to one of DPDK's threads once ended the process before it had closed anything.
#[test]
fn environment_threads_get_no_signals() {
    let (_bypass, _queue) = open_one("net_null3");
    let mut seen = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let (Some(name), Some(blocked)) = (field("Name:\t"), field("SigBlk:\t")) else {
            continue;
        };
        if name.starts_with("eal-") {
            let blocked = u64::from_str_radix(blocked, 16).unwrap();
            let terminate = 1 << (libc::SIGTERM - 1);
            assert_eq!(blocked & terminate, terminate, "{name}");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

/// The example `echo` in its own process, at the other end of a memif.
struct Echo(Child);

impl Echo {
    fn start(device: &str) -> Self {
        let child = Command::new(echo_program())
            .args(["--port", &format!("dpdk:{device}"), "--port-ip", "10.0.0.2/24"])
            .args(["--ports", &format!("{THEIR_PORT}-{THEIR_PORT}"), "--wait", "yield"])
            // It ends at the end of its input.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        std::mem::forget(self);
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds the example, which `cargo test` builds with the features of this test. Building it here
/// would compile it, and everything after it, with other features.
fn echo_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/echo");
    let how = "cargo build --package micanite-net --features dpdk --example echo";
    assert!(program.exists(), "build the example first: {how}");
    program
}

/// Sends until so many replies have arrived, with several requests in flight. Some may be lost.
fn exchange(port: &mut FramePort<DpdkQueue>, mac: MacAddress, answers: u64) {
    let from = (mac, (OURS, PORT).into());
    let header = Header::new(from, (THEIR_MAC, (THEIRS, THEIR_PORT).into()), None);
    let payload: &[u8] = b"are you there?";
    let (begun, goal) = (Instant::now(), port.counters().datagrams + answers);
    while port.counters().datagrams < goal {
        assert!(begun.elapsed() < DEADLINE, "{:?}", port.counters());
        send(port, &header, &[payload; 16]);
        port.recv().unwrap();
        let (datagrams, _) = port.split();
        for datagram in datagrams {
            assert_eq!(datagram.bytes, payload);
        }
        thread::yield_now();
    }
}

/// Returns a memif device that is unique to this process.
fn memif(number: u32, role: &str) -> String {
    let process = std::process::id();
    format!("net_memif{number},role={role},id={number},socket=/micanite-test-{process}-{number}")
}

#[test]
fn killed_memif_peers_can_return() {
    let (bypass, queue) = open_one(&memif(0, "server"));
    let buffers_free = queue.buffers_free();
    let mut port = frame_port(queue);
    for round in 1..=5 {
        let closed = port.queue().gate_closed();
        let peer = Echo::start(&memif(0, "client"));
        exchange(&mut port, bypass.mac, 2000);
        peer.kill();
        // Bursts continue while the driver removes the rings, and afterwards.
        let (begun, goal) = (Instant::now(), closed + 2);
        while port.queue().gate_closed() < goal {
            assert!(begun.elapsed() < DEADLINE, "nobody kept bursts out in round {round}");
            send(&mut port, &to_us(THEIR_MAC, PORT), &[b"to nobody".as_slice(); 32]);
            port.recv().unwrap();
        }
    }
    while port.recv().unwrap() > 0 {}
    port.recv().unwrap();
    assert_eq!(port.queue().buffers_free(), buffers_free);
    assert!(port.queue().unsent() > 0);
}

/// Kills peers at every stage of their connection, this many (`MICANITE_MEMIF_KILLS`).
#[test]
fn memif_peers_can_be_killed_at_any_moment() {
    let kills = std::env::var("MICANITE_MEMIF_KILLS");
    let kills: u64 = kills.map_or(10, |text| text.parse().unwrap());
    let (bypass, queue) = open_one(&memif(2, "server"));
    let mut port = frame_port(queue);
    for number in 0..kills {
        // The driver connects in at least six steps, each of which closes the gate.
        let goal = port.queue().gate_closed() + number % 6;
        let peer = Echo::start(&memif(2, "client"));
        let begun = Instant::now();
        while port.queue().gate_closed() < goal {
            assert!(begun.elapsed() < DEADLINE, "peer {number} does not come");
            port.recv().unwrap();
            thread::yield_now();
        }
        peer.kill();
    }
    let _peer = Echo::start(&memif(2, "client"));
    exchange(&mut port, bypass.mac, 2000);
}

/// A peer that left before the driver's greeting once left a closed descriptor in the list that
/// DPDK's interrupt thread polls. That ended the process.
#[test]
fn memif_peers_can_leave_before_the_greeting() {
    let path = std::env::temp_dir().join(format!("micanite-memif-{}-3", std::process::id()));
    let device = |role| {
        let socket = path.display();
        format!("net_memif3,role={role},id=3,socket={socket},socket-abstract=no")
    };
    let (bypass, queue) = open_one(&device("server"));
    let mut port = frame_port(queue);
    let address = UnixAddr::new(&path).unwrap();
    let closed = port.queue().gate_closed();
    for _ in 0..1000 {
        let peer = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
        let peer = peer.unwrap();
        // It waits in the listen queue.
        connect(peer.as_raw_fd(), &address).unwrap();
        drop(peer);
    }
    let _peer = Echo::start(&device("client"));
    exchange(&mut port, bypass.mac, 2000);
    assert!(port.queue().gate_closed() >= closed + 1000, "not all were seen");
}

/// The client reconnects even if it only receives, like a server does.
#[test]
fn a_memif_client_finds_its_server_again() {
    let server = Echo::start(&memif(1, "server"));
    // The client's start fails as long as there is no server.
    let (begun, client) = (Instant::now(), options(&memif(1, "client"), 1));
    let (bypass, mut queues) = loop {
        match Bypass::open(&client) {
            Ok(opened) => break opened,
            Err(why) => assert!(begun.elapsed() < DEADLINE, "{why}"),
        }
        thread::yield_now();
    };
    let Some(BypassQueue::Dpdk(queue)) = queues.pop() else { unreachable!() };
    let mut port = frame_port(queue);
    exchange(&mut port, bypass.mac, 2000);
    server.kill();
    let _server = Echo::start(&memif(1, "server"));
    exchange(&mut port, bypass.mac, 2000);
}
