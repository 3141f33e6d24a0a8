//! Families of metrics whose samples need more than a row of the table of statistics: histograms, parts that
//! a server may lack, lists of partitions, what is known before the server runs.

use micanite_control::metrics;

use crate::telemetry::table::{Family, Kind};

macro_rules! families {
    ($($constant:ident = $kind:ident $name:expr, [$($label:literal),*], $help:literal;)*) => {
        $(pub(super) const $constant: Family =
            Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*

        /// All of them.
        pub(super) const FAMILIES: &[Family] = &[$($constant),*];
    };
}

families! {
    BUILD_INFO = Gauge metrics::BUILD_INFO, ["version"], "Version of the server; always 1.";
    READY = Gauge "micanite_ready", [], "1 while connections are welcome, 0 at start and end.";
    PROCESS_CPU = Counter metrics::PROCESS_CPU, [], "CPU time of the process.";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes", [],
        "Memory of the process that is in use; huge pages of hugetlbfs do not count.";
    PROCESS_FDS = Gauge "process_open_fds", [], "Open descriptors.";
    PROCESS_FDS_MAX = Gauge "process_max_fds", [], "Descriptors that are allowed.";
    REQUEST_DURATION = Histogram metrics::REQUEST_DURATION, ["command", "transport"],
        "From the end of the worker's wait to the replies of the turn, by command (get, set, touch, delete, \
         arithmetic) and transport (stream: TCP and Unix sockets, native, udp, fabric).";
    WORKER_REQUEST_DURATION = Histogram "micanite_worker_request_duration_seconds", ["worker"],
        "The same by worker, all commands and transports together.";
    WORKER_CONNECTIONS = Gauge metrics::WORKER_CONNECTIONS, ["worker"], "Open connections of a worker.";
    WORKER_PARTITIONS = Gauge metrics::WORKER_PARTITIONS, ["worker"], "Partitions that a worker owns.";
    CERTIFICATE_END = Gauge "micanite_tls_certificate_end_seconds", [],
        "Unix time at which the first certificate of the server's chain expires.";
    TLS_RELOADS = Counter "micanite_tls_reloads_total", ["result"],
        "Reloads of the certificates: done, or failed, and then the old ones stay.";
    AUTHENTICATION_RELOADS = Counter "micanite_authentication_reloads_total", ["result"],
        "Reloads of the file of users: done, or failed, and then the old ones stay.";
    PARTITION_OWNER = Gauge "micanite_partition_owner", ["partition"],
        "The worker that owns a partition; the first 128 partitions.";
    PARTITION_BUSY = Gauge "micanite_partition_busy_ratio", ["partition"],
        "Time that a partition's requests take their worker, in parts of a core, as balancing has estimated \
         it last; the first 128 partitions, while routes follow the load.";
    PARTITION_REQUESTS = Counter "micanite_partition_requests_total", ["partition"],
        "Requests for a partition; the first 128 partitions, with several workers.";
    NATIVE_EVENTS = Counter "micanite_native_events_total", ["worker", "event"],
        "Events of the native protocol, by the names of `stats native`.";
    NATIVE_FRAMES = Counter "micanite_native_frames_total", ["worker", "event"],
        "Events of ports around the kernel (--bypass), by the names of `stats native`.";
    NATIVE_FILTER_FRAMES = Counter "micanite_native_filter_frames_total", ["port", "event"],
        "Frames by the decision of the filters in front of AF_XDP ports, by the names of `stats native`.";
    NATIVE_BURSTS = Histogram "micanite_native_burst_datagrams", ["worker"],
        "Datagrams that a worker took at once.";
    UDP_EVENTS = Counter "micanite_udp_events_total", ["event"],
        "Events of memcached's datagrams, by the names of `stats udp`.";
    KERNEL_GET_ON = Gauge "micanite_kernel_get_on", [],
        "1 while the program of --kernel-get is attached to all of its interfaces.";
    KERNEL_GET_PAUSED = Gauge "micanite_kernel_get_paused", [],
        "1 while it answers nothing, because requests are watched or recorded.";
    KERNEL_GET_PASSED = Counter "micanite_kernel_get_passed_total", ["interface", "reason"],
        "Datagrams for the server that the program passed on, by reason, as passed_ of `stats kernel`.";
    KERNEL_GET_EVENTS = Counter "micanite_kernel_get_events_total", ["interface", "event"],
        "Events of the program, by the names of `stats kernel`; not in micanite_commands_total.";
    NUMA_BOUND = Gauge "micanite_numa_bound", [],
        "1 if partitions are bound to the NUMA nodes of their owners; absent with one node.";
    NUMA_PARTITIONS = Gauge "micanite_numa_partitions", ["node"],
        "Partitions by the NUMA nodes that they are bound to: 0,1 if interleaved, any if the owner's node \
         gives no memory.";
    NUMA_NODE = Gauge "micanite_partition_numa_node", ["partition", "node"],
        "1: the partition is bound to these NUMA nodes; the first 128 partitions.";
    NUMA_PAGES_SAMPLED = Gauge "micanite_numa_sampled_pages", ["node"],
        "Pages by the NUMA node that they are on, of 64 of each of the first 128 partitions.";
    NUMA_MOVES = Counter "micanite_numa_moves_total", ["result"],
        "Moves of a partition's memory to other NUMA nodes: begun, done, given_up in part or at all, \
         cancelled.";
    NUMA_PAGES = Counter "micanite_numa_pages_total", ["result"],
        "Pages of 4 KiB that have moved to another NUMA node, or failed to: moved, failed.";
    LOCAL_CLIENTS = Gauge "micanite_local_clients", [],
        "Processes on this host that read the memory themselves (--local).";
    LOCAL_EVENTS = Counter "micanite_local_events_total", ["event"],
        "Events of those processes, as they report them, by the names of `stats local`; not in \
         micanite_commands_total.";
    FABRIC_CLIENTS = Gauge "micanite_fabric_clients", [], "Clients over libfabric.";
    FABRIC_FROZEN = Gauge "micanite_fabric_buffers_frozen", [], "Registered buffers whose clients have gone.";
    FABRIC_CLIENTS_MAX = Gauge "micanite_fabric_clients_max", [],
        "Clients at the same time (--fabric-clients).";
    FABRIC_EVENTS = Counter "micanite_fabric_events_total", ["worker", "event"],
        "Events of the fabric, by the names of `stats fabric`.";
    FABRIC_CACHE = Gauge "micanite_fabric_cache_bytes", [], "Memory that clients read (--fabric-cache).";
    FABRIC_CHUNK_EVENTS = Counter "micanite_fabric_chunk_events_total", ["event"],
        "Events of the copies of items in that memory, by the names of `stats fabric`.";
    FABRIC_CHUNKS = Gauge "micanite_fabric_chunks", ["use"],
        "Use of that memory, by the names of `stats fabric`.";
}
