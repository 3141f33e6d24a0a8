// Prefetches. The buckets of all keys of a datagram are loaded at the same time, and then their items,
// instead of one after the other. Nothing is trusted that is read here.

// Minimum number of keys, and minimum size of an image, for which this pays. A smaller image fits the CPU's
// caches.
#define AHEAD_MIN 4
#define AHEAD_IMAGE_BYTES_MIN (64ull << 20)

INLINE int is_worth_it(u64 keys) {
  return keys >= AHEAD_MIN &&
         configuration.partition_bytes << configuration.partition_bits >= AHEAD_IMAGE_BYTES_MIN;
}

INLINE void touch(const u8 *image, u64 at) {
  if (at <= configuration.partition_bytes - 64) (void)word_at(image, at);
}

// Prefetches the bucket of a key.
INLINE void bucket_ahead(struct scratch *scratch, u32 number, u64 hash) {
  struct ahead *ahead = &scratch->ahead[number & (KEYS_MAX - 1)];
  const u8 *image = image_of(hash);
  if (!image) return;
  ahead->hash = hash;
  ahead->index_hash = index_hash_of(hash);
  ahead->bucket_at = main_bucket_at(ahead->index_hash, header_word(image, WORD_BUCKETS));
  touch(image, ahead->bucket_at);
}

// Prefetches the first candidate of a key's bucket.
STATIC long item_ahead(u32 number, void *unused) {
  UNUSED(unused);
  const struct ahead *ahead = &own_scratch()->ahead[number & (KEYS_MAX - 1)];
  u64 bucket_at = ahead->bucket_at;
  const u8 *image = image_of(ahead->hash);
  if (!image || bucket_at > configuration.partition_bytes - 64) return 0;
  struct matches matches;
  match_tags(image + bucket_at, tag_of(ahead->index_hash), &matches);
  if (!matches.count) return 0;
  u64 position = matches.first & configuration.offset_mask;
  if (!configuration.is_store) {
    u64 log = matches.first >> 45 & 1;
    u64 tail = log_word(image, log, LOG_TAIL), lap = log_word(image, log, LOG_LAP_START);
    u64 offset = tail - ((tail - matches.first) & configuration.offset_mask);
    position = log_word(image, log, LOG_FIRST) + offset;
    position -= offset >= lap ? lap : log_word(image, log, LOG_LAP_BEFORE);
  }
  // A short item ends in this cache line or in the next one.
  touch(image, position * 8);
  touch(image, position * 8 + 32);
  return 0;
}
