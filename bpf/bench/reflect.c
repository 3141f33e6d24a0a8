// Returns every UDP datagram of IPv4 to its sender, without any other work: the upper limit for a server in
// its place. Only for benchmarks.

#include "swap_ends.h"

// The kernel's stable interface (linux/bpf.h).
struct xdp_md {
  u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_PASS = 2, XDP_TX = 3 };

__attribute__((section("xdp"))) int reflect(struct xdp_md *context) {
  return swap_ends(context->data, context->data_end) ? XDP_TX : XDP_PASS;
}
