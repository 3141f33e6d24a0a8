//! Judges one interface.

use std::net::IpAddr;

use micanite_net::netlink::XdpMode;

use super::drivers::{self, Dpdk, Driver, Queues};
use super::machine::count;
use crate::doctor::facts::{Facts, Interface};
use crate::doctor::report::{Grade, Port, Section, State};
use crate::machine::facts::{Feature, Kind};

/// Features that a driver declares: programs, redirection, sockets without a copy.
const BASIC: u64 = 1;
const REDIRECT: u64 = 2;
const ZERO_COPY: u64 = 8;

/// The interface in a line.
pub fn title(interface: &Interface) -> String {
    let nic = &interface.nic;
    let what = match (&nic.kind, nic.driver.as_deref()) {
        (Kind::Loopback, _) => "the loopback".into(),
        (Kind::Above(below), driver) => {
            format!("{}above {}", driver.map_or_else(String::new, |it| format!("{it}, ")), below.join(" "))
        }
        (_, Some(name)) => match drivers::find(name) {
            Some(driver) => format!("{name}, {}", driver.title),
            None => name.into(),
        },
        (_, None) => "no driver".into(),
    };
    format!("{}: {what}", nic.name)
}

/// Judges an interface. Returns the port that it could be.
pub fn interface(facts: &Facts, interface: &Interface, section: &mut Section) -> Option<Port> {
    let nic = &interface.nic;
    let driver = nic.driver.as_deref().and_then(drivers::find);
    if nic.kind == Kind::Loopback {
        section.say(
            State::Note,
            "nothing to bypass: clients on this machine use a Unix socket, TCP, or native UDP",
        );
        return None;
    }
    let addresses = state(facts, interface, section);
    if let Kind::Above(below) = &nic.kind
        && driver.is_none()
    {
        section.say(
            State::Impossible,
            format!("it has no queues of its own: name what is below it ({})", below.join(" ")),
        );
        return None;
    }
    let mode = mode(facts, interface, driver);
    let grade = match mode {
        Mode::Generic => Grade::Generic,
        _ if nic.kind != Kind::Device => Grade::Software,
        Mode::Copy => Grade::Copy,
        Mode::ZeroCopy => Grade::ZeroCopy,
    };
    let refused = refused(interface, driver);
    let source = match (&refused, interface.features) {
        (Some(_), _) => "see below",
        (None, Some(_)) => "the driver says",
        (None, None) => "as far as is known of the driver",
    };
    section.say(
        match mode {
            Mode::Generic => State::Note,
            _ => State::Fine,
        },
        format!("XDP: {} ({source})", grade.name()),
    );
    if let Some(reason) = refused {
        section.say(State::Note, reason);
    }
    program(interface, section);
    frames(interface, driver, mode, section);
    let workers = queues(facts, interface, driver, mode, section);
    steering(interface, workers, section);
    if let Some(note) = driver.and_then(|it| it.note) {
        section.say(State::Note, note);
    }
    dpdk(interface, driver, section);
    if nic.kind == Kind::Device && nic.driver.is_none() {
        section.say(State::Note, "ethtool would say more (apt-get install ethtool)");
    }
    Some(Port {
        name: format!("xdp:{}", nic.name),
        grade,
        workers,
        addresses,
        is_dpdk: false,
        works: false,
        section: 0,
    })
}

/// Judges the mode in which AF_XDP would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Generic,
    Copy,
    ZeroCopy,
}

fn mode(facts: &Facts, interface: &Interface, driver: Option<&Driver>) -> Mode {
    if refused(interface, driver).is_some() {
        return Mode::Generic;
    }
    if let Some(features) = interface.features {
        return match features {
            bits if bits & (BASIC | REDIRECT) != BASIC | REDIRECT => Mode::Generic,
            bits if bits & ZERO_COPY != 0 => Mode::ZeroCopy,
            _ => Mode::Copy,
        };
    }
    let since = |version: Option<drivers::Version>| version.is_some_and(|it| facts.kernel.version >= it);
    match driver {
        Some(driver) if since(driver.zero_copy) => Mode::ZeroCopy,
        Some(driver) if since(driver.native) => Mode::Copy,
        _ => Mode::Generic,
    }
}

