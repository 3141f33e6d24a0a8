//! Queues in memory, changing next hops, and a server that answers.

mod fixture;

use fixture::{
    CLIENT, Client, FIRST, MS, OTHER, SERVER, TestHops, address, frame_of, frames, known, payload, server,
};

use super::Longest;
use super::mailbox::Mailbox;
use super::own_hops::{OwnHops, SharedNeighbours};
use crate::operation::{Operation, Outcome};
use crate::options::ServerAddress;
use micanite_net::frames::{Header, Neighbours, ReceiveChecksums, parse};
use std::net::SocketAddr;
use std::sync::Arc;

#[test]
fn operations_use_frames_and_return_all_buffers() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    for number in 0..200 {
        let key = format!("key {number}");
        let set = Operation::set(key.as_bytes(), b"value");
        assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
        let get = Operation::get(key.as_bytes());
        assert_eq!(client.call(&mut fake, SERVER, &get), Outcome::Ok);
    }
    assert_eq!(client.driver.counters().bogus, 0);
    assert!(fake.seen.iter().all(|seen| *seen > 0), "both ports are used");
    let counters = client.socket.counters();
    assert_eq!(counters.copied_frames, client.driver.counters().sent + fake.directory_requests);
    assert_eq!(counters.received_datagrams, counters.received_frames);
    assert_eq!((counters.sent_by_kernel, counters.no_frame), (0, 0));
    client.poll();
    assert_eq!(client.socket.port.queue().free_buffers(), 64);
}

#[test]
fn datagrams_use_the_slow_path_until_the_next_hop_is_known() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), TestHops::default()), server());
    client.poll();
    assert_eq!(client.sent().len(), 0);
    let (to, bytes) = client.socket.hops.slow.pop().unwrap();
    assert_eq!(to, fake.base);
    // The kernel has resolved the neighbour, and its reply arrives at the port.
    client.socket.hops.mac = Some(SERVER);
    let header = Header::new((SERVER, fake.base), (CLIENT, SocketAddr::new(address(), FIRST)), None);
    let reply = frame_of(&header, &fake.answer(to, &bytes).unwrap());
    client.socket.port.queue_mut().arriving.push_back(reply);
    client.poll();
    assert!(client.driver.is_alive(0));
    let set = Operation::set(b"key", b"value");
    assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
    assert!(client.socket.hops.slow.is_empty());
    assert_eq!(client.socket.counters().sent_by_kernel, 1);
}

#[test]
fn moved_servers_are_followed() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    let set = Operation::set(b"key", b"value");
    assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
    // The kernel knows the new station, and the server is not silent.
    client.socket.hops.mac = Some(OTHER);
    client.now_ns += 300 * MS;
    let get = Operation::get(b"key");
    assert_eq!(client.call(&mut fake, OTHER, &get), Outcome::Ok);
    assert_eq!(client.driver.counters().timed_out, 0);
    assert!(client.socket.hops.slow.is_empty());
}

#[test]
fn reused_queues_restart_their_clock() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.now_ns = 3_600_000 * MS;
    client.introduce(&mut fake);
    let Client { mut socket, .. } = client;
    socket.begin().unwrap();
    let mut next = Client::new(frames(1, 1), TestHops::default());
    next.socket = socket;
    next.introduce(&mut fake);
    next.socket.hops.mac = Some(OTHER);
    next.now_ns += 300 * MS;
    let get = Operation::get(b"key");
    assert_eq!(next.call(&mut fake, OTHER, &get), Outcome::NotFound);
}

#[test]
fn silent_servers_use_the_slow_path_until_they_reply() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    // The station is gone, which the kernel does not know yet.
    client.submit(&Operation::set(b"key", b"value"));
    for _ in 0..1500 {
        client.poll();
    }
    let slow = std::mem::take(&mut client.socket.hops.slow);
    assert!(!slow.is_empty());
    // A datagram from the kernel makes it resolve the neighbour again, and then it knows the new
    // station.
    client.sent();
    client.socket.hops.mac = Some(OTHER);
    let (to, bytes) = slow.last().unwrap();
    let reply = fake.answer(*to, bytes).unwrap();
    client.socket.hops.strays.push((reply, *to));
    client.poll();
    assert_eq!(client.ended.pop(), Some(Outcome::Ok));
    let get = Operation::get(b"key");
    assert_eq!(client.call(&mut fake, OTHER, &get), Outcome::Ok);
    assert_eq!(client.socket.counters().received_by_kernel, 1);
}

