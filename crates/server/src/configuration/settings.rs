//! What the server works with: options that were checked, and what is derived from them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use micanite_control::Balance;
use micanite_control::size::exact;
use micanite_engine::{Access, Config, Eviction, Layout, Semantics};
use micanite_kernel::IMAGE_BYTES_MAX;

use super::auth::{self, AuthSettings, Unauthenticated};
use super::checks::{self, ITEM_BYTES_MAX, absolute, number};
use super::extended::{self, Extended};
use super::io::IoSettings;
use super::kernel_get::{self, KernelGetSettings};
use super::memcached::{Binding, Switches};
use super::ports::{self, BypassSettings};
use super::tls::{self, ListenTls, TlsSettings};
use super::udp::{self, UdpSettings};
use super::{Options, UsageError, Word};
use crate::limits::{CONNECTIONS_MAX, THREADS_MAX, TURN_REQUESTS_MAX};

/// Where TCP is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The addresses; port 0 takes a free one. Empty: no TCP.
    pub addresses: Vec<SocketAddr>,
    /// What each of them speaks, if TLS is enabled.
    pub tls: Vec<ListenTls>,
    /// As given with `-p`: -1 for a free one, 0 for no TCP.
    pub port: i64,
    /// As given with `-l`.
    pub words: Vec<String>,
}

/// Where the server is controlled while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// At a path that follows from the port (`crate::control`).
    Derived,
    /// At this path, absolute.
    At(PathBuf),
    /// Nowhere.
    None,
}

/// The native protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// Where it listens; nowhere with ports around the kernel.
    pub addresses: Vec<IpAddr>,
    /// Port of the first worker; -1: each worker takes a free one.
    pub port: i64,
    /// The longest datagram.
    pub payload_bytes: usize,
    /// Whether the kernel joins and splits datagrams.
    pub gro: bool,
    /// Room for datagrams that wait, per socket.
    pub queue_bytes: usize,
    /// Nobody has said it: ports lower it to what their frames hold.
    pub payload_is_default: bool,
    /// How long the kernel polls the NIC; 0: not.
    pub busy_poll_us: u32,
    /// Ports around the kernel, where it is answered instead.
    pub bypass: Option<BypassSettings>,
}

/// See the module. [`Settings::of`] makes them; every value is in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP addresses.
    pub listen: Listen,
    /// Unix socket.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Items, headers and index stay within this.
    pub memory_bytes: usize,
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
    /// How much is logged: 0 to 3.
    pub verbosity: u8,
    /// Words of `-o`.
    pub extended: Extended,
    /// Who is asked for a password, if anybody is.
    pub auth: Option<AuthSettings>,
    /// What is served to everybody although others are asked.
    pub unauthenticated: Unauthenticated,
    /// Lines that may wait for a watcher.
    pub watcher_bytes: usize,
    /// What clients may do.
    pub switches: Switches,
    /// TLS, if it is spoken.
    pub tls: Option<TlsSettings>,
    /// User to become.
    pub user: Option<String>,
    /// File for the process id, absolute.
    pub pidfile: Option<PathBuf>,
    /// Whether to run in the background.
    pub daemon: bool,
    /// Whether clients may end the server.
    pub shutdown_enabled: bool,
    /// Expected key and value bytes of an item.
    pub item_bytes_hint: Option<usize>,
    /// Cache or store.
    pub semantics: Semantics,
    /// Who may read and write a partition at first.
    pub access: Access,
    /// Eviction policy of a cache.
    pub eviction: Eviction,
    /// Ends the namespace at the start of a key.
    pub namespace_delimiter: u8,
    /// Whether loads are balanced from the start.
    pub balance: Balance,
    /// Directory of the files that the items are kept in, absolute.
    pub image: Option<PathBuf>,
    /// Where the server is controlled.
    pub control_socket: ControlSocket,
    /// How long connections may take to finish what they have begun.
    pub drain: Duration,
    /// Where metrics and health are served over HTTP, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Budget of value buffers of one worker.
    pub value_buffer_bytes: usize,
    /// How streams are waited for.
    pub io: IoSettings,
    /// Seed of the key hash, if it is not to be drawn.
    pub hash_seed: Option<u64>,
    /// Whether batches prefetch.
    pub prefetch: bool,
    /// The native protocol, if it is spoken.
    pub native: Option<NativeSettings>,
    /// memcached's protocols over UDP, if they are spoken.
    pub udp: Option<UdpSettings>,
    /// GETs answered in the kernel, if they are to be.
    pub kernel_get: Option<KernelGetSettings>,
}

impl Settings {
    /// Whether text is refused (`-B binary`).
    pub fn speaks_binary_only(&self) -> bool {
        self.switches.binding == Binding::Binary
    }

