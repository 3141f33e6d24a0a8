//! What a person writes: options by their letters and names. Nothing is checked here but names.

use std::path::Path;

use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};

use super::{UsageError, Word};

/// Options of `serve`. Those that memcached has keep their letters and meanings.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// TCP port (0: no TCP, -1: a free one) [default: 11211]; or, beside it and repeatable, one for the
    /// native protocol around the kernel: xdp:INTERFACE, dpdk:DEVICE
    #[arg(
        short = 'p',
        long,
        value_name = "N",
        env = "MICANITE_PORT",
        hide_env = true,
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    #[serde(with = "words", skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<Word>,
    /// Addresses of the --port around the kernel with their prefixes, such as 10.0.0.2/24, separated by
    /// commas; given once for each such port, in their order [default: those of the interface (xdp:)]
    #[arg(long, value_name = "ADDRESS/PREFIX", env = "MICANITE_PORT_IP", hide_env = true, action = ArgAction::Append)]
    #[serde(with = "words", skip_serializing_if = "Vec::is_empty")]
    pub port_ip: Vec<Word>,
    /// Gateway of a dpdk: port; replies need none, they go to the station that the request came from
    #[arg(long, value_name = "ADDRESS", env = "MICANITE_PORT_GATEWAY", hide_env = true)]
    pub port_gateway: Option<Word>,
    /// Microseconds that the kernel polls the NIC for the queues of an xdp: port, in the worker's own
    /// time [default: 0]
    #[arg(long, value_name = "US", env = "MICANITE_PORT_BUSY_POLL", hide_env = true)]
    pub port_busy_poll: Option<Word>,
    /// Further arguments of DPDK's environment (EAL), in one text
    #[arg(
        long,
        value_name = "ARGUMENTS",
        env = "MICANITE_DPDK_ARGS",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub dpdk_args: Option<Word>,
    /// Addresses or hosts to listen on, separated by commas, each with :port if wanted (then IPv6
    /// addresses stand in brackets) [default: 127.0.0.1]
    #[arg(short = 'l', long, value_name = "ADDRESS", env = "MICANITE_LISTEN", hide_env = true, action = ArgAction::Append)]
    #[serde(with = "list", skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<Word>,
    /// Unix socket to listen on; without -p there is no TCP then
    #[arg(short = 's', long, value_name = "FILE", env = "MICANITE_UNIX_SOCKET", hide_env = true)]
    pub unix_socket: Option<Word>,
    /// Permission bits of the Unix socket, in octal [default: 700]
    #[arg(short = 'a', long, value_name = "MODE", env = "MICANITE_UNIX_MASK", hide_env = true)]
    pub unix_mask: Option<Word>,
    /// Memory for items, index and headers together, in MiB or with k, m, g, t [default: 64]
    #[arg(
        short = 'm',
        long,
        value_name = "SIZE",
        env = "MICANITE_MEMORY_LIMIT",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub memory_limit: Option<Word>,
    /// Worker threads [default: the physical cores this process may use]
    #[arg(
        short = 't',
        long,
        value_name = "N",
        env = "MICANITE_THREADS",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub threads: Option<Word>,
    /// Connections at the same time [default: 1024]
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        env = "MICANITE_MAX_CONNECTIONS",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub max_connections: Option<Word>,
    /// Largest value: 1k to 1g, at most half of -m [default: 1m, less if -m is small]
    #[arg(
        short = 'I',
        long,
        value_name = "SIZE",
        env = "MICANITE_MAX_ITEM_SIZE",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub max_item_size: Option<Word>,
    /// Requests of one connection before others get their turn [default: 64]
    #[arg(
        short = 'R',
        long,
        value_name = "N",
        env = "MICANITE_MAX_REQUESTS_PER_EVENT",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub max_requests_per_event: Option<Word>,
    /// Connections that may wait to be accepted [default: 1024]
    #[arg(
        short = 'b',
        long,
        value_name = "N",
        env = "MICANITE_LISTEN_BACKLOG",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub listen_backlog: Option<Word>,
    /// Log connections as they open and close; -vv and -vvv say no more today
    #[arg(short = 'v', long, action = ArgAction::Count, env = "MICANITE_VERBOSE", hide_env = true)]
    pub verbose: u8,
    /// UDP port of memcached's protocols (0: no UDP, -1: a free one); without -p also that of TCP
    /// [default: 0]
    #[arg(
        short = 'U',
        long,
        value_name = "N",
        env = "MICANITE_UDP_PORT",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub udp_port: Option<Word>,
    /// Networks whose datagrams -U answers, such as 10.1.0.0/16, separated by commas
    /// [default: 127.0.0.0/8,::1/128]
    #[arg(long, value_name = "CIDR", env = "MICANITE_UDP_ALLOW", hide_env = true)]
    pub udp_allow: Option<Word>,
    /// Answer GETs of -U and --native in the kernel, before its network stack, on this interface;
    /// repeatable. Needs root or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; docs/kernel.md
    #[arg(long, value_name = "INTERFACE", env = "MICANITE_KERNEL_GET", hide_env = true, action = ArgAction::Append)]
    #[serde(with = "words", skip_serializing_if = "Vec::is_empty")]
    pub kernel_get: Vec<Word>,
    /// Where the kernel answers: native (in the driver), generic (behind it), auto (in the driver where it
    /// can) [default: auto]
    #[arg(long, value_name = "MODE", env = "MICANITE_KERNEL_GET_MODE", hide_env = true)]
    pub kernel_get_mode: Option<Word>,
    /// Keep the items in the kernel under this directory of a bpffs, such as /sys/fs/bpf/micanite: the next
    /// start goes on with them [default: they end with the process]
    #[arg(long, value_name = "DIRECTORY", env = "MICANITE_KERNEL_GET_PIN", hide_env = true)]
    pub kernel_get_pin: Option<Word>,
    /// Above this load of a core that answers in the kernel, in percent, a further core takes over a part,
    /// and below it idle cores stay idle; 0: never [default: 0]
    #[arg(long, value_name = "PERCENT", env = "MICANITE_KERNEL_GET_SPREAD", hide_env = true)]
    pub kernel_get_spread: Option<Word>,
    /// Native protocol over UDP: worker i answers on port N + i (0: off, -1: free ones)
    /// [default: 0]
    #[arg(long, value_name = "N", env = "MICANITE_NATIVE", hide_env = true, allow_hyphen_values = true)]
    pub native: Option<Word>,
    /// The longest datagram of the native protocol, 1232 to 65507 bytes [default: 1472]
    #[arg(long, value_name = "BYTES", env = "MICANITE_NATIVE_PAYLOAD", hide_env = true)]
    pub native_payload: Option<Word>,
    /// Let the kernel join and split native datagrams (GRO, GSO): on, off [default: on]
    #[arg(long, value_name = "WHEN", env = "MICANITE_NATIVE_GRO", hide_env = true)]
    pub native_gro: Option<Word>,
    /// Microseconds that the kernel polls the NIC for native datagrams before it sleeps
    /// [default: 0]
    #[arg(long, value_name = "US", env = "MICANITE_NATIVE_BUSY_POLL", hide_env = true)]
    pub native_busy_poll: Option<Word>,
    /// Room for datagrams that wait for a worker; the kernel grants twice as much and counts its
    /// bookkeeping in, some 1 KiB for a short one. More than net.core.rmem_max is for root
    /// [default: 8m]
    #[arg(long, value_name = "SIZE", env = "MICANITE_NATIVE_QUEUE", hide_env = true)]
    pub native_queue: Option<Word>,
    /// Extended options of memcached, separated by commas: name or name=value
    #[arg(short = 'o', long, value_name = "WORDS", env = "MICANITE_EXTENDED", hide_env = true, action = ArgAction::Append)]
    #[serde(with = "list", skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<Word>,
    /// Ask clients for a user and a password, and take these from a file with lines of user:password
    #[arg(short = 'Y', long, value_name = "FILE", env = "MICANITE_AUTH_FILE", hide_env = true)]
    pub auth_file: Option<Word>,
    /// Let clients of the binary protocol say them too (SASL PLAIN)
    #[arg(short = 'S', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_ENABLE_SASL", hide_env = true)]
    pub enable_sasl: Option<bool>,
    /// Serve these to everybody although other clients need a password or a certificate, separated by commas:
    /// udp (-U), native (--native, --port)
    #[arg(long, value_name = "PROTOCOLS", env = "MICANITE_ALLOW_UNAUTHENTICATED", hide_env = true)]
    pub allow_unauthenticated: Option<Word>,
    /// Speak TLS on every TCP listener that is not marked notls:
    #[arg(short = 'Z', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_ENABLE_SSL", hide_env = true)]
    pub enable_ssl: Option<bool>,
    /// The server's certificate and those that lead to its authority, PEM; turns TLS on. As -Z -o
    /// ssl_chain_cert=FILE
    #[arg(long, value_name = "FILE", env = "MICANITE_TLS_CERT", hide_env = true)]
    pub tls_cert: Option<Word>,
    /// Its private key, PEM [default: in the file of --tls-cert]. As -o ssl_key=FILE
    #[arg(long, value_name = "FILE", env = "MICANITE_TLS_KEY", hide_env = true)]
    pub tls_key: Option<Word>,
    /// Only clients with a certificate of one of these authorities get in, PEM. As -o
    /// ssl_ca_cert=FILE,ssl_verify_mode=2
    #[arg(long, value_name = "FILE", env = "MICANITE_TLS_CLIENT_CA", hide_env = true)]
    pub tls_client_ca: Option<Word>,
    /// User to become when started as root
    #[arg(short = 'u', long, value_name = "NAME", env = "MICANITE_USER", hide_env = true)]
    pub user: Option<Word>,
    /// File that receives the process id
    #[arg(short = 'P', long, value_name = "FILE", env = "MICANITE_PIDFILE", hide_env = true)]
    pub pidfile: Option<Word>,
    /// Run in the background
    #[arg(short = 'd', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DAEMON", hide_env = true)]
    pub daemon: Option<bool>,
    /// Let clients end the server with `shutdown`
    #[arg(short = 'A', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_ENABLE_SHUTDOWN", hide_env = true)]
    pub enable_shutdown: Option<bool>,
    /// Protocol of the TCP and Unix listeners: ascii, binary, auto [default: auto]
    #[arg(short = 'B', long, value_name = "NAME", env = "MICANITE_PROTOCOL", hide_env = true)]
    pub protocol: Option<Word>,
    /// Refuse flush_all and flush_namespace
    #[arg(short = 'F', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DISABLE_FLUSH_ALL", hide_env = true)]
    pub disable_flush_all: Option<bool>,
    /// Refuse `stats detail`, `stats cachedump`, `lru_crawler metadump` and `mgdump`
    #[arg(short = 'X', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DISABLE_DUMPING", hide_env = true)]
    pub disable_dumping: Option<bool>,
    /// Refuse `watch`
    #[arg(short = 'W', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DISABLE_WATCH", hide_env = true)]
    pub disable_watch: Option<bool>,
    /// Keep all memory from being swapped out
    #[arg(short = 'k', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_LOCK_MEMORY", hide_env = true)]
    pub lock_memory: Option<bool>,
    /// Allow core files, as large as the hard limit says
    #[arg(short = 'r', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_ENABLE_COREDUMPS", hide_env = true)]
    pub enable_coredumps: Option<bool>,
    /// Shown in `stats settings`, and else without effect: CAS values cost nothing until a client asks for them
    #[arg(short = 'C', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DISABLE_CAS", hide_env = true)]
    pub disable_cas: Option<bool>,
    /// Accepted without effect: huge pages are used where they can be had
    #[arg(short = 'L', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_ENABLE_LARGEPAGES", hide_env = true)]
    pub enable_largepages: Option<bool>,
    /// Accepted without effect: there are no slab classes
    #[arg(short = 'f', long, value_name = "N", env = "MICANITE_SLAB_GROWTH_FACTOR", hide_env = true)]
    pub slab_growth_factor: Option<Word>,
    /// Accepted without effect: there are no slab classes
    #[arg(short = 'n', long, value_name = "BYTES", env = "MICANITE_SLAB_MIN_SIZE", hide_env = true)]
    pub slab_min_size: Option<Word>,
    /// Accepted without effect: connections go to the worker that has the fewest
    #[arg(short = 'N', long, value_name = "N", env = "MICANITE_NAPI_IDS", hide_env = true)]
    pub napi_ids: Option<Word>,
    /// Refused: --image keeps what is stored
    #[arg(
        short = 'e',
        long,
        value_name = "FILE",
        env = "MICANITE_MEMORY_FILE",
        hide_env = true,
        hide = true
    )]
    pub memory_file: Option<Word>,
    /// cache: items leave when memory is full; store: what was acknowledged stays, and new items
    /// are refused when memory is full [default: cache]
    #[arg(long, value_name = "KIND", env = "MICANITE_SEMANTICS", hide_env = true)]
    pub semantics: Option<Word>,
    /// As --semantics store
    #[arg(short = 'M', long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_DISABLE_EVICTIONS", hide_env = true)]
    pub disable_evictions: Option<bool>,
    /// How items of a cache are chosen when memory is full: s3-fifo, clock, approximate-lru, lru,
    /// fifo [default: s3-fifo]
    #[arg(long, value_name = "POLICY", env = "MICANITE_EVICTION", hide_env = true)]
    pub eviction: Option<Word>,
    /// Who reads and writes a partition, with several workers: erew (its owner alone), crew (all
    /// read, the owner writes), crcw (all read and write) [default: crcw]
    #[arg(long, value_name = "MODE", env = "MICANITE_ACCESS", hide_env = true)]
    pub access: Option<Word>,
    /// Let partitions change mode and owner by measured load: auto, off [default: off]
    #[arg(long, value_name = "WHEN", env = "MICANITE_BALANCE", hide_env = true)]
    pub balance: Option<Word>,
    /// Ends the namespace at the start of a key, for flush_namespace [default: :]
    #[arg(
        short = 'D',
        long,
        value_name = "CHAR",
        env = "MICANITE_NAMESPACE_DELIMITER",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub namespace_delimiter: Option<Word>,
    /// Keep the items in files in this directory (tmpfs or disk): the next start goes on with them;
    /// or none [default: they end with the process]
    #[arg(long, value_name = "DIR", env = "MICANITE_IMAGE", hide_env = true)]
    pub image: Option<Word>,
    /// Unix socket for `micanite ctl`, or none [default: named after the port, in
    /// $XDG_RUNTIME_DIR/micanite or /tmp/micanite-UID; beside -s without a port]
    #[arg(long, value_name = "PATH", env = "MICANITE_CONTROL_SOCKET", hide_env = true)]
    pub control_socket: Option<Word>,
    /// How long connections may take to finish what they have begun, at a graceful end and a restart
    /// [default: 5]
    #[arg(long, value_name = "N", env = "MICANITE_DRAIN_SECONDS", hide_env = true)]
    pub drain_seconds: Option<Word>,
    /// Metrics, health and a page to look at over HTTP: a port of 127.0.0.1, or another address,
    /// with a port or 9311 (0: off, -1: a free port) [default: 0]
    #[arg(long, value_name = "ADDRESS", env = "MICANITE_ADMIN", hide_env = true, allow_hyphen_values = true)]
    pub admin: Option<Word>,
    /// Expected average of key and value bytes of an item: gives the index its size from the
    /// start [default: the index grows by itself]
    #[arg(
        long,
        value_name = "BYTES",
        env = "MICANITE_ITEM_SIZE",
        hide_env = true,
        allow_hyphen_values = true
    )]
    pub item_size: Option<Word>,
    /// Memory beside -m for large values on their way, per worker
    /// [default: 16m, or four of the largest values]
    #[arg(long, value_name = "SIZE", env = "MICANITE_VALUE_BUFFERS", hide_env = true)]
    pub value_buffers: Option<Word>,
    /// How connections are waited for and read: epoll, io_uring, auto (io_uring where the kernel
    /// allows it) [default: epoll]
    #[arg(long, value_name = "KIND", env = "MICANITE_IO", hide_env = true)]
    pub io: Option<Word>,
    /// Seed of the key hash, for tests that must repeat [default: drawn at start]
    #[arg(long, value_name = "N", env = "MICANITE_HASH_SEED", hide_env = true, hide = true)]
    pub hash_seed: Option<Word>,
    /// Load memory only when a request needs it: for benchmarks
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, env = "MICANITE_NO_PREFETCH", hide_env = true, hide = true)]
    pub no_prefetch: Option<bool>,
    /// TOML file with these options by their long names
    #[arg(long, value_name = "FILE", env = "MICANITE_CONFIG", hide_env = true)]
    #[serde(skip)]
    pub config: Option<Word>,
    /// Print the resulting configuration as TOML and end
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,
}

