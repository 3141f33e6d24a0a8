// Reader of a partition image, as in docs/partition-image.md, "Reading beside the writer". Anything that it
// does not understand, or that changes during the read, goes to the server.

// Results of a read, besides the reasons to pass.
enum { FOUND = -1, ABSENT = -2, AGAIN = -3 };

// Words of the image's header.
enum {
  WORD_BUCKETS = 8,
  WORD_FLUSH_STAMP = 15,
  WORD_LOGS = 16, // a line for each of the two
  LOG_TAIL = 0,
  LOG_HEAD = 1,
  LOG_LAP_START = 2,
  LOG_LAP_BEFORE = 3,
  LOG_FIRST = 4,
  LOG_LIMIT = 5,
  LOG_FLUSH_MARK = 6,
  WORD_NAMESPACES = 36,
};
// Bit of an entry: only the cache area has the newest value.
#define ENTRY_DIRTY (1ull << 46)
// Bits of an item's header.
#define ITEM_GIVEN (1ull << 53)
#define ITEM_META (1ull << 54)
#define ITEM_CAS (1ull << 55)
#define ITEM_BUSY (1ull << 59)
#define ITEM_FETCHED (1ull << 60)
#define ITEM_STATE (1ull << 61)

// Maximum number of buckets of a chain, and of a chain's keys with one tag: crates/engine/src/limits.rs.
#define CHAIN_BUCKETS_MAX 10
#define CHAIN_TAG_ITEMS_MAX 6

INLINE u64 word_at(const u8 *image, u64 at) { return *(volatile const u64 *)(image + at); }
INLINE u64 header_word(const u8 *image, u32 word) { return word_at(image, word * 8); }
INLINE u64 log_word(const u8 *image, u64 log, u32 word) {
  // Two constant addresses instead of a computed one, which the verifier would have to track.
  u64 small = header_word(image, WORD_LOGS + word), main = header_word(image, WORD_LOGS + 8 + word);
  return log ? main : small;
}

INLINE u64 main_bucket_at(u64 index_hash, u64 buckets) {
  u64 count = buckets & ((1ull << 56) - 1), first = configuration.buckets_first;
  u64 field = index_hash << 10 >> 26;
  // Computes field * first >> 38 in two parts: the product has up to 70 bits.
  u64 base = ((field >> 19) * first + ((field & 0x7ffff) * first >> 19)) >> 19;
  u64 mask = (2ull << (buckets >> 56)) - 1;
  u64 bucket = base + first * (field & mask);
  if (bucket >= count) bucket = base + first * (field & mask >> 1);
  // A spare bucket precedes every fifth (store: tenth) bucket. The reciprocal is exact below 2^32.
  u64 line = bucket + ((bucket & 0xffffffff) * 0xcccccccdull >> configuration.spare_shift);
  return configuration.partition_bytes - (line + 1) * 64;
}

INLINE u64 spare_bucket_at(u64 number) {
  u64 main_per_spare = configuration.is_store ? 10 : 5;
  u64 line = number * (main_per_spare + 1) + main_per_spare;
  return configuration.partition_bytes - (line + 1) * 64;
}

// Returns the image of the key's partition.
INLINE const u8 *image_of(u64 hash) {
  u32 number = (hash >> 1) >> (63 - configuration.partition_bits), zero = 0;
  void *partition = map_lookup(&partitions, &number);
  return partition ? map_lookup(partition, &zero) : 0;
}

// Returns how many words of an item precede its key.
INLINE u32 key_word_of(u64 header) {
  return 1 + !!(header & ITEM_META) + 2 * !!(header & ITEM_STATE) + !!(header & ITEM_CAS);
}

