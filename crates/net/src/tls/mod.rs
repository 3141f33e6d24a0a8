//! TLS 1.2 and 1.3 for streams: files to a configuration, a configuration and a stream to a
//! [`Tls`] stream.
//!
//! The library is rustls over ring. There is no renegotiation, no compression, no protocol
//! negotiation (ALPN), no early data. Sessions are taken up again by tickets, whose keys rotate
//! and are forgotten when the files are read anew.

mod load;
mod stream;
#[cfg(test)]
mod tests;

pub use load::{ClientCertificates, TlsOptions, load};
#[cfg(feature = "testing")]
mod testing;

pub use rustls::ServerConfig;
pub use stream::{Tls, TlsPhase};
#[cfg(feature = "testing")]
pub use testing::without_certificate;
