// Returns every UDP datagram of IPv4 to its sender from the ingress of traffic control, where it is a packet
// of the stack already. The includer defines LEAVE, which sends it. Only for benchmarks.

#include "swap_ends.h"

typedef unsigned long long u64;

// The kernel's stable interface (linux/bpf.h).
struct __sk_buff {
  u32 before[10], interface, between[8], data, data_end;
};
enum { NEXT = -1, SHOT = 2 };
static long (*const clone_redirect)(struct __sk_buff *packet, u32 interface, u64 flags) = (void *)13;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;

__attribute__((section("xdp"))) int answer(struct __sk_buff *packet) {
  if (!swap_ends(packet->data, packet->data_end)) return NEXT;
  LEAVE(packet);
}
