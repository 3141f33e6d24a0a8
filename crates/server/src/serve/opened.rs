//! Everything that a start opens while the process has the rights that it was started with.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use micanite_control::nodes::Nodes;
use micanite_engine::Cache;
use micanite_net::Listener;
use micanite_net::bypass::Bypass;
use micanite_wire::native::CoreEntry;

use super::inheritance::Inheritance;
use super::kernel_get::{self, Listening};
use super::ports::{self, Queues};
use super::{Failure, cannot_start, fabric, listeners, local, process};
use crate::configuration::NativeInterface;
use crate::configuration::{PortSettings, Settings};
use crate::control::kernel_get::KernelGetState;
use crate::native::{NativeShared, Sockets};
use crate::security::auth::Auth;
use crate::security::tls::TlsShared;
use crate::shared::clock::{Clock, unix_now_s};
use crate::telemetry::admin::{Admin, Hosts};
use crate::udp::UdpSockets;

pub(super) struct Opened {
    pub listeners: Vec<Listener>,
    /// Number of the listeners that are the supervisor's. They come first.
    pub activated: usize,
    pub sockets: Option<Sockets>,
    pub queues: Queues,
    pub native: Option<NativeShared>,
    pub udp: Option<UdpSockets>,
    pub kept_udp: Vec<OwnedFd>,
    pub admin: Admin,
    pub auth: Option<Auth>,
    pub tls: Option<Arc<TlsShared>>,
    pub clock: Clock,
}

impl Opened {
    pub fn new(settings: &mut Settings, inheritance: &mut Inheritance) -> Result<Self, Failure> {
        process::check_memory(settings)?;
        let mut listeners = inheritance.take_activated(settings);
        let activated = listeners.len();
        if activated == 0 {
            listeners.extend(listeners::open_tcp(settings, inheritance)?);
        }
        let sockets = listeners::open_native(settings, inheritance)?;
        process::leave_parent(settings, inheritance.is_restart())?;
        fabric::probe(settings)?;
        let (ports, queues) = ports::open(settings)?;
        let udp = listeners::open_udp(settings, inheritance)?;
        let kept_udp = listeners::keep_udp(udp.as_ref()).map_err(cannot_start)?;
        let admin = Admin::new(listeners::open_admin(settings, inheritance)?);
        // The key may be root's alone, and passwords too.
        let (auth, tls) = load_secrets(settings)?;
        let clock = Clock::start();
        let native = native(settings, sockets.as_ref(), ports)?;
        Ok(Self { listeners, activated, sockets, queues, native, udp, kept_udp, admin, auth, tls, clock })
    }

    /// Opens the cache and becomes the user of `-u`. With `--kernel-get` the cache comes first: the kernel's
    /// memory and its programs are for root.
    pub fn memory(&mut self, settings: &Settings, inheritance: &mut Inheritance) -> Result<Memory, Failure> {
        let mut locks = inheritance.take_locks();
        kernel_get::pins::lock(settings, &mut locks)?;
        let maps = inheritance.take_maps();
        let mut is_as_started = true;
        if settings.kernel_get.is_none() {
            is_as_started = process::become_user(settings)?;
        }
        if !settings.daemon {
            // Opening a large image takes long, so the admin side answers before.
            self.start_admin(settings, inheritance)?;
        }
        let native = self.sockets.as_ref().zip(self.native.as_ref());
        let listening = Listening { udp: self.udp.as_ref(), native };
        let began = Instant::now();
        let (cache, kernel_get) = kernel_get::open(settings, maps, listening, self.clock)?;
        local::note_memory(settings, began.elapsed());
        if settings.kernel_get.is_some() {
            is_as_started = process::become_user(settings)?;
        }
        Ok(Memory { cache, kernel_get, is_as_started, locks })
    }

    /// Starts the admin side, if it has not been started yet.
    pub fn start_admin(&mut self, settings: &Settings, inheritance: &mut Inheritance) -> Result<(), Failure> {
        let tls = self.tls.clone().map(|tls| (tls, settings.admin_tls));
        let hosts = Hosts::new(&settings.admin_hosts);
        let previous = (inheritance.is_restart(), inheritance.take_history());
        self.admin.start(tls, hosts, previous).map_err(cannot_start)
    }
}

/// The items, and what belongs to their memory.
pub(super) struct Memory {
    pub cache: Arc<Cache>,
    pub kernel_get: Option<KernelGetState>,
    /// The process has kept its user.
    pub is_as_started: bool,
    /// Locks of pinned memory.
    pub locks: Vec<File>,
}

/// Reads passwords, certificates and keys, as far as they are asked for.
pub(super) fn load_secrets(settings: &Settings) -> Result<(Option<Auth>, Option<Arc<TlsShared>>), Failure> {
    let auth = settings.auth.as_ref().map(Auth::new).transpose();
    let load = |tls| TlsShared::new(tls, unix_now_s()).map(Arc::new);
    let tls = settings.tls.as_ref().map(load).transpose();
    Ok((auth.map_err(Failure::system)?, tls.map_err(Failure::system)?))
}

/// Returns what workers share of the native protocol, if it is spoken.
fn native(
    settings: &Settings,
    sockets: Option<&Sockets>,
    ports: Vec<Bypass>,
) -> Result<Option<NativeShared>, Failure> {
    let Some(native) = &settings.native else {
        return Ok(None);
    };
    let (cpus, nodes) = (settings.placement.homes(), Nodes::here());
    let port = |worker: usize| match sockets.and_then(|sockets| sockets[worker].first()) {
        Some(socket) => socket.local_addr().map_or(0, |address| address.port()),
        None => native.port as u16 + worker as u16,
    };
    let core = |worker| CoreEntry {
        port: port(worker),
        // Clients take 0 for unknown.
        node: cpus.get(worker).and_then(|cpu| nodes.of_cpu(*cpu)).unwrap_or(0),
    };
    let cores = (0..settings.threads).map(core).collect();
    let random = [process::random_seed()?, process::random_seed()?, process::random_seed()?];
    let shared = NativeShared::new(cores, native.payload_bytes, random);
    Ok(Some(match &native.bypass {
        Some(bypass) => {
            let interface = |(open, of): (&Bypass, &PortSettings)| NativeInterface {
                name: of.name.to_string(),
                addresses: open.addresses.iter().map(|(ip, _)| *ip).collect(),
                workers: of.workers.clone(),
            };
            let interfaces = ports.iter().zip(&bypass.ports).map(interface).collect();
            shared.over(ports).at(interfaces)
        }
        None => shared.at(native.interfaces.clone()),
    }))
}
