//! The other process of the tests: a server that answers messages, and has an area to read.
//!
//! `peer ADDRESS [PEERS]` prints its full address, then serves until its standard input ends. It keeps the
//! addresses of so many peers. Messages:
//!
//! | message | reply |
//! |---|---|
//! | a greeting | the area: key, base and length |
//! | `away` | `leaving`; then it stays out of the library until a line arrives on its standard input |
//! | `close` | `closed`, after it has closed the area |
//! | `forget` | `forgotten`; the sender is a stranger from then on |
//! | `tag T` | `posted`; from then on messages with tag T go back with tag T + 1 |
//! | `cancel T` | `cancelled`, when the buffer for tag T has returned |
//! | `check` | `same` or `changed`: the contents of the area |
//! | anything else | the same bytes |

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use micanite_fabric::{
    Area, Buffer, Completion, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Operation, Peer,
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
    /// With their tags.
    replies: VecDeque<(Peer, Vec<u8>, Option<u64>)>,
    /// Peers that wait for the end of a receive, by its token, the tag.
    cancelled: Vec<(u64, Peer)>,
    /// It leaves the library when the replies are sent.
    leaves: bool,
}

fn main() {
    let address: FabricAddress = std::env::args().nth(1).expect("peer ADDRESS").parse().unwrap();
    let mut options = EndpointOptions::default();
    if let Some(peers) = std::env::args().nth(2) {
        options.peers_max = peers.parse().unwrap();
    }
    let endpoint = Endpoint::listen(&address, &options).unwrap();
    let region = Arc::new(Region::private(AREA_BYTES).unwrap());
    for word in 0..region.words() {
        region.word(word).store(word as u64, Ordering::Relaxed);
    }
    let area = Some(endpoint.area(Arc::clone(&region)).unwrap());
    let spare = (0..RECEIVES).map(|_| endpoint.buffer(MESSAGE_BYTES_MAX).unwrap()).collect();
    let full = FabricAddress { port: endpoint.port(), ..address };
    let (replies, cancelled) = (VecDeque::new(), Vec::new());
    let mut server = Server { endpoint, area, region, spare, replies, cancelled, leaves: false };
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
                            let message = &completion.buffer[..bytes];
                            match self.tag(message, peer) {
                                true => {}
                                false => {
                                    let reply = self.reply(message, is_greeting);
                                    self.replies.push_back((peer, reply, None));
                                }
                            }
                        }
                        self.endpoint.receive(completion.buffer, 0).unwrap();
                    }
                    Operation::ReceiveTagged => self.tagged(completion),
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

    /// Executes what concerns tags; returns false for other messages.
    fn tag(&mut self, message: &[u8], peer: Peer) -> bool {
        let Ok(text) = std::str::from_utf8(message) else {
            return false;
        };
        match text.split_once(' ').map(|(word, tag)| (word, tag.parse::<u64>())) {
            Some(("tag", Ok(tag))) => {
                let buffer = self.endpoint.buffer(MESSAGE_BYTES_MAX).unwrap();
                self.endpoint.receive_tagged(buffer, tag, tag).unwrap();
                self.replies.push_back((peer, b"posted".to_vec(), None));
            }
            Some(("cancel", Ok(tag))) => {
                assert_eq!(self.endpoint.cancel(tag), 1);
                self.cancelled.push((tag, peer));
            }
            _ => return false,
        }
        true
    }

    /// Sends a message with a tag back, or tells that its buffer has returned.
    fn tagged(&mut self, completion: Completion) {
        let tag = completion.token;
        match (completion.result, completion.peer) {
            (Ok(bytes), Some(peer)) => {
                let message = completion.buffer[..bytes].to_vec();
                self.replies.push_back((peer, message, Some(tag + 1)));
                self.endpoint.receive_tagged(completion.buffer, tag, tag).unwrap();
            }
            (Err(Error::Cancelled), _) => {
                let at = self.cancelled.iter().position(|(cancelled, _)| *cancelled == tag).unwrap();
                let (_, peer) = self.cancelled.remove(at);
                self.replies.push_back((peer, b"cancelled".to_vec(), None));
            }
            (result, peer) => eprintln!("peer: tag {tag}: {result:?} of {peer:?}"),
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
        while let Some((peer, reply, tag)) = self.replies.pop_front() {
            let Some(mut buffer) = self.spare.pop() else {
                return self.replies.push_front((peer, reply, tag));
            };
            buffer[..reply.len()].copy_from_slice(&reply);
            let sent = match tag {
                Some(tag) => self.endpoint.send_tagged(peer, buffer, reply.len(), tag, 0),
                None => self.endpoint.send(peer, buffer, reply.len(), 0),
            };
            let Err(unposted) = sent else {
                if reply == FORGOTTEN {
                    self.endpoint.forget(peer);
                }
                continue;
            };
            self.spare.push(unposted.buffer);
            match unposted.error {
                Error::Busy => return self.replies.push_front((peer, reply, tag)),
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
