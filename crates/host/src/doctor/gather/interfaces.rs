//! Gathers facts of interfaces. Changes nothing.

use std::net::IpAddr;

use micanite_net::netlink::{self, Attached};

use crate::doctor::facts::Interface;
use crate::machine::Machine;
use crate::machine::facts::Kind;
use crate::machine::parse::feature;

/// `IFF_UP`
const FLAG_UP: u32 = 1;
const NET: &str = "sys/class/net";

/// Questions to the kernel about the interface with a number.
pub trait Netlink {
    /// XDP features of its driver.
    fn features(&self, index: u32) -> Option<u64>;
    /// The XDP program on it.
    fn attached(&self, index: u32) -> Option<Attached>;
    /// Returns the addresses and prefix lengths of an interface.
    fn addresses(&self, index: u32) -> Vec<(IpAddr, u8)>;
}

/// The kernel that this runs on.
#[derive(Debug)]
pub struct Kernel;

impl Netlink for Kernel {
    fn features(&self, index: u32) -> Option<u64> {
        netlink::features(index)
    }

    fn attached(&self, index: u32) -> Option<Attached> {
        netlink::attached(index)
    }

    fn addresses(&self, index: u32) -> Vec<(IpAddr, u8)> {
        netlink::addresses(index)
    }
}

/// Gathers the interfaces that are named, or all.
pub fn all(machine: &Machine, names: &[String], kernel: &impl Netlink) -> Result<Vec<Interface>, String> {
    // Files of /sys are of the network namespace that it was mounted in, those of /proc of this process's
    // own.
    let own = machine.read("proc/net/dev").map(|table| own_names(&table));
    let is_own = |name: &String| own.as_ref().is_none_or(|own| own.contains(name));
    let found: Vec<_> = match names {
        // There are files among them, such as bonding_masters.
        [] => machine
            .names(NET)
            .into_iter()
            .filter(|name| machine.directory(name).is_ok() && is_own(name))
            .collect(),
        names => names.to_vec(),
    };
    let strange = found.iter().find(|&name| is_own(name) != machine.directory(name).is_ok());
    if let (Some(name), Some(own)) = (strange, &own)
        && own.contains(name)
    {
        return Err(format!(
            "/sys is that of another network namespace than {name}'s: start this with `ip netns exec`"
        ));
    }
    let mut interfaces = Vec::new();
    for name in &found {
        match interface(machine, name, kernel) {
            // Software that nobody uses is left out, unless it is named.
            Ok(it) if names.is_empty() && !it.up && it.nic.kind == Kind::Virtual => {}
            Ok(interface) => interfaces.push(interface),
            // One of its own accord may have gone in between.
            Err(_) if names.is_empty() => {}
            Err(reason) => return Err(reason),
        }
    }
    Ok(interfaces)
}

/// The names in `/proc/net/dev`.
fn own_names(table: &str) -> Vec<String> {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, _)| name.trim().to_owned()).collect()
}

fn interface(machine: &Machine, name: &str, kernel: &impl Netlink) -> Result<Interface, String> {
    let nic = machine.interface(name)?;
    let read = |file: &str| machine.read(&format!("{NET}/{name}/{file}"));
    let number = |file: &str| read(file).and_then(|text| text.parse::<u32>().ok());
    let index = number("ifindex").unwrap_or(0);
    let flags = read("flags").and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let features = machine.ethtool("-k", name).unwrap_or_default();
    let link = |file: &str| {
        let path = machine.path(&format!("{NET}/{name}/{file}"));
        let target = std::fs::canonicalize(path).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    Ok(Interface {
        up: flags.unwrap_or(0) & FLAG_UP != 0,
        mtu: number("mtu").unwrap_or(0),
        bus_address: machine.ethtool("-i", name).ok().and_then(|text| bus_address(&text)),
        master: link("master"),
        addresses: kernel.addresses(index),
        default_route: default_route(machine, name),
        threaded: read("threaded").is_some_and(|text| text != "0"),
        features: kernel.features(index),
        attached: kernel.attached(index),
        lro: feature(&features, "large-receive-offload"),
        gro_hw: feature(&features, "rx-gro-hw"),
        nic,
    })
}

/// The place on the bus, from `ethtool -i`.
fn bus_address(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let address = lines.find_map(|line| line.strip_prefix("bus-info:"))?.trim();
    (address.contains(':')).then(|| address.to_owned())
}

/// Returns true if the default route of IPv4 leads through an interface.
fn default_route(machine: &Machine, name: &str) -> bool {
    let table = machine.read("proc/net/route").unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(name) && words.next() == Some("00000000")
    })
}
