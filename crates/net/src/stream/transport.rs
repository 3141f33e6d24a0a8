//! Transport of a connection: the plain stream, or TLS over it.

use std::io;

use crate::ByteStream;
use crate::tls::{Tls, TlsPhase};

/// The transport of a connection. A plain connection pays one branch for the choice.
#[derive(Debug)]
pub enum Transport<S: ByteStream> {
    Plain(S),
    Tls(Box<Tls<S>>),
}

impl<S: ByteStream> Transport<S> {
    /// Returns the stream below.
    #[inline]
    pub fn inner(&self) -> &S {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.inner(),
        }
    }

    /// Returns the state of TLS, if it is used.
    #[inline]
    pub fn tls_phase(&self) -> Option<TlsPhase> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls.phase()),
        }
    }

    /// Returns how the peer violated TLS.
    pub fn tls_violation(&self) -> Option<&rustls::Error> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.violation(),
        }
    }
}

impl<S: ByteStream> ByteStream for Transport<S> {
    #[inline]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.recv(into),
            Self::Tls(tls) => tls.recv(into),
        }
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.send(bytes),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    fn end_output(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.end_output(),
            Self::Tls(tls) => tls.end_output(),
        }
    }

    fn discard(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.discard(scratch),
            Self::Tls(tls) => tls.discard(scratch),
        }
    }

    #[inline]
    fn holds_input(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.holds_input(),
            Self::Tls(tls) => tls.holds_input(),
        }
    }

    #[inline]
    fn holds_output(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.holds_output(),
            Self::Tls(tls) => tls.holds_output(),
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}
