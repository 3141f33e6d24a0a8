//! Settings of the server: checked options, and values that are derived from them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use micanite_control::size::exact;
use micanite_control::{Balance, Numa, Pin, Placement};
use micanite_engine::{Access, Config, Eviction, Layout, Semantics};
use micanite_kernel::IMAGE_BYTES_MAX;

use super::admin;
use super::auth::{self, AuthSettings, Unauthenticated};
use super::checks;
use super::fabric::{self, FabricSettings};
use super::io::IoSettings;
use super::memcached::extended::{self, Extended};
use super::memcached::{Binding, Switches};
use super::native::{self, BypassSettings, NativeInterface};
use super::options::ITEM_BYTES_MAX;
use super::readers::{self, KernelGetSettings, LocalSettings};
use super::tls::{self, ListenTls, TlsSettings};
use super::udp::{self, UdpSettings};
use super::{Options, UsageError};
use crate::control::numa::Found;
use crate::telemetry::log::LogFormat;

/// Listeners for TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The addresses; port 0 takes a free one. Empty: no TCP.
    pub addresses: Vec<SocketAddr>,
    /// TLS mode of each address, if TLS is enabled.
    pub tls: Vec<ListenTls>,
    /// As given with `-p`: -1 for a free one, 0 for no TCP.
    pub port: i64,
    /// As given with `-l`.
    pub words: Vec<String>,
}

/// Place of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// At a path that follows from the port (`crate::control`).
    Derived,
    /// At this path, absolute.
    At(PathBuf),
    /// No socket.
    None,
}

/// The native protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// Addresses of the sockets; none with ports around the kernel.
    pub addresses: Vec<IpAddr>,
    /// Interfaces of the kernel that share the workers; none if each worker has all addresses.
    pub interfaces: Vec<NativeInterface>,
    /// Port of the first worker; -1: each worker takes a free one.
    pub port: i64,
    /// The longest datagram.
    pub payload_bytes: usize,
    /// Lets the kernel join and split datagrams.
    pub gro: bool,
    /// Room for datagrams that wait, per socket.
    pub queue_bytes: usize,
    /// The length was not given, so ports lower it to what their frames hold.
    pub payload_is_default: bool,
    /// Time for which the kernel polls the NIC; 0: it does not poll.
    pub busy_poll_us: u32,
    /// Ports around the kernel, where it is answered instead.
    pub bypass: Option<BypassSettings>,
}

impl NativeSettings {
    /// Returns the port of a worker; 0 takes a free one.
    pub fn port_of(&self, worker: usize) -> u16 {
        u16::try_from(self.port).map_or(0, |base| base + worker as u16)
    }

    /// Returns the addresses of a worker's sockets.
    pub fn addresses_of(&self, worker: usize) -> &[IpAddr] {
        let its = self.interfaces.iter().find(|its| its.workers.contains(&worker));
        its.map_or(&self.addresses, |its| &its.addresses)
    }
}

/// Checked settings, made by [`Settings::of`]. Every value is in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP addresses.
    pub listen: Listen,
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Items, headers and index stay within this.
    pub memory_bytes: usize,
    /// Most memory that the limit can be raised to while the server runs.
    pub memory_bytes_max: usize,
    /// Worker threads.
    pub threads: usize,
    /// Connections at the same time.
    pub connections_max: usize,
    /// The largest value.
    pub item_bytes_max: usize,
    /// Requests of one connection in one turn.
    pub turn_requests_max: u32,
    /// Connections that do nothing for longer than this are closed; 0: none are.
    pub idle_timeout_ms: u64,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Level of the log, 0 to 3.
    pub verbosity: u8,
    pub log_format: LogFormat,
    /// Words of `-o`.
    pub extended: Extended,
    /// Authentication, if it is enabled.
    pub auth: Option<AuthSettings>,
    pub unauthenticated: Unauthenticated,
    /// Room for lines that wait for a watcher.
    pub watcher_bytes: usize,
    pub switches: Switches,
    /// TLS, if it is spoken.
    pub tls: Option<TlsSettings>,
    /// User to become.
    pub user: Option<String>,
    /// File for the process id, absolute.
    pub pidfile: Option<PathBuf>,
    /// Runs the server in the background.
    pub daemon: bool,
    /// Lets clients end the server.
    pub shutdown_enabled: bool,
    /// Expected key and value bytes of an item.
    pub item_bytes_hint: Option<usize>,
    pub semantics: Semantics,
    /// Access mode of partitions at the start.
    pub access: Access,
    /// Eviction policy of a cache.
    pub eviction: Eviction,
    /// Ends the namespace at the start of a key.
    pub namespace_delimiter: u8,
    /// Balancing of loads at the start.
    pub balance: Balance,
    /// The choice of CPUs for the workers.
    pub pin: Pin,
    /// The CPUs of the workers, as the start has found them.
    pub placement: Placement,
    /// The NUMA nodes that the memory of partitions comes from.
    pub numa: Numa,
    /// The nodes of the machine, as the start has found them.
    pub nodes: Found,
    /// Directory of the files that the items are kept in, absolute.
    pub image: Option<PathBuf>,
    pub control_socket: ControlSocket,
    /// Time that connections get to finish what they have begun.
    pub drain: Duration,
    /// Address where metrics and health are served over HTTP, if they are.
    pub admin: Option<SocketAddr>,
    /// TLS of that address.
    pub admin_tls: ListenTls,
    /// Directory for files that its users begin.
    pub admin_files: Option<PathBuf>,
    /// Names that it is asked by, beside the machine's own.
    pub admin_hosts: Vec<String>,
    /// The admin side names hot keys whoever asks.
    pub admin_names: bool,
    /// Budget of value buffers of one worker.
    pub value_buffer_bytes: usize,
    pub io: IoSettings,
    /// Seed of the key hash, if it is not to be drawn.
    pub hash_seed: Option<u64>,
    /// Lets batches prefetch.
    pub prefetch: bool,
    /// The native protocol, if it is spoken.
    pub native: Option<NativeSettings>,
    /// memcached's protocols over UDP, if they are spoken.
    pub udp: Option<UdpSettings>,
    /// GETs answered in the kernel, if they are to be.
    pub kernel_get: Option<KernelGetSettings>,
    /// Readers on the same host, if there may be some.
    pub local: Option<LocalSettings>,
    /// Clients over libfabric, if they are served.
    pub fabric: Option<FabricSettings>,
    /// Options that were given, with absolute paths.
    pub(super) said: Options,
}

