//! Every option of `serve`, declared once: the command line, environment, TOML and help derive from it.

mod arguments;
mod environment;
mod file;
mod help;
mod reading;
mod reference;
mod suggestion;
#[cfg(test)]
mod tests;
mod value;

use std::sync::LazyLock;

use micanite_wire::native::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};

pub use arguments::Arguments;
pub use environment::unknown_variables;
pub use help::{Offered, offered, tabled_names, tables};
pub use reference::{reference, reread_names};
pub(super) use suggestion::did_you_mean;
pub use suggestion::nearest;
use value::Declaration;
pub use value::{Kind, Origin, Value};

use crate::limits::{
    CONNECTIONS_MAX, FABRIC_CLIENTS_MAX, FABRIC_MESSAGE_BYTES_MAX, LOCAL_CLIENTS_MAX, THREADS_MAX,
    TURN_REQUESTS_MAX,
};

pub(super) const ITEM_BYTES_MAX: usize = 1 << 30;

/// Heading of memcached's options that are accepted and do nothing.
pub(super) const WITHOUT_EFFECT: &str = "memcached's options without effect";
const CONFIGURATION: &str = "Configuration";

const FLAG: Declaration = Declaration::new(Kind::Flag, "");
const PROTOCOLS: [&str; 4] = ["ascii", "binary", "auto", "auto-negotiate"];
const ON_OFF: Kind = Kind::Choice(&["on", "off"]);
const EVICTIONS: Kind = Kind::Choice(&["s3-fifo", "clock", "approximate-lru", "lru", "fifo"]);

const fn number(value_name: &'static str, least: usize, most: usize) -> Declaration {
    Declaration::new(Kind::Number(least..=most), value_name)
}

/// Declares a size; a bare number counts units of `unit_bytes`.
const fn size(unit_bytes: u64, least: usize, most: usize) -> Declaration {
    Declaration::new(Kind::Size(unit_bytes, least..=most), "SIZE")
}

const fn of(kind: Kind, value_name: &'static str) -> Declaration {
    Declaration::new(kind, value_name)
}

