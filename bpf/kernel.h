// Shared definitions: the kernel's interface, the maps, the configuration, the memory of a run.
//
// crates/kernel/build.rs compiles the program. It includes no headers of the machine, so it needs only
// clang. crates/kernel/src/{configuration,counters,maps}.rs create the maps, with the same layouts.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
// Types without alignment.
typedef u16 __attribute__((aligned(1), may_alias)) u16_anywhere;
typedef u32 __attribute__((aligned(1), may_alias)) u32_anywhere;
typedef u64 __attribute__((aligned(1), may_alias)) u64_anywhere;

// The kernel's stable interface (linux/bpf.h).
struct xdp_md {
  u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const checksum_add)(const u32 *from, u32 from_bytes, const u32 *to, u32 to_bytes,
                                  u32 seed) = (void *)28;
static long (*const adjust_tail)(struct xdp_md *context, int bytes) = (void *)65;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const redirect_map)(const void *map, u64 key, u64 verdict_else) = (void *)51;
static u64 (*const coarse_ns)(void) = (void *)160;
static long (*const loop)(u32 times, void *function, void *argument, u64 flags) = (void *)181;
static long (*const adjust_head)(struct xdp_md *context, int delta) = (void *)44;
static long (*const load_bytes)(struct xdp_md *context, u32 at, void *to, u32 bytes) = (void *)189;
static long (*const store_bytes)(struct xdp_md *context, u32 at, const void *from, u32 bytes) = (void *)190;

#define BIG_ENDIAN_16(value) __builtin_bswap16(value)
#define INLINE static inline __attribute__((always_inline))
// A separate function. The verifier checks a static one anew for each call, in the caller's state. It
// checks a global one once, for any two numbers: int name(u64, u64). Global functions share data in the
// memory of the run.
#define STATIC static __attribute__((noinline, section("xdp")))
#define GLOBAL __attribute__((noinline, section("xdp")))
// Marks an unused argument as used, because the compiler would not pass it otherwise.
#define UNUSED(number) asm volatile("" ::"r"(number))
#define BARRIER asm volatile("" ::: "memory")

// x86-64 keeps loads in order. On other machines an atomic that returns the old value is a barrier.
#ifdef MACHINE_x86_64
#define ACQUIRE(scratch) BARRIER
#else
#define ACQUIRE(scratch) __sync_fetch_and_add(&(scratch)->barrier, 0)
#endif

// Room for a datagram; longest datagram to process, and longest reply: a frame of 1,500 bytes over IPv4.
#define REQUEST_BYTES_MAX 2048
#define PAYLOAD_BYTES_MAX 1472
#define REPLY_BYTES_MAX PAYLOAD_BYTES_MAX
// Masks an offset for the verifier.
#define REQUEST(offset) (scratch->request + ((offset) & (REQUEST_BYTES_MAX - 1)))
// Longest data that is copied by words, without helper calls.
#define SHORT_BYTES 64
// Longest key of the protocols.
#define KEY_BYTES_MAX 250
// Longest read of an item. No item begins closer to the end of the image, because the index follows the items
// and takes more space.
#define IMAGE_WINDOW_BYTES 2048

// A network whose requests are answered: IPv4 as ::ffff:a.b.c.d.
struct network {
  u64 is_v6, address[2], mask[2];
};
#define NETWORKS_MAX 64
#define ADDRESSES_MAX 16

// Frozen: the verifier treats all fields as constants.
struct configuration {
  // Everything of XXH3-64 (hash.h) that depends only on the seed.
  u64 hash_1_3, hash_4_8, hash_9_16[2], hash_mix[16], hash_mix_late[14], hash_mix_last[2];
  u64 hash_stripes[10], hash_last_stripe[8], hash_merge[8];
  // Secret of the index hash (index_hash.h).
  u64 secret[2];
  // Layout of the image.
  u64 partition_bits, partition_bytes, buckets_first, spare_shift, is_store, offset_mask;
  u64 frequency_max, reinsert_percent, namespace_delimiter;
  // Unix time in nanoseconds at zero of the coarse monotonic clock.
  u64 clock_offset_ns;
  u64 cpu_mask;
  // `enum place`.
  u64 place;
  // Ports, 0 = none; the native ones from first to last.
  u64 memcached_port, native_first, native_last;
  // Longest reply of memcached's protocol in a datagram, with its header, over IPv4 and over IPv6.
  u64 reply_bytes_max[2];
  // Native protocol: longest datagram, longest reply that fits a frame over IPv4 and IPv6, secret of the
  // cookies.
  u64 native_bytes_max, native_reply_bytes_max[2], cookie_key[2];
  // Frames may lack a complete checksum.
  u64 partial_checksums;
  u64 addresses_count, networks_count;
  u64 addresses[ADDRESSES_MAX][2];
  struct network networks[NETWORKS_MAX];
};

#define SPREAD_MAX 32
// Settings that the server changes while the program runs.
struct control {
  // Nothing is answered.
  u64 paused;
  // Generation of the native protocol's directory.
  u64 generation;
  // Number of CPUs that take over datagrams, and the CPUs.
  u64 spread_count;
  u64 spread[SPREAD_MAX];
};

