// Decides which datagrams are answered here, and answers them.

// Returns whether the destination is one of the server's addresses.
INLINE int is_own(u64 high, u64 low) {
  for (u32 number = 0; number < ADDRESSES_MAX; number++) {
    if (number >= configuration.addresses_count) break;
    if (high == configuration.addresses[number][0] && low == configuration.addresses[number][1]) return 1;
  }
  return 0;
}

// Returns whether an IPv4 datagram is for this server, and would be accepted by the stack. The first byte
// of an address is its lowest.
INLINE int is_ours_v4(const struct ipv4 *ip, struct packet *packet) {
  u8 network = ip->source;
  packet->is_v6 = 0;
  packet->source[0] = 0;
  if (ip->version != 0x45 || ip->protocol != 17 || ip->fragment & BIG_ENDIAN_16(0x3fff)) return 0;
  // Replies to 0.0.0.0/8, loopback, multicast and broadcast addresses are impossible.
  if (network == 0 || network == 127 || network >= 224 || sum_of_header(ip) != 0xffff) return 0;
  packet->source[1] = (u64)ip->source << 32 | 0xffff0000;
  packet->network_bytes = BIG_ENDIAN_16(ip->total) - sizeof *ip;
  // The stack handles datagrams from the server's own addresses.
  if (is_own(0, packet->source[1])) return 0;
  return is_own(0, (u64)ip->destination << 32 | 0xffff0000);
}

INLINE int is_ours_v6(const struct ipv6 *ip, struct packet *packet) {
  if ((ip->version & 0xf0) != 0x60 || ip->next != 17) return 0;
  packet->is_v6 = 1;
  packet->source[0] = (u64)ip->source[1] << 32 | ip->source[0];
  packet->source[1] = (u64)ip->source[3] << 32 | ip->source[2];
  // Refuses multicast, unspecified and loopback addresses, and IPv4 in the form used here.
  if ((u8)packet->source[0] == 0xff || packet->source[0] == 0) return 0;
  packet->network_bytes = BIG_ENDIAN_16(ip->bytes);
  if (is_own(packet->source[0], packet->source[1])) return 0;
  u64 high = (u64)ip->destination[1] << 32 | ip->destination[0];
  return high && is_own(high, (u64)ip->destination[3] << 32 | ip->destination[2]);
}

// Returns whether the datagram is for the server's ports and addresses; locates its parts.
INLINE int is_ours(struct xdp_md *context, struct packet *packet) {
  u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
  struct ethernet *ethernet = (void *)data;
  // Only unicast frames from unicast senders are answered.
  if ((u8 *)(ethernet + 1) > end || (ethernet->destination[0] | ethernet->source[0]) & 1) return 0;
  u16 kind = ethernet->kind;
  u32 at = sizeof *ethernet;
  // A priority tag without a VLAN. A frame with a VLAN belongs to another interface.
  if (kind == BIG_ENDIAN_16(0x8100)) {
    if (data + at + 4 > end || load_16(data + at) & BIG_ENDIAN_16(0x0fff)) return 0;
    kind = load_16(data + at + 2);
    at += 4;
  }
  packet->network_at = at;
  u8 *network = data + at;
  if (kind == BIG_ENDIAN_16(0x0800)) {
    at += sizeof(struct ipv4);
    if (data + at > end || !is_ours_v4((void *)network, packet)) return 0;
  } else if (kind == BIG_ENDIAN_16(0x86dd)) {
    at += sizeof(struct ipv6);
    if (data + at > end || !is_ours_v6((void *)network, packet)) return 0;
  } else {
    return 0;
  }
  struct udp *udp = (void *)(data + at);
  if ((u8 *)(udp + 1) > end) return 0;
  u32 port = packet->destination_port = BIG_ENDIAN_16(udp->destination);
  packet->is_to_memcached = configuration.memcached_port && port == configuration.memcached_port;
  int is_native = port >= configuration.native_first && port <= configuration.native_last;
  if (!packet->is_to_memcached && !is_native) return 0;
  packet->payload_at = at + sizeof *udp;
  u32 udp_bytes = BIG_ENDIAN_16(udp->bytes);
  // A datagram that does not fill its packet is refused, by a length of 0.
  packet->payload_bytes = udp_bytes == packet->network_bytes ? udp_bytes - sizeof *udp : 0;
  packet->source_port = BIG_ENDIAN_16(udp->source);
  packet->checksum = udp->checksum;
  packet->pseudo_sum = fold(sum_of_addresses(network, packet->is_v6) + BIG_ENDIAN_16((u16)17) + udp->bytes);
  packet->header_sum = (u32)udp->source + udp->destination + udp->bytes;
  return 1;
}