/// The reason why a driver that could run XDP programs does not.
fn refused(interface: &Interface, driver: Option<&Driver>) -> Option<String> {
    let stuck = |feature: &Option<Feature>| feature.is_some_and(|it| it.on && it.fixed);
    let virtio = driver.is_some_and(|it| it.name == "virtio_net");
    (virtio && (stuck(&interface.gro_hw) || stuck(&interface.lro))).then(|| {
        "the host merges packets for this guest, and the guest cannot switch it off: the driver refuses XDP \
         programs. On the host: guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off (QEMU)"
            .into()
    })
}

/// Up, addresses, what it is part of. Returns the addresses that the port has to be given.
fn state(facts: &Facts, interface: &Interface, section: &mut Section) -> Option<String> {
    let name = &interface.nic.name;
    let list = |addresses: &[(IpAddr, u8)]| {
        let list: Vec<_> = addresses.iter().map(|(ip, bits)| format!("{ip}/{bits}")).collect();
        list.join(",")
    };
    let above = |it: &&Interface| Some(&it.nic.name) == interface.master.as_ref() && !it.addresses.is_empty();
    let above = facts.interfaces.iter().find(above);
    let mut borrowed = None;
    if !interface.up {
        section.say_with(State::Missing, "it is down", [format!("ip link set dev {name} up")]);
    } else if !interface.addresses.is_empty() {
        section.say(State::Fine, format!("up, {}", list(&interface.addresses).replace(',', ", ")));
    } else if let Some(above) = above {
        let addresses = list(&above.addresses);
        section.say(
            State::Fine,
            format!("up; its address is that of {}: {addresses} (--bypass-ip)", above.nic.name),
        );
        borrowed = Some(addresses);
    } else {
        section.say_with(
            State::Missing,
            "it has no address (or give --bypass-ip)",
            [format!("ip address add ADDRESS/PREFIX dev {name}")],
        );
    }
    if let Some(master) = &interface.master {
        section
            .say(State::Note, format!("it is part of {master}: what that does with packets comes after XDP"));
    }
    if interface.default_route {
        section.say(
            State::Note,
            "the default route leads through it. An XDP port passes all other packets on to the kernel; many \
                 drivers take the link down for a moment when a program is attached or detached",
        );
    }
    borrowed
}

/// The XDP program that is there.
fn program(interface: &Interface, section: &mut Section) {
    let Some(attached) = interface.attached else {
        return;
    };
    let mode = match attached.mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
    };
    section.say(
        State::Missing,
        format!(
            "an XDP program is attached already (id {}, {mode}; bpftool prog show id {0}). Only its owner \
                 replaces it: end that program, or use another interface",
            attached.program
        ),
    );
}

/// Judges the MTU and the offloads that merge packets.
fn frames(interface: &Interface, driver: Option<&Driver>, mode: Mode, section: &mut Section) {
    let name = &interface.nic.name;
    let mtu_max = driver.map_or(0, |it| it.mtu_max);
    if mode != Mode::Generic && mtu_max > 0 && interface.mtu > mtu_max {
        section.say_with(
            State::Missing,
            format!("MTU {}: the driver refuses XDP programs above {mtu_max}", interface.mtu),
            [format!("ip link set dev {name} mtu 1500")],
        );
    } else {
        section.say(State::Fine, format!("MTU {}", interface.mtu));
    }
    let offload = [("lro", interface.lro), ("rx-gro-hw", interface.gro_hw)];
    for (feature, _) in offload.iter().filter(|(_, it)| it.is_some_and(|it| it.on && !it.fixed)) {
        section.say_with(
            State::Missing,
            format!("the device merges packets ({feature}), which XDP programs do not get along with"),
            [format!("ethtool -K {name} {feature} off")],
        );
    }
}

