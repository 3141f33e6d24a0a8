// Redirects every frame of one interface to another. The other end of that interface gets it as a driver's
// frame and not as a packet of this machine's stack, so a client's packets cost the server as much as
// behind a NIC. Bytes after the IPv4 packet are cut off, which leaves room behind it as in a NIC's buffers
// (veth's buffers for short packets are short). Only for benchmarks.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The kernel's stable interface (linux/bpf.h).
struct xdp_md {
  u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_DROP = 1 };
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const adjust_tail)(struct xdp_md *context, int delta) = (void *)65;

extern struct map target; // 0 -> the number of the other interface

__attribute__((section("xdp"))) int inject(struct xdp_md *context) {
  u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
  if (data + 34 > end) return XDP_DROP;
  int total = 14 + __builtin_bswap16(*(u16 *)(data + 16));
  if (adjust_tail(context, total - (int)(end - data))) return XDP_DROP;
  u32 zero = 0;
  u32 *interface = map_lookup(&target, &zero);
  return interface ? redirect(*interface, 0) : XDP_DROP;
}
