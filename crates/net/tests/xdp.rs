//! AF_XDP ports on veth pairs between network namespaces.

mod veth;

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use micanite_net::bypass::{Bypass, BypassQueue};
use micanite_net::frames::{FramePort, FrameQueue, Header, Local, ReplyTo};
use micanite_net::xdp::XdpQueue;
use veth::{Echo, INTERFACE, IPV4, IPV6, VethPair, comes_back, inside, options, run, until};

/// Set for the child process that is killed: the namespace of its port.
const CHILD_NAMESPACE: &str = "MICANITE_TEST_NAMESPACE";

/// Returns whether an XDP program is attached to the server's end.
fn has_program(veth: &VethPair) -> bool {
    let text = run(&format!("ip -n {} link show dev {INTERFACE}", veth.server));
    text.contains("prog/xdp")
}

/// Returns the only queue of an AF_XDP port.
fn only(mut queues: Vec<BypassQueue>) -> XdpQueue {
    match queues.pop() {
        Some(BypassQueue::Xdp(queue)) if queues.is_empty() => queue,
        other => panic!("{other:?}"),
    }
}

#[test]
fn datagrams_return_in_their_frames_and_the_kernel_gets_the_rest() {
    let Some(veth) = VethPair::new(1) else { return };
    let mut echo = Echo::open(&veth, &options(1)).unwrap();
    assert!(echo.port.description.contains("native XDP, 1 of 1 queues, copy"), "{}", echo.port.description);
    assert_eq!(echo.port.payload_bytes_max, 1452);
    for address in [IPV4, IPV6] {
        let socket = veth.socket(address);
        comes_back(&socket, b"first");
        for bytes in [0, 1, 17, 18, 19, 1000, 1451, 1452] {
            let payload: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
            comes_back(&socket, &payload);
        }
    }
    // The kernel keeps other ports, TCP, ICMP and ARP.
    let other = inside(&veth.server, || UdpSocket::bind("10.9.0.2:11299").unwrap());
    veth.socket("10.9.0.2:11299").send(b"for the kernel").unwrap();
    let mut buffer = [0; 64];
    other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(other.recv(&mut buffer).unwrap(), 14);
    let seen = echo.stop().remove(0);
    assert_eq!(seen.counters.reused, seen.counters.datagrams);
    assert_eq!((seen.counters.copied, seen.counters.not_ours), (0, 0));
    let filter = echo.port.filter_counters().unwrap();
    assert!(filter.other_port >= 1 && filter.other_protocol >= 1, "{filter:?}");
    // Datagrams that were sent again may come after the end.
    assert!(filter.redirected >= seen.counters.frames, "{filter:?}");
}

#[test]
fn a_vlan_tag_comes_back() {
    let Some(veth) = VethPair::new(1) else { return };
    let server: SocketAddr = "10.7.0.2:11300".parse().unwrap();
    let client: SocketAddr = "10.7.0.1:11300".parse().unwrap();
    let mut ours = options(1);
    ours.addresses = vec![(server.ip(), 24)];
    let echo = Echo::open(&veth, &ours).unwrap();
    // The kernel would remove the tag of returning frames, so the client is an AF_XDP port, too.
    let mut theirs = options(1);
    theirs.name = "xdp:v0".parse().unwrap();
    theirs.addresses = vec![(client.ip(), 24)];
    let (port, queues) = inside(&veth.client, || Bypass::open(&theirs)).unwrap();
    let queue = only(queues);
    let local = Local { addresses: vec![client.ip()], ports: theirs.ports.clone() };
    let mut frames = FramePort::new(queue, local, 1452);
    let header = Header::new((port.mac, client), (echo.port.mac, server), Some(7));
    until("an echo with its tag", || {
        let (_, mut replies) = frames.split();
        replies.open(ReplyTo::Header(&header));
        replies.slot()[..6].copy_from_slice(b"tagged");
        replies.commit(6);
        frames.send().unwrap();
        frames.recv().unwrap();
        let (mut datagrams, _) = frames.split();
        datagrams.next().is_some_and(|datagram| {
            assert_eq!((datagram.bytes, datagram.found.link_bytes), (&b"tagged"[..], 18));
            assert_eq!(Header::of(datagram.frame, &datagram.found).as_bytes()[14..16], [0, 7]);
            true
        })
    });
    assert!(echo.finish()[0].counters.datagrams >= 1);
}

