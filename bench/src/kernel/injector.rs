//! The way of our frames to the cable: a cable of its own, at whose other end an XDP program hands them on.
//!
//! A frame that an AF_XDP socket sends in copy mode is a packet of the kernel's stack. Before an XDP program
//! sees it, veth copies it into a page, on the receiver's core: a cost that no NIC has, and that only servers
//! with XDP would bear. So that happens here, on the client's core, and the server's end gets what a driver
//! would hand it.

use std::os::fd::{AsFd, OwnedFd};

use micanite_bpf::{Bound, MODE_NATIVE, Map, MapOptions, MapType, ProgramType, attach, load_program};
use micanite_net::bypass::Bypass;

use crate::Result;
use crate::harness::namespace;

#[cfg(inject_program)]
mod compiled {
    include!(concat!(env!("OUT_DIR"), "/inject_program.rs"));
}
#[cfg(not(inject_program))]
mod compiled {
    pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
}

/// Sends what enters its entrance out of another interface, as long as it lives.
pub(super) struct Injector {
    pub entrance: String,
    /// Interface with the program; a thread of the kernel's polls it.
    pub exit: String,
    _link: OwnedFd,
    _port: Option<Bypass>,
}

impl Injector {
    pub fn new(number: u8, to: &str) -> Result<Self> {
        let (entrance, exit) = (format!("inject{number}"), format!("exit{number}"));
        let one_queue = ["numrxqueues", "1", "numtxqueues", "1"];
        let add = ["link", "add", &entrance];
        let peer = ["type", "veth", "peer", "name", &exit];
        namespace::call("ip", &[&add[..], &one_queue, &peer, &one_queue].concat())?;
        for interface in [&entrance, &exit] {
            namespace::call("ip", &["link", "set", interface, "up"])?;
        }
        namespace::poll_by_thread(&exit)?;
        Ok(Self { _link: redirect(&exit, to)?, entrance, exit, _port: None })
    }

    /// The port at the entrance lives as long as this.
    pub fn with_port(mut self, port: Bypass) -> Self {
        self._port = Some(port);
        self
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        // It would end with the network.
        let _ = namespace::call("ip", &["link", "delete", &self.entrance]);
    }
}

fn redirect(from: &str, to: &str) -> Result<OwnedFd> {
    let target = MapOptions::new((MapType::Array, "target"), 4, 4, 1);
    let target = Map::create(&target)?;
    target.set(&[0; 4], &interface(to)?.to_ne_bytes())?;
    let kind = (ProgramType::Xdp, "inject");
    let bound = |_: &str| Bound::Map(&target);
    let program = load_program(kind, &compiled::OBJECT, bound)
        .map_err(|refused| format!("the kernel refuses the XDP program: {refused}"))?;
    Ok(attach(program.as_fd(), interface(from)?, MODE_NATIVE)?)
}

pub(super) fn interface(name: &str) -> Result<u32> {
    let path = format!("/sys/class/net/{name}/ifindex");
    Ok(std::fs::read_to_string(path)?.trim().parse()?)
}
