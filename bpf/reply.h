// Replies are built in the memory of the run and copied into the packet at the end. Until then the packet
// is unchanged, and can still be passed on.

#define ROOM(offset) (scratch->reply + ((offset) & 2047))

// Appends four digits, without leading zeros if they are the first ones.
INLINE void push_digits(struct scratch *scratch, u32 number, int is_first) {
  // Divides by reciprocals, which are exact below 10000 and below 100.
  u32 high = number * 5243 >> 19, low = number - high * 100;
  u32 high_tens = high * 103 >> 10, low_tens = low * 103 >> 10;
  u64 letters = 0x30303030 + (high_tens | (high - high_tens * 10) << 8 | low_tens << 16 |
                              (low - low_tens * 10) << 24);
  u32 skipped = is_first ? (number < 10) + (number < 100) + (number < 1000) : 0;
  store_64(ROOM(scratch->reply_bytes), letters >> 8 * skipped);
  scratch->reply_bytes += 4 - skipped;
}

GLOBAL int push_long_number(u64 number, u64 unused) {
  UNUSED(unused);
  struct scratch *scratch = own_scratch();
  u64 divisor = 10000000000000000ull;
  int is_first = 1;
  for (int part = 0; part < 5; part++, divisor /= 10000) {
    u64 digits = number / divisor;
    if (is_first && digits == 0) continue;
    push_digits(scratch, digits % 10000, is_first);
    is_first = 0;
  }
  return 0;
}

// Appends a decimal number.
INLINE void push_number(struct scratch *scratch, u64 number) {
  if (number < 10000)
    push_digits(scratch, number, 1);
  else
    push_long_number(number, 0);
}

// Source and destination of a copy in pieces.
struct copy {
  const u8 *from;
  u8 *to;
};
#define COPY_BYTES 64

STATIC long copy_piece(u32 number, struct copy *copy) {
  if (number > REPLY_BYTES_MAX / COPY_BYTES) return 1;
  const u8 *from = copy->from + number * COPY_BYTES;
  u8 *to = copy->to + number * COPY_BYTES;
#pragma clang loop unroll(full)
  for (u32 at = 0; at < COPY_BYTES; at += 8) store_64(to + at, load_64(from + at));
  return 0;
}

// Appends the bytes of an item's value, which may be torn, and some bytes after them. The caller has
// compared the length with the room.
INLINE int push_value(struct scratch *scratch, const u8 *image) {
  u32 bytes = scratch->item.value_bytes;
  u64 value_at = scratch->item.value_at;
  if (value_at > configuration.partition_bytes - IMAGE_WINDOW_BYTES || bytes > REPLY_BYTES_MAX) return AGAIN;
  struct copy copy = {.from = image + value_at, .to = ROOM(scratch->reply_bytes)};
  if (bytes <= 16) {
    store_64(copy.to, load_64(copy.from));
    store_64(copy.to + 8, load_64(copy.from + 8));
  } else {
    loop((bytes + COPY_BYTES - 1) / COPY_BYTES, copy_piece, &copy, 0);
  }
  scratch->reply_bytes += bytes;
  return 0;
}

struct ethernet {
  u16 destination[3], source[3];
  u16 kind;
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
  u32 source[4], destination[4];
};
struct udp {
  u16 source, destination, bytes, checksum;
};

INLINE u16 fold(u64 sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  return (sum & 0xffff) + (sum >> 16);
}

// Sums an IPv4 header: 0xffff if its checksum is valid.
INLINE u16 sum_of_header(const struct ipv4 *ip) {
  const u32 *words = (const void *)ip;
  return fold((u64)words[0] + words[1] + words[2] + words[3] + words[4]);
}

INLINE u64 sum_of_piece(const u8 *bytes, u32 length) {
  u32 piece = (length + 3) & ~3u;
  // For the verifier, which needs the comparison even where the compiler can prove it.
  asm volatile("" : "+r"(piece));
  return (u32)checksum_add(0, 0, (const u32 *)bytes, piece > 512 ? 512 : piece, 0);
}

// Sums bytes that are followed by zeros up to a multiple of eight. Kernels before 6.13 sum at most 512
// bytes per call.
INLINE u64 sum_of(const u8 *bytes, u32 length) {
  if (length <= SHORT_BYTES) {
    u64 sum = 0;
    for (u32 at = 0; at < SHORT_BYTES; at += 8) {
      if (at >= length) break;
      u64 word = load_64(bytes + at);
      sum += (u32)word + (word >> 32);
    }
    return sum;
  }
  u64 sum = sum_of_piece(bytes, length);
  if (length > 512) sum += sum_of_piece(bytes + 512, length - 512);
  if (length > 1024) sum += sum_of_piece(bytes + 1024, length - 1024);
  return sum;
}

INLINE u64 sum_of_addresses(const void *network, int is_v6) {
  u64 sum = 0;
  if (is_v6) {
    const struct ipv6 *ip = network;
#pragma clang loop unroll(full)
    for (int word = 0; word < 4; word++) sum += (u64)ip->source[word] + ip->destination[word];
    return sum;
  }
  const struct ipv4 *ip = network;
  return (u64)ip->source + ip->destination;
}

// Maximum number of bytes to take from the room in front of a packet, because the kernel uses some of it.
#define FRONT_BYTES_MAX 192

