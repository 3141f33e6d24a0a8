//! One reader: its hello, and the page of its notes afterwards.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use micanite_local::hello::{Answer, DESCRIPTORS_MAX, Hello, REPLY_BYTES, REQUEST_BYTES_MAX, parse, reply};
use micanite_local::notes::{NOTES_BYTES, NoteTaker};
use micanite_memory::Region;
use micanite_net::{ByteStream, Stream, send_with_descriptors};

use super::LocalShared;
use crate::security::auth::Verdict;
use crate::shared::Server;
use crate::shared::clock::monotonic_ns;

/// A client of the socket.
#[derive(Debug)]
pub(super) struct Reader {
    pub socket: Stream,
    pub state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Its hello is not complete.
    Greeting { bytes: Vec<u8>, since: Instant },
    /// It has the descriptors.
    Attached(NoteTaker),
}

/// Result of a look at what a client sent.
pub(super) enum Step {
    Wait,
    /// It is attached, and this is the server's end of its stream for requests.
    Attached(Stream),
    /// It has left, was refused, or sent what nobody sends.
    Gone {
        was_refused: bool,
    },
}

impl Reader {
    pub fn new(socket: Stream) -> Self {
        let bytes = Vec::with_capacity(REQUEST_BYTES_MAX + 1);
        Self { socket, state: State::Greeting { bytes, since: Instant::now() } }
    }

    /// Reads what has come. `is_full`: no further reader may attach.
    pub fn step(&mut self, server: &Server, local: &LocalShared, is_full: bool) -> Step {
        let mut piece = [0; REQUEST_BYTES_MAX + 1];
        let count = match self.socket.recv(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Wait,
            Err(_) | Ok(0) => return Step::Gone { was_refused: false },
            Ok(count) => count,
        };
        let State::Greeting { bytes, .. } = &mut self.state else {
            return Step::Gone { was_refused: false };
        };
        bytes.extend_from_slice(&piece[..count]);
        let answer = match parse(bytes) {
            Hello::Incomplete => return Step::Wait,
            Hello::Bad => return Step::Gone { was_refused: true },
            Hello::OtherVersion => Answer::Refused,
            Hello::Complete { user, password } => match has_login(server, user, password) {
                false => Answer::Login,
                true if is_full => Answer::Full,
                true => Answer::Welcome,
            },
        };
        if answer == Answer::Welcome
            && let Ok((notes, stream)) = self.welcome(server, local)
        {
            self.state = State::Attached(notes);
            return Step::Attached(stream);
        }
        let answer = if answer == Answer::Welcome { Answer::Refused } else { answer };
        // A client that does not read it is gone all the same.
        let _ = self.socket.send(&reply(answer, 0));
        Step::Gone { was_refused: true }
    }

    /// Sends the descriptors. They fit the buffer of a new socket.
    fn welcome(&mut self, server: &Server, local: &LocalShared) -> io::Result<(NoteTaker, Stream)> {
        let (region, notes) = Region::exchange(NOTES_BYTES)?;
        let (ours, theirs) = UnixStream::pair()?;
        let partitions = server.shared.cache.readers();
        let descriptors = [local.header_descriptor.as_fd(), notes.as_fd(), theirs.as_fd()];
        self.send(&reply(Answer::Welcome, partitions.len()), &descriptors)?;
        for part in partitions.chunks(DESCRIPTORS_MAX) {
            let part: Vec<BorrowedFd<'_>> = part.iter().map(AsFd::as_fd).collect();
            self.send(&[0], &part)?;
        }
        Ok((NoteTaker::new(region, monotonic_ns()), Stream::unix(ours)?))
    }

    fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match send_with_descriptors(&self.socket, bytes, descriptors)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

// The answer fits what `Stream::send` sends at once to a socket that holds nothing.
const _: () = assert!(REPLY_BYTES < 4096);

/// Returns whether a client may come in: everybody, or who knows a password (`-Y`).
fn has_login(server: &Server, user: &[u8], password: &[u8]) -> bool {
    let Some(auth) = &server.auth else {
        return true;
    };
    // Clients of a Unix socket have no address whose attempts could be counted.
    auth.check(user, password, None, 0) == Verdict::Welcome
}