    /// Checks options. `cores` is what `-t` is by default.
    ///
    /// # Errors
    /// The first option that is wrong, in a sentence.
    pub fn of(options: &Options, cores: usize) -> Result<Self, UsageError> {
        let threads = number("-t/--threads", &options.threads, cores, 1, THREADS_MAX)?;
        let memory_bytes = checks::memory_limit(options)?;
        let semantics = checks::semantics(options)?;
        let mut settings = Self {
            listen: checks::listen(options)?,
            unix_socket: options.unix_socket.as_ref().map(|word| (&word.0).into()),
            unix_mode: checks::unix_mode(options)?,
            memory_bytes,
            threads,
            connections_max: number(
                "-c/--max-connections",
                &options.max_connections,
                1024,
                1,
                CONNECTIONS_MAX,
            )?,
            item_bytes_max: 0,
            turn_requests_max: number(
                "-R/--max-requests-per-event",
                &options.max_requests_per_event,
                64,
                1,
                TURN_REQUESTS_MAX,
            )? as u32,
            backlog: number("-b/--listen-backlog", &options.listen_backlog, 1024, 1, i32::MAX as usize)?
                as u32,
            verbosity: options.verbose.min(3),
            extended: Extended::of(&options.extended)?,
            user: options.user.as_ref().map(|word| word.0.clone()),
            pidfile: options.pidfile.as_ref().map(|word| absolute(&word.0)),
            daemon: options.daemon.unwrap_or(false),
            shutdown_enabled: options.enable_shutdown.unwrap_or(false),
            item_bytes_hint: match &options.item_size {
                None => None,
                word => Some(number("--item-size", word, 0, 2, ITEM_BYTES_MAX)?),
            },
            semantics,
            access: checks::access(options)?,
            eviction: checks::eviction(options, semantics)?,
            namespace_delimiter: checks::namespace_delimiter(options)?,
            balance: checks::balance(options)?,
            image: checks::image(options)?,
            control_socket: checks::control_socket(options)?,
            drain: Duration::from_secs(
                number("--drain-seconds", &options.drain_seconds, 5, 0, 86_400)? as u64
            ),
            admin: checks::admin(options)?,
            value_buffer_bytes: 0,
            io: checks::io(options)?,
            hash_seed: checks::hash_seed(options)?,
            prefetch: !options.no_prefetch.unwrap_or(false),
            idle_timeout_ms: 0,
            native: None,
            udp: None,
            kernel_get: None,
            tls: None,
            auth: auth::auth(options)?,
            unauthenticated: Unauthenticated::of(options)?,
            watcher_bytes: 0,
            switches: Switches::of(options)?,
        };
        settings.watcher_bytes = extended::watcher_bytes(&settings.extended)?;
        settings.tls = tls::tls(options, &settings.extended, &settings.listen)?;
        let idle_timeout_s = settings.extended.number("idle_timeout").unwrap_or(0);
        settings.idle_timeout_ms = idle_timeout_s.saturating_mul(1000);
        settings.udp = udp::udp(options, &settings.listen)?;
        settings.native = checks::native(options, &settings)?;
        auth::check_datagrams(options, &settings)?;
        settings.kernel_get = kernel_get::kernel_get(options, &settings)?;
        settings.item_bytes_max = checks::max_item_size(options, &settings)?;
        settings.value_buffer_bytes = checks::value_buffers(options, settings.item_bytes_max)?;
        Ok(settings)
    }