impl Settings {
    /// Returns whether text is refused (`-B binary`).
    pub fn speaks_binary_only(&self) -> bool {
        self.switches.binding == Binding::Binary
    }

    /// Checks options. `cores` is what `-t` is by default.
    ///
    /// # Errors
    /// The first option that is wrong, in a sentence.
    pub fn of(options: &Options, cores: usize) -> Result<Self, UsageError> {
        let mut said = options.clone();
        said.make_paths_absolute();
        let options = &said;
        let threads = checks::threads(options, cores)?;
        let semantics = checks::semantics(options)?;
        let extended = Extended::of(&options.extended)?;
        let admin = admin::admin(options.admin.text().unwrap_or_default());
        let admin = admin.map_err(|what| options.admin.wrong(what))?;
        let mut settings = Self {
            listen: checks::listen(options)?,
            unix_socket: options.unix_socket.text().map(PathBuf::from),
            unix_mode: checks::unix_mode(&options.unix_mask)?,
            memory_bytes: options.memory_limit.number()?,
            memory_bytes_max: 0,
            threads,
            connections_max: options.max_connections.number()?,
            item_bytes_max: 0,
            turn_requests_max: options.max_requests_per_event.number()? as u32,
            idle_timeout_ms: extended.number("idle_timeout").unwrap_or(0).saturating_mul(1000),
            backlog: options.listen_backlog.number()? as u32,
            verbosity: checks::verbosity(&options.verbose)?,
            log_format: checks::log_format(&options.log_format)?,
            user: options.user.text().map(String::from),
            pidfile: options.pidfile.path()?,
            daemon: options.daemon.is_on()?,
            shutdown_enabled: options.enable_shutdown.is_on()?,
            item_bytes_hint: match options.item_size.is_said() {
                true => Some(options.item_size.number()?),
                false => None,
            },
            semantics,
            access: options.access.parse()?,
            eviction: checks::eviction(&options.eviction, semantics)?,
            namespace_delimiter: checks::namespace_delimiter(&options.namespace_delimiter)?,
            balance: options.balance.parse()?,
            pin: checks::pin(&options.pin)?,
            placement: Placement::default(),
            numa: options.numa.parse()?,
            nodes: Found::default(),
            image: checks::path_or_none(&options.image)?,
            control_socket: checks::control_socket(&options.control_socket)?,
            drain: Duration::from_secs(options.drain_seconds.number()? as u64),
            admin: admin.0,
            admin_tls: admin.1,
            admin_files: checks::path_or_none(&options.admin_files)?,
            admin_hosts: admin::hosts(&options.admin_hosts)?,
            admin_names: options.admin_names.is_on()?,
            value_buffer_bytes: 0,
            io: IoSettings { choice: options.io.parse()?, refused: None },
            hash_seed: checks::hash_seed(&options.hash_seed)?,
            prefetch: !options.no_prefetch.is_on()?,
            native: None,
            udp: None,
            kernel_get: None,
            local: None,
            fabric: None,
            tls: None,
            auth: auth::auth(options)?,
            unauthenticated: Unauthenticated::of(&options.allow_unauthenticated)?,
            watcher_bytes: extended::watcher_bytes(&extended, &options.extended)?,
            extended,
            switches: Switches::of(options)?,
            said: Options::default(),
        };
        settings.tls = tls::tls(options, &settings.extended, &settings.listen)?;
        admin::check(admin, settings.tls.as_ref()).map_err(|what| options.admin.wrong(what))?;
        settings.udp = udp::udp(options, &settings.listen)?;
        settings.native = native::native(options, &settings)?;
        auth::check_datagrams(options, &settings)?;
        settings.kernel_get = readers::kernel_get(options, &settings)?;
        settings.local = readers::local(options, &settings)?;
        settings.memory_bytes_max = checks::memory_max(options, &settings)?;
        settings.item_bytes_max = checks::max_item_size(&options.max_item_size, &settings)?;
        settings.value_buffer_bytes = checks::value_buffers(&options.value_buffers, settings.item_bytes_max)?;
        settings.fabric = fabric::fabric(options, &settings)?;
        settings.said = said;
        Ok(settings)
    }