// Lengthens or shortens the packet by `delta`. Short packets have little room at their end if they come
// from this machine (veth), and in generic mode. Then this also takes room in front, and moves the headers
// there.
INLINE int resize(struct xdp_md *context, struct scratch *scratch, u32 header_bytes, int delta) {
  if (!adjust_tail(context, delta)) return 0;
  if (delta <= 0 || header_bytes == 0 || header_bytes > 127) return PASSED_NO_ROOM;
  // Keeps the alignment of the headers.
  int front = delta > FRONT_BYTES_MAX ? FRONT_BYTES_MAX : (delta + 7) & ~7;
  if (adjust_head(context, -front)) return PASSED_NO_ROOM;
  if (adjust_tail(context, delta - front)) {
    if (adjust_head(context, front)) return -XDP_DROP;
    return PASSED_NO_ROOM;
  }
  if (load_bytes(context, front, scratch->request, header_bytes & 127)) return -XDP_DROP;
  if (store_bytes(context, 0, scratch->request, header_bytes & 127)) return -XDP_DROP;
  return 0;
}

// Copies the reply, 8 bytes or more, to the start of the payload.
INLINE int store_payload(struct xdp_md *context, const struct scratch *scratch, u8 *to, const u8 *end) {
  u32 bytes = scratch->reply_bytes;
  if (bytes > REPLY_BYTES_MAX || bytes < 8) return 1;
  if (bytes > SHORT_BYTES) return store_bytes(context, scratch->packet.payload_at, scratch->reply, bytes);
  for (u32 word = 0; word + 8 <= SHORT_BYTES; word += 8) {
    if (word + 8 > bytes) break;
    if (to + word + 8 > end) return 1;
    store_64(to + word, load_64(scratch->reply + word));
  }
  // The last eight bytes overlap those already copied.
  to += bytes - 8;
  if (to + 8 > end) return 1;
  store_64(to, load_64(scratch->reply + bytes - 8));
  return 0;
}

// Sends the reply in the packet of its request. If the packet has no room, it is passed on unchanged.
INLINE int send(struct xdp_md *context, struct scratch *scratch, const struct packet *packet) {
  u32 bytes = scratch->reply_bytes;
  if (bytes == 0 || bytes > REPLY_BYTES_MAX) return PASSED_LONG_REPLY;
  store_64(ROOM(bytes), 0);
  // Bytes after the datagram are padding, and are cut off.
  int more = (int)(packet->payload_at + bytes) - (int)frame_bytes(context);
  int why = resize(context, scratch, packet->payload_at, more);
  if (why) return why;

  u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
  struct ethernet *ethernet = (void *)data;
  u8 *network = data + (packet->network_at & 31);
  struct udp *udp = (void *)(network + (packet->is_v6 ? sizeof(struct ipv6) : sizeof(struct ipv4)));
  // The reply has overwritten the request, so the packet can no longer be passed on.
  if ((u8 *)(ethernet + 1) > end || network + sizeof(struct ipv6) > end) return -XDP_DROP;
  if ((u8 *)(udp + 1) > end) return -XDP_DROP;
#pragma clang loop unroll(full)
  for (int word = 0; word < 3; word++) {
    u16 swapped = ethernet->source[word];
    ethernet->source[word] = ethernet->destination[word];
    ethernet->destination[word] = swapped;
  }
  u32 udp_bytes = sizeof *udp + bytes;
  if (packet->is_v6) {
    struct ipv6 *ip = (void *)network;
#pragma clang loop unroll(full)
    for (int word = 0; word < 4; word++) {
      u32 swapped = ip->source[word];
      ip->source[word] = ip->destination[word];
      ip->destination[word] = swapped;
    }
    ip->version = 0x60;
    ip->bytes = BIG_ENDIAN_16((u16)udp_bytes);
    ip->hop_limit = 64;
  } else {
    struct ipv4 *ip = (void *)network;
    u32 swapped = ip->source;
    ip->source = ip->destination;
    ip->destination = swapped;
    ip->service = 0;
    ip->total = BIG_ENDIAN_16((u16)(sizeof *ip + udp_bytes));
    // The reply may be fragmented under the request's identification: routers report their MTU to the
    // stack, which this program does not ask.
    ip->fragment = 0;
    ip->time_to_live = 64;
    ip->checksum = 0;
    ip->checksum = ~sum_of_header(ip);
  }
  u16 port = udp->source;
  udp->source = udp->destination;
  udp->destination = port;
  udp->bytes = BIG_ENDIAN_16((u16)udp_bytes);
  u64 sum = sum_of_addresses(network, packet->is_v6) + BIG_ENDIAN_16((u16)17) + 2 * (u64)udp->bytes +
            udp->source + udp->destination;
  u16 checksum = ~fold(sum + sum_of(scratch->reply, bytes));
  udp->checksum = checksum ? checksum : 0xffff;
  if (store_payload(context, scratch, (u8 *)(udp + 1), end)) return -XDP_DROP;
  u64 *counters = own_report()->counters;
  counters[ANSWERED]++;
  counters[packet->is_to_memcached ? HITS : NATIVE_HITS] += scratch->hits;
  counters[packet->is_to_memcached ? MISSES : NATIVE_MISSES] += scratch->misses;
  counters[BYTES_READ] += packet->payload_bytes;
  counters[BYTES_WRITTEN] += bytes;
  return -XDP_TX;
}
