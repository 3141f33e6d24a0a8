//! A server without sockets or threads: one cache, one worker's buffers, scripted streams.

pub mod fuzz;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use micanite_engine::{Cache, Worker};
use micanite_net::ByteStream;

use crate::configuration::{Options, Settings};
use crate::connection::{Buffers, Connection, Next, Turn};
use crate::security::auth::Auth;
use crate::session::{Context, Session};
use crate::shared::Server;

/// When the server of a test started; it stays that time unless the test moves it.
pub(crate) const NOW_S: u32 = 1_800_000_000;

/// A server that a test drives by hand.
pub(crate) struct Bench {
    pub server: Arc<Server>,
    pub buffers: Buffers,
    pub now_s: u32,
    pub now_ms: u64,
    pub requests_max: u32,
    worker: Worker,
}

impl Bench {
    /// A server with these options beside its own defaults: one worker, 4 MiB, a fixed seed.
    pub fn new(options: &str) -> Self {
        let mut options: Options = toml::from_str(options).expect("options of a test");
        options.threads.set(1);
        options.memory_limit.set_unsaid(4);
        options.hash_seed.set(1);
        let settings = Settings::of(&options, 1).expect("settings of a test");
        let cache = Cache::new(&settings.engine(1)).expect("memory for a test");
        let cache = Arc::new(cache);
        Self {
            worker: cache.worker(0).expect("the only worker"),
            buffers: Buffers::new(8, settings.value_buffer_bytes),
            requests_max: settings.turn_requests_max,
            server: {
                let auth = settings.auth.as_ref();
                let auth = auth.map(|auth| Auth::new(auth).expect("a file of users"));
                let mut server = Server::new(settings, cache, None, NOW_S).expect("a waker");
                server.auth = auth;
                Arc::new(server)
            },
            now_s: NOW_S,
            now_ms: 1,
        }
    }

    /// Calls with what a session works with.
    #[cfg(test)]
    pub fn with_context<T>(&mut self, call: impl FnOnce(&mut Context<'_>) -> T) -> T {
        call(&mut Context::new(&mut self.worker, &self.server, self.now_s))
    }

    /// One turn of a connection.
    pub fn turn<S: ByteStream>(&mut self, connection: &mut Connection<S>, readable: bool) -> Next {
        let mut context = Context::new(&mut self.worker, &self.server, self.now_s);
        let buffers = &mut self.buffers;
        let turn = Turn::new(buffers, &mut context, self.now_ms, self.requests_max, readable);
        connection.turn(turn)
    }

    /// Drives a connection until it waits for something that will not come: returns what for.
    pub fn drive(&mut self, connection: &mut Connection<Script>) -> Next {
        let mut readable = true;
        loop {
            let next = self.turn(connection, readable);
            readable = next == Next::Read;
            let script = connection.stream();
            let goes_on = match next {
                Next::Read => script.has_input(),
                Next::Write => script.takes_output(),
                Next::Again => true,
                Next::Wait { bytes } => self.buffers.values.can_take(bytes),
                Next::Close => false,
            };
            if !goes_on {
                return next;
            }
        }
    }

    /// The replies to an input that arrives at once and then ends.
    pub fn replies(&mut self, input: &[u8]) -> Vec<u8> {
        self.replies_to(Script::of([input.to_vec()]))
    }

    /// The replies to a script that ends; the connection ends with it.
    pub fn replies_to(&mut self, mut script: Script) -> Vec<u8> {
        script.ends = true;
        self.replies_in(Session::default(), script)
    }

    /// The replies to a script, in a conversation that begins so; the connection ends with it.
    pub fn replies_in(&mut self, session: Session, script: Script) -> Vec<u8> {
        let mut connection = Connection::with(script, session);
        assert_eq!(self.drive(&mut connection), Next::Close);
        let output = connection.stream().output.clone();
        connection.release(&mut self.buffers);
        assert_eq!(self.buffers.values.lent_bytes(), 0, "a value buffer was lost");
        output
    }
}

/// A stream whose input and appetite are written down.
#[derive(Debug)]
pub(crate) struct Script {
    /// Each piece is what one `recv` gives at most.
    pub input: VecDeque<Vec<u8>>,
    /// The end follows the input.
    pub ends: bool,
    pub output: Vec<u8>,
    /// Limit of one `send`.
    pub send_bytes_max: usize,
    /// Bytes that the peer takes before it stops reading.
    pub output_bytes_max: usize,
    /// The server sends no more. The peer then ends, too, unless it `stays`.
    pub output_ended: bool,
    pub stays: bool,
    /// Calls so far.
    pub recvs: usize,
    pub sends: usize,
}

impl Script {
    /// A peer that sends these pieces and reads everything.
    pub fn of(pieces: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self {
            input: pieces.into_iter().filter(|piece| !piece.is_empty()).collect(),
            ends: false,
            output: Vec::new(),
            send_bytes_max: usize::MAX,
            output_bytes_max: usize::MAX,
            output_ended: false,
            stays: false,
            recvs: 0,
            sends: 0,
        }
    }

    /// Returns whether receiving brings bytes or the end.
    pub fn has_input(&self) -> bool {
        self.has_ended() || !self.input.is_empty()
    }

    fn has_ended(&self) -> bool {
        self.ends || (self.output_ended && !self.stays)
    }

    fn takes_output(&self) -> bool {
        self.output.len() < self.output_bytes_max
    }
}

impl ByteStream for Script {
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        assert!(!into.is_empty(), "an empty read looks like the end");
        self.recvs += 1;
        let Some(mut piece) = self.input.pop_front() else {
            return if self.has_ended() { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        };
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        if bytes < piece.len() {
            piece.drain(..bytes);
            self.input.push_front(piece);
        }
        Ok(bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!bytes.is_empty(), "nothing was sent");
        assert!(!self.output_ended, "the end was sent before");
        self.sends += 1;
        let room = self.output_bytes_max.saturating_sub(self.output.len());
        let taken = bytes.len().min(self.send_bytes_max).min(room);
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.output.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn end_output(&mut self) -> io::Result<()> {
        self.output_ended = true;
        Ok(())
    }
}
