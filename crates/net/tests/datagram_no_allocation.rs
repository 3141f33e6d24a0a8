//! Bursts of datagrams do not call the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};

/// The system's allocator with a counter of calls.
struct Counting;

thread_local! {
    /// Calls of this thread. The test harness has its own, which allocates at any time.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: everything is passed on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends datagrams of several lengths from one socket to another.
fn exchange(from: &UdpSocket, sender: &mut Sender, to: &UdpSocket, receiver: &mut Receiver) {
    let send = || -> io::Result<usize> {
        let peer = to.local_addr()?;
        let mut sent = 0;
        for number in 0..200 {
            if sender.is_full() {
                sent += sender.send(from)?;
            }
            if sender.begin(peer).is_some() {
                sender.commit(1 + number % 5 * 30);
            }
        }
        Ok(sent + sender.send(from)?)
    };
    let sent = { send }().unwrap();
    assert_eq!(sent, 200);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut received = 0;
    while received < sent {
        received += receiver.recv(to).unwrap();
        assert!(Instant::now() < deadline);
    }
    let bytes: usize = receiver.datagrams().map(|datagram| datagram.bytes.len()).sum();
    assert!(bytes > 0);
}

#[test]
fn bursts_allocate_nothing() {
    for (gro, gso) in [(false, false), (true, true)] {
        let options = UdpOptions { gro, gso, ..UdpOptions::default() };
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let (from, to) = (bind(), bind());
        let mut sender = Sender::new(from.granted().gso, 1472);
        let mut receiver = Receiver::new(to.granted().gro, 1472);
        let calls = CALLS.get();
        for _ in 0..100 {
            exchange(&from, &mut sender, &to, &mut receiver);
        }
        assert_eq!(CALLS.get(), calls);
    }
}
