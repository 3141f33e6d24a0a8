//! Warnings about listeners that expose items or passwords to other machines.

use std::net::{IpAddr, SocketAddr};

use micanite_net::tls::ClientCertificates;

use crate::configuration::{ListenTls, Settings};
use crate::telemetry::log::start;

/// Logs a warning for each kind of exposed listener.
pub(super) fn warn(settings: &Settings) {
    let open = joined(open(settings));
    if !open.is_empty() {
        start!(
            WARN,
            "everybody who reaches {} may read and write: ask for passwords (-Y FILE) or for \
             certificates (--tls-client-ca FILE), or listen on 127.0.0.1 (-l)",
            open
        );
    }
    let in_the_clear = joined(passwords_in_the_clear(settings));
    if !in_the_clear.is_empty() {
        start!(
            WARN,
            "passwords (-Y, -S) cross the network unencrypted to {in_the_clear}: add --tls-cert \
             FILE, or listen on 127.0.0.1 (-l)"
        );
    }
    if answers_datagrams(settings) {
        start!(
            WARN,
            "datagrams (-U) have neither passwords nor encryption, and anybody can forge the \
             address that --udp-allow looks at: let a firewall decide who reaches them"
        );
    }
    let native = settings.native.as_ref();
    let ips = native.map_or(&[][..], |native| native.addresses.as_slice());
    let reachable = settings.bypass().is_some() || ips.iter().any(|ip: &IpAddr| !ip.is_loopback());
    if reachable {
        start!(
            WARN,
            "the native protocol (--native, --bypass) has neither passwords nor encryption: let a \
             firewall decide who reaches it"
        );
    }
}

/// Returns whether other machines reach an address.
pub(in crate::serve) fn is_reachable(host: &str) -> bool {
    host.parse().is_ok_and(|ip: IpAddr| !ip.is_loopback())
}

fn joined(addresses: Vec<&SocketAddr>) -> String {
    let words: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// Returns addresses where other machines send passwords without TLS.
fn passwords_in_the_clear(settings: &Settings) -> Vec<&SocketAddr> {
    if settings.auth.is_none() {
        return Vec::new();
    }
    let is_clear = |tls: ListenTls| settings.tls.is_none() || tls == ListenTls::Plain;
    let admin = settings.admin.as_ref().filter(|address| !address.ip().is_loopback());
    let reachable = settings.listen.reachable().chain(admin.map(|address| (address, settings.admin_tls)));
    reachable.filter(|(_, tls)| is_clear(*tls)).map(|(address, _)| address).collect()
}

/// Returns whether datagrams of memcached's protocols from other machines are answered.
fn answers_datagrams(settings: &Settings) -> bool {
    settings.udp.as_ref().is_some_and(|udp| {
        let is_reachable = |address: &SocketAddr| !address.ip().is_loopback();
        udp.addresses.iter().any(is_reachable) && !udp.allow.is_loopback()
    })
}

/// Returns addresses for TCP that ask other machines neither for a password nor for a certificate.
fn open(settings: &Settings) -> Vec<&SocketAddr> {
    let asks_all =
        settings.tls.as_ref().is_some_and(|tls| tls.options.clients == ClientCertificates::Require);
    if settings.auth.is_some() {
        return Vec::new();
    }
    let is_open = |tls: ListenTls| match tls {
        ListenTls::Mutual => false,
        ListenTls::Default => !asks_all,
        ListenTls::Plain | ListenTls::Basic => true,
    };
    let reachable = settings.listen.reachable();
    reachable.filter(|(_, tls)| is_open(*tls)).map(|(address, _)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Options;

    const CERT: &str = "tls-cert = 'c'\n";

    fn settings(toml: &str) -> Settings {
        let options: Options = toml::from_str(toml).unwrap();
        Settings::of(&options, 1).unwrap()
    }

    #[test]
    fn passwords_without_encryption_are_warned_of() {
        let found = |listen: &str, cert: &str| {
            let settings = settings(&format!("listen = '{listen}'\nauth-file = 'users'\n{cert}"));
            joined(passwords_in_the_clear(&settings))
        };
        assert_eq!(found("127.0.0.1,[::1]", ""), "");
        assert_eq!(found("10.0.0.1,127.0.0.1", ""), "10.0.0.1:11211");
        assert_eq!(found("10.0.0.1", CERT), "");
        assert_eq!(found("10.0.0.1,notls:10.0.0.2:5", CERT), "10.0.0.2:5");
        for (admin, cert, expected) in [
            ("10.0.0.3", "", "10.0.0.3:9311"),
            ("10.0.0.3", CERT, ""),
            ("notls:10.0.0.3:7", CERT, "10.0.0.3:7"),
            ("9311", "", ""),
        ] {
            assert_eq!(found("127.0.0.1", &format!("admin = '{admin}'\n{cert}")), expected, "{admin}");
        }
    }

    fn found(listen: &str, tls: &str) -> Vec<String> {
        let settings = settings(&format!("listen = '{listen}'\n{tls}"));
        open(&settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_asks_nothing_is_named() {
        assert!(found("127.0.0.1,[::1],127.0.0.9:5", "").is_empty());
        assert_eq!(found("0.0.0.0,127.0.0.1", ""), ["0.0.0.0:11211"]);
        let both = format!("{CERT}tls-client-ca = 'a'");
        assert_eq!(found("10.0.0.1", CERT), ["10.0.0.1:11211"]);
        assert!(found("10.0.0.1", &both).is_empty());
        let marked = "mtls:10.0.0.1,notls:10.0.0.2:5,btls:10.0.0.3:6,notls:127.0.0.1:7";
        assert_eq!(found(marked, &both), ["10.0.0.2:5", "10.0.0.3:6"]);
    }

    #[test]
    fn datagrams_of_other_machines_are_warned_of() {
        for (listen, allow, warned) in [
            ("10.0.0.1", "127.0.0.0/8", false),
            ("127.0.0.1", "10.0.0.0/8", false),
            ("10.0.0.1", "10.0.0.0/8", true),
            ("127.0.0.1,0.0.0.0", "127.0.0.1,0.0.0.0/0", true),
        ] {
            let toml = format!("listen = '{listen}'\nport = 0\nudp-port = 11211\nudp-allow = '{allow}'");
            assert_eq!(answers_datagrams(&settings(&toml)), warned, "{listen}, {allow}");
        }
    }
}