impl Options {
    /// Reads the file that `--config` names, if any, for what is not said otherwise.
    ///
    /// # Errors
    /// The file cannot be read, or has something in it that is no option.
    pub fn with_file(self) -> Result<Self, UsageError> {
        let Some(Word(path)) = self.config.clone() else {
            return Ok(self);
        };
        let text = std::fs::read_to_string(Path::new(&path))
            .map_err(|error| UsageError(format!("cannot read --config {path}: {error}")))?;
        let file = toml::from_str(&text).map_err(|error| UsageError(format!("--config {path}: {error}")))?;
        Ok(self.or(file))
    }

    /// Takes from `other` what is not said here.
    pub(super) fn or(mut self, mut other: Self) -> Self {
        if self.semantics.is_some() || self.disable_evictions.is_some() {
            // Whoever says here what is kept also decides on what goes with it.
            other.semantics = None;
            other.disable_evictions = None;
            other.eviction = None;
        }
        macro_rules! take {
            ($($field:ident)*) => { $(self.$field = self.$field.or(other.$field);)* };
        }
        take!(port_gateway port_busy_poll dpdk_args);
        take!(unix_socket unix_mask memory_limit threads max_connections max_item_size);
        take!(max_requests_per_event listen_backlog udp_port udp_allow user pidfile daemon enable_shutdown);
        take!(semantics disable_evictions eviction access balance namespace_delimiter);
        take!(image control_socket drain_seconds admin item_size value_buffers hash_seed no_prefetch);
        take!(kernel_get_mode kernel_get_pin kernel_get_spread);
        take!(io native native_payload native_gro native_busy_poll native_queue);
        take!(protocol disable_flush_all disable_dumping disable_watch lock_memory enable_coredumps);
        take!(disable_cas enable_largepages slab_growth_factor slab_min_size napi_ids memory_file);
        take!(auth_file enable_sasl allow_unauthenticated enable_ssl tls_cert tls_key tls_client_ca);
        // A TCP port and a port around the kernel are different things to say, perhaps in one word.
        for port in [&mut self.port, &mut other.port] {
            let words = port.iter().flat_map(|word| word.0.split_whitespace());
            *port = words.map(|word| Word(word.into())).collect();
        }
        let tcp = |word: &Word| word.0.parse::<i64>().is_ok();
        if self.port.iter().any(tcp) {
            other.port.retain(|word| !tcp(word));
        }
        if !self.port.iter().all(tcp) {
            other.port.retain(tcp);
        }
        self.port.append(&mut other.port);
        if self.port_ip.is_empty() {
            self.port_ip = other.port_ip;
        }
        if self.kernel_get.is_empty() {
            self.kernel_get = other.kernel_get;
        }
        if self.listen.is_empty() {
            self.listen = other.listen;
        }
        if self.extended.is_empty() {
            self.extended = other.extended;
        }
        if self.verbose == 0 {
            self.verbose = other.verbose;
        }
        self
    }
}

/// One or several values: commas may be part of them.
mod words {
    use super::Word;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Several(Vec<Word>),
        One(Word),
    }

    pub fn serialize<S: Serializer>(words: &[Word], serializer: S) -> Result<S::Ok, S::Error> {
        match words {
            [word] => word.serialize(serializer),
            _ => words.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
        Words::deserialize(from).map(|words| match words {
            Words::Several(words) => words,
            Words::One(word) => vec![word],
        })
    }
}

/// A list in TOML, or one text with commas.
mod list {
    use super::Word;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(words: &[Word], serializer: S) -> Result<S::Ok, S::Error> {
        words.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
        Word::deserialize(from).map(|word| vec![word])
    }
}