#[test]
fn without_frames_datagrams_wait_and_none_is_lost() {
    let (mut client, mut fake) = (Client::new(frames(2, 1), known()), server());
    client.introduce(&mut fake);
    for number in 0..100 {
        let key = format!("key {number}");
        client.submit(&Operation::set(key.as_bytes(), b"value"));
        client.driver.flush();
    }
    for _ in 0..300 {
        client.poll();
        client.answer(&mut fake, SERVER);
    }
    assert_eq!(client.ended, [Outcome::Ok; 100]);
    assert_eq!(client.driver.counters().resent, 0);
    assert!(!client.socket.is_blocked());
    assert_eq!(client.socket.port.queue().free_buffers(), 2);
}

#[test]
fn datagrams_of_other_threads_are_forwarded() {
    let boxes = [Mailbox::new().unwrap(), Mailbox::new().unwrap()];
    let (mailboxes, forwarded): (Vec<_>, Vec<_>) = boxes.into_iter().unzip();
    let mailboxes: Arc<[Mailbox]> = mailboxes.into();
    let mut clients: Vec<_> = forwarded
        .into_iter()
        .enumerate()
        .map(|(number, forwarded)| {
            let boxes = (Arc::clone(&mailboxes), forwarded);
            Client::with_mailboxes(frames(64, 2), known(), number, boxes)
        })
        .collect();
    let mut fake = server();
    // The test's hops send from the first port. Everything for the second one is rewritten below.
    for _ in 0..10 {
        for client in &mut clients {
            client.poll();
        }
        let requests: Vec<_> = clients.iter_mut().map(Client::sent).collect();
        for (number, frames) in requests.iter().enumerate() {
            for frame in frames {
                let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
                let (_, to, request) = payload(frame);
                let reply = fake.answer(to, request).unwrap();
                let from = SocketAddr::new(address(), FIRST + number as u16);
                let header = Header::new((CLIENT, from), (SERVER, found.destination), None);
                let other = &mut clients[1 - number].socket.port;
                let wrong = frame_of(&header.flipped(), &reply);
                other.queue_mut().arriving.push_back(wrong);
            }
        }
    }
    for client in &mut clients {
        assert!(client.driver.is_alive(0));
        assert!(client.socket.counters().passed_on > 0);
        assert_eq!(client.driver.counters().bogus, 0);
    }
}

#[test]
fn datagrams_to_servers_of_ipv6_leave_room_for_its_headers() {
    let server = |address: &str| ServerAddress {
        address: address.parse().unwrap(),
        name: address.to_owned(),
        weight: 1,
    };
    let (v4, v6) = (server("10.0.0.1:11300"), server("[fd00::1]:11300"));
    // An MTU of 1,500.
    let longest = Longest::new(1472, 1452);
    assert_eq!(longest.to(std::slice::from_ref(&v4)), 1472);
    assert_eq!(longest.to(&[v4, v6]), 1452);
}

#[test]
fn own_neighbours_are_resolved_and_shared_between_queues() {
    let addresses = [(address(), 24)];
    let neighbours = || Neighbours::new(CLIENT, &addresses, None);
    let shared = SharedNeighbours::default();
    let client = || {
        let hops = OwnHops::new(neighbours(), FIRST, shared.clone());
        Client::new(frames(64, 1).with_neighbours(neighbours()), hops)
    };
    let (mut first, mut second, mut fake) = (client(), client(), server());
    first.poll();
    second.poll();
    let questions = [first.sent(), second.sent()];
    for question in &questions {
        assert_eq!(question.len(), 1, "one question, and no datagram");
        assert_eq!(question[0][12..14], [0x08, 0x06], "ARP");
    }
    // The server's station answers. Both answers arrive at the first queue.
    let station = [("10.0.0.1".parse().unwrap(), 24)];
    let mut station = Neighbours::new(SERVER, &station, None);
    for mut frame in questions.into_iter().flatten() {
        let bytes = frame.len();
        frame.resize(128, 0);
        let bytes = station.receive(&mut frame, bytes).unwrap();
        frame.truncate(bytes);
        first.socket.port.queue_mut().arriving.push_back(frame);
    }
    first.introduce(&mut fake);
    second.introduce(&mut fake);
    let set = Operation::set(b"key", b"value");
    assert_eq!(second.call(&mut fake, SERVER, &set), Outcome::Ok);
}
