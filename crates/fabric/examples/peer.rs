//! The other process of the tests: a server that answers messages, and has an area to read.
//!
//! `peer ADDRESS` prints its full address, then serves until its standard input ends. Messages:
//!
//! | message | reply |
//! |---|---|
//! | a greeting | the area: key, base and length |
//! | `away` | `leaving`; then it stays out of the library until a line arrives on its standard input |
//! | `close` | `closed`, after it has closed the area |
//! | `forget` | `forgotten`; the sender is a stranger from then on |
//! | `check` | `same` or `changed`: the contents of the area |
//! | anything else | the same bytes |

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use micanite_fabric::{
    Area, Buffer, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Operation, Peer,
};
use micanite_memory::Region;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const AREA_BYTES: usize = 1 << 16;
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const RECEIVES: usize = 4;
/// Longer than any test waits for a reply, so that a missed wake-up is noticed.
const SLEEP_MS: u16 = 60_000;
const FORGOTTEN: &[u8] = b"forgotten";

struct Server {
    endpoint: Endpoint,
    area: Option<Area>,
    region: Arc<Region>,
    spare: Vec<Buffer>,
    replies: VecDeque<(Peer, Vec<u8>)>,
    /// It leaves the library when the replies are sent.
    leaves: bool,
}

fn main() {
    let address: FabricAddress = std::env::args().nth(1).expect("peer ADDRESS").parse().unwrap();
    let endpoint = Endpoint::listen(&address, &EndpointOptions::default()).unwrap();
    let region = Arc::new(Region::private(AREA_BYTES).unwrap());
    for word in 0..region.words() {
        region.word(word).store(word as u64, Ordering::Relaxed);
    }
    let area = Some(endpoint.area(Arc::clone(&region)).unwrap());
    let spare = (0..RECEIVES).map(|_| endpoint.buffer(MESSAGE_BYTES_MAX).unwrap()).collect();
    let full = FabricAddress { port: endpoint.port(), ..address };
    let mut server = Server { endpoint, area, region, spare, replies: VecDeque::new(), leaves: false };
    for _ in 0..RECEIVES {
        let buffer = server.endpoint.buffer(MESSAGE_BYTES_MAX).unwrap();
        server.endpoint.receive(buffer, 0).unwrap();
    }
    println!("{full}");
    io::stdout().flush().unwrap();
    server.run();
}

impl Server {
    fn run(&mut self) {
        let mut completions = Completions::new();
        loop {
            if let Err(error) = self.endpoint.poll(&mut completions) {
                eprintln!("peer: {error}");
            }
            let is_idle = completions.is_empty();
            for completion in completions.drain(..) {
                match completion.operation {
                    Operation::Receive | Operation::Greeting => {
                        if let (Ok(bytes), Some(peer)) = (completion.result, completion.peer) {
                            let is_greeting = completion.operation == Operation::Greeting;
                            let reply = self.reply(&completion.buffer[..bytes], is_greeting);
                            self.replies.push_back((peer, reply));
                        }
                        self.endpoint.receive(completion.buffer, 0).unwrap();
                    }
                    _ => self.spare.push(completion.buffer),
                }
            }
            self.send();
            let is_done = self.replies.is_empty() && self.spare.len() == RECEIVES;
            if self.leaves && is_done {
                self.leaves = false;
                if io::stdin().read_line(&mut String::new()).unwrap() == 0 {
                    return;
                }
            } else if is_idle && is_done {
                self.sleep();
            }
        }
    }

    fn reply(&mut self, message: &[u8], is_greeting: bool) -> Vec<u8> {
        match message {
            _ if is_greeting => match &self.area {
                Some(area) => area.remote().encode().to_vec(),
                None => b"closed".to_vec(),
            },
            b"away" => {
                self.leaves = true;
                b"leaving".to_vec()
            }
            b"close" => {
                self.area = None;
                b"closed".to_vec()
            }
            b"forget" => FORGOTTEN.to_vec(),
            b"check" => {
                let is_same = |word: usize| self.region.word(word).load(Ordering::Relaxed) == word as u64;
                let same = (0..self.region.words()).all(is_same);
                if same { b"same".to_vec() } else { b"changed".to_vec() }
            }
            other => other.to_vec(),
        }
    }

    fn send(&mut self) {
        while let Some((peer, reply)) = self.replies.pop_front() {
            let Some(mut buffer) = self.spare.pop() else {
                return self.replies.push_front((peer, reply));
            };
            buffer[..reply.len()].copy_from_slice(&reply);
            let Err(unposted) = self.endpoint.send(peer, buffer, reply.len(), 0) else {
                if reply == FORGOTTEN {
                    self.endpoint.forget(peer);
                }
                continue;
            };
            self.spare.push(unposted.buffer);
            match unposted.error {
                Error::Busy => return self.replies.push_front((peer, reply)),
                error => eprintln!("peer: reply: {error}"),
            }
        }
    }

    /// Sleeps until there may be completions, or standard input has ended; without a descriptor, yields.
    fn sleep(&mut self) {
        if self.endpoint.descriptor().is_none() {
            return std::thread::yield_now();
        }
        if !self.endpoint.may_sleep() {
            return;
        }
        let stdin = io::stdin();
        let descriptor = self.endpoint.descriptor().unwrap();
        let wanted = PollFlags::POLLIN;
        let mut watched = [PollFd::new(descriptor, wanted), PollFd::new(stdin.as_fd(), PollFlags::empty())];
        poll(&mut watched, PollTimeout::from(SLEEP_MS)).unwrap();
        if watched[1].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)) {
            std::process::exit(0);
        }
    }
}
