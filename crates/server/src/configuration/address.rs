//! Words of `-l`: addresses and hosts, each with a port if wanted.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::tls::ListenTls;

/// Returns the addresses that one word of `-l` stands for. A port in the word overrides `port`. The mark of
/// TLS is ignored.
pub(super) fn resolve(word: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let (_, word) = ListenTls::split(word);
    let (host, port) = split(word, port)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found: Vec<_> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve '{host}': {error}"))?
        .collect();
    if found.is_empty() {
        return Err(format!("'{host}' has no address"));
    }
    Ok(found)
}

/// Host and port of `host`, `host:port`, `::1`, `[::1]`, `[::1]:port`.
fn split(word: &str, port: u16) -> Result<(&str, u16), String> {
    let number = |text: &str| text.parse::<u16>().map_err(|_| format!("'{text}' in '{word}' is no port"));
    if let Some(rest) = word.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| format!("']' is missing in '{word}'"))?;
        return match rest.strip_prefix(':') {
            Some(text) => Ok((host, number(text)?)),
            None if rest.is_empty() => Ok((host, port)),
            None => Err(format!("'{word}' is no address")),
        };
    }
    match word.split_once(':') {
        Some((host, text)) if !text.contains(':') => Ok((host, number(text)?)),
        _ => Ok((word, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(word: &str) -> String {
        let found = resolve(word, 11211).unwrap();
        found[0].to_string()
    }

    #[test]
    fn literal_addresses() {
        assert_eq!(one("127.0.0.1"), "127.0.0.1:11211");
        assert_eq!(one("10.0.0.1:99"), "10.0.0.1:99");
        assert_eq!(one("::1"), "[::1]:11211");
        assert_eq!(one("[::1]"), "[::1]:11211");
        assert_eq!(one("[::1]:99"), "[::1]:99");
        assert_eq!(one("0.0.0.0"), "0.0.0.0:11211");
    }

    #[test]
    fn what_is_no_address() {
        for word in ["[::1", "127.0.0.1:x", "127.0.0.1:70000", "[::1]x", "", "no such host"] {
            assert!(resolve(word, 1).is_err(), "{word}");
        }
    }
}
