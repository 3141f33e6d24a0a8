//! Lines that the server logs at the start: its listeners, and the most memory that it will use.

use std::fmt::Write;
use std::net::SocketAddr;

use micanite_control::{Balance, size};
use micanite_engine::{Cache, ImageState, Layout, Resizing, Semantics};
use micanite_memory::allocated_bytes;
use micanite_net::limits::{FRAME_HEADER_BYTES_MAX, TLS_CONNECTION_BYTES_MAX};
use micanite_net::{Poller, Uring};

use super::acceptor::Acceptor;
use super::{fabric, local, ports, warnings};
use crate::configuration::NativeInterface;
use crate::configuration::{FabricSettings, ListenTls, NativeSettings, Settings};
use crate::connection::Buffers;
use crate::control::ControlThread;
use crate::control::local::LocalShared;
use crate::limits::{FABRIC_TABLE_PART, LOG_WAITING_BYTES_MAX, WATCHERS_MAX};
use crate::native::fabric::FabricPort;
use crate::native::{Ids, NativePort, NativeShared, ring_bytes};
use crate::security::auth::Attempts;
use crate::shared::Server;
use crate::telemetry::admin::feed_bytes;
use crate::telemetry::hot::HotKeys;
use crate::telemetry::latency::Latency;
use crate::telemetry::log::start;
use crate::telemetry::record::Recorder;
use crate::telemetry::stats::{ConnectionTable, Prefixes};
use crate::udp::UdpPort;
use crate::worker::Worker;

/// Memory beside `-m`, at most.
struct Beside {
    connections_bytes: usize,
    values_bytes: usize,
    scratch_bytes: usize,
    native_bytes: usize,
    udp_bytes: usize,
    fabric_bytes: usize,
    local_bytes: usize,
    /// Partitions whose limit can rise take more than it.
    growth_bytes: usize,
    /// Recovery needs it before anything else of this is used.
    recovery_bytes: usize,
    /// The part of it that is mapped at the start: frames of ports, the cache area.
    mapped_bytes: usize,
}

impl Beside {
    fn of(settings: &Settings) -> Self {
        let tls_bytes = settings.tls.as_ref().map_or(0, |_| TLS_CONNECTION_BYTES_MAX);
        // The kernel may refuse io_uring later, at the probe or at the start of a worker.
        let (place_bytes, ring_buffers_bytes) = match settings.io.is_uring() {
            true => (<Worker<Uring>>::PLACE_BYTES + Uring::STREAM_BYTES, Uring::BYTES),
            false => (<Worker<Poller>>::PLACE_BYTES, 0),
        };
        let per_connection =
            Buffers::CONNECTION_BYTES + place_bytes + ConnectionTable::ENTRY_BYTES + tls_bytes;
        Self {
            connections_bytes: settings.connections_max * per_connection,
            values_bytes: settings.threads * settings.value_buffer_bytes,
            scratch_bytes: settings.threads
                * (ring_buffers_bytes + Buffers::SCRATCH_BYTES + size_of::<Latency>() + HotKeys::BYTES)
                + Prefixes::bytes(settings.threads)
                + Recorder::bytes(settings.threads)
                + 2 * LOG_WAITING_BYTES_MAX
                + WATCHERS_MAX * settings.watcher_bytes
                + settings.admin.map_or(0, |_| feed_bytes(settings.threads))
                + settings.auth.as_ref().map_or(0, |_| Attempts::BYTES),
            native_bytes: settings.native.as_ref().map_or(0, |native| native_bytes(settings, native)),
            udp_bytes: settings
                .udp
                .as_ref()
                .map_or(0, |udp| settings.threads * UdpPort::bytes(udp.addresses.len())),
            fabric_bytes: settings.fabric.as_ref().map_or(0, |fabric| fabric_bytes(settings, fabric)),
            local_bytes: settings.local.as_ref().map_or(0, |local| LocalShared::bytes(local.clients_max)),
            growth_bytes: settings.engine(0).growth_bytes().unwrap_or(0),
            recovery_bytes: match Layout::of(&settings.engine(0)) {
                Ok(layout) if settings.image.is_some() => layout.recovery_bytes(),
                _ => 0,
            },
            mapped_bytes: mapped_bytes(settings),
        }
    }

