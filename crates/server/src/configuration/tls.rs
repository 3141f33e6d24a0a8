//! TLS: memcached's `-Z` and the words `ssl_...` of `-o`, and the same by plain names.

use std::net::SocketAddr;

use micanite_net::tls::{ClientCertificates, TlsOptions};

use super::checks::absolute;
use super::memcached::Extended;
use super::settings::Listen;
use super::{Options, UsageError, Value};

/// TLS mode of one listener. It has an effect only if TLS is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenTls {
    /// TLS. The settings decide on certificates of clients.
    #[default]
    Default,
    /// No TLS (`notls:`).
    Plain,
    /// TLS that asks clients for nothing (`btls:`).
    Basic,
    /// TLS, and clients need a certificate (`mtls:`).
    Mutual,
}

impl ListenTls {
    /// Splits a word of `-l` into its mark, if it has one, and the rest.
    pub(super) fn split(word: &str) -> (Option<Self>, &str) {
        let prefixes = [("notls:", Self::Plain), ("btls:", Self::Basic), ("mtls:", Self::Mutual)];
        for (prefix, tls) in prefixes {
            if let Some(rest) = word.strip_prefix(prefix) {
                return (Some(tls), rest);
            }
        }
        (None, word)
    }
}

impl TlsSettings {
    /// Returns whether some listener may let nobody in without a certificate. A supervisor's listeners at
    /// addresses that nobody named ask for what the default asks for.
    pub fn requires_certificates(&self, listen: &Listen) -> bool {
        self.options.clients == ClientCertificates::Require || listen.tls.contains(&ListenTls::Mutual)
    }
}

/// TLS, if it is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The files, and what is asked of clients of a [`ListenTls::Default`] listener.
    pub options: TlsOptions,
    /// memcached's number for what is asked of clients, 0 to 3.
    pub verify_mode: u8,
}

fn wrong<T>(name: &str, what: impl std::fmt::Display) -> Result<T, UsageError> {
    Err(UsageError(format!("{name}: {what}")))
}

/// Checks what is said of TLS. `listen` is done.
pub(super) fn tls(
    options: &Options,
    extended: &Extended,
    listen: &Listen,
) -> Result<Option<TlsSettings>, UsageError> {
    let is_wanted = match options.enable_ssl.is_said() {
        true => options.enable_ssl.is_on()?,
        false => options.tls_cert.is_said(),
    };
    if !is_wanted {
        return refuse_without(options, extended, listen);
    }
    let path = |option: &Value, word: &str| match option.path() {
        Ok(None) => Ok(extended.text(word).map(absolute)),
        path => path,
    };
    let Some(chain) = path(&options.tls_cert, "ssl_chain_cert")? else {
        let what = "a certificate is missing: --tls-cert FILE (or -o ssl_chain_cert=FILE)";
        return Err(options.enable_ssl.wrong(what));
    };
    if listen.addresses.is_empty() {
        return Err(options.enable_ssl.wrong("TLS needs a TCP port (-p)"));
    }
    let client_authorities = path(&options.tls_client_ca, "ssl_ca_cert")?;
    let verify_mode = verify_mode(options, extended)?;
    let clients = match verify_mode {
        0 => ClientCertificates::None,
        // Without authorities there is nothing to verify by. A client needs no certificate either way.
        1 if client_authorities.is_none() => ClientCertificates::None,
        1 => ClientCertificates::Request,
        _ => ClientCertificates::Require,
    };
    if client_authorities.is_none() {
        let needs =
            "needs the certificates to verify clients by: --tls-client-ca FILE (or -o ssl_ca_cert=FILE)";
        if clients == ClientCertificates::Require {
            return wrong("-o ssl_verify_mode", needs);
        }
        if listen.tls.contains(&ListenTls::Mutual) {
            return wrong("-l/--listen: mtls", needs);
        }
    }
    let ciphers = extended.text("ssl_ciphers").unwrap_or_default();
    let names = ciphers.split([':', ' ']).filter(|name| !name.is_empty());
    check_format(extended)?;
    Ok(Some(TlsSettings {
        options: TlsOptions {
            chain,
            key: path(&options.tls_key, "ssl_key")?,
            client_authorities,
            clients,
            only_1_3: only_1_3(extended)?,
            ciphers: names.map(String::from).collect(),
        },
        verify_mode,
    }))
}

