//! A thread that serves the items of a [`FakeServer`] over libfabric.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use micanite_fabric::{
    Area, Buffer, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Operation, Peer, Provider,
};

use super::ports::free_ports;
use crate::fabric::endpoint::Fabric;
use crate::fabric::tests::server::FakeServer;
use crate::fabric::transport::Transport;

const HELLO_BYTES: usize = 1024;
const MESSAGE_BYTES: usize = 1 << 20;

type Task = Box<dyn FnOnce(&mut FakeServer, u64) + Send>;

/// The thread, which ends with this.
pub struct Host {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<FakeServer>>,
    pub address: FabricAddress,
}

impl Host {
    pub fn start(provider: &'static Provider, server: FakeServer) -> Self {
        Self::start_at(
            &FabricAddress { provider, host: "127.0.0.1".to_owned(), port: Some(free_ports(1)) },
            server,
        )
    }

    pub fn start_at(address: &FabricAddress, mut server: FakeServer) -> Self {
        let endpoint = Endpoint::listen(address, &EndpointOptions::default()).unwrap();
        let address = FabricAddress { port: endpoint.port(), ..address.clone() };
        let area = endpoint.area(server.area.region().clone()).unwrap();
        server.area_base = area.remote().base;
        if server.area_key == 0 {
            server.area_key = area.remote().key;
        }
        let (tasks, wanted) = channel();
        let thread = std::thread::spawn(move || Serving::new(endpoint, area, server).run(&wanted));
        Self { tasks: Some(tasks), thread: Some(thread), address }
    }

    pub fn url(&self) -> String {
        let FabricAddress { provider, host, port } = &self.address;
        format!("fabric://{host}:{}?provider={}", port.unwrap(), provider.name)
    }

    /// Calls a function in the thread; returns its result.
    pub fn with<R: Send + 'static>(
        &self,
        does: impl FnOnce(&mut FakeServer, u64) -> R + Send + 'static,
    ) -> R {
        let (sender, done) = channel();
        let task = move |server: &mut FakeServer, now_ns: u64| sender.send(does(server, now_ns)).unwrap();
        self.tasks.as_ref().unwrap().send(Box::new(task)).unwrap();
        done.recv().unwrap()
    }

    /// Ends the thread, and closes its endpoint.
    pub fn stop(mut self) -> FakeServer {
        drop(self.tasks.take());
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Serving {
    endpoint: Endpoint,
    /// Clients read it.
    _area: Area,
    server: FakeServer,
    /// Clients by their sessions.
    peers: HashMap<u64, Peer>,
    /// Messages that found the endpoint busy.
    unsent: VecDeque<(Peer, Vec<u8>, Option<u64>)>,
}

impl Serving {
    fn new(mut endpoint: Endpoint, area: Area, server: FakeServer) -> Self {
        for _ in 0..4 {
            let buffer = endpoint.buffer(HELLO_BYTES).unwrap();
            endpoint.receive(buffer, 0).unwrap();
        }
        let (peers, unsent) = (HashMap::new(), VecDeque::new());
        Self { endpoint, _area: area, server, peers, unsent }
    }

    fn run(mut self, tasks: &Receiver<Task>) -> FakeServer {
        loop {
            match tasks.try_recv() {
                Ok(task) => task(&mut self.server, Fabric::now_ns()),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return self.server,
                Err(_) => {}
            }
            let mut completions = Completions::new();
            // Clients come and go.
            let _ = self.endpoint.poll(&mut completions);
            let is_idle = completions.is_empty();
            for one in completions {
                let (token, peer) = (one.token, one.peer);
                match (one.operation, one.result) {
                    (Operation::Greeting, _) | (Operation::Receive, Err(_)) => self.receive(one.buffer),
                    (Operation::Receive, Ok(bytes)) => {
                        self.hello(&one.buffer[..bytes], peer.unwrap());
                        self.receive(one.buffer);
                    }
                    (Operation::ReceiveTagged, Ok(bytes)) => {
                        let reply = self.server.message(&one.buffer[..bytes], token, Fabric::now_ns());
                        let _ = self.endpoint.receive_tagged(one.buffer, token, token);
                        if let (Some(reply), Some(peer)) = (reply, self.peers.get(&token)) {
                            self.unsent.push_back((*peer, reply, Some(token)));
                        }
                    }
                    _ => {}
                }
            }
            self.send();
            if is_idle {
                std::thread::yield_now();
            }
        }
    }

    fn receive(&mut self, buffer: Buffer) {
        self.endpoint.receive(buffer, 0).unwrap();
    }

    fn hello(&mut self, message: &[u8], peer: Peer) {
        let Some(reply) = self.server.hello(message, 0, Fabric::now_ns()) else {
            return;
        };
        if let Some(hello) = micanite_wire::native::HelloReply::read(&reply) {
            self.peers.insert(hello.session, peer);
            for tag in [hello.session, hello.history_tag()] {
                let buffer = self.endpoint.buffer(MESSAGE_BYTES).unwrap();
                self.endpoint.receive_tagged(buffer, tag, tag).unwrap();
            }
        }
        self.unsent.push_back((peer, reply, None));
    }

    fn send(&mut self) {
        for _ in 0..self.unsent.len() {
            let Some((peer, message, tag)) = self.unsent.pop_front() else {
                return;
            };
            let mut buffer = self.endpoint.buffer(message.len()).unwrap();
            buffer.copy_from_slice(&message);
            let sent = match tag {
                Some(tag) => self.endpoint.send_tagged(peer, buffer, message.len(), tag, 0),
                None => self.endpoint.send(peer, buffer, message.len(), 0),
            };
            if sent.is_err_and(|unposted| unposted.error == Error::Busy) {
                self.unsent.push_back((peer, message, tag));
            }
        }
    }
}
