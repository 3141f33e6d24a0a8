//! TLS 1.2 and 1.3 for streams: loads files into a configuration, and wraps a stream as [`Tls`].
//!
//! The implementation is rustls over ring. There is no renegotiation, no compression, no protocol
//! negotiation (ALPN), no early data. Sessions are resumed by tickets. Ticket keys rotate, and are
//! dropped when the files are loaded again.

mod certificate;
mod load;
mod stream;
#[cfg(test)]
mod tests;

pub use load::{ClientCertificates, Loaded, TlsOptions, load, read_file};
#[cfg(feature = "testing")]
mod testing;

pub use rustls::ServerConfig;
pub use stream::{Tls, TlsPhase};
#[cfg(feature = "testing")]
pub use testing::without_certificate;
