//! TLS for tests of failing handshakes.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DEFAULT_VERSIONS, ServerConfig};

/// Resolves no certificate: every handshake fails after the client's hello.
#[derive(Debug)]
struct Nothing;

impl ResolvesServerCert for Nothing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Creates the configuration of a server without a certificate.
///
/// # Panics
/// If the cryptographic provider has no default version, which it has.
pub fn without_certificate() -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(DEFAULT_VERSIONS);
    let builder = builder.expect("the provider has the default versions");
    let builder = builder.with_no_client_auth();
    Arc::new(builder.with_cert_resolver(Arc::new(Nothing)))
}
