// Swaps the ends of a UDP datagram of IPv4: MAC addresses, IP addresses and ports. Only for benchmarks.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

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

// Returns 0 for another frame, which stays as it is. Checksums stay valid, because swapping does not change
// the sums.
static inline __attribute__((always_inline)) int swap_ends(u32 data, u32 data_end) {
  struct headers *headers = (void *)(long)data;
  void *end = (void *)(long)data_end;
  if ((void *)(headers + 1) > end) return 0;
  if (headers->kind != __builtin_bswap16(0x0800) || headers->version != 0x45) return 0;
  if (headers->protocol != 17) return 0;
  // Multicast and broadcast frames are not answered.
  if (*(u8 *)headers->destination & 1) return 0;
  SWAP(headers->destination[0], headers->source[0]);
  SWAP(headers->destination[1], headers->source[1]);
  SWAP(headers->destination[2], headers->source[2]);
  SWAP(headers->source_address[0], headers->destination_address[0]);
  SWAP(headers->source_address[1], headers->destination_address[1]);
  SWAP(headers->source_port, headers->destination_port);
  return 1;
}