macro_rules! options {
    ($($heading:tt { $($(#[doc = $help:literal])+ $field:ident = $declaration:expr;)+ })+) => {
        /// Options of `serve`. Those that memcached has keep their letters and meanings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Options {
            $($($(#[doc = $help])+ pub $field: Value,)+)+
        }

        static UNSAID: LazyLock<Options> = LazyLock::new(|| Options {
            $($($field: Value::new($declaration.named(stringify!($field), $heading, concat!($($help),+))),)+)+
        });

        impl Options {
            /// Returns all of them in the order of the help.
            pub fn values(&self) -> Vec<&Value> {
                vec![$($(&self.$field,)+)+]
            }

            pub(super) fn values_mut(&mut self) -> Vec<&mut Value> {
                vec![$($(&mut self.$field,)+)+]
            }
        }
    };
}

options! {
    ("Network", "") {
        /// TCP port (0: no TCP, -1: a free one) [default: 11211]
        port = of(Kind::Ports, "NUMBER").letter('p').common();
        /// Addresses or hosts to listen on, separated by commas, each with :port if wanted (then IPv6
        /// addresses stand in brackets)
        listen = of(Kind::List, "ADDRESS").letter('l').default("127.0.0.1").common();
        /// Unix socket to listen on; without -p there is no TCP then
        unix_socket = of(Kind::Text, "FILE").letter('s').common();
        /// Permission bits of the Unix socket, in octal
        unix_mask = of(Kind::Text, "MODE").letter('a').default("0700");
        /// Connections at the same time
        max_connections = number("N", 1, CONNECTIONS_MAX).letter('c').default("1024").common();
        /// UDP port of memcached's protocols (0: no UDP, -1: a free one); without -p also that of TCP
        udp_port = of(Kind::Port, "N").letter('U').default("0").common();
        /// Networks whose datagrams -U answers, such as 10.1.0.0/16, separated by commas
        udp_allow = of(Kind::Text, "CIDR").default("127.0.0.0/8,::1/128");
        /// Protocol of the TCP and Unix listeners: ascii, binary, auto
        protocol = of(Kind::Choice(&PROTOCOLS), "NAME").letter('B').default("auto");
        /// Requests of one connection before others get their turn
        max_requests_per_event = number("N", 1, TURN_REQUESTS_MAX).letter('R').default("64");
        /// Connections that may wait to be accepted
        listen_backlog = number("N", 1, i32::MAX as usize).letter('b').default("1024");
        /// How connections are waited for and read: epoll, io_uring, auto (io_uring where the kernel allows
        /// it)
        io = of(Kind::Choice(&["epoll", "io_uring", "auto"]), "KIND").default("epoll");
    }
    ("Memory and items", "") {
        /// Memory for items, index and headers together, in MiB or with k, m, g, t
        memory_limit = size(1 << 20, 1 << 20, 1 << 46).letter('m').default("64").common();
        /// Most memory that ctl memory and cache_memlimit can set: address space that is reserved at the
        /// start, and used when the limit is raised [default: -m]
        memory_max = size(1 << 20, 1 << 20, 1 << 46);
        /// Largest value: 1k to 1g, at most half of -m [default: 1m, less if -m is small]
        max_item_size = size(1, 1 << 10, ITEM_BYTES_MAX).letter('I').common();
        /// cache: items leave when memory is full; store: what was acknowledged stays, and new items are
        /// refused when memory is full
        semantics = of(Kind::Choice(&["cache", "store"]), "KIND").default("cache").common();
        /// As --semantics store
        disable_evictions = FLAG.letter('M').common();
        /// How items of a cache are chosen when memory is full: s3-fifo, clock, approximate-lru, lru, fifo
        eviction = of(EVICTIONS, "POLICY").default("s3-fifo");
        /// Keep the items in files in this directory (tmpfs or disk): the next start goes on with them; or
        /// none [default: they end with the process]
        image = of(Kind::Path, "DIR").common();
        /// Ends the namespace at the start of a key, for flush_namespace
        namespace_delimiter = of(Kind::Any, "CHAR").letter('D').default(":");
        /// Expected average of key and value bytes of an item: gives the index its size from the start
        /// [default: the index grows by itself]
        item_size = size(1, 2, ITEM_BYTES_MAX);
        /// Memory beside -m for large values on their way, per worker [default: 16m, or four of the largest
        /// values]
        value_buffers = size(1, 0, usize::MAX);
        /// Keep all memory from being swapped out
        lock_memory = FLAG.letter('k').default("false");
    }
    ("Workers", "") {
        /// Worker threads [default: the physical cores this process may use]
        threads = number("N", 1, THREADS_MAX).letter('t').common();
        /// Access to a partition, with several workers: erew (its owner reads and writes), crew (all read,
        /// the owner writes), crcw (all read and write)
        access = of(Kind::Choice(&["erew", "crew", "crcw"]), "MODE").default("crcw");
        /// CPUs of the workers: one each (on), those that the kernel chooses (off), a list such as 0-3,8 for
        /// the workers in turn; auto is on with --native, --bypass and several NUMA nodes, else off
        pin = of(Kind::Text, "WHEN").default("auto");
        /// Let partitions change mode and owner by measured load: auto, off
        balance = of(Kind::Choice(&["auto", "off"]), "WHEN").default("off");
        /// Where several NUMA nodes are: keep each partition in the memory of its owner's node (bind), or
        /// leave it where it is touched first (off)
        numa = of(Kind::Choice(&["bind", "off"]), "WHEN").default("bind");
    }
    ("Access control and TLS", "") {
        /// Ask clients for a user and a password, and take these from a file with lines of user:password
        auth_file = of(Kind::Path, "FILE").letter('Y').common().reread();
        /// Let clients of the binary protocol say them too (SASL PLAIN)
        enable_sasl = FLAG.letter('S');
        /// Speak TLS on every TCP listener that is not marked notls:
        enable_ssl = FLAG.letter('Z');
        /// The server's certificate and those that lead to its authority, PEM; turns TLS on. As -Z -o
        /// ssl_chain_cert=FILE
        tls_cert = of(Kind::Path, "FILE").common().reread();
        /// Private key of the certificate, PEM [default: in the file of --tls-cert]. As -o ssl_key=FILE
        tls_key = of(Kind::Path, "FILE").common().reread();
        /// Only clients with a certificate of one of these authorities get in, PEM. As -o
        /// ssl_ca_cert=FILE,ssl_verify_mode=2
        tls_client_ca = of(Kind::Path, "FILE").common().reread();
        /// Serve these to everybody although other clients need a password or a certificate, separated by
        /// commas: udp (-U), native (--native, --bypass), fabric (--fabric)
        allow_unauthenticated = of(Kind::Text, "PROTOCOLS");
        /// Let clients end the server with `shutdown`
        enable_shutdown = FLAG.letter('A').default("false");
        /// Refuse flush_all and flush_namespace
        disable_flush_all = FLAG.letter('F').default("false");
        /// Refuse `stats detail`, `stats cachedump`, `lru_crawler metadump` and `mgdump`
        disable_dumping = FLAG.letter('X').default("false");
        /// Refuse `watch`
        disable_watch = FLAG.letter('W').default("false");
    }
    ("Process", "") {
        /// User to become when started as root
        user = of(Kind::Text, "NAME").letter('u').common();
        /// File that receives the process id
        pidfile = of(Kind::Path, "FILE").letter('P').common();
        /// Run in the background
        daemon = FLAG.letter('d').default("false").common();
        /// How long connections may take to finish what they have begun, at a graceful end and a restart
        drain_seconds = number("N", 0, 86_400).default("5");
        /// Allow core files, as large as the hard limit says
        enable_coredumps = FLAG.letter('r').default("false");
        /// Seed of the key hash, for tests that must repeat [default: drawn at start]
        hash_seed = of(Kind::Text, "N").hidden();
        /// Load memory only when a request needs it: for benchmarks
        no_prefetch = FLAG.hidden();
    }
    ("Control and observability", "") {
        /// Log connections as they open and close; -vv: all of them, not 60 a minute
        verbose = of(Kind::Count, "").letter('v').default("0").common();
        /// Form of the lines on standard error: text, or json, an object in each line
        log_format = of(Kind::Choice(&["text", "json"]), "FORM").default("text");
        /// Metrics, health and a page to look at over HTTP: a port of 127.0.0.1, or another address, with a
        /// port or 9311 (0: off, -1: a free port)
        admin = of(Kind::Any, "ADDRESS").default("0").common();
        /// Directory for the snapshots and recordings that users of the console (--admin) begin; none: they
        /// begin none
        admin_files = of(Kind::Path, "DIRECTORY").default("none");
        /// Further names that browsers may ask --admin by, separated by commas; addresses, localhost and the
        /// machine's own name need no mention
        admin_hosts = of(Kind::Text, "NAMES");
        /// Let everybody who reaches --admin see the names of hot keys although -Y or -X keeps items from
        /// them; without it only users who have logged in see them
        admin_names = FLAG.default("false");
        /// Unix socket for `micanite ctl`, or none [default: named after the port, in
        /// $XDG_RUNTIME_DIR/micanite or /tmp/micanite-UID; beside -s without a port]
        control_socket = of(Kind::Path, "PATH");
    }
    ("Native protocol", "native") {
        /// Native protocol over UDP: worker i answers on port N + i (0: off, -1: free ones)
        native = of(Kind::Port, "N").key("port").default("0").common();
        /// Interfaces, or addresses of them joined by +, that share the workers of --native in blocks, so
        /// that
        /// each worker answers at one of them only; separated by commas [default: every worker answers at
        /// the addresses of -l]; docs/nic.md
        native_at = of(Kind::List, "INTERFACE");
        /// The longest datagram of the native protocol, 1232 to 65507 bytes
        native_payload = number("BYTES", PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX).default("1472");
        /// Let the kernel join and split native datagrams (GRO, GSO): on, off
        native_gro = of(ON_OFF, "WHEN").default("on");
        /// Microseconds that the kernel polls the NIC for native datagrams before it sleeps
        native_busy_poll = number("US", 0, 1_000_000).default("0");
        /// Room for datagrams that wait for a worker; the kernel grants twice as much and counts its
        /// bookkeeping in, some 1 KiB for a short one. More than net.core.rmem_max is for root
        native_queue = size(1, 4 << 10, 1 << 30).default("8m");
    }
    ("Kernel bypass", "bypass") {
        /// Answer the native protocol around the kernel's network stack, at xdp:INTERFACE (AF_XDP) or
        /// dpdk:DEVICE; repeatable; docs/bypass.md
        bypass = of(Kind::List, "PORT").key("port").common();
        /// Addresses of the port with their prefixes, such as 10.0.0.2/24, separated by commas; given once
        /// for each port, in their order [default: those of the interface (xdp:)]
        bypass_ip = of(Kind::List, "ADDRESS/PREFIX").alias("port-ip");
        /// Gateway of a dpdk: port; replies need none, they go to the station that the request came from
        bypass_gateway = of(Kind::Text, "ADDRESS").alias("port-gateway");
        /// Microseconds that the kernel polls the NIC for the queues of an xdp: port, in the worker's own
        /// time
        bypass_busy_poll = number("US", 0, 1_000_000).default("0").alias("port-busy-poll");
        /// Further arguments of DPDK's environment (EAL), in one text
        bypass_dpdk_args = of(Kind::Any, "ARGUMENTS").alias("dpdk-args");
    }
    ("GETs in the kernel", "kernel-get") {
        /// Answer GETs of -U and --native in the kernel, before its network stack, on this interface;
        /// repeatable. Needs root or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; docs/kernel.md
        kernel_get = of(Kind::List, "INTERFACE").key("interface").common();
        /// Where the kernel answers: native (in the driver), generic (behind it), auto (in the driver where
        /// it can)
        kernel_get_mode = of(Kind::Choice(&["auto", "native", "generic"]), "MODE").default("auto");
        /// Keep the items in the kernel under this directory of a bpffs, such as /sys/fs/bpf/micanite: the
        /// next start goes on with them [default: they end with the process]
        kernel_get_pin = of(Kind::Path, "DIRECTORY");
        /// Above this load of a core that answers in the kernel, in percent, a further core takes over a
        /// part, and below it idle cores stay idle; 0: never
        kernel_get_spread = number("PERCENT", 0, 99).default("0");
    }
    ("Readers on the same host", "local") {
        /// Let processes on the same host read items without the server, by local://PATH: a Unix socket,
        /// where they attach; or none. They can read all of the memory; docs/local.md
        local = of(Kind::Path, "PATH").key("path");
        /// Permission bits of that socket, in octal
        local_mode = of(Kind::Text, "MODE").default("0600");
        /// Such processes at the same time
        local_clients = number("N", 1, LOCAL_CLIENTS_MAX).default("256");
    }
    ("One-sided reads", "fabric") {
        /// Serve clients over libfabric, which read cached items by themselves: net;ofi_rxm,IP:PORT,
        /// tcp;ofi_rxm, verbs;ofi_rxm, efa, or shm,NAME; or none. Worker i has port PORT + i [default port:
        /// 11400]; docs/fabric.md
        fabric = of(Kind::Text, "PROVIDER,ADDRESS").key("address");
        /// Memory that clients read, with copies of items (0: all gets are messages) [default: 64m, more
        /// with many partitions]
        fabric_cache = size(1, 0, 1 << 46);
        /// How copies leave it: lru, fifo
        fabric_policy = of(Kind::Choice(&["lru", "fifo"]), "POLICY").default("lru");
        /// Sets of a cached item by such a client: back changes the copy alone for a while, through the item
        /// as well [default: through for stores, --image and --kernel-get, else back]
        fabric_write = of(Kind::Choice(&["back", "through"]), "MODE");
        /// Seconds for which the buffer of a client that went stays registered, for the next one; a client
        /// that is silent for so long has gone
        fabric_frozen = number("SECONDS", 1, 86_400).default("60");
        /// Milliseconds between two pushes that tell a client where the copies of its own sets are (0: none)
        fabric_push = number("MS", 0, 60_000).default("10");
        /// Clients at the same time
        fabric_clients = number("N", 1, FABRIC_CLIENTS_MAX).default("64");
        /// The longest message [default: what holds a set of the largest value]
        fabric_message = size(1, 4 << 10, FABRIC_MESSAGE_BYTES_MAX);
        /// Allow providers that check no access (shm): every process that may open the memory reads and
        /// writes it
        fabric_trusted = FLAG.default("false");
    }
    ("memcached compatibility", "") {
        /// Extended options of memcached, separated by commas: name or name=value
        extended = of(Kind::List, "WORDS").letter('o').common();
        /// Refused: --image keeps what is stored
        memory_file = of(Kind::Text, "FILE").letter('e').hidden();
    }
    (WITHOUT_EFFECT, "") {
        /// CAS values cost nothing until a client asks for them; shown in `stats settings`
        disable_cas = FLAG.letter('C');
        /// Huge pages are used where they can be had
        enable_largepages = FLAG.letter('L');
        /// There are no slab classes
        slab_growth_factor = of(Kind::Above(1), "N").letter('f');
        /// There are no slab classes
        slab_min_size = of(Kind::Above(0), "BYTES").letter('n');
        /// Connections go to the worker that has the fewest
        napi_ids = of(Kind::Above(0), "N").letter('N');
    }
}

impl Default for Options {
    fn default() -> Self {
        UNSAID.clone()
    }
}

impl Options {
    /// Returns the option of this name, be it `native.payload` or `native-payload`.
    pub(super) fn find(&mut self, name: &str) -> Result<&mut Value, String> {
        let found = self.values_mut().into_iter().find(|value| value.declared.is_named(name));
        found.ok_or_else(|| {
            format!("there is no option '{name}'{}", did_you_mean(name, UNSAID.offered_names()))
        })
    }

    /// Returns the options that may be suggested: not those that are refused or have no effect.
    fn offered(&self) -> impl Iterator<Item = &Declaration> {
        self.values().into_iter().map(|value| &*value.declared).filter(|declared| declared.is_offered())
    }

    fn offered_names(&self) -> impl Iterator<Item = &str> {
        self.offered().flat_map(|of| [&*of.path, &*of.name])
    }

    /// Takes from `other`, a lower source beside the file, what is not said here. A port of TCP and a device
    /// were one option, `--port`, of which a higher source leaves nothing to a lower one.
    fn join(mut self, mut other: Self) -> Self {
        if self.bypass.is_said() {
            let ports = other.port.parts().filter(|word| !is_device(word)).map(String::from).collect();
            other.port.set_words(ports);
        }
        self.take_unsaid(&other);
        self
    }

    fn take_unsaid(&mut self, other: &Self) {
        for (mine, theirs) in self.values_mut().into_iter().zip(other.values()) {
            mine.or(theirs.clone());
        }
    }

    /// Takes from `other`, the file, what is not said here.
    pub(super) fn or(mut self, mut other: Self) -> Self {
        if self.semantics.is_said() || self.disable_evictions.is_said() {
            // A higher source that sets the semantics overrides the file's eviction policy, too.
            other.semantics.clear();
            other.disable_evictions.clear();
            other.eviction.clear();
        }
        self.take_unsaid(&other);
        self
    }

    /// Moves devices of `--port` to `--bypass`, which was one option with it.
    pub(super) fn split_port(&mut self) {
        let (devices, mut ports): (Vec<_>, Vec<_>) =
            self.port.parts().map(String::from).partition(|word| is_device(word));
        if !devices.is_empty() {
            self.bypass.extend(devices);
            self.bypass.set_origin(self.port.origin());
        }
        self.port.set_words(ports.pop().into_iter().collect());
    }

    /// Says the defaults of those that are `wanted`.
    pub(super) fn complete(&mut self, wanted: impl Fn(&Declaration) -> bool) {
        let values = self.values_mut().into_iter().filter(|value| wanted(&value.declared));
        values.for_each(Value::complete);
    }

    pub(super) fn make_paths_absolute(&mut self) {
        self.values_mut().into_iter().for_each(Value::make_absolute);
    }
}

/// Returns whether a word of `--port` names a device.
fn is_device(word: &str) -> bool {
    word.starts_with("xdp:") || word.starts_with("dpdk:")
}
