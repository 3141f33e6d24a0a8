//! Warns of layouts of several interfaces in which datagrams or their bytes cross from one to another.

use std::net::IpAddr;
use std::path::Path;

use micanite_net::xdp::{Interface, at_address};

use crate::configuration::NativeInterface;
use crate::configuration::Settings;
use crate::native::NativeShared;
use crate::telemetry::log::start;

/// An interface of the kernel's, as far as warnings need it.
#[derive(Debug)]
struct Known {
    name: String,
    /// Number of its NUMA node, if the kernel tells.
    node: Option<u16>,
    networks: Vec<(IpAddr, u8)>,
}

/// Logs a warning for each fault of the layout.
pub(super) fn warn(native: &NativeShared, settings: &Settings) {
    let known: Vec<Option<Known>> = native.interfaces.iter().map(known).collect();
    let nodes: Vec<u16> = native.cores.iter().map(|core| core.node).collect();
    for text in far_workers(&native.interfaces, &known, &nodes) {
        start!(WARN, "{text}");
    }
    if native.interfaces.len() < 2 {
        return;
    }
    for text in missing_families(&native.interfaces) {
        start!(WARN, "{text}");
    }
    let of_kernel = settings.bypass().is_none();
    for text in shared_places(&known, of_kernel) {
        start!(WARN, "{text}");
    }
}

fn known(of: &NativeInterface) -> Option<Known> {
    let name = match of.name.strip_prefix("xdp:") {
        Some(name) => name.to_owned(),
        None if of.name.starts_with("dpdk:") => return None,
        None => of.addresses.first().and_then(|ip| at_address(*ip))?,
    };
    let interface = Interface::find(&name).ok()?;
    let path = Path::new("/sys/class/net").join(&name).join("device/numa_node");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    Some(Known { name, node: text.trim().parse().ok(), networks: interface.addresses })
}

/// Workers on another NUMA node than their interface.
fn far_workers(interfaces: &[NativeInterface], known: &[Option<Known>], nodes: &[u16]) -> Vec<String> {
    let mut texts = Vec::new();
    for (its, known) in interfaces.iter().zip(known) {
        let Some((name, node)) = known.as_ref().and_then(|known| Some((&known.name, known.node?))) else {
            continue;
        };
        let far = its.workers.clone().filter(|worker| nodes.get(*worker).is_some_and(|of| *of != node));
        let far: Vec<_> = far.map(|worker| worker.to_string()).collect();
        if !far.is_empty() {
            texts.push(format!(
                "workers {} are on another NUMA node than {name} (node {node}): each of their \
                 datagrams crosses between nodes; name the interfaces in the order of the workers' CPUs",
                far.join(" ")
            ));
        }
    }
    texts
}

/// Interfaces without an address of a family that others have.
fn missing_families(interfaces: &[NativeInterface]) -> Vec<String> {
    let mut texts = Vec::new();
    for (is_ipv4, name) in [(true, "IPv4"), (false, "IPv6")] {
        let has = |its: &&NativeInterface| its.addresses.iter().any(|ip| ip.is_ipv4() == is_ipv4);
        let without: Vec<_> = interfaces.iter().filter(|its| !has(its)).map(|its| &*its.name).collect();
        if !without.is_empty() && without.len() < interfaces.len() {
            texts.push(format!(
                "{} has no {name} address: clients over {name} reach its workers through another \
                 interface only (crossed in `stats native`)",
                without.join(", ")
            ));
        }
    }
    texts
}

/// Interfaces that are one, or in one network.
fn shared_places(known: &[Option<Known>], of_kernel: bool) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, one) in known.iter().enumerate() {
        for other in known[..at].iter().flatten() {
            let Some(one) = one else {
                continue;
            };
            if one.name == other.name {
                texts.push(format!(
                    "--native-at names {} twice: its workers are parted without need; join its \
                     addresses by +",
                    one.name
                ));
            } else if let (true, Some(ip)) = (of_kernel, common_network(one, other)) {
                texts.push(format!(
                    "{} and {} are in the network of {ip}: the kernel sends all replies to it \
                     through one of them; give them networks of their own, or a routing table each \
                     (docs/nic.md)",
                    other.name, one.name
                ));
            }
        }
    }
    texts
}

/// Returns an address of the first interface whose network contains one of the other.
fn common_network(one: &Known, other: &Known) -> Option<IpAddr> {
    let contains = |(network, bits): (IpAddr, u8), ip: IpAddr| match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            !a.is_unicast_link_local() && (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits)
        }
        _ => false,
    };
    let others = &other.networks;
    let found = one.networks.iter().find(|own| others.iter().any(|(ip, _)| contains(**own, *ip)));
    found.map(|(ip, _)| *ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, ips: &[&str], workers: std::ops::Range<usize>) -> NativeInterface {
        let addresses = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        NativeInterface { name: name.into(), addresses, workers }
    }

    fn known(name: &str, node: Option<u16>, networks: &[(&str, u8)]) -> Option<Known> {
        let networks = networks.iter().map(|(ip, bits)| (ip.parse().unwrap(), *bits)).collect();
        Some(Known { name: name.into(), node, networks })
    }

    #[test]
    fn workers_on_other_nodes_are_named() {
        let interfaces = [interface("eth0", &[], 0..2), interface("eth1", &[], 2..4)];
        let at = [known("eth0", Some(0), &[]), known("eth1", Some(1), &[])];
        assert!(far_workers(&interfaces, &at, &[0, 0, 1, 1]).is_empty());
        let texts = far_workers(&interfaces, &at, &[0, 1, 0, 1]);
        assert!(texts[0].contains("workers 1 ") && texts[1].contains("workers 2 "), "{texts:?}");
        let unknown = [known("eth0", None, &[]), None];
        assert!(far_workers(&interfaces, &unknown, &[3, 3, 3, 3]).is_empty());
    }

    #[test]
    fn families_that_an_interface_lacks_are_named() {
        let both = interface("eth0", &["10.0.0.2", "fd00::2"], 0..1);
        let one = interface("eth1", &["10.0.1.2"], 1..2);
        let texts = missing_families(&[both.clone(), one.clone()]);
        assert!(texts.len() == 1 && texts[0].contains("eth1 has no IPv6"), "{texts:?}");
        assert!(missing_families(&[both.clone(), both]).is_empty());
        assert!(missing_families(&[one.clone(), one]).is_empty());
    }

    #[test]
    fn interfaces_in_one_network_are_named() {
        let one = || known("eth0", None, &[("10.0.0.2", 24), ("fe80::1", 64)]);
        let apart = known("eth1", None, &[("10.0.1.2", 24), ("fe80::2", 64)]);
        assert!(shared_places(&[one(), apart], true).is_empty());
        let within = || known("eth1", None, &[("10.0.0.3", 24)]);
        assert!(shared_places(&[one(), within()], true)[0].contains("eth0 and eth1"));
        assert!(shared_places(&[one(), within()], false).is_empty());
        assert!(shared_places(&[one(), one()], false)[0].contains("twice"));
    }
}
