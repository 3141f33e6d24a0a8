//! A TCP stream under TLS, with the calls of a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use crate::address::TlsClient;

/// A stream of TLS whose handshake is complete.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub stream: TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    /// Completes the handshake over a stream that blocks.
    ///
    /// # Errors
    /// Says why there is no session, and what to do.
    pub fn open(mut stream: TcpStream, client: &TlsClient) -> Result<Self, String> {
        let mut session = client.connection().map_err(|error| client.explain(&error))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream).map_err(|error| explain(&error, client))?;
        }
        Ok(Self { stream, session })
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

fn explain(error: &io::Error, client: &TlsClient) -> String {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (of_tls, error.kind()) {
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
