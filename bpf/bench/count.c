// Counts what reaches a place, and drops it there. The loader attaches the same program as several types,
// which have different verdicts for dropping. Only for benchmarks.

typedef unsigned int u32;
typedef unsigned long long u64;

// The kernel's stable interface (linux/bpf.h).
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;

extern struct map counts;          // 0 -> u64, per CPU
extern const volatile u64 verdict; // frozen: the verifier treats it as a constant

__attribute__((section("xdp"))) int count(void *context) {
  u32 zero = 0;
  u64 *number = map_lookup(&counts, &zero);
  if (number) *number += 1;
  return verdict;
}