// Checks whether the item of an entry has the key, and stores it in `scratch->item`. A torn read can still
// match. A position outside of the image means that the entry changed during the read.
GLOBAL int candidate(u64 entry, u64 key_bytes) {
  struct scratch *scratch = own_scratch();
  struct item *item = &scratch->item;
  const u8 *image = image_of(scratch->hash);
  if (!image) return AGAIN;
  u64 log = entry >> 45 & 1, position;
  if (configuration.is_store) {
    item->offset = position = entry & configuration.offset_mask;
  } else {
    u64 tail = log_word(image, log, LOG_TAIL);
    u64 distance = (tail - entry) & configuration.offset_mask;
    u64 offset = tail - distance;
    if (distance == 0 || distance >= tail) return ABSENT;
    if (offset < log_word(image, log, LOG_HEAD)) return ABSENT;
    if (offset < log_word(image, log, LOG_FLUSH_MARK)) return ABSENT;
    // The writer publishes the previous lap before its successor.
    u64 lap = log_word(image, log, LOG_LAP_START);
    ACQUIRE(scratch);
    u64 before = log_word(image, log, LOG_LAP_BEFORE);
    position = log_word(image, log, LOG_FIRST) + offset - (offset >= lap ? lap : before);
    item->offset = offset;
  }
  if (position > (configuration.partition_bytes - IMAGE_WINDOW_BYTES) / 8) return AGAIN;
  u64 at = position * 8, header = word_at(image, at);
  u32 key_word = key_word_of(header);
  if ((header >> 44 & 0xff) != key_bytes || header & ITEM_BUSY) return ABSENT;

  u64 space = (header & 0xfffffff) * 8, used = (header >> 28 & 0xffff) + key_word * 8 + key_bytes;
  if (used > space) return ABSENT;
  for (u32 word = 0; word < (KEY_BYTES_MAX + 7) / 8; word++) {
    if (word * 8 >= key_bytes) break;
    u64 differs = word_at(image, at + (key_word + word) * 8) ^ load_64(REQUEST(scratch->key_at) + word * 8);
    u64 rest = key_bytes - word * 8;
    if (rest < 8) differs <<= 64 - rest * 8;
    if (differs) return ABSENT;
  }
  if (configuration.is_store) {
    u64 flushed = header_word(image, WORD_FLUSH_STAMP);
    if (flushed && word_at(image, at + (key_word - 1) * 8) <= flushed) return ABSENT;
  }
  u64 meta = header & ITEM_META ? word_at(image, at + 8) : 0;
  u32 expiry_s = meta;
  if (expiry_s && expiry_s <= scratch->now_s) return ABSENT;
  // Only the owner knows the newest value.
  if (entry & ENTRY_DIRTY) return PASSED_DIRTY;
  item->log = log;
  item->flags = meta >> 32;
  item->header = header;
  item->at = at;
  item->value_at = at + key_word * 8 + key_bytes;
  item->value_bytes = space - used > 0xffffffff ? 0xffffffff : space - used;
  return FOUND;
}

// Returns whether the key may belong to a namespace.
INLINE int has_delimiter(const struct scratch *scratch, u64 key_bytes) {
  if (configuration.namespace_delimiter > 0xff) return 0;
  u64 repeated = configuration.namespace_delimiter * 0x0101010101010101;
  for (u32 word = 0; word < KEY_BYTES_MAX; word += 8) {
    if (word >= key_bytes) break;
    u64 differs = load_64(REQUEST(scratch->key_at + word)) ^ repeated, rest = key_bytes - word;
    if (rest < 8) differs |= ~0ull << rest * 8;
    if ((differs - 0x0101010101010101) & ~differs & 0x8080808080808080) return 1;
  }
  return 0;
}

// Returns whether everything read since the version was noted is consistent.
INLINE int is_still(struct scratch *scratch, const u8 *image, int found) {
  const struct item *item = &scratch->item;
  ACQUIRE(scratch);
  u64 bucket_at = scratch->bucket_at;
  if (bucket_at > configuration.partition_bytes - 64) return 0;
  if (word_at(image, bucket_at) != scratch->version) return 0;
  if (found != FOUND || configuration.is_store) return 1;
  return item->offset >= log_word(image, item->log, LOG_HEAD) &&
         item->offset >= log_word(image, item->log, LOG_FLUSH_MARK);
}

// First and last entry of a bucket with the key's tag, and their number. The caller has checked
// `bucket_at`.
struct matches {
  u64 first, last;
  u32 count;
};

INLINE void match_tags(const u8 *bucket, u64 tag, struct matches *matches) {
  u64 first = 0, last = 0;
  u32 count = 0;
#pragma clang loop unroll(full)
  for (u32 slot = 1; slot <= 7; slot++) {
    u64 entry = word_at(bucket, slot * 8);
    if (entry >> 48 == tag) {
      if (!count) first = entry;
      last = entry;
      count++;
    }
  }
  matches->first = first;
  matches->last = last;
  matches->count = count;
}

