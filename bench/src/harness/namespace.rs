//! Networks that nobody else sees: this process leaves that of the machine, and each server gets one
//! of its own, a cable away. They end with the processes, in whatever way those end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use clap::Args;
use micanite_net::frames::MacAddress;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::launch::{self, Cpus};
use super::process::{self, Process};
use crate::Result;
use crate::generator::frames::Way;

/// UDP ports of both ends, and the TCP port of servers that have one.
pub(crate) const SERVER_PORT: u16 = 21_300;
const CLIENT_PORT: u16 = 21_400;
pub(crate) const TCP_PORT: u16 = 21_211;
/// A server's end of its cable, in its network.
pub(crate) const SERVER_INTERFACE: &str = "server";

/// Runs a program that must succeed.
pub(crate) fn call(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), said.trim()).into())
}

/// Leaves the network of the machine for an empty one, with an own view of /sys as that shows
/// interfaces.
pub(crate) fn leave_network() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("no network of its own (are you root?): {error}"))?;
    call("mount", &["--make-rprivate", "/"])?;
    call("mount", &["-t", "sysfs", "sysfs", "/sys"])?;
    call("ip", &["link", "set", "lo", "up"])
}

/// The ends of the cable or of the shared memory with this number.
pub(crate) fn way(number: u8) -> Way {
    let mac = |end: u8| -> MacAddress { [2, 0, 0, 0, number, end] };
    let address = |end, port| SocketAddr::from((Ipv4Addr::new(10, 77, number, end), port));
    Way { client: (mac(1), address(1, CLIENT_PORT)), server: (mac(2), address(2, SERVER_PORT)) }
}

/// Our end of a cable.
pub(crate) fn client_interface(number: u8) -> String {
    format!("client{number}")
}

pub(crate) fn with_prefix(address: IpAddr) -> String {
    format!("{address}/24")
}

pub(crate) fn mac_text(mac: MacAddress) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Starts a command pinned to some CPUs, in a network of its own with a cable to ours. `threaded`: both
/// ends of the cable are polled by threads of the kernel's, which are to be pinned.
pub(crate) fn start_inside(
    (number, name): (u8, &str),
    cpus: impl Cpus,
    command: &[OsString],
    threaded: bool,
) -> Result<Process> {
    let way = way(number);
    let log = process::log(name)?;
    let mut launcher = Command::new(std::env::current_exe()?);
    launcher
        .args(["inside", "--number", &number.to_string()])
        .args(["--parent", &std::process::id().to_string()])
        .arg("--log")
        .arg(&log);
    match cpus.list() {
        all if all.is_empty() => {}
        some => drop(launcher.args(["--cpu", &some])),
    }
    if threaded {
        launcher.arg("--threaded");
    }
    launcher.arg("--").args(command);
    let mut child = launcher.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.as_mut().ok_or("no output")?;
    BufReader::new(stdout.take(16)).read_line(&mut line)?;
    let connected = if line == "ready\n" {
        connect(number, &way, child.id(), threaded)
    } else {
        Err("a server has got no network of its own".into())
    };
    let told = connected.and_then(|()| {
        let stdin = child.stdin.as_mut().ok_or("no input")?;
        Ok(stdin.write_all(b"go\n")?)
    });
    if let Err(error) = told {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok(Process::new(name, child, log))
}

fn connect(number: u8, way: &Way, pid: u32, threaded: bool) -> Result<()> {
    let (interface, pid) = (client_interface(number), pid.to_string());
    let (ours, theirs) = (mac_text(way.client.0), mac_text(way.server.0));
    let one_queue = ["numrxqueues", "1", "numtxqueues", "1"];
    let add = ["link", "add", &interface, "address", &ours];
    let peer = ["peer", "name", SERVER_INTERFACE, "address", &theirs];
    let veth = [&["type", "veth"][..], &peer, &one_queue, &["netns", &pid]].concat();
    call("ip", &[&add[..], &one_queue, &veth].concat())?;
    configure(&interface, (way.client.1.ip(), (way.server.1.ip(), theirs)))?;
    match threaded {
        true => poll_by_thread(&interface),
        false => Ok(()),
    }
}

/// Gives an interface its address, and the address and MAC of the other end.
fn configure(interface: &str, (own, (other, mac)): (IpAddr, (IpAddr, String))) -> Result<()> {
    let own = with_prefix(own);
    call("ip", &["address", "add", &own, "dev", interface])?;
    call("ip", &["link", "set", interface, "up"])?;
    let neighbour = ["lladdr", &mac, "dev", interface, "nud", "permanent"];
    let add = ["neighbour", "replace", &other.to_string()];
    call("ip", &[&add[..], &neighbour].concat())
}

/// Lets a thread of its own poll an interface that is up. Otherwise the receiver's work runs on the sender's
/// core.
pub(crate) fn poll_by_thread(interface: &str) -> Result<()> {
    // If the sender's end has TSO, veth passes packets on at once, on the sender's core, instead of leaving
    // them to the thread of a receiver with GRO.
    call("ethtool", &["-K", interface, "gro", "on", "tso", "off"])?;
    let threaded = format!("/sys/class/net/{interface}/threaded");
    std::fs::write(&threaded, "1").map_err(|error| format!("{threaded}: {error}").into())
}

#[derive(Args, Debug)]
pub(crate) struct InsideOptions {
    /// The number of the cable
    #[arg(long)]
    number: u8,
    /// The CPUs; none is all
    #[arg(long, value_delimiter = ',')]
    cpu: Vec<usize>,
    /// The process that must not be survived
    #[arg(long)]
    parent: i32,
    /// Log of the command
    #[arg(long)]
    log: std::path::PathBuf,
    /// The end of the cable is polled by a thread
    #[arg(long)]
    threaded: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command, in a network of its own; returns only if it cannot.
pub(crate) fn run_inside(options: &InsideOptions) -> Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    leave_network()?;
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    if line != "go\n" {
        return Err("the benchmark has ended before its server began".into());
    }
    let way = way(options.number);
    let other = (way.client.1.ip(), mac_text(way.client.0));
    configure(SERVER_INTERFACE, (way.server.1.ip(), other))?;
    if options.threaded {
        poll_by_thread(SERVER_INTERFACE)?;
    }
    let log = std::fs::File::create(&options.log)?;
    let error = launch::command_below(options.parent, options.cpu.as_slice(), &options.command)?
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .exec();
    Err(format!("cannot start: {error}").into())
}