impl TlsSettings {
    /// Writes the options that lead to these settings, with absolute paths.
    pub(super) fn say(&self, extended: &Extended, options: &mut Options) {
        options.enable_ssl.set(true);
        options.tls_cert.set(self.options.chain.display());
        if let Some(key) = &self.options.key {
            options.tls_key.set(key.display());
        }
        // It asks for certificates, unless a number of -o says otherwise.
        let is_asked = self.verify_mode > 0 || extended.has("ssl_verify_mode");
        if let Some(authorities) = self.options.client_authorities.as_ref().filter(|_| is_asked) {
            options.tls_client_ca.set(authorities.display());
        }
    }
}

/// Refuses options of TLS without `-Z`. Otherwise the server would serve without encryption, unnoticed.
fn refuse_without(
    options: &Options,
    extended: &Extended,
    listen: &Listen,
) -> Result<Option<TlsSettings>, UsageError> {
    let without = "has no effect without -Z/--enable-ssl";
    for option in [&options.tls_cert, &options.tls_key, &options.tls_client_ca] {
        if option.is_said() {
            return Err(option.wrong(without));
        }
    }
    for name in ["ssl_chain_cert", "ssl_key", "ssl_ca_cert", "ssl_verify_mode"] {
        if extended.has(name) {
            return wrong(&format!("-o {name}"), without);
        }
    }
    for (tls, name) in [(ListenTls::Plain, "notls"), (ListenTls::Basic, "btls"), (ListenTls::Mutual, "mtls")]
    {
        if listen.tls.contains(&tls) {
            return wrong("-l/--listen", format!("'{name}' {without}"));
        }
    }
    Ok(None)
}

/// Naming the authorities of clients by `--tls-client-ca` asks for a certificate.
fn verify_mode(options: &Options, extended: &Extended) -> Result<u8, UsageError> {
    match extended.number("ssl_verify_mode") {
        None => Ok(if options.tls_client_ca.is_said() { 2 } else { 0 }),
        Some(mode @ 0..=3) => Ok(mode as u8),
        Some(mode) => {
            let what = "0 (none), 1 (request), 2 (require) or 3 (once)";
            wrong("-o ssl_verify_mode", format!("{mode} is none of {what}"))
        }
    }
}

/// Returns whether TLS 1.2 is refused. TLS 1.0 and 1.1 are not supported, so 0 and 1 mean 1.2.
fn only_1_3(extended: &Extended) -> Result<bool, UsageError> {
    match extended.text("ssl_min_version") {
        None | Some("0" | "1" | "2" | "tlsv1.0" | "tlsv1.1" | "tlsv1.2") => Ok(false),
        Some("3" | "tlsv1.3") => Ok(true),
        Some(text) => wrong("-o ssl_min_version", format!("'{text}' is none of 2 (TLS 1.2) and 3 (TLS 1.3)")),
    }
}

fn check_format(extended: &Extended) -> Result<(), UsageError> {
    match extended.text("ssl_keyformat") {
        None | Some("1" | "PEM" | "pem") => Ok(()),
        Some(text) => wrong("-o ssl_keyformat", format!("'{text}': only PEM is read")),
    }
}

impl Listen {
    /// Listens at these addresses in place of its own. Marks of addresses hold there; `clients` is what other
    /// addresses ask of clients.
    pub fn move_to(&mut self, addresses: Vec<SocketAddr>, clients: ClientCertificates) {
        let mark = |there| self.mark_of(there, clients);
        self.tls = addresses.iter().map(mark).collect();
        self.addresses = addresses;
    }

    /// Returns the mark of an address. An address that nobody has named asks for certificates if another
    /// address of its IP does, or else any other one, or if all without a mark do: nobody gets in by a slip.
    /// Only if none does, it takes the mark of its IP.
    fn mark_of(&self, there: &SocketAddr, clients: ClientCertificates) -> ListenTls {
        let marks = || self.addresses.iter().zip(self.tls.iter().copied());
        let is_ip = |address: &SocketAddr| {
            address.ip() == there.ip() || (address.ip().is_unspecified() && there.ip().is_unspecified())
        };
        let is_port = |address: &SocketAddr| address.port() == there.port();
        let exact = marks().find(|(address, _)| is_ip(address) && is_port(address));
        let (_, mark) = exact
            .or_else(|| marks().find(|(_, mark)| *mark == ListenTls::Mutual))
            .or_else(|| {
                let ask_all = clients == ClientCertificates::Require;
                ask_all.then_some((there, ListenTls::Default))
            })
            .or_else(|| marks().find(|(address, _)| is_ip(address)))
            .unwrap_or((there, ListenTls::Default));
        mark
    }