// Looks up the key at `scratch->key_at` with the hash `scratch->hash`. Returns FOUND, ABSENT, AGAIN or a
// reason to pass. The found item is in `scratch->item`, and may still be torn.
GLOBAL int look_up(u64 key_bytes, u64 unused) {
  UNUSED(unused);
  struct scratch *scratch = own_scratch();
  u64 index_hash = index_hash_of(scratch->hash), tag = tag_of(index_hash);
  const u8 *image = image_of(scratch->hash);
  if (!image) return PASSED_CHAIN;
  u64 buckets = header_word(image, WORD_BUCKETS);
  u64 bucket_at = main_bucket_at(index_hash, buckets);
  if (bucket_at > configuration.partition_bytes - 64) return AGAIN;
  u64 version = word_at(image, bucket_at);
  if (version & 1) return AGAIN;
  ACQUIRE(scratch);
  // A split changes the number of buckets before it moves entries out of this bucket.
  if (header_word(image, WORD_BUCKETS) != buckets) return AGAIN;
  scratch->bucket_at = bucket_at;
  scratch->version = version;

  u32 keys = 0;
  for (u32 step = 0; step < CHAIN_BUCKETS_MAX; step++) {
    const u8 *bucket = image + bucket_at;
    struct matches matches;
    match_tags(bucket, tag, &matches);
    // The tails are read after the entries, so they are at least as new as any entry.
    ACQUIRE(scratch);
    if (matches.count) {
      keys += matches.count;
      if (keys > CHAIN_TAG_ITEMS_MAX) return PASSED_CHAIN;
      int found = candidate(matches.first, key_bytes);
      if (found == ABSENT && matches.count > 1) found = candidate(matches.last, key_bytes);
      if (found != ABSENT) return found;
      if (matches.count > 2) return PASSED_CHAIN;
    }
    u64 next = word_at(bucket, 0) >> 32;
    if (next == 0) return ABSENT;
    bucket_at = spare_bucket_at(next - 1);
    if (bucket_at > configuration.partition_bytes - 64) return AGAIN;
  }
  return PASSED_CHAIN;
}

INLINE u32 state_word_of(u64 header) { return 1 + !!(header & ITEM_META); }

// Returns a word of an item that precedes its key.
INLINE u64 extension_word(const u8 *image, const struct item *item, u32 word) {
  u64 at = item->at;
  return at > configuration.partition_bytes - IMAGE_WINDOW_BYTES ? 0 : word_at(image, at + word * 8);
}

// Returns the CAS value of the found item. 0: no client knows one yet, and only the owner may assign it.
INLINE u64 cas_of(const struct scratch *scratch, const u8 *image) {
  const struct item *item = &scratch->item;
  u64 header = item->header;
  if (!(header & ITEM_GIVEN) && !configuration.is_store) return 0;
  if (header & ITEM_STATE) {
    u64 chosen = extension_word(image, item, state_word_of(header) + 1);
    if (chosen) return chosen;
  }
  if (header & ITEM_CAS) return extension_word(image, item, key_word_of(header) - 1);
  return item->offset << 1 | item->log;
}

// Samples a request for the owner, if the item's access data is not saturated.
INLINE void note_request(const struct scratch *scratch, const u8 *image) {
  const struct item *item = &scratch->item;
  int unnoted = (item->header >> 56 & 3) < configuration.frequency_max || !(item->header & ITEM_FETCHED);
  if (item->header & ITEM_STATE) {
    // A client wants to know the last access, and this second is not recorded yet.
    u32 access_s = extension_word(image, item, state_word_of(item->header));
    unnoted |= access_s != 0 && access_s != scratch->now_s;
  }
  if (!unnoted && configuration.reinsert_percent <= 100 && !configuration.is_store) {
    u64 behind = log_word(image, 1, LOG_TAIL) - item->offset;
    unnoted = behind >= log_word(image, 1, LOG_LIMIT) / 100 * configuration.reinsert_percent;
  }
  if (unnoted) own_report()->samples[scratch->hash >> 20 & (SAMPLES - 1)] = scratch->hash;
}