    /// As the partitions are, which an image keeps.
    fn opened(settings: &Settings, cache: &Cache) -> Self {
        let recovery_bytes = settings.image.as_ref().map_or(0, |_| cache.layout().recovery_bytes());
        Self { growth_bytes: cache.growth_bytes(), recovery_bytes, ..Self::of(settings) }
    }

    fn total(&self) -> usize {
        let serving_bytes = self.connections_bytes
            + self.values_bytes
            + self.scratch_bytes
            + self.native_bytes
            + self.udp_bytes
            + self.fabric_bytes
            + self.local_bytes;
        serving_bytes.max(self.recovery_bytes) + self.growth_bytes
    }
}

fn mapped_bytes(settings: &Settings) -> usize {
    let bypass = settings.native.as_ref().and_then(|native| native.bypass.as_ref());
    let area_bytes = settings.fabric.as_ref().map_or(0, FabricSettings::area_bytes);
    bypass.map_or(0, |bypass| bypass.memory_bytes) + area_bytes
}

fn native_bytes(settings: &Settings, native: &NativeSettings) -> usize {
    let others = settings.threads - 1;
    let (datagram_bytes, port_bytes, frames_bytes) = match &native.bypass {
        Some(bypass) => {
            let bytes = native.payload_bytes + FRAME_HEADER_BYTES_MAX;
            (bytes, NativePort::bytes_over(bytes), bypass.memory_bytes)
        }
        None => {
            let bytes = native.payload_bytes;
            let addresses = (0..settings.threads).map(|worker| native.addresses_of(worker).len()).max();
            let port_bytes = NativePort::bytes(addresses.unwrap_or(0), bytes, native.gro);
            (bytes, port_bytes, 0)
        }
    };
    let rings_bytes = others * ring_bytes(settings.threads, datagram_bytes);
    Ids::BYTES_MAX + frames_bytes + settings.threads * (rings_bytes + port_bytes)
}

/// The cache area with the tables of its chunks, and the buffers of clients. The provider has memory of its
/// own.
fn fabric_bytes(settings: &Settings, fabric: &FabricSettings) -> usize {
    let area_bytes = fabric.area_bytes();
    let table_bytes = area_bytes / FABRIC_TABLE_PART;
    let buffers_bytes = fabric.clients_max * FabricPort::client_bytes(fabric.message_bytes);
    area_bytes + table_bytes + buffers_bytes + settings.threads * FabricPort::bytes(fabric.clients_max)
}

/// Memory that the server may take at most.
pub(super) fn bytes_max(settings: &Settings) -> usize {
    settings.memory_bytes + Beside::of(settings).total()
}