    /// Returns the configuration of the engine.
    pub fn engine(&self, seed: u64) -> Config {
        let default = Config::default();
        Config {
            memory_bytes: self.memory_bytes,
            memory_bytes_max: Some(self.memory_bytes_max.max(self.memory_bytes)),
            item_bytes_hint: self.item_bytes_hint,
            value_bytes_max: self.item_bytes_max,
            workers: self.threads,
            access: self.access,
            semantics: self.semantics,
            eviction: self.eviction,
            namespace_delimiter: Some(self.namespace_delimiter),
            image: self.image.clone(),
            readers: self.local.is_some(),
            nodes: self.nodes.workers(),
            seed,
            // The limit holds even if the server gets no maps, so that a restart finds the same partitions.
            partition_bytes_max: match self.kernel_get {
                Some(_) => IMAGE_BYTES_MAX.min(default.partition_bytes_max),
                None => default.partition_bytes_max,
            },
            ..default
        }
    }

    /// Returns whether the admin side names keys to everybody: not where items are kept from some.
    pub fn names_keys_to_all(&self) -> bool {
        self.admin_names || (self.auth.is_none() && !self.switches.no_dump)
    }

    /// The largest `-I` that this memory allows.
    pub fn item_bytes_allowed(&self) -> usize {
        let fits = |value_bytes_max| {
            let config = Config { value_bytes_max, ..self.engine(0) };
            Layout::of(&config).is_ok()
        };
        let (mut least, mut most) = (0, (self.memory_bytes / 2).min(ITEM_BYTES_MAX));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if fits(middle) { least = middle } else { most = middle - 1 }
        }
        least
    }

    /// Ports around the kernel, if there are any.
    pub fn bypass(&self) -> Option<&BypassSettings> {
        self.native.as_ref()?.bypass.as_ref()
    }

    /// Returns [`Self::options`] for others to read: the seed of the key hash is not among them.
    pub fn public_options(&self) -> Options {
        let mut options = self.options();
        options.hash_seed.clear();
        options
    }

    /// Returns options that lead to these settings: those that were given, and the defaults of all others.
    pub fn options(&self) -> Options {
        let mut options = self.said.clone();
        // Defaults that follow from other options, and what the machine made of the settings.
        options.port.set(self.listen.port);
        options.memory_limit.set(exact(self.memory_bytes));
        options.threads.set(self.threads);
        options.max_connections.set(self.connections_max);
        options.max_item_size.set(exact(self.item_bytes_max));
        options.value_buffers.set(exact(self.value_buffer_bytes));
        options.semantics.set(self.semantics.name());
        if let Some(path) = &self.unix_socket {
            options.unix_socket.set(path.display());
        }
        if let Some(auth) = &self.auth {
            options.auth_file.set(auth.file.display());
        }
        if let Some(tls) = &self.tls {
            tls.say(&self.extended, &mut options);
        }
        match &self.native {
            Some(native) => options.native.set(native.port),
            None => options.native.clear(),
        }
        match &self.fabric {
            Some(fabric) => fabric.say(&mut options),
            None => options.fabric.clear(),
        }
        let has_kernel_sockets = self.native.as_ref().is_some_and(|native| native.bypass.is_none());
        options.complete(|declared| match declared.section {
            "native" => has_kernel_sockets,
            "kernel-get" => self.kernel_get.is_some(),
            "local" => self.local.is_some(),
            "bypass" => false,
            "fabric" => self.fabric.as_ref().is_some_and(|fabric| {
                fabric.cache.is_some() || !matches!(&*declared.path, "fabric.policy" | "fabric.write")
            }),
            _ => declared.name != "eviction" || self.semantics == Semantics::Cache,
        });
        options
    }
}
