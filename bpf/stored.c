// The most that SETs handled in the kernel could gain: every segment of a TCP stream that is made of whole `set` requests
// is answered with as many STORED, from the socket's own receive path, and nothing is stored. Only for measurement:
// compiled by crates/lab/build.rs, loaded by crates/lab/src/kernel_writes/program.rs, which has the same sizes and numbers.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// The kernel's interface (linux/bpf.h), which does not change.
struct __sk_buff {
  u32 len, packet_type, mark, queue_mapping, protocol, vlan_present, vlan_tag, vlan_protocol, priority, ingress_interface,
      interface, tc_index, cb[5], hash, tc_class, data, data_end, napi_id, family, remote_ip4, local_ip4, remote_ip6[4],
      local_ip6[4], remote_port, local_port;
};
enum { DROP, PASS };
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const change_tail)(void *segment, u32 bytes, u64 flags) = (void *)38;
static long (*const pull_data)(void *segment, u32 bytes) = (void *)39;
static long (*const redirect_hash)(void *segment, const void *map, const void *key, u64 flags) = (void *)72;

extern struct map sockets;  // the client's port, as it is on the wire, in the upper half -> socket
extern struct map counters; // enum counter -> u64, per CPU

enum counter {
  SEGMENTS,
  REQUESTS,
  OTHER_VERB,
  PARTIAL,
  LONG_LINE,
  REFUSED,
};

enum {
  // In one segment, at most.
  REQUESTS_MAX = 64,
  // A command line up to its last digit, at most.
  LINE_BYTES_MAX = 64,
  // The verifier follows offsets below 64 KiB only.
  OFFSET_MASK = 0x7fff,
};
#define INLINE static inline __attribute__((always_inline))

INLINE int counted(u32 counter, u64 number, int verdict) {
  u64 *count = map_lookup(&counters, &counter);
  if (count) *count += number;
  return verdict;
}

__attribute__((section("xdp"))) int stored(struct __sk_buff *segment) {
  u32 bytes = segment->len, at = 0, requests = 0;
  if (pull_data(segment, bytes)) return counted(REFUSED, 1, PASS);
  u8 *end = (void *)(long)segment->data_end;
  for (u32 number = 0; number < REQUESTS_MAX; number++) {
    at &= OFFSET_MASK;
    // Read anew each time, so that what the verifier knows of one request does not multiply what it must know of the next.
    u8 *line = (u8 *)(long)((volatile struct __sk_buff *)segment)->data + at;
    if (line + 4 > end) return counted(PARTIAL, 1, PASS);
    if (line[0] != 's' || line[1] != 'e' || line[2] != 't' || line[3] != ' ') return counted(OTHER_VERB, 1, PASS);
    // The last number of the line is the value's length. To begin with it is anything, or the verifier would keep the
    // paths with and without digits apart.
    u32 value_bytes = bytes & OFFSET_MASK, letter;
    int is_line = 0;
    for (letter = 4; letter < LINE_BYTES_MAX; letter++) {
      if (line + letter + 1 > end) return counted(PARTIAL, 1, PASS);
      u8 byte = line[letter];
      if (byte == '\r') {
        is_line = 1;
        break;
      }
      // All ones for digits, nothing for a space: no branch.
      u32 digits = -(u32)(byte >> 4 & 1);
      asm volatile("" : "+r"(digits));
      value_bytes = (value_bytes * 10 + (byte & 15)) & digits & OFFSET_MASK;
    }
    if (!is_line) return counted(LONG_LINE, 1, PASS);
    at = (at + letter + 2 + value_bytes + 2) & OFFSET_MASK;
    requests++;
    if (at >= bytes) break;
  }
  if (at != bytes) return counted(PARTIAL, 1, PASS);
  if (change_tail(segment, requests * 8, 0)) return counted(REFUSED, 1, PASS);
  u8 *reply = (void *)(long)segment->data;
  end = (void *)(long)segment->data_end;
  for (u32 number = 0; number < REQUESTS_MAX && reply + 8 <= end; number++, reply += 8) {
    *(u32 *)reply = 0x524f5453;       // STOR
    *(u32 *)(reply + 4) = 0x0a0d4445; // ED\r\n
  }
  counted(SEGMENTS, 1, PASS);
  counted(REQUESTS, requests, PASS);
  u32 port = segment->remote_port;
  return redirect_hash(segment, &sockets, &port, 0);
}