    /// What the engine is told.
    pub fn engine(&self, seed: u64) -> Config {
        let default = Config::default();
        Config {
            memory_bytes: self.memory_bytes,
            item_bytes_hint: self.item_bytes_hint,
            value_bytes_max: self.item_bytes_max,
            workers: self.threads,
            access: self.access,
            semantics: self.semantics,
            eviction: self.eviction,
            namespace_delimiter: Some(self.namespace_delimiter),
            image: self.image.clone(),
            seed,
            // Whether it comes to that or not: a restart finds the same partitions.
            partition_bytes_max: match self.kernel_get {
                Some(_) => IMAGE_BYTES_MAX.min(default.partition_bytes_max),
                None => default.partition_bytes_max,
            },
            ..default
        }
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

    /// [`Self::options`] for others to read: the seed of the key hash is not among them.
    pub fn public_options(&self) -> Options {
        Options { hash_seed: None, ..self.options() }
    }

    /// The options that lead to these settings, each of them said.
    pub fn options(&self) -> Options {
        let word = |text: String| Some(Word(text));
        let native =
            |text: fn(&NativeSettings) -> String| self.native.as_ref().map(|native| Word(text(native)));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| Word(path.display().to_string()));
        let mut options = Options {
            port: vec![Word(self.listen.port.to_string())],
            port_ip: Vec::new(),
            port_gateway: None,
            port_busy_poll: None,
            dpdk_args: None,
            listen: self.listen.words.iter().cloned().map(Word).collect(),
            unix_socket: path(&self.unix_socket),
            unix_mask: word(format!("0{:o}", self.unix_mode)),
            memory_limit: word(exact(self.memory_bytes)),
            threads: word(self.threads.to_string()),
            max_connections: word(self.connections_max.to_string()),
            max_item_size: word(exact(self.item_bytes_max)),
            max_requests_per_event: word(self.turn_requests_max.to_string()),
            listen_backlog: word(self.backlog.to_string()),
            verbose: self.verbosity,
            udp_port: word(self.udp.as_ref().map_or(0, |udp| udp.port).to_string()),
            udp_allow: self.udp.as_ref().map(|udp| Word(udp.allow.to_string())),
            extended: self.extended.options(),
            auth_file: auth::file(self.auth.as_ref()),
            enable_sasl: self.auth.as_ref().map(|auth| auth.sasl),
            allow_unauthenticated: self.unauthenticated.word(),
            enable_ssl: self.tls.is_some().then_some(true),
            tls_cert: tls::file(self.tls.as_ref().map(|tls| &tls.options.chain)),
            tls_key: tls::file(self.tls.as_ref().and_then(|tls| tls.options.key.as_ref())),
            tls_client_ca: match &self.tls {
                // It asks for certificates, unless a number of -o says otherwise.
                Some(tls) if tls.verify_mode > 0 || self.extended.has("ssl_verify_mode") => {
                    tls::file(tls.options.client_authorities.as_ref())
                }
                _ => None,
            },
            user: self.user.clone().map(Word),
            pidfile: path(&self.pidfile),
            daemon: Some(self.daemon),
            enable_shutdown: Some(self.shutdown_enabled),
            protocol: (self.switches.binding != Binding::Auto)
                .then(|| Word(self.switches.binding.name().into())),
            disable_flush_all: Some(self.switches.no_flush),
            disable_dumping: Some(self.switches.no_dump),
            disable_watch: Some(self.switches.no_watch),
            lock_memory: Some(self.switches.lock_memory),
            enable_coredumps: Some(self.switches.coredumps),
            disable_cas: self.switches.has_no_effect("-C"),
            enable_largepages: self.switches.has_no_effect("-L"),
            // Any number has no effect.
            slab_growth_factor: self.switches.has_no_effect("-f").map(|_| Word("1.25".into())),
            slab_min_size: self.switches.has_no_effect("-n").map(|_| Word("48".into())),
            napi_ids: self.switches.has_no_effect("-N").map(|_| Word("1".into())),
            memory_file: None,
            item_size: self.item_bytes_hint.map(|bytes| Word(bytes.to_string())),
            semantics: word(self.semantics.name().into()),
            disable_evictions: None,
            access: word(self.access.name().into()),
            // To say one of a store is a mistake.
            eviction: (self.semantics == Semantics::Cache).then(|| Word(self.eviction.name().into())),
            namespace_delimiter: word(char::from(self.namespace_delimiter).into()),
            balance: word(self.balance.name().into()),
            image: path(&self.image),
            control_socket: match &self.control_socket {
                ControlSocket::Derived => None,
                ControlSocket::At(path) => Some(Word(path.display().to_string())),
                ControlSocket::None => word("none".into()),
            },
            drain_seconds: word(self.drain.as_secs().to_string()),
            admin: word(self.admin.map_or("none".into(), |address| address.to_string())),
            value_buffers: word(exact(self.value_buffer_bytes)),
            io: word(self.io.choice.name().into()),
            hash_seed: self.hash_seed.map(|seed| Word(seed.to_string())),
            no_prefetch: (!self.prefetch).then_some(true),
            native: word(self.native.as_ref().map_or(0, |native| native.port).to_string()),
            kernel_get: Vec::new(),
            kernel_get_mode: None,
            kernel_get_pin: None,
            kernel_get_spread: None,
            native_payload: native(|native| native.payload_bytes.to_string()),
            native_gro: native(|native| if native.gro { "on" } else { "off" }.into()),
            native_queue: native(|native| exact(native.queue_bytes)),
            native_busy_poll: native(|native| native.busy_poll_us.to_string()),
            config: None,
            print_config: false,
        };
        ports::write(self.bypass(), &mut options);
        kernel_get::write(self.kernel_get.as_ref(), &mut options);
        options
    }
}
