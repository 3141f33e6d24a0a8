//! `--native-at`: interfaces of the kernel that share the workers in blocks, so that each worker answers at
//! one interface only (TOCS'16, 5.1).

use std::net::IpAddr;
use std::ops::Range;

use micanite_net::xdp::Interface;

use super::bypass::shares;
use crate::configuration::{UsageError, Value};

/// An interface, and the workers that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeInterface {
    /// Name of the interface or of the port around the kernel, or an address.
    pub name: String,
    /// Addresses at which its workers answer.
    pub addresses: Vec<IpAddr>,
    pub workers: Range<usize>,
}

/// Returns the interfaces that the option names, with their workers.
pub(super) fn interfaces(option: &Value, threads: usize) -> Result<Vec<NativeInterface>, UsageError> {
    let words: Vec<&str> = option.list().collect();
    let count = words.len();
    if count == 0 {
        return Err(option.wrong("it names no interface; leave it out for the addresses of -l"));
    }
    if count > threads {
        return Err(option.wrong(format!("{count} interfaces for {threads} workers (-t): each needs one")));
    }
    let mut interfaces = Vec::new();
    let mut taken = Vec::new();
    for (word, workers) in words.into_iter().zip(shares(threads, count)) {
        let addresses = addresses(word).map_err(|what| option.wrong(what))?;
        for ip in &addresses {
            if taken.contains(ip) {
                return Err(option.wrong(format!("{ip} is named twice: an address is at one interface only")));
            }
            taken.push(*ip);
        }
        interfaces.push(NativeInterface { name: word.into(), addresses, workers });
    }
    Ok(interfaces)
}

/// Returns the addresses of a word: those of an interface, or addresses that are joined.
fn addresses(word: &str) -> Result<Vec<IpAddr>, String> {
    let parts: Vec<&str> = word.split('+').map(str::trim).collect();
    let parsed: Result<Vec<IpAddr>, _> = parts.iter().map(|part| part.parse()).collect();
    if let Ok(addresses) = parsed {
        let Some(wrong) = addresses.iter().find(|ip| ip.is_unspecified() || ip.is_multicast()) else {
            return Ok(addresses);
        };
        return Err(format!("{wrong} is no address of one interface"));
    }
    if parts.len() > 1 {
        return Err(format!("'{word}' joins what is no address"));
    }
    let found = Interface::find(word).map_err(|what| {
        format!("'{word}' is neither an interface nor an address: {what} (ip -brief link lists interfaces)")
    })?;
    // An address of a link means nothing without the number of the link.
    let is_usable = |ip: &IpAddr| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let addresses: Vec<_> = found.addresses.into_iter().map(|(ip, _)| ip).filter(is_usable).collect();
    match addresses.is_empty() {
        true => Err(format!("{word} has no address; ip address add gives it one")),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(word: &str) -> Vec<String> {
        addresses(word).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_are_interfaces_or_addresses() {
        assert_eq!(ips("10.0.0.2"), ["10.0.0.2"]);
        assert_eq!(ips("10.0.0.2+fd00::2"), ["10.0.0.2", "fd00::2"]);
        assert!(ips("lo").contains(&"127.0.0.1".to_owned()));
        for bad in ["0.0.0.0", "10.0.0.2+::", "224.0.0.1", "lo+10.0.0.2", "nothing0", "10.0.0.2+", ""] {
            assert!(addresses(bad).is_err(), "{bad}");
        }
    }
}
