//! TLS for tests of handshakes that do not end.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DEFAULT_VERSIONS, ServerConfig};

/// A server that has nothing to show: every handshake fails when the client has said hello.
#[derive(Debug)]
struct Nothing;

impl ResolvesServerCert for Nothing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// The configuration of a server without a certificate.
///
/// # Panics
/// When the cryptographic provider has no default version, which it has.
pub fn without_certificate() -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(DEFAULT_VERSIONS);
    let builder = builder.expect("the provider has the default versions");
    let builder = builder.with_no_client_auth();
    Arc::new(builder.with_cert_resolver(Arc::new(Nothing)))
}