/// Prints it.
pub(super) fn print(
    server: &Server,
    acceptor: &Acceptor,
    control: Option<&ControlThread>,
    admin: Option<(SocketAddr, bool)>,
) {
    start!(INFO, "version {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id());
    for (name, text) in [
        ("listening", addresses(server, acceptor)),
        ("workers", workers(&server.settings)),
        ("memory", memory(server)),
        ("values", values(&server.settings)),
        ("beside", beside(server)),
        ("control", control_text(control)),
    ] {
        start!(INFO, about = name, "{text}");
    }
    let native = server.shared.native.as_ref();
    let texts = native.map_or(Vec::new(), |native| ports::texts(native, &server.settings));
    for text in texts {
        start!(INFO, about = "port", "{text}");
    }
    if let (Some(native), Some(NativeSettings { interfaces, .. })) = (native, &server.settings.native) {
        for its in interfaces {
            start!(INFO, about = "interface", "{}", interface(native, its));
        }
    }
    if let Some(state) = &server.kernel_get {
        start!(INFO, about = "kernel get", "{}", state.text());
    }
    if let Some((address, is_encrypted)) = admin {
        let scheme = if is_encrypted { "https" } else { "http" };
        start!(INFO, about = "admin", "{scheme}://{address}/");
        if !address.ip().is_loopback() {
            start!(
                WARN,
                "whoever reaches {address} can read metrics, configuration and hot keys: --admin \
                 has no authentication, so let a firewall decide who that is"
            );
        }
    }
    if let Some(text) = fabric::text(&server.settings) {
        start!(INFO, about = "fabric", "{text}");
    }
    if let Some(local) = &server.settings.local {
        start!(INFO, about = "local", "{}", local::text(local));
    }
    if let Some(text) = server.numa.line() {
        start!(INFO, about = "numa", "{text}");
    }
    if let Some(text) = server.numa.warning() {
        start!(WARN, "{text}");
    } else if let Some(reason) = server.numa.reason().filter(|_| server.numa.nodes() > 1) {
        start!(INFO, about = "", "because {reason}");
    }
    warnings::of_memory(server);
    warnings::of_listeners(server);
    local::warn(&server.settings);
    fabric::warn(&server.settings);
    if let Some(native) = native {
        ports::warn(native, &server.settings);
    }
    warnings::of_workers(server);
    start!(INFO, "ready");
}

/// An interface with the ports of its workers.
fn interface(native: &NativeShared, its: &NativeInterface) -> String {
    let ports: Vec<_> = native.cores[its.workers.clone()].iter().map(|core| core.port.to_string()).collect();
    let ips: Vec<_> = its.addresses.iter().map(ToString::to_string).collect();
    let plural = if ports.len() == 1 { "" } else { "s" };
    format!("{}, UDP port{plural} {} at {}", its.name, ports.join(" "), ips.join(", "))
}

fn control_text(control: Option<&ControlThread>) -> String {
    control.map_or("none".into(), |control| control.path.display().to_string())
}

fn addresses(server: &Server, acceptor: &Acceptor) -> String {
    let mut words = Vec::new();
    for (number, listener) in acceptor.listeners().iter().enumerate() {
        if let Some(address) = listener.address() {
            let protocol = match acceptor.speaks(number) {
                ListenTls::Plain => "TCP",
                _ => "TLS",
            };
            words.push(format!("{protocol} {address}"));
        }
    }
    if let (Some(udp), Some(settings)) = (&server.shared.udp, &server.settings.udp) {
        let (port, allow) = (udp.port(), &settings.allow);
        words.push(format!("UDP port {port} for {allow}"));
    }
    if let Some(path) = &server.settings.unix_socket {
        words.push(format!("Unix socket {}", path.display()));
    }
    if let Some(native) = &server.shared.native {
        let ports = native.cores.iter().map(|core| core.port);
        let (first, last) = (ports.clone().min().unwrap_or(0), ports.max().unwrap_or(0));
        words.push(match first == last {
            true => format!("native UDP port {first}"),
            false => format!("native UDP ports {first} to {last}"),
        });
    }
    words.join(", ")
}

fn workers(settings: &Settings) -> String {
    let (mut text, cpus) = (format!("{}", settings.threads), settings.placement.pinned());
    if cpus.is_empty() {
        text.push_str(", not pinned");
    } else {
        text.push_str(if cpus.len() == 1 { ", on CPU" } else { ", on CPUs" });
        for cpu in cpus {
            let _ = write!(text, " {cpu}");
        }
    }
    if settings.threads > 1 {
        let _ = write!(text, ", {}", settings.access.name());
        if settings.balance == Balance::Auto {
            text.push_str(", balanced");
        }
    }
    let (connections, io) = (settings.connections_max, &settings.io);
    let _ = write!(text, "; at most {connections} connections, by {}", io.backend());
    if io.refused.is_some() {
        let _ = write!(text, " ({})", io.reason());
    }
    text
}

fn memory(server: &Server) -> String {
    let layout = server.shared.cache.layout();
    let partitions = match layout.partitions {
        1 => "1 partition".into(),
        count => format!("{count} partitions"),
    };
    let settings = &server.settings;
    let most = match settings.memory_bytes_max > settings.memory_bytes {
        true => format!(", up to {} (--memory-max)", size::text(settings.memory_bytes_max)),
        false => String::new(),
    };
    format!(
        "{}{most} in {partitions}, on {}; {}{}",
        size::text(server.shared.cache.memory_limit_bytes()),
        server.shared.cache.pages().name(),
        when_full(&server.settings),
        image(server),
    )
}

/// Prints how far the image has another size.
pub(super) fn resizing(progress: &Resizing) {
    let (from, to) = (size::text(progress.from_bytes), size::text(progress.to_bytes));
    match progress.percent {
        0 => start!(INFO, "resizing the image from {from} to {to} needs {to} beside it until it is done"),
        percent => start!(INFO, "resizing the image: {percent} %"),
    }
}

/// Describes what the image held; empty without an image.
fn image(server: &Server) -> String {
    let found = match server.shared.cache.image_state() {
        ImageState::None => return String::new(),
        ImageState::Created => "new".into(),
        ImageState::Clean => format!("{} items", server.shared.cache.stats().items_live),
        ImageState::Recovered => format!(
            "not closed by the process before, checked: {} items",
            server.shared.cache.stats().items_live
        ),
        ImageState::Discarded { reason } => format!("new, all items discarded: {reason}"),
        ImageState::Resized { from_bytes, .. } => format!(
            "resized from {}: {} items",
            size::text(*from_bytes),
            server.shared.cache.stats().items_live
        ),
    };
    match &server.settings.image {
        Some(directory) => format!("; image {} ({found})", directory.display()),
        None => format!("; image in maps of the kernel ({found})"),
    }
}

fn when_full(settings: &Settings) -> String {
    match settings.semantics {
        Semantics::Cache => format!("a cache, {}", settings.eviction.name()),
        Semantics::Store => "a store, refuses when full".into(),
    }
}

fn values(settings: &Settings) -> String {
    format!(
        "at most {} (-I); this much memory allows {}",
        size::text(settings.item_bytes_max),
        size::text(settings.item_bytes_allowed()),
    )
}

/// Describes the memory beside `-m`: what is allocated now, and the most that it can become.
fn beside(server: &Server) -> String {
    let settings = &server.settings;
    let beside = Beside::opened(settings, &server.shared.cache);
    let now = match allocated_bytes() {
        Some(bytes) => format!("{} now, ", size::text(bytes + beside.mapped_bytes)),
        None => String::new(),
    };
    format!(
        "{now}at most {}: {} for {} connections that do not read, {} for long values on their way, {} \
         shared{}{}{}{}{}",
        size::text(beside.total()),
        size::text(beside.connections_bytes),
        settings.connections_max,
        size::text(beside.values_bytes),
        size::text(beside.scratch_bytes),
        match beside.native_bytes {
            0 => String::new(),
            bytes => format!(", {} for the native protocol", size::text(bytes)),
        },
        match beside.udp_bytes {
            0 => String::new(),
            bytes => format!(", {} for UDP", size::text(bytes)),
        },
        match beside.fabric_bytes {
            0 => String::new(),
            bytes => format!(", {} for the fabric", size::text(bytes)),
        },
        match beside.local_bytes {
            0 => String::new(),
            bytes => format!(", {} for readers", size::text(bytes)),
        },
        match beside.growth_bytes {
            0 => String::new(),
            bytes => format!(", {} for a limit that can rise (--memory-max)", size::text(bytes)),
        },
    )
}
