//! Opens the ports around the kernel's network stack (`--bypass`), and says what was
//! got.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use micanite_net::frames::{Local, Neighbours};
use micanite_wire::native::PAYLOAD_BYTES_MIN;

use super::{EXIT_USAGE, Failure};
use crate::configuration::{NativeSettings, PortSettings, Settings};
use crate::native::{NativeShared, QueueOfPort};
use crate::telemetry::log::start;

/// The queues of all workers, in their order, and what is for them.
pub(super) type Queues = Vec<QueueOfPort>;

/// IPv6 has longer headers than IPv4.
const IPV4_MORE_BYTES: usize = 20;

/// Opens them all, or says which could not be. Datagrams become no longer than all of them carry.
pub(super) fn open(settings: &mut Settings) -> Result<(Vec<Bypass>, Queues), Failure> {
    let (mut ports, mut queues) = (Vec::new(), Vec::new());
    let Some(native) = &mut settings.native else {
        return Ok((ports, queues));
    };
    let Some(bypass) = &native.bypass else {
        return Ok((ports, queues));
    };
    for port in &bypass.ports {
        let udp_ports = udp_ports(native, port);
        let options = BypassOptions {
            name: port.name.clone(),
            addresses: port.addresses.clone(),
            gateway: bypass.gateway,
            ports: udp_ports.clone(),
            queues: port.workers.len(),
            payload_bytes_max: native.payload_bytes,
            busy_poll_us: bypass.busy_poll_us,
            dpdk_arguments: bypass.dpdk_arguments.clone(),
        };
        let (opened, its_queues) =
            Bypass::open(&options).map_err(|what| Failure::system(format!("cannot open --bypass {what}")))?;
        let local =
            Local { addresses: opened.addresses.iter().map(|(ip, _)| *ip).collect(), ports: udp_ports };
        queues.extend(its_queues.into_iter().map(|queue| {
            QueueOfPort {
                // Beside AF_XDP the kernel is the one who knows neighbours.
                neighbours: matches!(queue, BypassQueue::Dpdk(_))
                    .then(|| Neighbours::new(opened.mac, &opened.addresses, bypass.gateway)),
                queue,
                local: local.clone(),
            }
        }));
        ports.push(opened);
    }
    let memory_bytes = ports.iter().map(|port| port.memory_bytes).sum();
    fit_payload(native, &ports)?;
    if let Some(bypass) = &mut native.bypass {
        bypass.memory_bytes = memory_bytes;
    }
    Ok((ports, queues))
}

/// UDP ports of a port's workers.
fn udp_ports(native: &NativeSettings, port: &PortSettings) -> RangeInclusive<u16> {
    let of = |worker: usize| native.port as u16 + worker as u16;
    of(port.workers.start)..=of(port.workers.end - 1)
}

/// The longest payload that a port carries to every client of its addresses.
fn payload_bytes_max(port: &Bypass) -> usize {
    let is_ipv4 = |(ip, _): &(IpAddr, u8)| ip.is_ipv4();
    match port.addresses.iter().all(is_ipv4) {
        true => port.payload_bytes_max + IPV4_MORE_BYTES,
        false => port.payload_bytes_max,
    }
}

fn fit_payload(native: &mut NativeSettings, ports: &[Bypass]) -> Result<(), Failure> {
    let names = native.bypass.iter().flat_map(|bypass| &bypass.ports);
    for (port, PortSettings { name, .. }) in ports.iter().zip(names) {
        let (most, wanted) = (payload_bytes_max(port), native.payload_bytes);
        if most < PAYLOAD_BYTES_MIN {
            let text = format!(
                "--bypass {name}: its MTU leaves {most} bytes for a datagram, and the native protocol needs \
                 {PAYLOAD_BYTES_MIN}: set its MTU to 1280 or more"
            );
            return Err(Failure::system(text));
        }
        if most < wanted && !native.payload_is_default {
            return Err(Failure {
                code: EXIT_USAGE,
                text: format!(
                    "--native-payload: {wanted} bytes do not fit a frame of {name}, whose MTU allows {most}"
                ),
            });
        }
        if most < wanted {
            start!(WARN, "datagrams have at most {most} bytes instead of {wanted}: the MTU of {name}");
            native.payload_bytes = most;
        }
    }
    Ok(())
}

/// A line for each port.
pub(super) fn texts(native: &NativeShared, settings: &Settings) -> Vec<String> {
    let text = |(port, of): (&Bypass, &PortSettings)| {
        let ips: Vec<_> = port.addresses.iter().map(|(ip, _)| ip.to_string()).collect();
        let udp_ports = settings.native.as_ref().map(|native| udp_ports(native, of));
        let udp_ports = match udp_ports.map_or((0, 0), RangeInclusive::into_inner) {
            (first, last) if first == last => format!("UDP port {first}"),
            (first, last) => format!("UDP ports {first} to {last}"),
        };
        let ips = ips.join(", ");
        format!("{}, {udp_ports} at {ips}: {}", of.name, port.description)
    };
    native.ports.iter().zip(named(settings)).map(text).collect()
}

fn named(settings: &Settings) -> &[PortSettings] {
    settings.bypass().map_or(&[][..], |bypass| &bypass.ports)
}

/// Says what has to be done for each UDP port to come to the queue of its worker, where it is not the
/// port's own business and not done by itself.
pub(super) fn warn(native: &NativeShared, settings: &Settings) {
    let base = settings.native.as_ref().map_or(0, |native| native.port as usize);
    for (port, PortSettings { name, workers, .. }) in native.ports.iter().zip(named(settings)) {
        let PortName::Xdp { interface } = name else {
            continue;
        };
        let folder = Path::new("/sys/class/net").join(interface);
        // Not as /sys shows them: that may be of another network namespace.
        let queues = port.receive_queues;
        if queues > workers.len() {
            start!(
                WARN,
                "{interface} has {queues} receive queues, and {} of them are served: datagrams \
                 that come to another one are lost (filter_no_socket in `stats native`); see docs/nic.md, \
                 or run with -t {queues}",
                workers.len()
            );
        }
        // An interface without a device is made of software (veth) and has no flow rules.
        if queues > 1 && folder.join("device").exists() {
            let (first, count) = (base + workers.start, workers.len());
            let cpus = settings.placement.pinned().get(workers.clone()).unwrap_or_default();
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            let cpus = match cpus.is_empty() {
                true => String::new(),
                false => format!(" --cpus {}", cpus.join(",")),
            };
            start!(
                INFO,
                "each UDP port comes to the queue of its worker after `micanite ctl nic {interface} --xdp \
                 --native {first} --cores {count}{cpus} --apply`, once, before the server starts"
            );
        }
    }
}

/// Describes why a server cannot be restarted in place: the port needs rights that it has given up.
pub(super) fn cannot_come_back(settings: &Settings) -> String {
    let names: Vec<_> = named(settings).iter().map(|port| port.name.to_string()).collect();
    format!(
        "--bypass {} was opened by root, and the user '{}' (-u) cannot open it again: end the server and \
         start it, or run it as that user with the capabilities that docs/bypass.md names",
        names.join(", "),
        settings.user.as_deref().unwrap_or_default(),
    )
}
