//! The two ends of a test: the peer's process, and a client in this one.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use micanite_fabric::{
    Addressing, Buffer, Completion, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Operation,
    Peer, Provider, RemoteArea, Unposted,
};

use crate::ports::free_ports;

pub const DEADLINE: Duration = Duration::from_secs(60);
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const RECEIVES: u64 = 2;

pub const OPTIONS: EndpointOptions = EndpointOptions { transfers_max: 64, peers_max: 4, busy_ms_max: 2000 };

static SERVERS: AtomicU32 = AtomicU32::new(0);

/// The process of `examples/peer.rs`, which ends with this.
pub struct Server {
    child: Child,
    stdin: ChildStdin,
    pub address: FabricAddress,
    peers_max: u32,
}

impl Server {
    pub fn start(provider: &'static Provider) -> Self {
        Self::with_peers(provider, EndpointOptions::default().peers_max)
    }

    /// Starts a process that keeps the addresses of so many peers.
    pub fn with_peers(provider: &'static Provider, peers_max: u32) -> Self {
        let host = match provider.addressing {
            Addressing::Internet => "127.0.0.1".to_owned(),
            Addressing::Name => {
                let number = SERVERS.fetch_add(1, Ordering::Relaxed);
                format!("micanite-test-{}-{number}", std::process::id())
            }
        };
        let port = (provider.addressing == Addressing::Internet).then(|| free_ports(1));
        let address = FabricAddress { provider, host, port };
        let (child, stdin, address) = spawn(&address, peers_max);
        Self { child, stdin, address, peers_max }
    }