    /// Addresses that other machines reach.
    pub fn reachable(&self) -> impl Iterator<Item = (&SocketAddr, ListenTls)> {
        let all = self.addresses.iter().zip(self.tls.iter().copied());
        all.filter(|(address, _)| !address.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &str) -> super::super::Settings {
        super::super::tests::settings(arguments).unwrap()
    }

    /// Returns the mark of an address where a supervisor listens.
    fn mark(arguments: &str, there: &str) -> ListenTls {
        let mut settings = settings(arguments);
        let clients = settings.tls.as_ref().map_or(ClientCertificates::None, |tls| tls.options.clients);
        settings.listen.move_to(vec![there.parse().unwrap()], clients);
        settings.listen.tls[0]
    }

    /// An address that nobody has named asks for certificates if that is what a listener without a mark does.
    #[test]
    fn unnamed_addresses_ask_for_certificates_if_the_default_does() {
        for (named, ca, expected) in [
            ("notls:10.0.0.1:1", "--tls-client-ca a", ListenTls::Default),
            ("btls:10.0.0.1:1", "--tls-client-ca a", ListenTls::Default),
            ("notls:10.0.0.1:1", "", ListenTls::Plain),
            ("btls:10.0.0.1:1", "", ListenTls::Basic),
        ] {
            let arguments = format!("-l {named} --tls-cert c {ca}");
            assert_eq!(mark(&arguments, "10.0.0.1:9"), expected, "{arguments}");
            assert_eq!(mark(&arguments, "10.0.0.1:1"), settings(&arguments).listen.tls[0]);
        }
    }

    /// Certificates are asked for by a listener without a mark, or by one that is marked so.
    #[test]
    fn certificates_count_as_required_whatever_the_marks_of_named_addresses() {
        for (named, expected) in [
            ("10.0.0.1:1", true),
            ("mtls:10.0.0.1:1", true),
            ("notls:10.0.0.1:1,10.0.0.1:2", true),
            // A supervisor may listen elsewhere.
            ("notls:10.0.0.1:1,btls:10.0.0.1:2", true),
        ] {
            let settings = settings(&format!("-l {named} --tls-cert c --tls-client-ca a"));
            let tls = settings.tls.unwrap();
            assert_eq!(tls.requires_certificates(&settings.listen), expected, "{named}");
        }
    }

    #[test]
    fn other_addresses_keep_their_marks() {
        let options = "-Z --tls-cert c --tls-client-ca a";
        let listen = "mtls:10.0.0.1:1,notls:127.0.0.1:2,btls:127.0.0.1:3,[::]:4";
        let mut listen = settings(&format!("{options} -l {listen}")).listen;
        let there = [
            ("127.0.0.1:3", ListenTls::Basic),
            ("127.0.0.1:2", ListenTls::Plain),
            ("10.0.0.1:9", ListenTls::Mutual),
            ("0.0.0.0:4", ListenTls::Default),
            ("10.0.0.2:2", ListenTls::Mutual),
        ];
        listen.move_to(
            there.iter().map(|(text, _)| text.parse().unwrap()).collect(),
            ClientCertificates::Require,
        );
        assert_eq!(listen.tls, there.map(|(_, mark)| mark));
        assert_eq!(listen.addresses.len(), there.len());
        // A port that is not named asks for certificates if any mark does, be it the second one of the IP.
        for (named, there) in [
            ("notls:127.0.0.1:1,mtls:127.0.0.1:2", "127.0.0.1:3"),
            ("notls:10.0.0.1:1,mtls:10.0.0.1:2", "10.0.0.1:9"),
            ("notls:10.0.0.1:1,mtls:10.0.0.2:2", "10.0.0.1:9"),
        ] {
            assert_eq!(mark(&format!("{options} -l {named}"), there), ListenTls::Mutual, "{named}");
        }
    }
}