#[test]
fn no_chunk_is_lost_over_a_hundred_thousand_datagrams() {
    let Some(veth) = VethPair::new(1) else { return };
    let echo = Echo::open(&veth, &options(1)).unwrap();
    let socket = veth.socket(IPV4);
    comes_back(&socket, b"first");
    let mut buffer = [0; 64];
    let mut missing = 0;
    for number in 0..100_000u32 / 32 {
        for _ in 0..32 {
            socket.send(&number.to_ne_bytes()).unwrap();
        }
        for _ in 0..32 {
            missing += u32::from(socket.recv(&mut buffer).is_err());
        }
    }
    assert!(missing < 1000, "{missing} of 100,000");
    let seen = echo.finish().remove(0);
    let [free, receiving, sending, elsewhere] = seen.chunks;
    assert_eq!((sending, elsewhere), (0, 0));
    assert_eq!(free + receiving, 4096);
    assert!(seen.counters.datagrams >= 100_000 - missing as u64);
    assert_eq!(seen.counters.reused, seen.counters.datagrams);
}

#[test]
fn queues_have_own_flows_and_unused_ones_go_to_the_kernel() {
    let Some(veth) = VethPair::new(2) else { return };
    let mut echo = Echo::open(&veth, &options(2)).unwrap();
    let flows: Vec<UdpSocket> = (0..64).map(|_| veth.socket(IPV4)).collect();
    for socket in &flows {
        comes_back(socket, b"flow");
    }
    let seen = echo.stop();
    assert!(seen.iter().all(|queue| queue.counters.datagrams > 0));
    let datagrams: u64 = seen.iter().map(|queue| queue.counters.datagrams).sum();
    let filter = echo.port.filter_counters().unwrap();
    assert!(filter.redirected >= datagrams && filter.no_socket == 0, "{filter:?}");
    drop(echo);

    let echo = Echo::open(&veth, &options(1)).unwrap();
    comes_back(&flows[flows.len() - 1 - first_of(&flows)], b"flow");
    for socket in &flows {
        let _ = socket.send(b"flow");
    }
    until("a datagram of the other queue", || echo.port.filter_counters().unwrap().no_socket > 0);
}

/// Counts from the end to a flow that is answered.
fn first_of(flows: &[UdpSocket]) -> usize {
    let mut buffer = [0; 64];
    let is_answered = |socket: &UdpSocket| {
        (0..20).any(|_| socket.send(b"flow").is_ok() && socket.recv(&mut buffer).is_ok())
    };
    flows.iter().rev().position(is_answered).expect("a flow of the queue with a socket")
}

#[test]
fn too_many_threads_are_refused_with_advice() {
    let Some(veth) = VethPair::new(1) else { return };
    let why = inside(&veth.server, || Bypass::open(&options(2)).unwrap_err());
    assert!(why.contains("ethtool -L v1 rx 2"), "{why}");
    assert!(!has_program(&veth));
    let mut unknown = options(1);
    unknown.name = "xdp:nothere".parse().unwrap();
    let why = inside(&veth.server, || Bypass::open(&unknown).unwrap_err());
    assert!(why.contains("no interface nothere"), "{why}");
}

#[test]
fn foreign_programs_stay_and_own_ones_detach() {
    let Some(veth) = VethPair::new(1) else { return };
    let echo = Echo::open(&veth, &options(1)).unwrap();
    assert!(has_program(&veth));
    // For a second port, the first one's program is foreign.
    let why = inside(&veth.server, || Bypass::open(&options(1)).unwrap_err());
    assert!(why.contains("'micanite_port'") && why.contains("not ours to replace"), "{why}");
    comes_back(&veth.socket(IPV4), b"still there");
    echo.finish();
    // A process that another test is starting holds the program, too, until its exec.
    until("its end", || !has_program(&veth));
    Echo::open(&veth, &options(1)).unwrap().finish();
}

