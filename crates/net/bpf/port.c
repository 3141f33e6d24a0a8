// Selects the frames of the port: UDP datagrams for its addresses and ports go to the AF_XDP socket of
// their queue. Everything else, and every frame of an unusual form, goes on to the kernel.
//
// crates/net/build.rs compiles the program. It includes no headers of the machine, so it needs only
// clang. crates/net/src/xdp/program.rs creates the maps, with the same layouts.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The kernel's stable interface (linux/bpf.h).
struct xdp_md {
  u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_PASS = 2, XDP_REDIRECT = 4 };
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const redirect_map)(const void *map, u64 key, u64 flags) = (void *)51;

extern struct map sockets;       // queue -> AF_XDP socket
extern struct map addresses;     // 16 bytes (IPv4: ::ffff:a.b.c.d) -> u8
extern struct map configuration; // 0 -> struct configuration
extern struct map counters;      // enum counter -> u64, per CPU

struct configuration {
  u16 port_first, port_last;
};

enum counter {
  REDIRECTED,
  NO_SOCKET,
  OTHER_PROTOCOL,
  OTHER_PORT,
  OTHER_ADDRESS,
  FRAGMENT,
  OPTIONS,
  SHORT,
};

struct ethernet {
  u8 destination[6], source[6];
  u16 kind;
};
struct vlan {
  u16 tag, kind;
};
struct ipv4 {
  u8 version, service;
  u16 total, identification, fragment;
  u8 time_to_live, protocol;
  u16 checksum;
  u32 source, destination;
};
struct ipv6 {
  u32 version;
  u16 bytes;
  u8 next, hop_limit;
  u64 source[2], destination[2];
} __attribute__((packed, aligned(4)));
struct udp {
  u16 source, destination, bytes, checksum;
};

#define BIG_ENDIAN_16(value) __builtin_bswap16(value)
#define INLINE static inline __attribute__((always_inline))

INLINE int counted(u32 counter, int verdict) {
  u64 *count = map_lookup(&counters, &counter);
  if (count) *count += 1;
  return verdict;
}

INLINE int is_option(u8 next_header) {
  return next_header == 0 || next_header == 43 || next_header == 51 || next_header == 60;
}

__attribute__((section("xdp"))) int port(struct xdp_md *context) {
  void *at = (void *)(long)context->data, *end = (void *)(long)context->data_end;

  struct ethernet *ethernet = at;
  if (at + sizeof *ethernet > end) return counted(SHORT, XDP_PASS);
  at += sizeof *ethernet;
  u16 kind = ethernet->kind;
  if (kind == BIG_ENDIAN_16(0x8100) || kind == BIG_ENDIAN_16(0x88a8)) {
    struct vlan *vlan = at;
    if (at + sizeof *vlan > end) return counted(SHORT, XDP_PASS);
    at += sizeof *vlan;
    kind = vlan->kind;
  }

  u64 address[2];
  u8 protocol;
  if (kind == BIG_ENDIAN_16(0x0800)) {
    struct ipv4 *ip = at;
    if (at + sizeof *ip > end) return counted(SHORT, XDP_PASS);
    if (ip->version != 0x45) return counted(OPTIONS, XDP_PASS);
    if (ip->fragment & BIG_ENDIAN_16(0x3fff)) return counted(FRAGMENT, XDP_PASS);
    protocol = ip->protocol;
    address[0] = 0;
    address[1] = (u64)ip->destination << 32 | 0xffff0000;
    at += sizeof *ip;
  } else if (kind == BIG_ENDIAN_16(0x86dd)) {
    struct ipv6 *ip = at;
    if (at + sizeof *ip > end) return counted(SHORT, XDP_PASS);
    protocol = ip->next;
    if (protocol == 44) return counted(FRAGMENT, XDP_PASS);
    if (is_option(protocol)) return counted(OPTIONS, XDP_PASS);
    address[0] = ip->destination[0];
    address[1] = ip->destination[1];
    at += sizeof *ip;
  } else {
    return counted(OTHER_PROTOCOL, XDP_PASS);
  }

  if (protocol != 17) return counted(OTHER_PROTOCOL, XDP_PASS);
  struct udp *udp = at;
  if (at + sizeof *udp > end) return counted(SHORT, XDP_PASS);
  u32 zero = 0;
  struct configuration *ours = map_lookup(&configuration, &zero);
  if (!ours) return XDP_PASS;
  u16 port = BIG_ENDIAN_16(udp->destination);
  if (port < ours->port_first || port > ours->port_last) return counted(OTHER_PORT, XDP_PASS);
  // Multicast and broadcast frames count as frames for another address.
  if (ethernet->destination[0] & 1) return counted(OTHER_ADDRESS, XDP_PASS);
  if (!map_lookup(&addresses, address)) return counted(OTHER_ADDRESS, XDP_PASS);

  if (redirect_map(&sockets, context->rx_queue_index, XDP_PASS) != XDP_REDIRECT)
    return counted(NO_SOCKET, XDP_PASS);
  return counted(REDIRECTED, XDP_REDIRECT);
}
