//! Names that requests may ask for (DNS rebinding).
//!
//! A page of another site can let its own name resolve to this machine. Its requests then pass every firewall
//! and are of one origin with their replies, but their `Host` is the foreign name.

use std::net::IpAddr;

/// Names of this server: addresses, `localhost`, the machine's own name, and those of `--admin-hosts`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// Adds the machine's own name to those of the option.
    pub fn new(named: &[String]) -> Self {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = Some(own.trim().to_owned()).filter(|name| !name.is_empty());
        Self(named.iter().cloned().chain(own).collect())
    }

    /// Returns whether a `Host` is one of these names. No name service is asked.
    pub fn know(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        let is = |known: &str| known.eq_ignore_ascii_case(name.trim_end_matches('.'));
        is("localhost") || literal.parse::<IpAddr>().is_ok() || self.0.iter().any(|known| is(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_server() {
        let hosts = Hosts::new(&["cache-1.example".into()]);
        for known in [
            "localhost:9311",
            "127.0.0.1",
            "10.1.2.3:1",
            "[::1]:9311",
            "[::1]",
            "cache-1.example:9311",
            "CACHE-1.example.",
        ] {
            assert!(hosts.know(known), "{known}");
        }
        for other in ["evil.example", "evil.example:9311", "", ":9311", "localhost.evil.example", "example"] {
            assert!(!hosts.know(other), "{other}");
        }
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(hosts.know(own.trim()) && !Hosts::default().know("cache-1.example"));
    }
}