    /// Kills the process, and starts another one at its address.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.stdin, _) = spawn(&self.address, self.peers_max);
    }

    /// Lets it return to the library.
    pub fn call_back(&mut self) {
        self.stdin.write_all(b"back\n").unwrap();
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the CPU time that its first thread has used.
    pub fn cpu_ticks(&self) -> u64 {
        let path = format!("/proc/{0}/task/{0}/stat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let (_, fields) = text.rsplit_once(')').unwrap();
        let fields: Vec<_> = fields.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.address.provider.addressing == Addressing::Name {
            // A killed process leaves the file of its memory behind.
            let _ = std::fs::remove_file(format!("/dev/shm/{}", self.address.host));
        }
    }
}

/// Starts the example; returns it with the address that it got.
fn spawn(address: &FabricAddress, peers_max: u32) -> (Child, ChildStdin, FabricAddress) {
    let mut child = Command::new(program())
        .args([address.to_string(), peers_max.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin, line.trim_end().parse().unwrap())
}

/// Finds the example, which `cargo test` builds with the features of this test.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/peer");
    let how = "cargo build --package micanite-fabric --features testing --example peer";
    assert!(program.exists(), "build the example first: {how}");
    program
}

/// A client that waits for each transfer.
pub struct Client {
    pub endpoint: Endpoint,
    pub peer: Peer,
    pub area: RemoteArea,
    /// `None`: in a transfer that has not finished.
    spare: Option<Buffer>,
    heard: Vec<Completion>,
    done: Vec<Completion>,
    /// Messages with tags, and receives that were cancelled.
    tagged: Vec<Completion>,
}

impl Client {
    /// Opens an endpoint and posts receives, without a greeting.
    pub fn open(server: &Server) -> Self {
        Self::open_with_room(server, MESSAGE_BYTES_MAX)
    }

    fn open_with_room(server: &Server, bytes: usize) -> Self {
        let mut endpoint = Endpoint::connect(&server.address, &OPTIONS).unwrap();
        for token in 0..RECEIVES {
            let buffer = endpoint.buffer(bytes).unwrap();
            endpoint.receive(buffer, token).unwrap();
        }
        let spare = Some(endpoint.buffer(MESSAGE_BYTES_MAX).unwrap());
        let peer = endpoint.server().unwrap();
        let area = RemoteArea { key: 0, base: 0, bytes: 0 };
        let (heard, done, tagged) = (Vec::new(), Vec::new(), Vec::new());
        Self { endpoint, peer, area, spare, heard, done, tagged }
    }

    /// Opens an endpoint, greets the server and learns its area.
    pub fn connect(server: &Server) -> Self {
        Self::with_room(server, MESSAGE_BYTES_MAX)
    }

    pub fn with_room(server: &Server, bytes: usize) -> Self {
        let mut client = Self::open_with_room(server, bytes);
        client.greet();
        client.area = RemoteArea::decode(&client.hear().unwrap()).unwrap();
        client
    }

    pub fn spare(&mut self) -> Buffer {
        self.spare.take().unwrap_or_else(|| self.endpoint.buffer(MESSAGE_BYTES_MAX).unwrap())
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut completions = Completions::new();
        let result = self.endpoint.poll(&mut completions);
        for completion in completions {
            match completion.operation {
                Operation::Receive => self.heard.push(completion),
                Operation::ReceiveTagged => self.tagged.push(completion),
                _ => self.done.push(completion),
            }
        }
        result
    }

    /// Starts a transfer, as soon as the peer takes it.
    fn post(
        &mut self,
        mut buffer: Buffer,
        mut start: impl FnMut(&mut Endpoint, Buffer) -> Result<(), Unposted>,
    ) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            match start(&mut self.endpoint, buffer) {
                Ok(()) => return Ok(()),
                Err(unposted) if unposted.error == Error::Busy => buffer = unposted.buffer,
                Err(unposted) => {
                    self.spare = Some(unposted.buffer);
                    return Err(unposted.error);
                }
            }
            self.poll()?;
            assert!(started.elapsed() < DEADLINE);
        }
    }

    /// Waits for the end of the transfer that was posted last.
    fn wait(&mut self, deadline: Duration) -> Option<(Completion, Result<usize, Error>)> {
        let started = Instant::now();
        while self.done.is_empty() {
            if started.elapsed() > deadline {
                return None;
            }
            self.poll().unwrap();
        }
        let completion = self.done.remove(0);
        let result = completion.result.clone();
        Some((completion, result))
    }

    fn finish(&mut self) -> Result<(), Error> {
        let (completion, result) = self.wait(DEADLINE).expect("a transfer did not finish");
        self.spare = Some(completion.buffer);
        result.map(|_| ())
    }

    pub fn greet(&mut self) {
        let buffer = self.spare();
        self.post(buffer, |endpoint, buffer| endpoint.greet(buffer, 0)).unwrap();
        self.finish().unwrap();
    }

    pub fn send(&mut self, buffer: Buffer, bytes: usize) {
        self.try_send(buffer, bytes).unwrap();
    }

    fn try_send(&mut self, buffer: Buffer, bytes: usize) -> Result<(), Error> {
        let peer = self.peer;
        self.post(buffer, |endpoint, buffer| endpoint.send(peer, buffer, bytes, 0))?;
        self.finish()
    }

    /// Sends a message.
    pub fn tell(&mut self, message: &[u8]) {
        let mut buffer = self.spare();
        buffer[..message.len()].copy_from_slice(message);
        self.send(buffer, message.len());
    }

    /// Waits for a message.
    pub fn hear(&mut self) -> Result<Vec<u8>, Error> {
        let started = Instant::now();
        while self.heard.is_empty() {
            assert!(started.elapsed() < DEADLINE, "no reply");
            self.poll()?;
        }
        let Completion { buffer, result, token, .. } = self.heard.remove(0);
        let message = result.map(|bytes| buffer[..bytes].to_vec());
        self.endpoint.receive(buffer, token).unwrap();
        message
    }

    pub fn ask(&mut self, message: &[u8]) -> Vec<u8> {
        self.tell(message);
        self.hear().unwrap()
    }

    pub fn try_ask(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut buffer = self.spare();
        buffer[..message.len()].copy_from_slice(message);
        self.try_send(buffer, message.len())?;
        self.hear()
    }

    pub fn post_read(&mut self, area: &RemoteArea, offset: u64, bytes: usize, buffer: Buffer) {
        self.try_post_read(area, offset, bytes, buffer).unwrap();
    }

    fn try_post_read(
        &mut self,
        area: &RemoteArea,
        offset: u64,
        bytes: usize,
        buffer: Buffer,
    ) -> Result<(), Error> {
        let peer = self.peer;
        self.post(buffer, |endpoint, buffer| endpoint.read(peer, area, offset, bytes, buffer, 0))
    }

    /// Waits for the read that was posted last; `None` if it does not finish in time.
    pub fn wait_read(&mut self, deadline: Duration) -> Option<Result<Vec<u8>, Error>> {
        let (completion, result) = self.wait(deadline)?;
        assert_eq!(completion.operation, Operation::Read);
        let read = result.map(|bytes| completion.buffer[..bytes].to_vec());
        self.spare = Some(completion.buffer);
        Some(read)
    }

    /// Reads a part of an area.
    pub fn read(&mut self, area: &RemoteArea, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut buffer = self.spare();
        buffer[..64].fill(0xee);
        self.try_post_read(area, offset, bytes, buffer)?;
        let started = Instant::now();
        while self.done.is_empty() {
            assert!(started.elapsed() < DEADLINE, "a read did not finish");
            self.poll()?;
        }
        self.wait_read(DEADLINE).unwrap()
    }

    /// Reads two ranges of an area.
    pub fn read_ranges(&mut self, area: &RemoteArea, ranges: [(u64, usize); 2]) -> Result<Vec<u8>, Error> {
        let (peer, mut buffer) = (self.peer, self.spare());
        buffer[..64].fill(0xee);
        self.post(buffer, |endpoint, buffer| endpoint.read_ranges(peer, area, ranges, buffer, 0))?;
        self.wait_read(DEADLINE).expect("a read did not finish")
    }

    /// Sends a message with a tag, and waits until it has left.
    pub fn tell_tagged(&mut self, message: &[u8], tag: u64) {
        let (peer, mut buffer) = (self.peer, self.spare());
        buffer[..message.len()].copy_from_slice(message);
        let send =
            |endpoint: &mut Endpoint, buffer| endpoint.send_tagged(peer, buffer, message.len(), tag, 0);
        self.post(buffer, send).unwrap();
        self.finish().unwrap();
    }

    /// Waits for a message with any tag, or for the end of a cancelled receive.
    pub fn hear_tagged(&mut self) -> Completion {
        let started = Instant::now();
        while self.tagged.is_empty() {
            assert!(started.elapsed() < DEADLINE, "no message with a tag");
            self.poll().unwrap();
        }
        self.tagged.remove(0)
    }

    /// Starts to send a whole buffer with a tag that nobody waits for.
    pub fn send_unheard(&mut self, buffer: Buffer, tag: u64, token: u64) {
        let (peer, bytes) = (self.peer, buffer.len());
        self.post(buffer, |endpoint, buffer| endpoint.send_tagged(peer, buffer, bytes, tag, token)).unwrap();
    }

    /// Returns whether a message with a tag has come.
    pub fn has_heard_tagged(&self) -> bool {
        !self.tagged.is_empty()
    }

    /// Attempts to write to an area.
    pub fn write(&mut self, area: &RemoteArea, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (peer, mut buffer) = (self.peer, self.spare());
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.post(buffer, |endpoint, buffer| endpoint.write(peer, area, offset, bytes.len(), buffer, 0))?;
        self.finish()
    }

    /// Repeats what fails while a closed connection is opened again.
    pub fn retry(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<Vec<u8>, Error>) -> Vec<u8> {
        let started = Instant::now();
        loop {
            match attempt(self) {
                Ok(read) => return read,
                Err(Error::Closed) => assert!(started.elapsed() < DEADLINE, "it is not opened again"),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}