// Place of the program: on the interface; on the interface, sending datagrams to other CPUs; on such a CPU.
enum place { ON_INTERFACE, SPREADING, ON_OTHER_CPU };

// Counters of one CPU, in the order of crates/kernel/src/counters.rs.
enum counter {
  ANSWERED,
  BYTES_READ,
  BYTES_WRITTEN,
  // GETs of memcached's protocols.
  HITS,
  MISSES,
  // GETs of the native protocol.
  NATIVE_HITS,
  NATIVE_MISSES,
  // Reads that were repeated because of a concurrent write.
  RETRIES,
  // Datagrams for the server's ports that were passed on, by reason.
  PASSED_PAUSED,
  PASSED_NOT_ALLOWED,
  PASSED_FORM,
  PASSED_CHECKSUM,
  PASSED_VERB,
  PASSED_KEY,
  PASSED_MANY_KEYS,
  PASSED_LONG_REPLY,
  PASSED_CAS,
  PASSED_CONTENDED,
  PASSED_NAMESPACE,
  PASSED_CHAIN,
  PASSED_NO_ROOM,
  PASSED_PROTOCOL,
  PASSED_DIRTY,
  // Datagrams that another CPU took over.
  SPREAD,
  COUNTERS,
};
#define COUNTERS_MAX 32
#define SAMPLES 256

// Memory of one CPU, mapped by processes.
struct report {
  u64 counters[COUNTERS_MAX];
  // Hashes of keys whose use the partition's owner should count; 0 = none.
  u64 samples[SAMPLES];
};

// An item, as read. It is valid once `is_still` has confirmed it.
struct item {
  u64 header, offset, log;
  // Offset of the item in bytes.
  u64 at;
  u32 flags, value_at, value_bytes;
};

// Offsets of a packet's parts, and data for its checksums.
struct packet {
  u32 network_at, network_bytes, payload_at, payload_bytes;
  u32 is_v6, is_to_memcached;
  // IPv4 as ::ffff:a.b.c.d.
  u64 source[2];
  u32 source_port, destination_port;
  // The received checksum; sums of the pseudo-header and of the UDP header.
  u32 checksum, pseudo_sum, header_sum;
};

// State of a datagram of the native protocol.
struct native {
  // The sender; IPv4 as ::ffff:a.b.c.d.
  u64 peer[2];
  u32 peer_port, is_v6;
  // The datagram carries the cookie of that address; its generation is outdated.
  u32 is_proven, is_stale;
  // Longest reply.
  u32 bytes_max;
  // Offset of the next request, and number of requests from there on.
  u32 at, left;
  u32 hits, misses;
  // 0, or the reason to pass the datagram on.
  int why;
  // Hash in the current request.
  u64 hash;
};

// A key to prefetch: its hash, its index hash, and the offset of its bucket.
struct ahead {
  u64 hash, index_hash, bucket_at;
};
#define KEYS_MAX 64

// Memory of one run, one per CPU.
struct scratch {
  u8 request[REQUEST_BYTES_MAX + 128];
  u8 reply[3648];
  u64 barrier;
  u64 hash;
  // Sums of a long key's hash.
  u64 sums[8];
  // First bucket of the key's chain, and the version that was noted.
  u64 bucket_at, version;
  struct item item;
  struct packet packet;
  struct native native;
  struct ahead ahead[KEYS_MAX];
  u32 request_bytes, reply_bytes, reply_bytes_max, spare;
  u32 key_at, now_s;
  // Start of this second.
  u64 second_ns;
  // Keys of the request that were found, and that were not.
  u32 hits, misses;
  // memcached's get: offset of the next word, end of the line.
  u32 word_at, line_end, with_cas;
  int result;
};
#define SCRATCH_BYTES 8192
_Static_assert(sizeof(struct scratch) <= SCRATCH_BYTES, "scratch");

extern struct map partitions; // partition number -> array of one element: the image
extern const struct configuration configuration;
extern struct control control;
extern struct map other_cpus; // CPU number -> its queue, and this program
extern struct report reports[];
extern u8 scratches[];

INLINE u64 load_64(const void *at) { return *(const u64_anywhere *)at; }
INLINE u16 load_16(const void *at) { return *(const u16_anywhere *)at; }
INLINE u32 load_32(const void *at) { return *(const u32_anywhere *)at; }
INLINE void store_64(void *at, u64 word) { *(u64_anywhere *)at = word; }
INLINE void store_16(void *at, u16 word) { *(u16_anywhere *)at = word; }

// Returns the length of the frame, which has no fragments.
INLINE u64 frame_bytes(const struct xdp_md *context) {
  u64 bytes = (u64)context->data_end - context->data;
  // The verifier forbids 32-bit subtractions of addresses.
  asm volatile("" : "+r"(bytes));
  return bytes;
}

INLINE struct report *own_report(void) { return &reports[this_cpu() & configuration.cpu_mask]; }

INLINE struct scratch *own_scratch(void) {
  return (struct scratch *)(scratches + (this_cpu() & configuration.cpu_mask) * SCRATCH_BYTES);
}

INLINE void count(u32 counter, u64 number) { own_report()->counters[counter] += number; }
