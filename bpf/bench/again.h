// Runs the product's program (bpf/answer.h) on one frame of a list after another, with nothing around it:
// BPF_PROG_TEST_RUN repeats it. With LOCKED each answer is given under one lock. Only for
// benchmarks.

#include "../kernel.h"

STATIC int again(struct xdp_md *context);

__attribute__((section("xdp"))) int entry(struct xdp_md *context) { return again(context); }

#include "../hash.h"
#include "../index_hash.h"
#include "../image.h"
#include "../ahead.h"
#include "../reply.h"

#include "../memcached.h"
#include "../native.h"
#include "../answer.h"

#define FRAMES_MAX 4096
#define FRAME_BYTES_MAX 512

// Frames of one length, and where each CPU is in the list.
struct list {
  u64 frame_bytes, is_answered;
  // A cache line for each CPU.
  u64 next[64][8];
  u8 frames[FRAMES_MAX][FRAME_BYTES_MAX];
};
extern struct list list;

#ifdef LOCKED
// One lock for all keys, in a cache line of its own.
extern struct lock {
  u64 word;
} lock;

STATIC long try_lock(u32 number, void *unused) {
  UNUSED(number);
  UNUSED(unused);
  return __sync_lock_test_and_set(&lock.word, 1) == 0;
}

INLINE void take_lock(void) {
  if (__sync_lock_test_and_set(&lock.word, 1)) loop(1 << 23, try_lock, 0, 0);
}

// x86-64 keeps stores in order.
INLINE void free_lock(void) {
  BARRIER;
  *(volatile u64 *)&lock.word = 0;
}
#endif

STATIC int again(struct xdp_md *context) {
  u64 *next = list.next[this_cpu() & 63];
  u64 number = *next & (FRAMES_MAX - 1), bytes = list.frame_bytes;
  *next += 1;
  if (bytes < 64 || bytes > FRAME_BYTES_MAX) return XDP_DROP;
  // The reply to the one before is in the packet.
  if (adjust_tail(context, (int)bytes - (int)frame_bytes(context))) return XDP_DROP;
  if (store_bytes(context, 0, list.frames[number], bytes)) return XDP_DROP;
  if (!list.is_answered) return XDP_PASS;
#ifdef LOCKED
  take_lock();
#endif
  int result = answer(context);
#ifdef LOCKED
  free_lock();
#endif
  return result == -XDP_TX ? XDP_TX : XDP_PASS;
}
