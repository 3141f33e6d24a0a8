//! Logging in to a server by the text protocol, and the replies of servers that want something else.

use std::io::{self, ErrorKind};
use std::time::Instant;

use super::Socket;
use super::tls::left_until;
use crate::address::Login;

/// The longest line of a server that is understood here.
const LINE_BYTES_MAX: usize = 512;
/// First bytes of an alert of TLS: the server took a command for a handshake.
const ALERT: [u8; 2] = [0x15, 3];

/// Logs in, over a stream that blocks. A server without passwords would store the login as an item, so it is
/// asked first. All of it takes until the deadline at most.
///
/// # Errors
/// Says what is wrong, and what to do.
pub(super) fn log_in(socket: &mut Socket, login: &Login, deadline: Instant) -> Result<(), String> {
    let reply = ask(socket, b"version\r\n", deadline).map_err(|error| no_reply(&error))?;
    if reply.starts_with(b"VERSION ") {
        return Err("the server asks for no password: leave USER:PASSWORD@ out".to_owned());
    }
    refusal(&reply, true)?;
    let words = login.words();
    let request = format!("set login 0 0 {}\r\n{words}\r\n", words.len());
    let reply = ask(socket, request.as_bytes(), deadline).map_err(|error| no_reply(&error))?;
    match reply.as_slice() {
        b"STORED\r\n" => Ok(()),
        _ => Err(format!("the server refused the user '{}' or the password", login.user().escape_debug())),
    }
}

/// Finds out from the reply to a first command that a server has to be addressed otherwise.
///
/// # Errors
/// Says how.
pub(super) fn refusal(reply: &[u8], has_login: bool) -> Result<(), String> {
    if reply.starts_with(&ALERT) {
        return Err("the server speaks TLS there: write memcacheds://".to_owned());
    }
    if reply.starts_with(b"CLIENT_ERROR unauthenticated") && !has_login {
        return Err(format!(
            "the server wants a password: write USER:PASSWORD@ before the host, or USER@ and set {}",
            crate::address::PASSWORD_VARIABLE
        ));
    }
    Ok(())
}

/// Sends a request and receives one line, or all until the connection ends.
fn ask(socket: &mut Socket, request: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    let mut sent = 0;
    while sent < request.len() {
        sent += socket.send(&request[sent..])?;
    }
    let mut reply = Vec::new();
    let mut buffer = [0; LINE_BYTES_MAX];
    while !reply.contains(&b'\n') && !reply.starts_with(&ALERT) && reply.len() < LINE_BYTES_MAX {
        socket.set_timeout(left_until(deadline)?)?;
        match socket.receive(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            received => reply.extend_from_slice(&buffer[..received]),
        }
    }
    Ok(reply)
}

fn no_reply(error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "did not reply".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "closed the connection".to_owned()
        }
        _ => format!("did not reply ({error})"),
    };
    format!(
        "the server {why} before the login; it may speak TLS (memcacheds://), want a certificate \
         (--tls-cert), or take the binary protocol only (memcached -S), which is not sent here"
    )
}
