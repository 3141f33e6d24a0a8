//! TLS of the generator's connections: options, and the settings that they make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{Address, Place};

/// The system's authorities (Debian's ca-certificates).
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Options of `memcacheds://` addresses.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArguments {
    /// memcacheds: authorities that the server's certificate may come from, PEM [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,
    /// memcacheds: accept any certificate
    #[arg(long, conflicts_with = "tls_ca", help_heading = "TLS")]
    tls_insecure: bool,
    /// memcacheds: certificate of this client, PEM, for servers that require one
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,
    /// memcacheds: its private key, PEM [default: in the file of --tls-cert]
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    tls_key: Option<PathBuf>,
}

impl TlsArguments {
    /// Gives each address of `memcacheds://` its settings; the files are read if there is one.
    ///
    /// # Errors
    /// A file cannot be read, or an option has no use.
    pub fn apply(&self, addresses: &mut [Address]) -> Result<(), String> {
        if !addresses.iter().any(Address::is_encrypted) {
            let is_given = self.tls_ca.is_some() || self.tls_insecure || self.tls_cert.is_some();
            return match (is_given, addresses.first()) {
                (true, Some(address)) => Err(format!(
                    "{address}: no TLS there; the options --tls-... are for memcacheds://HOST:PORT"
                )),
                _ => Ok(()),
            };
        }
        let config = Arc::new(self.config()?);
        let authorities = match &self.tls_ca {
            Some(path) => path.display().to_string(),
            None => SYSTEM_AUTHORITIES.to_owned(),
        };
        for address in addresses.iter_mut().filter(|address| address.is_encrypted) {
            let client = TlsClient::new(&config, &address.place, authorities.clone())?;
            address.tls = Some(client);
        }
        Ok(())
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let Some(certificate) = &self.tls_cert else {
            return Ok(builder.with_no_client_auth());
        };
        let key_file = self.tls_key.as_ref().unwrap_or(certificate);
        let key = PrivateKeyDer::from_pem_file(key_file)
            .map_err(|error| format!("cannot read a private key from {}: {error}", key_file.display()))?;
        builder
            .with_client_auth_cert(certificates(certificate)?, key)
            .map_err(|error| format!("--tls-cert {}: {error}", certificate.display()))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        if self.tls_insecure {
            return Ok(Arc::new(AnyCertificate(provider)));
        }
        let path = match &self.tls_ca {
            Some(path) => path,
            None if Path::new(SYSTEM_AUTHORITIES).exists() => Path::new(SYSTEM_AUTHORITIES),
            None => {
                return Err(format!(
                    "{SYSTEM_AUTHORITIES} does not exist: name the server's authority (--tls-ca FILE), \
                     or accept any certificate (--tls-insecure)"
                ));
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(path)?);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => {
            Err(format!("{}: there is no certificate in it (PEM)", path.display()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// Settings of TLS connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The file of authorities.
    authorities: String,
}

impl TlsClient {
    fn new(config: &Arc<ClientConfig>, place: &Place, authorities: String) -> Result<Self, String> {
        let Place::Host(host) = place else {
            return Err("TLS needs a host".to_owned());
        };
        let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        let name = name.trim_matches(['[', ']']).to_owned();
        let name =
            ServerName::try_from(name.clone()).map_err(|_| format!("'{name}' is no name of a host"))?;
        Ok(Self { config: Arc::clone(config), name, authorities })
    }

    /// Begins a connection.
    pub fn connection(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }

    /// Explains why a handshake failed, and what to do.
    pub fn explain(&self, error: &Error) -> String {
        match error {
            Error::InvalidMessage(_) => {
                "the server does not speak TLS there: write memcached:// or name its TLS port".to_owned()
            }
            // webpki names it, and rustls has no variant for it.
            Error::InvalidCertificate(reason) if format!("{reason:?}").contains("CaUsedAsEndEntity") => {
                "the server's certificate is one of an authority (CA:TRUE): make one for the server \
                 (openssl req -x509 -addext basicConstraints=critical,CA:FALSE), or accept any \
                 (--tls-insecure)"
                    .to_owned()
            }
            Error::InvalidCertificate(reason) => format!(
                "the server's certificate is refused ({reason}): --tls-ca FILE names its authority (now {}), \
                 --tls-insecure accepts any",
                self.authorities
            ),
            Error::AlertReceived(alert) => format!(
                "the server refused the TLS handshake ({alert:?}); if it wants a certificate, name one \
                 (--tls-cert FILE)"
            ),
            error => format!("TLS: {error}"),
        }
    }
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for TlsClient {}

/// Accepts every certificate; the server still has to have its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
