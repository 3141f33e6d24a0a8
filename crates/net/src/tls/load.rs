//! Loads certificate files into a configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

/// Policy for certificates of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients need none.
    #[default]
    None,
    /// A client that sends a certificate has to send a valid one.
    Request,
    /// Every client has to send a valid one.
    Require,
}

/// Files and settings of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM: the server's certificate, followed by the intermediate ones.
    pub chain: PathBuf,
    /// PEM: its private key; by default in `chain`.
    pub key: Option<PathBuf>,
    /// PEM: authorities of clients' certificates.
    pub client_authorities: Option<PathBuf>,
    pub clients: ClientCertificates,
    /// Accepts only TLS 1.3.
    pub only_1_3: bool,
    /// OpenSSL's names of the allowed cipher suites of TLS 1.2; empty: all.
    pub ciphers: Vec<String>,
}

/// Loads the files.
///
/// # Errors
/// Returns a sentence that names the file and the problem, and begins like memcached's.
pub fn load(options: &TlsOptions) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(provider(&options.ciphers)?);
    let chain = chain(&options.chain)?;
    let key_file = options.key.as_ref().unwrap_or(&options.chain);
    let key = key(key_file)?;
    let versions = &VERSIONS[..if options.only_1_3 { 1 } else { 2 }];
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| format!("Error in TLS versions: {error}"))?;
    let builder = match verifier(options, Arc::clone(&provider))? {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let usable = provider.key_provider.load_private_key(key.clone_key());
    usable.map_err(|error| {
        let file = key_file.display();
        format!("Error loading the key: {file} : {error}; accepted are {KEY_KINDS}")
    })?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!(
            "Error validating the certificate: {} with the key {} : {error}",
            options.chain.display(),
            key_file.display()
        )
    })?;
    config.ticketer = ring::Ticketer::new().map_err(|error| format!("Error in TLS tickets: {error}"))?;
    Ok(Arc::new(config))
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Selects cipher suites of TLS 1.2 by OpenSSL's names. As with OpenSSL, this does not affect those
/// of 1.3.
fn provider(names: &[String]) -> Result<CryptoProvider, String> {
    use ring::cipher_suite as suite;
    let all = [
        ("ECDHE-ECDSA-AES256-GCM-SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
        ("ECDHE-RSA-AES256-GCM-SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
        ("ECDHE-RSA-AES128-GCM-SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
        ("ECDHE-RSA-CHACHA20-POLY1305", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ];
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let chosen: Vec<_> = names
        .iter()
        .filter_map(|name| all.iter().find(|(known, _)| known == name))
        .map(|(_, suite)| *suite)
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "Error setting the provided cipher(s): {} : none of them is served; served are {}",
            names.join(":"),
            known.join(":")
        ));
    }
    provider.cipher_suites.retain(|suite| suite.tls13().is_some() || chosen.contains(suite));
    Ok(provider)
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates(path)
        .map_err(|why| format!("Error loading the certificate chain: {} : {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(said)?.collect();
    match certificates.map_err(said)? {
        none if none.is_empty() => Err("there is no certificate in it (PEM)".into()),
        certificates => Ok(certificates),
    }
}

/// Kinds of keys that are accepted.
const KEY_KINDS: &str = "RSA (2,048 to 8,192 bits), ECDSA (P-256, P-384) or Ed25519, \
                         as PEM (PKCS#8, PKCS#1 or SEC1) without a password";

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!("{}; accepted are {KEY_KINDS}", no_key(path))
        }
        error => said(error),
    });
    let key = key.map_err(|why| format!("Error loading the key: {} : {why}", path.display()))?;
    Ok(by_content(key))
}

/// Classifies the key by its contents rather than by its label: OpenSSL accepts PKCS#8 under the
/// label of RSA keys, and such files exist.
fn by_content(key: PrivateKeyDer<'static>) -> PrivateKeyDer<'static> {
    // PKCS#8 has a sequence with the algorithm after its version. PKCS#1 and SEC1 continue with
    // other types.
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let der = key.secret_der();
    let fields = value(der, SEQUENCE).map(|(fields, _)| fields);
    let behind_version = fields.and_then(|fields| value(fields, INTEGER));
    match behind_version {
        Some((_, [SEQUENCE, ..])) => PrivateKeyDer::Pkcs8(der.to_vec().into()),
        _ => key,
    }
}

/// Splits `der` after its first element, which has to have this tag. Returns the element's value
/// and the rest.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..0x80 => (usize::from(*length), rest),
        // The length itself takes this many bytes.
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(*length & 0x7f))?;
            let length = bytes
                .iter()
                .try_fold(0usize, |length, byte| Some(length.checked_mul(256)? + usize::from(*byte)))?;
            (length, rest)
        }
    };
    rest.split_at_checked(length).filter(|_| *first == tag)
}

/// Explains why a readable file holds no key.
fn no_key(path: &Path) -> &'static str {
    match std::fs::read_to_string(path) {
        Ok(text) if text.contains("BEGIN ENCRYPTED PRIVATE KEY") => {
            "the key is encrypted; store it without a password"
        }
        _ => "there is no private key in it",
    }
}

fn said(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if options.clients == ClientCertificates::None {
        return Ok(None);
    }
    let Some(path) = &options.client_authorities else {
        return Err("Error loading the CA certificate: none is given to verify clients".into());
    };
    let wrong = |why: String| format!("Error loading the CA certificate: {} : {why}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path).map_err(wrong)? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match options.clients {
        ClientCertificates::Request => builder.allow_unauthenticated(),
        _ => builder,
    };
    let verifier = builder.build().map_err(|error| wrong(error.to_string()))?;
    Ok(Some(verifier))
}
