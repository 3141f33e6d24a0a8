// Answers GETs before the network stack, from the partition image that the server writes (docs/kernel.md).
// Everything that it does not understand completely goes on unchanged.

#include "kernel.h"

STATIC int kernel_get(struct xdp_md *context);

// The entry has to be the first function of the section.
__attribute__((section("xdp"))) int entry(struct xdp_md *context) { return kernel_get(context); }

#include "hash.h"
#include "index_hash.h"
#include "image.h"
#include "ahead.h"
#include "reply.h"

#include "memcached.h"
#include "native.h"
#include "answer.h"

STATIC int kernel_get(struct xdp_md *context) {
  int result = answer(context);
  // A CPU map's frame is no longer in the driver's buffer, so XDP_TX is impossible.
  if (configuration.place == ON_OTHER_CPU && result == -XDP_TX) return redirect(context->ingress_ifindex, 0);
  if (result < 0) return -result;
  count(result & (COUNTERS_MAX - 1), 1);
  return XDP_PASS;
}
