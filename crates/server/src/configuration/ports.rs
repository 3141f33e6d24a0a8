//! `--port`: bare numbers are TCP's, and `xdp:INTERFACE` and `dpdk:DEVICE` are ports around the kernel's
//! network stack, at which the native protocol is answered then. Workers are shared out among the
//! ports in blocks: each worker has one queue of one port (TOCS'16, 5.2).

use std::net::IpAddr;
use std::ops::Range;

use micanite_net::bypass::PortName;

use super::checks::number;
use super::{Options, UsageError, Word};

const NAME: &str = "-p/--port";
/// The UDP port of the first worker, unless `--native` says another one.
pub(super) const NATIVE_PORT_DEFAULT: i64 = 11300;

/// Ports around the kernel's network stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BypassSettings {
    /// In the order of their workers.
    pub ports: Vec<PortSettings>,
    /// Where what is not in the prefixes is sent (DPDK).
    pub gateway: Option<IpAddr>,
    /// How long the kernel polls the NIC (AF_XDP); 0: not.
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment.
    pub dpdk_arguments: Vec<String>,
    /// What frames take, once the ports are open.
    pub memory_bytes: usize,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Which.
    pub name: PortName,
    /// Its addresses with the lengths of their prefixes; none: those of the interface.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Those that have a queue of it.
    pub workers: Range<usize>,
}

fn wrong<T>(name: &str, what: impl std::fmt::Display) -> Result<T, UsageError> {
    Err(UsageError(format!("{name}: {what}")))
}

/// Words of `--port`, which may stand in one, with spaces.
fn words(options: &Options) -> impl Iterator<Item = &str> {
    options.port.iter().flat_map(|word| word.0.split_whitespace())
}

/// The port of TCP, if one is named; the last of several.
pub(super) fn tcp(options: &Options) -> Result<Option<i64>, UsageError> {
    let mut port = None;
    for word in words(options).filter(|word| word.parse::<PortName>().is_err()) {
        port = match word.parse() {
            Ok(number) if (-1..=65535).contains(&number) => Some(number),
            _ if word.starts_with("xdp") || word.starts_with("dpdk") => {
                return wrong(NAME, format!("'{word}' is not xdp:INTERFACE or dpdk:DEVICE"));
            }
            _ => {
                return wrong(
                    NAME,
                    format!(
                        "'{word}' is no port: 1 to 65535, 0 for none, -1 for a free one; \
                         xdp:INTERFACE or dpdk:DEVICE around the kernel"
                    ),
                );
            }
        };
    }
    Ok(port)
}

/// The ports around the kernel, as they are named.
pub(super) fn names(options: &Options) -> Vec<PortName> {
    words(options).flat_map(str::parse).collect()
}