INLINE int is_allowed(const struct packet *packet) {
  // A reply to a server's port would be a request there.
  if (packet->source_port < 1024 || packet->source_port == packet->destination_port) return 0;
  for (u32 number = 0; number < NETWORKS_MAX; number++) {
    if (number >= configuration.networks_count) break;
    const struct network *network = &configuration.networks[number];
    u64 differs = packet->is_v6 ^ network->is_v6;
    differs |= (packet->source[0] ^ network->address[0]) & network->mask[0];
    if (!(differs | ((packet->source[1] ^ network->address[1]) & network->mask[1]))) return 1;
  }
  return 0;
}

// Copies the payload, 8 bytes or more, padded with zeros to a multiple of eight.
INLINE int load_payload(struct xdp_md *context, struct scratch *scratch, u32 bytes) {
  u32 at = scratch->packet.payload_at;
  if (bytes > SHORT_BYTES) {
    long missing = load_bytes(context, at, scratch->request, bytes);
    store_64(scratch->request + bytes, 0);
    return missing;
  }
  const u8 *from = (u8 *)(long)context->data + (at & 127), *end = (u8 *)(long)context->data_end;
  u32 word = 0;
  for (; word + 8 <= SHORT_BYTES; word += 8) {
    if (word + 8 > bytes) break;
    if (from + word + 8 > end) return 1;
    store_64(scratch->request + word, load_64(from + word));
  }
  from += bytes - 8;
  if (from + 8 > end) return 1;
  u32 rest = bytes & 7;
  store_64(scratch->request + (bytes & ~7u), rest ? load_64(from) >> (64 - 8 * rest) : 0);
  return 0;
}

#define NS_PER_S 1000000000ull

INLINE int is_whole(const struct scratch *scratch, const struct packet *packet) {
  if (packet->checksum == 0) return !packet->is_v6;
  if (configuration.partial_checksums && packet->checksum == packet->pseudo_sum) return 1;
  u64 sum = (u64)packet->pseudo_sum + packet->header_sum + packet->checksum;
  return fold(sum + sum_of(scratch->request, scratch->request_bytes)) == 0xffff;
}

// Updates the time in seconds. The comparison avoids a slow division.
INLINE void set_clock(struct scratch *scratch) {
  u64 now_ns = configuration.clock_offset_ns + coarse_ns();
  if (now_ns - scratch->second_ns < NS_PER_S) return;
  scratch->now_s = now_ns / NS_PER_S;
  scratch->second_ns = scratch->now_s * NS_PER_S;
}

// Selects the helper CPU for a client's datagrams; 0 = none: the datagram stays here.
INLINE u64 part_of(const struct packet *packet) {
  u64 mixed = (packet->source[0] ^ packet->source[1] ^ packet->source_port) * 0x9e3779b97f4a7c15;
  return (mixed >> 48) * (control.spread_count + 1) >> 16;
}

// Sends a datagram to another CPU if that is responsible for it. Returns the verdict, or 0.
INLINE int spread(const struct packet *packet) {
  if (configuration.place != SPREADING || !control.spread_count) return 0;
  u64 part = part_of(packet);
  if (part == 0) return 0;
  u64 cpu = control.spread[(part - 1) & (SPREAD_MAX - 1)];
  if (cpu == this_cpu()) return 0;
  int verdict = redirect_map(&other_cpus, cpu, XDP_PASS);
  if (verdict == XDP_REDIRECT) count(SPREAD, 1);
  return verdict;
}

INLINE int answer(struct xdp_md *context) {
  struct scratch *scratch = own_scratch();
  struct packet *packet = &scratch->packet;
  if (!is_ours(context, packet)) return -XDP_PASS;
  if (control.paused) return PASSED_PAUSED;
  int moved = spread(packet);
  if (moved) return -moved;
  if (packet->is_to_memcached && !is_allowed(packet)) return PASSED_NOT_ALLOWED;
  u32 bytes = packet->payload_bytes;
  // Both protocols have a header of at least 8 bytes.
  if (bytes < 8 || bytes > PAYLOAD_BYTES_MAX) return PASSED_FORM;
  if (load_payload(context, scratch, bytes)) return PASSED_FORM;
  scratch->request_bytes = bytes;
  scratch->reply_bytes_max = configuration.reply_bytes_max[packet->is_v6 & 1];
  if (!is_whole(scratch, packet)) return PASSED_CHECKSUM;
  set_clock(scratch);
  int why = packet->is_to_memcached ? memcached(scratch) : native(scratch, packet);
  if (why) return why;
  return send(context, scratch, packet);
}
