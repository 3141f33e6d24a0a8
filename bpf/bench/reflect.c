// Returns every IPv4 datagram to its sender, without any other work: the upper limit for a server in its
// place. Only for benchmarks.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// The kernel's stable interface (linux/bpf.h).
struct xdp_md {
  u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_PASS = 2, XDP_TX = 3 };

struct headers {
  u16 destination[3], source[3];
  u16 kind;
  u8 version, service;
  u16 total, identification, fragment;
  u8 time_to_live, protocol;
  u16 checksum;
  u16 source_address[2], destination_address[2];
  u16 source_port, destination_port;
};

#define SWAP(a, b) \
  do {             \
    u16 was = a;   \
    a = b;         \
    b = was;       \
  } while (0)

// Checksums stay valid, because swapping does not change the sums.
__attribute__((section("xdp"))) int reflect(struct xdp_md *context) {
  struct headers *headers = (void *)(long)context->data;
  void *end = (void *)(long)context->data_end;
  if ((void *)(headers + 1) > end) return XDP_PASS;
  if (headers->kind != __builtin_bswap16(0x0800) || headers->version != 0x45) return XDP_PASS;
  if (headers->protocol != 17) return XDP_PASS;
  // Multicast and broadcast frames are not answered.
  if (*(u8 *)headers->destination & 1) return XDP_PASS;
  SWAP(headers->destination[0], headers->source[0]);
  SWAP(headers->destination[1], headers->source[1]);
  SWAP(headers->destination[2], headers->source[2]);
  SWAP(headers->source_address[0], headers->destination_address[0]);
  SWAP(headers->source_address[1], headers->destination_address[1]);
  SWAP(headers->source_port, headers->destination_port);
  return XDP_TX;
}
