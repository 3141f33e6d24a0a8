//! Names of metrics that a server shows and `micanite top` reads (docs/reference/statistics.md).

/// Requests, by worker, command and result.
pub const COMMANDS: &str = "micanite_commands_total";
/// Open connections.
pub const CONNECTIONS: &str = "micanite_connections";
/// Limit of open connections.
pub const CONNECTIONS_MAX: &str = "micanite_connections_max";
/// Connections handed to workers.
pub const CONNECTIONS_ACCEPTED: &str = "micanite_connections_accepted_total";
/// Version of the server, as a label.
pub const BUILD_INFO: &str = "micanite_build_info";
/// Evicted items, by reason.
pub const EVICTIONS: &str = "micanite_evictions_total";
/// Items that can be found.
pub const ITEMS: &str = "micanite_items";
/// Items removed after their expiry.
pub const ITEMS_EXPIRED: &str = "micanite_items_expired_total";
/// Bytes by use.
pub const MEMORY: &str = "micanite_memory_bytes";
/// Limit of the memory in bytes.
pub const MEMORY_LIMIT: &str = "micanite_memory_limit_bytes";
/// CPU time of the process in seconds.
pub const PROCESS_CPU: &str = "process_cpu_seconds_total";
/// Bytes read from connections, by worker.
pub const RECEIVED_BYTES: &str = "micanite_received_bytes_total";
/// Durations of requests, by command and transport.
pub const REQUEST_DURATION: &str = "micanite_request_duration_seconds";
/// Bytes sent to connections, by worker.
pub const SENT_BYTES: &str = "micanite_sent_bytes_total";
/// Refused stores, by worker and reason.
pub const STORES_REFUSED: &str = "micanite_stores_refused_total";
/// Time since the start in seconds.
pub const UPTIME: &str = "micanite_uptime_seconds";
/// Open connections of a worker.
pub const WORKER_CONNECTIONS: &str = "micanite_worker_connections";
/// CPU time of a worker in seconds.
pub const WORKER_CPU: &str = "micanite_worker_cpu_seconds_total";
/// Partitions that a worker owns.
pub const WORKER_PARTITIONS: &str = "micanite_worker_partitions";