/// Queues for so many workers.
fn queues(
    facts: &Facts,
    interface: &Interface,
    driver: Option<&Driver>,
    mode: Mode,
    section: &mut Section,
) -> usize {
    let nic = &interface.nic;
    let cores = facts.cpus.cores.max(1);
    let halved = mode != Mode::Generic && driver.is_some_and(|it| it.queues == Queues::Half);
    let most = nic.channels.as_ref().map_or(nic.queues, |it| it.queues_max);
    let most = if halved { most / 2 } else { most }.max(1);
    let now = nic.queues.max(1);
    let (workers, right) = (most.min(cores), now <= most && now >= most.min(cores));
    let text = match halved {
        true => format!("{}; XDP leaves {most}, half of the most", count(now, "receive queue")),
        false => format!("{}, at most {most}", count(now, "receive queue")),
    };
    if right {
        section.say(State::Fine, text);
        return workers.min(now);
    }
    let command = match nic.channels.as_ref().is_ok_and(|it| !it.combined) {
        true => format!("ethtool -L {} rx {workers} tx {workers}", nic.name),
        false => format!("ethtool -L {} combined {workers}", nic.name),
    };
    if now > most {
        section.say_with(State::Missing, format!("{text}: the driver refuses XDP programs"), [command]);
    } else {
        section.say_with(
            State::Better,
            format!("{text}: {} would have queues with more of them", count(workers, "worker")),
            [command],
        );
    }
    workers
}

/// Judges flow rules, CPUs of interrupts, and their delay.
fn steering(interface: &Interface, workers: usize, section: &mut Section) {
    let nic = &interface.nic;
    let name = &nic.name;
    if workers > 1 {
        match (&nic.rules, nic.ntuple) {
            (Err(_), _) => section.say(
                State::Note,
                "no flow rules: RSS chooses the queue, and workers forward each other's requests in software",
            ),
            (Ok(_), Some(it)) if !it.on && !it.fixed => section.say_with(
                State::Better,
                "flow rules, which take each port to its queue, are switched off",
                [format!("ethtool -K {name} ntuple on")],
            ),
            (Ok(_), Some(it)) if !it.on => section.say(
                State::Note,
                "flow rules are switched off for good: requests of other workers are forwarded in software",
            ),
            (Ok(_), _) => section.say(State::Fine, "flow rules take each port to its queue"),
        }
    }
    if nic.kind == Kind::Device && !nic.interrupts.is_empty() && workers > 1 {
        let spread = nic.interrupts.iter().filter(|it| it.cpus.len() == 1).count();
        if spread < nic.interrupts.len() {
            section.say_with(
                State::Better,
                "interrupts of queues may come to any CPU",
                [format!("micanite ctl nic {name} --xdp --native 11300 --cores {workers} --apply")],
            );
        }
    }
    if !nic.passed_on.is_empty() {
        section.say(
            State::Note,
            "RPS (rps_cpus) passes packets on to other CPUs; what goes to AF_XDP is spared that",
        );
    }
    if nic.kind == Kind::Virtual && !interface.threaded {
        section.say_with(
            State::Better,
            "the sender's CPU receives for it, unless threads do",
            [format!("ethtool -K {name} gro on; echo 1 > /sys/class/net/{name}/threaded")],
        );
    }
    if let Some(node) = nic.node
        && nic.kind == Kind::Device
    {
        section.say(State::Note, format!("on NUMA node {node}"));
    }
    if let (Some(us), false) = (nic.interrupt_delay_us, nic.interrupt_delay_adaptive)
        && us > 16
    {
        section.say(
            State::Note,
            format!(
                "it waits {us} us before it interrupts (ethtool -C {name} rx-usecs 8); \
                 busy polling does not wait"
            ),
        );
    }
}

/// The way of the device to DPDK.
fn dpdk(interface: &Interface, driver: Option<&Driver>, section: &mut Section) {
    let (Some(address), Kind::Device) = (&interface.bus_address, &interface.nic.kind) else {
        return;
    };
    match driver.map_or(Dpdk::Vfio, |it| it.dpdk) {
        Dpdk::None => {}
        Dpdk::Own(text) => section.say(State::Note, format!("for DPDK: {text}")),
        Dpdk::Shared => section.say(
            State::Note,
            format!("for DPDK: dpdk:{address}; it stays with the kernel (rdma-core, libmlx5)"),
        ),
        Dpdk::Vfio if interface.default_route => section.say(
            State::Note,
            format!(
                "for DPDK ({address}) the kernel would lose it, and this machine its network: use another one"
            ),
        ),
        Dpdk::Vfio => section.say(
            State::Note,
            format!(
                "for DPDK the kernel loses it: modprobe vfio-pci; dpdk-devbind.py --bind=vfio-pci {address}; \
                 then --bypass dpdk:{address}"
            ),
        ),
    }
}
