//! The address of `--admin`, and its TLS.

use std::net::{Ipv4Addr, SocketAddr};

use super::address::resolve;
use super::tls::{ListenTls, TlsSettings};
use super::{UsageError, Value};

/// Port of an address that names none.
const PORT_DEFAULT: u16 = 9311;

/// An address, if there is one, and its mark.
pub(super) type Place = (Option<SocketAddr>, ListenTls);

/// Returns the address that a word stands for, if any. A port alone is on the loopback address.
pub(super) fn admin(word: &str) -> Result<Place, String> {
    let (mark, word) = ListenTls::split(word);
    Ok((address(word)?, mark.unwrap_or_default()))
}

/// Refuses a mark that the settings of TLS do not support.
pub(super) fn check((_, mark): Place, tls: Option<&TlsSettings>) -> Result<(), String> {
    match (mark, tls) {
        (ListenTls::Default, _) | (ListenTls::Plain | ListenTls::Basic, Some(_)) => Ok(()),
        (_, None) => Err("the mark has no effect without -Z/--enable-ssl".into()),
        (ListenTls::Mutual, Some(tls)) if tls.options.client_authorities.is_none() => {
            Err("'mtls' needs the certificates to verify clients by: --tls-client-ca FILE".into())
        }
        (ListenTls::Mutual, Some(_)) => Ok(()),
    }
}

/// Returns the names of `--admin-hosts`.
pub(super) fn hosts(option: &Value) -> Result<Vec<String>, UsageError> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    option
        .list()
        .map(|name| match name.bytes().all(is_part) {
            true => Ok(name.to_owned()),
            false => Err(option.wrong(format!("'{name}' is no name of a host: give it without a port"))),
        })
        .collect()
}

fn address(word: &str) -> Result<Option<SocketAddr>, String> {
    if let Ok(port) = word.parse::<i64>() {
        return match port {
            0 => Ok(None),
            -1..=65535 => Ok(Some((Ipv4Addr::LOCALHOST, port.max(0) as u16).into())),
            _ => Err(format!("'{word}' is no port: 1 to 65535, 0 for none, -1 for a free one")),
        };
    }
    match word {
        "none" => Ok(None),
        "" => Err("the address is empty; 'none' for none".into()),
        // The first of several.
        _ => Ok(resolve(word, PORT_DEFAULT)?.first().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_may_be() {
        let text = |word| admin(word).map(|(address, _)| address.map(|address| address.to_string()));
        for (word, address) in [
            ("9000", Some("127.0.0.1:9000")),
            ("-1", Some("127.0.0.1:0")),
            ("0", None),
            ("none", None),
            ("0.0.0.0", Some("0.0.0.0:9311")),
            ("10.1.2.3:80", Some("10.1.2.3:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("notls:9000", Some("127.0.0.1:9000")),
            ("mtls:[::1]:80", Some("[::1]:80")),
        ] {
            assert_eq!(text(word), Ok(address.map(String::from)), "{word}");
        }
        for word in ["", "-2", "65536", "127.0.0.1:x", "[::1"] {
            assert!(text(word).is_err(), "{word}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        let hosts = |names: &str| {
            let options: crate::configuration::Options =
                toml::from_str(&format!("admin-hosts = '{names}'")).unwrap();
            crate::configuration::Settings::of(&options, 1).map(|settings| settings.admin_hosts)
        };
        assert_eq!(hosts("a.example,cache-1"), Ok(vec!["a.example".into(), "cache-1".into()]));
        for wrong in ["a:80", "http://a", "*.example"] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn marks_need_what_they_stand_for() {
        let marked = |word: &str, options: &str| {
            let options: crate::configuration::Options =
                toml::from_str(&format!("admin = '{word}'\n{options}")).unwrap();
            crate::configuration::Settings::of(&options, 1).map(|settings| settings.admin_tls)
        };
        let (cert, ca) = ("tls-cert = 'c'\n", "tls-cert = 'c'\ntls-client-ca = 'a'\n");
        assert_eq!(marked("9311", ""), Ok(ListenTls::Default));
        assert_eq!(marked("notls:9311", cert), Ok(ListenTls::Plain));
        assert_eq!(marked("btls:9311", ca), Ok(ListenTls::Basic));
        assert_eq!(marked("mtls:9311", ca), Ok(ListenTls::Mutual));
        for (word, options) in [("mtls:9311", cert), ("notls:9311", ""), ("mtls:9311", "")] {
            assert!(marked(word, options).is_err(), "{word} {options}");
        }
    }
}