/// Checks them and what is said of them, if there are any.
pub(super) fn bypass(options: &Options, threads: usize) -> Result<Option<BypassSettings>, UsageError> {
    let names = names(options);
    let is_dpdk = |name: &PortName| matches!(name, PortName::Dpdk { .. });
    let (some_dpdk, all_dpdk) = (names.iter().any(is_dpdk), names.iter().all(is_dpdk));
    for (option, given, has_port, kind) in [
        ("--port-ip", !options.port_ip.is_empty(), !names.is_empty(), "xdp: or dpdk:"),
        ("--port-gateway", options.port_gateway.is_some(), some_dpdk, "dpdk:"),
        ("--port-busy-poll", options.port_busy_poll.is_some(), !all_dpdk, "xdp:"),
        ("--dpdk-args", options.dpdk_args.is_some(), some_dpdk, "dpdk:"),
    ] {
        if given && !has_port {
            return wrong(option, format!("there is no --port {kind}... that it is for"));
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    if let Some(name) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        return wrong("--port", format!("{} is named twice", names[name]));
    }
    if names.len() > threads {
        let (ports, workers) = (names.len(), count(threads, "worker"));
        return wrong("--port", format!("{ports} ports for {workers} (-t): each needs one"));
    }
    let addresses = addresses(options, &names)?;
    let shares = shares(threads, names.len());
    let ports = names.into_iter().zip(addresses).zip(shares);
    let gateway = match &options.port_gateway {
        None => None,
        Some(Word(text)) => match text.parse() {
            Ok(ip) => Some(ip),
            Err(_) => return wrong("--port-gateway", format!("'{text}' is no IP address")),
        },
    };
    let arguments = options.dpdk_args.as_ref().map_or("", |word| &word.0);
    let busy_poll = &options.port_busy_poll;
    Ok(Some(BypassSettings {
        ports: ports.map(|((name, addresses), workers)| PortSettings { name, addresses, workers }).collect(),
        gateway,
        busy_poll_us: number("--port-busy-poll", busy_poll, 0, 0, 1_000_000)? as u32,
        dpdk_arguments: arguments.split_whitespace().map(String::from).collect(),
        memory_bytes: 0,
    }))
}

/// The native port of the first worker, as given, over ports around the kernel.
pub(super) fn native_port(options: &Options) -> Result<i64, UsageError> {
    match options.native.as_ref().map(|word| word.0.as_str()) {
        None => Ok(NATIVE_PORT_DEFAULT),
        Some("0") => wrong(
            "--native",
            "0 turns off what --port xdp:... and dpdk:... are for: leave one of the two out",
        ),
        Some("-1") => wrong(
            "--native",
            "with --port xdp:... or dpdk:... nobody knows which ports are free: \
             name that of the first worker (11300 if you say nothing)",
        ),
        Some(text) => match text.parse() {
            Ok(port) if (1..=65535).contains(&port) => Ok(port),
            _ => wrong("--native", format!("'{text}' is no port: 1 to 65535")),
        },
    }
}

/// Whose address is whose: a word of `--port-ip` for each port, or all of them for the only one.
fn addresses(options: &Options, names: &[PortName]) -> Result<Vec<Vec<(IpAddr, u8)>>, UsageError> {
    const NAME: &str = "--port-ip";
    let of = |word: &Word| {
        let parts = word.0.split([',', ' ']).filter(|part| !part.is_empty());
        parts.map(address).collect::<Result<Vec<_>, _>>()
    };
    let mut lists = Vec::new();
    for word in &options.port_ip {
        lists.push(of(word).or_else(|what| wrong(NAME, what))?);
    }
    if names.len() == 1 {
        lists = vec![lists.concat()];
    } else if lists.is_empty() {
        lists = vec![Vec::new(); names.len()];
    } else if lists.len() != names.len() {
        let (lists, ports) = (lists.len(), names.len());
        return wrong(
            NAME,
            format!("it is given {lists} times for {ports} ports: once for each, in their order"),
        );
    }
    for (name, list) in names.iter().zip(&lists) {
        if list.is_empty() && matches!(name, PortName::Dpdk { .. }) {
            return wrong(
                NAME,
                format!("{name} has no addresses of its own: say which, such as 10.0.0.2/24"),
            );
        }
    }
    Ok(lists)
}

fn address(text: &str) -> Result<(IpAddr, u8), String> {
    let form = || format!("'{text}' is no address with the length of its prefix, such as 10.0.0.2/24");
    let (ip, bits) = text.split_once('/').ok_or_else(form)?;
    let ip: IpAddr = ip.parse().map_err(|_| form())?;
    let bits: u8 = bits.parse().map_err(|_| form())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    if bits == 0 || bits > most {
        return Err(format!("'{text}': the length of the prefix is 1 to {most}"));
    }
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
        return Err(format!("'{text}' is no address of a host on a network"));
    }
    Ok((ip, bits))
}

/// Blocks of workers, as equal as can be, the larger ones first.
fn shares(threads: usize, ports: usize) -> impl Iterator<Item = Range<usize>> {
    let (least, more) = (threads / ports, threads % ports);
    let start = move |port: usize| port * least + port.min(more);
    (0..ports).map(move |port| start(port)..start(port + 1))
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The options that lead to these settings, into the others.
pub(super) fn write(bypass: Option<&BypassSettings>, options: &mut Options) {
    let Some(bypass) = bypass else {
        return;
    };
    let names = bypass.ports.iter().map(|port| Word(port.name.to_string()));
    options.port.extend(names);
    if bypass.ports.iter().any(|port| !port.addresses.is_empty()) {
        let list = |port: &PortSettings| {
            let words = port.addresses.iter();
            let words: Vec<_> = words.map(|(ip, bits)| format!("{ip}/{bits}")).collect();
            Word(words.join(","))
        };
        options.port_ip = bypass.ports.iter().map(list).collect();
    }
    options.port_gateway = bypass.gateway.map(|ip| Word(ip.to_string()));
    if bypass.busy_poll_us > 0 {
        options.port_busy_poll = Some(Word(bypass.busy_poll_us.to_string()));
    }
    if !bypass.dpdk_arguments.is_empty() {
        options.dpdk_args = Some(Word(bypass.dpdk_arguments.join(" ")));
    }
    // They are of the kernel's sockets.
    options.native_gro = None;
    options.native_queue = None;
    options.native_busy_poll = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_on_one_port_and_blocks_are_as_equal_as_can_be() {
        let of = |threads, ports| -> Vec<Vec<usize>> { shares(threads, ports).map(Vec::from_iter).collect() };
        assert_eq!(of(4, 1).concat(), [0, 1, 2, 3]);
        assert_eq!(of(4, 2), [[0, 1], [2, 3]]);
        assert_eq!(of(5, 3), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(of(3, 3), [[0], [1], [2]]);
    }

    #[test]
    fn addresses_of_ports() {
        for good in ["10.0.0.2/24", "fd00::2/64", "192.168.1.1/32"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "10.0.0.2",
            "10.0.0.2/33",
            "10.0.0.2/0",
            "x/24",
            "0.0.0.0/8",
            "224.0.0.1/4",
            "::1/128",
            "fd00::2/",
            "",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
