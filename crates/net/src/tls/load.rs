//! Loads certificate files into a configuration.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::certificate::{Certificate, value};

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

/// A configuration from files.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Arc<ServerConfig>,
    /// The first end of a certificate of the chain, unix time; `None` if none can be read.
    pub ends_s: Option<i64>,
}

/// Loads the files.
///
/// # Errors
/// Returns a sentence that names the file and the problem, and begins like memcached's.
pub fn load(options: &TlsOptions) -> Result<Loaded, String> {
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
    let usable = usable.map_err(|error| {
        let file = key_file.display();
        format!("Error loading the key: {file} : {error}; accepted are {KEY_KINDS}")
    })?;
    let ends_s = chain.iter().filter_map(|der| Certificate::of(der)).map(|it| it.ends_s).min();
    let made = match chain.first().and_then(|der| Certificate::of(der)) {
        // The library parses newer versions alone, but only in order to compare the keys.
        Some(Certificate { is_v1: true, public_key, .. }) => {
            match usable.public_key().is_none_or(|key| key.as_ref() == public_key) {
                true => {
                    let certified = CertifiedKey::new(chain, usable);
                    Ok(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
                }
                false => Err(InconsistentKeys::KeyMismatch.into()),
            }
        }
        _ => builder.with_single_cert(chain, key),
    };
    let mut config = made.map_err(|error| {
        format!(
            "Error validating the certificate: {} with the key {} : {error}",
            options.chain.display(),
            key_file.display()
        )
    })?;
    if options.clients == ClientCertificates::None {
        config.ticketer = ring::Ticketer::new().map_err(|error| format!("Error in TLS tickets: {error}"))?;
    } else {
        // A session that is resumed has the certificate of its client, which may have expired since.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Loaded { config: Arc::new(config), ends_s })
}

/// Reads a regular file. Anything else could block the reader for ever.
///
/// # Errors
/// Returns the kernel's error, or that it is no regular file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
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
    let text = read_file(path).map_err(|error| error.to_string())?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates.map_err(said)? {
        none if none.is_empty() => Err("there is no certificate in it (PEM)".into()),
        certificates => Ok(certificates),
    }
}

/// Kinds of keys that are accepted.
const KEY_KINDS: &str = "RSA (2,048 to 8,192 bits), ECDSA (P-256, P-384) or Ed25519, \
                         as PEM (PKCS#8, PKCS#1 or SEC1) without a password";

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read_file(path).map_err(|error| error.to_string());
    let key = text.and_then(|text| {
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            pem::Error::NoItemsFound => format!("{}; accepted are {KEY_KINDS}", no_key(&text)),
            error => said(error),
        })
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

/// Explains why a file holds no key.
fn no_key(text: &[u8]) -> &'static str {
    const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
    match text.windows(ENCRYPTED.len()).any(|words| words == ENCRYPTED) {
        true => "the key is encrypted; store it without a password",
        false => "there is no private key in it",
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
