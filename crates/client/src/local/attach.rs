//! The hello, and the descriptors that it brings.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use micanite_engine::ImageReader;
use micanite_local::header::Header;
use micanite_local::hello::{self, Answer, DESCRIPTORS_MAX, REPLY_BYTES, REPLY_DESCRIPTORS};
use micanite_local::notes::{NOTES_BYTES, NoteWriter};
use micanite_memory::{ForkMark, Region};
use micanite_net::receive_with_descriptors;
use micanite_wire::hash::PARTITION_BITS;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, socket};
use std::io::Write;

use super::LocalUrl;
use super::reading::Reading;
use super::stream::RequestStream;
use crate::error::Error;
use crate::link::timed::Timed;

/// The memory and the stream of a server; `None` if it has no free connection for the stream.
pub(super) type Attached = (Reading, Option<RequestStream>);

/// Attaches to a server: connects, says hello, maps what comes. Waits at most `deadline` for all answers.
pub(super) fn attach(url: &LocalUrl, deadline: Duration) -> Result<Attached, Error> {
    let server = || url.to_string();
    let (user, password) = match url.login() {
        Some((user, password)) => (user.as_bytes(), password.as_bytes()),
        None => (&b""[..], &b""[..]),
    };
    let hello = hello::request(user, password).ok_or_else(|| Error::Login { server: server() })?;
    let silent = |_: io::Error| Error::Unreachable { server: server() };
    let end = Instant::now() + deadline;
    let socket = connect(url.path(), end).map_err(silent)?;
    socket.set_nonblocking(true)?;
    let mut timed = Timed::new(&socket, end);
    timed.write_all(&hello).map_err(silent)?;
    let mut reply = [0; REPLY_BYTES];
    let mut first = receive_all(&mut timed, &mut reply).map_err(silent)?.into_iter();
    let (answer, count) = hello::parse_reply(&reply)
        .ok_or_else(|| Error::Local { server: server(), reason: "it is no server of local://".to_owned() })?;
    match answer {
        Answer::Welcome => {}
        Answer::Login => return Err(Error::Login { server: server() }),
        Answer::Full => return Err(Error::ServerFull { server: server() }),
        Answer::Refused => {
            let reason = "the server speaks another version, or has no descriptors left".to_owned();
            return Err(Error::Local { server: server(), reason });
        }
    }
    if count > 1 << PARTITION_BITS {
        return Err(Error::Local { server: server(), reason: format!("it names {count} partitions") });
    }
    let (Some(header), Some(notes), Some(stream), REPLY_DESCRIPTORS) =
        (first.next(), first.next(), first.next(), REPLY_DESCRIPTORS)
    else {
        return Err(Error::Local { server: server(), reason: "descriptors are missing".to_owned() });
    };
    let mut partitions: Vec<OwnedFd> = Vec::new();
    while partitions.len() < count {
        let part = receive_all(&mut timed, &mut [0]).map_err(silent)?;
        if part.is_empty() || part.len() > DESCRIPTORS_MAX {
            return Err(Error::Local { server: server(), reason: "descriptors are missing".to_owned() });
        }
        partitions.extend(part);
    }
    let header = Header::open(header)?;
    let about = header.about();
    // Partitions of an unknown kind are left to the server.
    let image = ImageReader::open(partitions, about.value_bytes_max, about.namespace_delimiter).ok();
    let notes = NoteWriter::new(Region::descriptor(notes, NOTES_BYTES)?);
    let reading = Reading::new(socket, header, notes, image, ForkMark::new()?);
    let mut stream = RequestStream::new(UnixStream::from(stream))?;
    if let Some((user, password)) = url.login() {
        match stream.log_in(user, password, end) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok((reading, None)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Login { server: server() });
            }
            Err(error) => return Err(silent(error)),
        }
    }
    Ok((reading, Some(stream)))
}

/// Connects. Where more clients wait than the server's queue holds, it waits, too.
fn connect(path: &Path, end: Instant) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let socket = UnixStream::from(socket);
    let address = UnixAddr::new(path)?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // The kernel applies it to connecting as well.
        socket.set_write_timeout(Some(left))?;
        match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
            // A signal.
            Err(Errno::EINTR) => {}
            result => return Ok(result.map(|()| socket)?),
        }
    }
}

/// Receives as many bytes as fit, and the descriptors beside them.
fn receive_all(socket: &mut Timed<&UnixStream>, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let (mut done, mut taken) = (0, Vec::new());
    while done < bytes.len() {
        let (count, descriptors) = socket
            .retry(PollFlags::POLLIN, |socket| receive_with_descriptors(*socket, &mut bytes[done..]))?;
        taken.extend(descriptors);
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        done += count;
    }
    Ok(taken)
}
