//! Every limit of the server, and the relations between them, proved here.

use micanite_engine::BATCH_REQUESTS_MAX;
use micanite_wire::memcache::text::reply::VALUE_HEADER_BYTES_MAX;
use micanite_wire::memcache::text::{KEY_BYTES_MAX, LINE_BYTES_MAX};

/// Input that a connection may have unprocessed: one block. Longer requests go to value buffers.
pub const INPUT_BYTES: usize = 16 << 10;
/// Replies that are produced before they are sent: what is not sent is parked in one block.
pub const OUTPUT_BYTES: usize = 64 << 10;
/// Replies of one connection before others get their turn.
pub const TURN_OUTPUT_BYTES_MAX: usize = 4 * OUTPUT_BYTES;
/// The longest reply to a datagram of memcached's protocols: a value of 1 MiB, and room around it.
pub const UDP_REPLY_BYTES_MAX: usize = (1 << 20) + OUTPUT_BYTES;
/// Queue of a UDP socket of memcached's protocols, as it is asked for.
pub const UDP_QUEUE_BYTES: usize = 4 << 20;
/// Input of one connection before others get their turn, of long requests.
pub const TURN_INPUT_BYTES_MAX: usize = 16 * INPUT_BYTES;
/// The same of lines: a multi-get is one request, and asks for a key every few bytes.
pub const TURN_LINES_BYTES_MAX: usize = 2 * INPUT_BYTES;
/// Datagrams of memcached's protocols, in bytes, before connections get their turn: one more datagram
/// may go beyond it.
pub const UDP_TURN_BYTES_MAX: usize = INPUT_BYTES;
/// Requests of a turn that a command of administration counts for: a report, a flush, files that are read.
pub const ADMINISTRATION_REQUESTS: u32 = 16;
/// Moved bytes of a turn that it counts for, at least.
pub const ADMINISTRATION_BYTES_MIN: usize = 128 << 10;
/// Commands of administration that use the moved bytes of a turn up, at most: a datagram has no more of them.
pub const ADMINISTRATIONS_MAX: usize = 16;
/// Requests of a datagram of memcached's protocols, if those of a turn are fewer: what fits into the longest
/// one.
pub const DATAGRAM_REQUESTS: u32 = 16_384;
/// The longest reply that is no value and no statistics.
pub const SHORT_REPLY_BYTES_MAX: usize = 64;
/// Room that a batch keeps for replies that are no values.
pub const BATCH_REPLY_BYTES: usize = BATCH_REQUESTS_MAX * SHORT_REPLY_BYTES_MAX;
/// The longest reply to `stats`.
pub const STATS_REPLY_BYTES_MAX: usize = 48 << 10;
/// Buckets that one step of a long reply visits.
pub const LONG_REPLY_BUCKETS: usize = 256;
/// Clients that watch at the same time, as in memcached.
pub const WATCHERS_MAX: usize = 20;
/// Requests of a worker that wait to be recorded (`ctl record`).
pub const RECORDING_RING_BYTES: usize = 1 << 20;
/// Recorded requests that are not written yet.
pub const RECORDING_UNWRITTEN_BYTES: usize = 256 << 10;
/// The prefixes of a recording's keys.
pub const RECORDING_PREFIX_BYTES_MAX: usize = 4 << 20;
/// Lines that may wait for a watcher, unless said otherwise.
pub const WATCHER_KIB: u64 = 256;
/// The most that can be said.
pub const WATCHER_KIB_MAX: u64 = 1 << 20;
/// Prefixes that `stats detail` tells apart.
pub const PREFIXES_MAX: usize = 1024;
/// Places that a prefix is looked for at: in a table that is half full, of 1,024 prefixes all have one with a
/// probability of more than 1 - 10^-7.
pub const PREFIX_PROBES_MAX: usize = 32;
/// The longest prefix that it tells apart.
pub const PREFIX_BYTES_MAX: usize = 64;
/// The most partitions that `stats partitions` lists.
pub const STATS_PARTITIONS_MAX: usize = 128;
/// Value buffers of a worker, at least.
pub const VALUE_BUFFER_BYTES_MIN: usize = 16 << 20;
/// Value buffers of a worker hold at least this many of the largest values.
pub const VALUE_BUFFERS_MIN: usize = 4;
/// A connection that holds a value buffer, while others wait for one, must go on within this time.
pub const VALUE_BUFFER_STALL_MS_MAX: u64 = 10_000;
/// Beside that, it must have moved so many bytes for each second that it has held the buffer.
pub const VALUE_BUFFER_BYTES_PER_S_MIN: u64 = 64 << 10;
/// A client that sends a value while the server ends must go on within this time.
pub const END_STALL_MS: u64 = 200;
/// A connection that the server ends waits so long for its peer to end, too.
pub const HALF_CLOSED_MS_MAX: u64 = 5000;
/// Connections that have waited for long are looked for not more often than this.
pub const HALF_CLOSED_CHECK_MS: u64 = 500;
/// Connections beyond the limit of `-c` that stay open until their peers have read why they were refused.
pub const REFUSED_MAX: usize = 64;
/// Time for that.
pub const REFUSED_TIME: std::time::Duration = std::time::Duration::from_secs(1);
/// All connections of a worker are looked at for idle ones within about this time.
pub const IDLE_PASS_MS: u64 = 1000;
/// A worker waits at most this long for events.
pub const WAIT_MS_MAX: u16 = 100;
/// A line of the file of users, as in memcached.
pub const AUTH_LINE_BYTES_MAX: usize = 256;
/// Users of that file.
pub const AUTH_USERS_MAX: usize = 256;
/// Wrong passwords after which a connection is closed.
pub const AUTH_FAILURES_OF_CONNECTION: u32 = 3;
/// Different wrong passwords of a user after which an address is not believed about that user.
pub const AUTH_FAILURES_OF_USER: u32 = 10;
/// Different wrong passwords of all users after which an address is not believed at all.
pub const AUTH_FAILURES_OF_ADDRESS: u32 = 30;
/// One wrong password less counts after this time.
pub const AUTH_FAILURE_FORGOTTEN_S: u32 = 6;
/// A wrong password that is sent again within this time does not count again.
pub const AUTH_PASSWORD_FORGOTTEN_S: u32 = 600;
/// Sets of the table of users and addresses that sent wrong passwords.
pub const AUTH_SETS: usize = 1024;
/// Users and addresses of a set.
pub const AUTH_WAYS: usize = 8;
/// A TLS handshake ends within this time, or its connection does.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Late handshakes are looked for not more often than this.
pub const HANDSHAKES_CHECK_MS: u64 = 500;
/// A client says who it is within this time of its connection, the TLS handshake included.
pub const LOGIN_MS_MAX: u64 = 10_000;
/// Late logins are looked for not more often than this.
pub const LOGINS_CHECK_MS: u64 = 500;
/// TLS handshakes that a worker goes on with before it looks at its other connections again: one
/// can take a millisecond (an RSA signature).
pub const HANDSHAKES_PER_ROUND: u32 = 1;
/// Rounds in which a worker that was woken does not sleep: about 50 microseconds.
pub const LINGER_ROUNDS: u32 = 64;
/// A worker does its housekeeping not more often than this.
pub const MAINTAIN_INTERVAL_MS: u64 = 10;
/// A cookie is good during its epoch and the next.
pub const COOKIE_EPOCH_S: u32 = 64;
/// Numbered requests that are remembered of a client.
pub const IDS_WINDOW: usize = 128;
/// Sets of clients whose numbered requests are remembered.
pub const IDS_SETS: usize = 64;
/// Clients of a set.
pub const IDS_CLIENTS_PER_SET: usize = 16;
/// A client does not send a request again after so long.
pub const IDS_RESENT_S_MAX: u32 = 60;
/// Losses in front of a socket are put in proportion over this time.
pub const PRESSURE_WINDOW_MS: u64 = 10;
/// Replies tell of a loss for this long.
pub const PRESSURE_LASTS_MS: u64 = 100;
/// Rings from one worker to all others, together.
pub const RINGS_BYTES_OF_WORKER: usize = 1 << 20;
/// The least length of a ring.
pub const RING_BYTES_MIN: usize = 16 << 10;
/// The greatest length of a ring, unless datagrams are very long.
pub const RING_BYTES_MAX: usize = 256 << 10;
/// Datagrams from other workers that a worker takes at a time.
pub const FORWARDED_MAX: usize = 64;
/// Queue of a native socket, as it is asked for: the kernel grants twice as much, or less.
pub const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The most workers that `stats native` lists; half as many with ports around the kernel.
pub const STATS_WORKERS_MAX: usize = 32;
/// Native rounds between two looks at the streams.
pub const ROUNDS_PER_POLL: u32 = 8;
/// No further round before the next look at the streams after so many datagrams: super-packets
/// make rounds long.
pub const DATAGRAMS_PER_POLL: usize = 1024;
/// Requests of a native round; one more datagram may go beyond it. What is left of a burst waits for the next
/// round.
pub const ROUND_REQUESTS_MAX: usize = 2048;
/// Requests of a native batch that are looked up at a time once a value had no room.
pub const REQUESTS_BEHIND_DENIED: usize = 4;
/// Turns of streams that had more to do, between two looks at who else has something to do: who asks for
/// little does not wait for all who ask for much.
pub const TURNS_PER_ROUND: usize = 8;
/// Moved bytes that a turn counts for, beside what it moves: it makes system calls.
pub const TURN_BYTES: usize = 8 << 10;
/// Moved bytes that a key counts for which is looked up: both take about as long. A turn of 64 keys and their
/// short values does not make a connection a heavy one.
pub const KEY_BYTES: usize = 320;
/// A connection whose turns move more than this in the mean is a heavy one: its next turn is queued, and does
/// not come before those of others that have events.
pub const HEAVY_TURN_BYTES: usize = 64 << 10;
/// Turns that this is the mean of: a single one that pays for what eviction moves makes no connection a heavy
/// one, unless it moves so many times as much.
pub const TURNS_OF_MEAN: usize = 16;
/// New connections, and requests of other threads, that a worker takes between two looks at its connections.
pub const POSTS_PER_ROUND: usize = 16;
/// Most clients of a fabric.
pub const FABRIC_CLIENTS_MAX: usize = 4096;
/// The longest message of a fabric: what holds the largest value.
pub const FABRIC_MESSAGE_BYTES_MAX: usize = (1 << 30) + FABRIC_MESSAGE_UNIT_BYTES;
/// Messages of a fabric are multiples of this.
pub const FABRIC_MESSAGE_UNIT_BYTES: usize = 4 << 10;
/// The cache area of a fabric, unless said otherwise.
pub const FABRIC_CACHE_BYTES: usize = 64 << 20;
/// Pages of a partition's part of the cache area, unless said otherwise.
pub const FABRIC_PAGES_OF_PARTITION: usize = 2;
/// The smallest page of the cache area.
pub const FABRIC_PAGE_BYTES_MIN: usize = 1 << 20;
/// The tables of the cache area's chunks have at most this part of its bytes: 32 for each chunk of 64, and 9
/// for each 128 bytes.
pub const FABRIC_TABLE_PART: usize = 1;
/// Endpoints of the program before have gone after this.
pub const FABRIC_OPEN_TIMEOUT_MS: u64 = 5000;
/// A client accepts what it has read within this time.
pub const FABRIC_LEASE_NS: u64 = 100_000_000;
/// Room for a hello: a message of somebody who is not known yet.
pub const FABRIC_HELLO_BYTES: usize = 1 << 10;
/// Peers of a worker's endpoint that have greeted and are no clients: the first of more is forgotten.
pub const FABRIC_STRANGERS_MAX: usize = 1024;
/// Transfers of a client that went have ended after this, or never will.
pub const FABRIC_GIVE_UP_MS: u64 = 10_000;
/// Hellos that a worker answers at a time.
pub const FABRIC_HELLOS: usize = 16;
/// A call of the provider that lasts for so long never returns.
pub const FABRIC_STANDS_MS: u64 = 5000;
/// The longest time between two looks at calls that counts: workers look every 0.1 s at least.
pub const FABRIC_LOOK_MS_MAX: u64 = 200;
/// At the end, an endpoint is closed within this time.
pub const FABRIC_END_MS: u64 = 2000;
/// An endpoint's thread that its provider does not wake looks all the time for so long after a message.
pub const FABRIC_BUSY_MS: u64 = 10;
/// Then it naps for [`FABRIC_NAP_NS`], until so long after the message.
pub const FABRIC_ACTIVE_MS: u64 = 1000;
/// A nap between two looks while clients are active.
pub const FABRIC_NAP_NS: u64 = 100_000;
/// A nap between two looks otherwise.
pub const FABRIC_NAP_MS: u16 = 1;
/// A nap between two looks without clients.
pub const FABRIC_NAP_MS_MAX: u16 = 10;
/// Requests of one message: they are executed in one round.
pub const FABRIC_REQUESTS_MAX: u16 = 2048;
/// At the end, values that are in the cache area only are copied back within this time.
pub const FABRIC_COPY_BACK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Most workers.
pub const THREADS_MAX: usize = 1024;
/// Most connections.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// Most requests of one turn.
pub const TURN_REQUESTS_MAX: usize = 1 << 20;

