//! A TCP stream under TLS, with the calls of a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::address::TlsClient;

/// A stream of TLS whose handshake is complete.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub stream: TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    /// Completes the handshake over a stream that blocks, within `timeout` in all.
    ///
    /// # Errors
    /// Says why there is no session, and what to do.
    pub fn open(stream: TcpStream, client: &TlsClient, timeout: Duration) -> Result<Self, String> {
        let session = client.connection().map_err(|error| client.explain(&error))?;
        let mut made = Self { stream, session };
        let deadline = Instant::now() + timeout;
        made.shake_hands(deadline).map_err(|error| explain(&error, client))?;
        Ok(made)
    }

    fn shake_hands(&mut self, deadline: Instant) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.flush()?;
            self.stream.set_read_timeout(Some(left_until(deadline)?))?;
            if self.session.read_tls(&mut self.stream)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = self.session.process_new_packets() {
                // The alert that tells the server why.
                let _ = self.flush();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        self.flush().map(drop)
    }

    /// Receives what there is. The stream is read only when nothing decrypted is left.
    pub fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A stream that ends without the closing alert has ended all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                received => return received,
            }
            self.session.read_tls(&mut self.stream)?;
            let processed = self.session.process_new_packets();
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts as much as fits, and sends what the kernel takes.
    pub fn send(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.flush()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write(from)?;
        self.flush()?;
        Ok(taken)
    }

    /// Sends what is encrypted already; returns whether something is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Returns the time until a deadline.
///
/// # Errors
/// `TimedOut`: it has passed.
pub(super) fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Returns the error of TLS that an error of a stream stands for, if it does.
pub(super) fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn explain(error: &io::Error, client: &TlsClient) -> String {
    match (of_tls(error), error.kind()) {
        (Some(error), _) => client.explain(error),
        (None, ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            "the server did not answer the TLS handshake: write memcached:// or name its TLS port".to_owned()
        }
        (None, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            "the server closed the connection in the TLS handshake: write memcached:// or name its TLS port"
                .to_owned()
        }
        (None, _) => format!("TLS: {error}"),
    }
}
