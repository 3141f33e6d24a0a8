//! The address of `--admin`.

use std::net::{Ipv4Addr, SocketAddr};

use super::address::resolve;

/// Port of an address that names none.
const PORT_DEFAULT: u16 = 9311;

/// Returns the address that a word stands for, if any. A port alone is on the loopback address.
pub(super) fn admin(word: &str) -> Result<Option<SocketAddr>, String> {
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
        let text = |word| admin(word).map(|address| address.map(|address| address.to_string()));
        for (word, address) in [
            ("9000", Some("127.0.0.1:9000")),
            ("-1", Some("127.0.0.1:0")),
            ("0", None),
            ("none", None),
            ("0.0.0.0", Some("0.0.0.0:9311")),
            ("10.1.2.3:80", Some("10.1.2.3:80")),
            ("[::1]:80", Some("[::1]:80")),
        ] {
            assert_eq!(text(word), Ok(address.map(String::from)), "{word}");
        }
        for word in ["", "-2", "65536", "127.0.0.1:x", "[::1"] {
            assert!(text(word).is_err(), "{word}");
        }
    }
}