/// Memory of a partition that moves to another NUMA node at a time. A worker that touches a page meanwhile
/// waits for the copy of that page alone, which is at most a huge one.
pub const NUMA_SLICE_BYTES: usize = 2 << 20;
/// Memory that moves between NUMA nodes in a second, at most.
pub const NUMA_BYTES_PER_SECOND: u64 = 256 << 20;
/// Times that a partition is visited for pages that could not move, because somebody was using them.
pub const NUMA_PASSES_MAX: usize = 3;
/// Pages of a partition whose node a report looks for.
pub const NUMA_SAMPLES: usize = 64;

// A block of input holds the longest line, and a get line that is split holds many keys.
const _: () = assert!(INPUT_BYTES >= 4 * LINE_BYTES_MAX && INPUT_BYTES > 16 * KEY_BYTES_MAX);
// The room for a batch's short replies leaves most of the output for values.
const _: () = assert!(OUTPUT_BYTES >= 4 * BATCH_REPLY_BYTES);
// The shortest request that is answered fills a datagram.
const _: () =
    assert!(DATAGRAM_REQUESTS as usize * "mn\r\n".len() >= micanite_net::limits::DATAGRAM_PAYLOAD_BYTES_MAX);
// Pipelines of short requests stay light.
const _: () = assert!(TURN_BYTES + 64 * (KEY_BYTES + 2 * 128) <= HEAVY_TURN_BYTES);
// Statistics fit beside them.
const _: () = assert!(OUTPUT_BYTES > STATS_REPLY_BYTES_MAX + BATCH_REPLY_BYTES);
// Three lines for each partition, with the largest numbers.
const _: () = assert!(
    STATS_REPLY_BYTES_MAX
        >= STATS_PARTITIONS_MAX * 3 * "STAT 127:requests \r\n".len() + STATS_PARTITIONS_MAX * (4 + 4 + 20)
);
// A value that came in one block of input can be answered from the output without a buffer.
const _: () = assert!(OUTPUT_BYTES > INPUT_BYTES + VALUE_HEADER_BYTES_MAX + BATCH_REPLY_BYTES);
/// Rings of the console's history: seconds from one sample to the next, and samples.
pub const CONSOLE_STEPS: [(u32, usize); 2] = [(1, 300), (10, 360)];
/// Bytes of that history, for any number of workers.
pub const CONSOLE_HISTORY_BYTES: usize = 128 << 10;
/// Bytes of a worker's loads beside it.
pub const CONSOLE_LOAD_BYTES_MAX: usize = 256;
/// The longest update of a console's page.
pub const CONSOLE_STATE_BYTES_MAX: usize = 5000;
/// Bytes of history and events that a restart in place hands over.
pub const CONSOLE_HANDOVER_BYTES_MAX: usize = 1 << 20;
/// Samples of an update. A page that has missed more asks for the history.
pub const CONSOLE_STATE_SAMPLES_MAX: usize = 2;
/// Samples of one reply with history.
pub const CONSOLE_HISTORY_ROWS_MAX: usize = 100;
/// Hot keys of an update.
pub const CONSOLE_HOT_KEYS: usize = 10;
/// Bytes of a printed key in an update; a longer key is cut in its middle.
pub const CONSOLE_KEY_BYTES_MAX: usize = 48;
/// Events that are kept.
pub const CONSOLE_EVENTS_MAX: usize = 128;
/// Bytes of an event's text; a longer one is cut.
pub const CONSOLE_EVENT_BYTES_MAX: usize = 160;
/// Events that one place in the code logs in a minute, where a client can provoke them.
pub const LOG_LINES_PER_MINUTE: u32 = 60;
/// Time that a client waits for certificates to be read, and its worker with it: longer if a file blocks.
pub const REFRESH_TIME: std::time::Duration = std::time::Duration::from_secs(1);
/// An expired certificate is logged once in this time.
pub const EXPIRED_INTERVAL_S: u32 = 24 * 60 * 60;
/// Bytes of lines that wait for standard error, twice: what the thread has taken, and what comes meanwhile.
pub const LOG_WAITING_BYTES_MAX: usize = 256 << 10;
/// Time that the end of the process waits for lines of the log.
pub const LOG_END_TIME: std::time::Duration = std::time::Duration::from_millis(500);
/// Bytes of a client's user name in the log.
pub const LOGGED_USER_BYTES_MAX: usize = 64;
/// Logins to the console at the same time; one more ends the oldest.
pub const CONSOLE_SESSIONS_MAX: usize = 16;
/// A login ends so long after its last request that needs it.
pub const CONSOLE_SESSION_IDLE_S: u32 = 30 * 60;
/// Files in the directory of `--admin-files`, at most.
pub const CONSOLE_FILES_MAX: usize = 64;
/// Part of its file system that users of the console leave free.
pub const CONSOLE_FREE_PERCENT: u64 = 5;
/// A login ends so long after it began.
pub const CONSOLE_SESSION_S: u32 = 12 * 60 * 60;
/// Pause of a thread that accepts connections of control or of readers when descriptors or memory
/// have run out.
pub const ACCEPT_SHORTAGE_TIME: std::time::Duration = std::time::Duration::from_millis(100);
/// Readers on the same host at the same time (`--local-clients`).
pub const LOCAL_CLIENTS_MAX: usize = 4096;
/// Clients of their socket that have not said hello, beside the others.
pub const LOCAL_GREETINGS_MAX: usize = 16;
/// Time for a hello.
pub const LOCAL_HELLO_TIME: std::time::Duration = std::time::Duration::from_secs(5);
/// Interval between two looks at the notes of readers: of 256 notes of a reader at a million a second, one of
/// four is seen.
pub const LOCAL_INTERVAL_MS_MIN: u16 = 1;
/// The same while none of them notes anything.
pub const LOCAL_INTERVAL_MS_MAX: u16 = 1000;
/// So many notes at once, and the next look comes sooner.
pub const LOCAL_NOTES_MANY: u64 = 64;
/// Notes that one look takes from all readers together: more of them would cost the owners of partitions more
/// than they tell.
pub const LOCAL_NOTES_VISIT_MAX: u64 = 1024;