#[test]
fn a_killed_process_leaves_the_interface_as_it_was() {
    let Some(veth) = VethPair::new(1) else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_is_killed", "--nocapture"])
        .env(CHILD_NAMESPACE, &veth.server)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let socket = veth.socket(IPV4);
    comes_back(&socket, b"of the child");
    assert!(has_program(&veth));
    child.kill().unwrap();
    child.wait().unwrap();
    until("its end", || !has_program(&veth));
    Echo::open(&veth, &options(1)).unwrap().finish();
}

/// Child process of [`a_killed_process_leaves_the_interface_as_it_was`]. Does nothing by itself.
#[test]
fn child_that_is_killed() {
    let Ok(server) = std::env::var(CHILD_NAMESPACE) else {
        return;
    };
    let veth = std::mem::ManuallyDrop::new(VethPair { client: String::new(), server });
    let echo = Echo::open(&veth, &options(1)).unwrap();
    until("a kill", || echo.has_ended());
}

#[test]
fn restarted_interfaces_work_again_and_removed_ones_are_reported() {
    let Some(veth) = VethPair::new(1) else { return };
    let echo = Echo::open(&veth, &options(1)).unwrap();
    let socket = veth.socket(IPV4);
    comes_back(&socket, b"before");
    let server = &veth.server;
    run(&format!("ip -n {server} link set {INTERFACE} down"));
    let _ = socket.send(b"meanwhile");
    run(&format!("ip -n {server} link set {INTERFACE} up"));
    comes_back(&socket, b"after");
    assert!(!echo.has_ended());
    run(&format!("ip -n {server} link del {INTERFACE}"));
    until("the end of the echo", || echo.has_ended());
    let error = echo.finish().remove(0).error.unwrap();
    assert!(error.to_string().contains("the interface is gone"), "{error}");
}

#[test]
fn unsendable_frames_are_dropped_without_touching_received_ones() {
    let Some(veth) = VethPair::new(1) else { return };
    let (port, queues) = inside(&veth.server, || Bypass::open(&options(1))).unwrap();
    let queue = only(queues);
    let (server, peer) = (IPV4.parse().unwrap(), "10.9.0.1:9".parse().unwrap());
    let local = Local { addresses: vec![], ports: 1..=1 };
    let mut frames = FramePort::new(queue, local, 1452);
    let header = Header::new((port.mac, server), ([2; 6], peer), None);
    let send = |frames: &mut FramePort<XdpQueue>| {
        for _ in 0..10_000 {
            let (_, mut replies) = frames.split();
            replies.open(ReplyTo::Header(&header));
            replies.commit(8);
            frames.send().unwrap();
        }
    };
    run(&format!("ip -n {} link set {INTERFACE} down", veth.server));
    send(&mut frames);
    let [free, receiving, sending, elsewhere] = frames.queue_mut().chunks();
    assert_eq!((free, receiving, sending, elsewhere), (0, 1024, 3072, 0));
    assert_eq!(frames.counters().no_frame + frames.queue().unsent(), 10_000 - 3072);
    // Once the interface is up again, the frames leave and their chunks return.
    run(&format!("ip -n {} link set {INTERFACE} up", veth.server));
    until("that they have left", || {
        frames.recv().unwrap();
        frames.queue_mut().chunks()[2] == 0
    });
    send(&mut frames);
}

#[test]
fn large_mtus_fall_back_to_generic_mode() {
    let Some(veth) = VethPair::new(1) else { return };
    for (namespace, device) in [(&veth.client, "v0"), (&veth.server, "v1")] {
        run(&format!("ip -n {namespace} link set {device} mtu 9000"));
    }
    let echo = Echo::open(&veth, &options(1)).unwrap();
    let description = echo.port.description.clone();
    assert!(description.contains("generic XDP") && description.contains("MTU 9000"), "{description}");
    // A frame has to fit a chunk.
    let longest = echo.port.payload_bytes_max;
    assert_eq!(longest, 4096 - 256 - 18 - 48);
    let socket = veth.socket(IPV4);
    comes_back(&socket, b"short");
    comes_back(&socket, &vec![7; longest]);
    let seen = echo.finish().remove(0);
    assert!(seen.counters.copied >= 1, "no room behind the longest");
    assert_eq!(seen.unsent, 0);
}
