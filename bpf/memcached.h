// memcached's text protocol in datagrams: `get KEY...` and `gets KEY...` (memcached's protocol.txt, "UDP
// protocol"). A datagram that is exactly one such line is answered here, every other one by the server.

#define FRAME_BYTES 8
// Maximum number of keys and extra spaces in a line.
#define WORDS_MAX 64

// Appends `VALUE <key> <flags> <bytes>[ <cas>]\r\n<value>\r\n` of the found item, which may be torn.
INLINE int push_item(struct scratch *scratch, const u8 *image, u64 key_bytes, u64 with_cas) {
  u32 at = scratch->reply_bytes;
  if (at > REPLY_BYTES_MAX) return PASSED_LONG_REPLY;
  store_64(ROOM(at), 0x2045554c4156); // "VALUE "
  at += 6;
  for (u32 word = 0; word < KEY_BYTES_MAX; word += 8) {
    if (word >= key_bytes) break;
    store_64(ROOM(at + word), load_64(REQUEST(scratch->key_at + word)));
  }
  at += key_bytes;
  *ROOM(at) = ' ';
  scratch->reply_bytes = at + 1;
  push_number(scratch, scratch->item.flags);
  *ROOM(scratch->reply_bytes) = ' ';
  scratch->reply_bytes += 1;
  push_number(scratch, scratch->item.value_bytes);
  if (with_cas) {
    u64 cas = cas_of(scratch, image);
    if (cas == 0) return PASSED_CAS;
    *ROOM(scratch->reply_bytes) = ' ';
    scratch->reply_bytes += 1;
    push_number(scratch, cas);
  }
  store_16(ROOM(scratch->reply_bytes), 0x0a0d);
  scratch->reply_bytes += 2;
  // The value is followed by two line ends and the `END`.
  u64 bytes = (u64)scratch->reply_bytes + scratch->item.value_bytes + 7;
  if (bytes > scratch->reply_bytes_max) return PASSED_LONG_REPLY;
  int why = push_value(scratch, image);
  if (why) return why;
  store_16(ROOM(scratch->reply_bytes), 0x0a0d);
  scratch->reply_bytes += 2;
  return 0;
}

// Appends the item of the key at `scratch->key_at` if it exists. Returns FOUND, ABSENT, or a reason to
// pass.
GLOBAL int get(u64 key_bytes, u64 with_cas) {
  struct scratch *scratch = own_scratch();
  if (key_bytes == 0 || key_bytes > KEY_BYTES_MAX) return PASSED_KEY;
  scratch->hash = hash_of(scratch, scratch->key_at, key_bytes);
  const u8 *image = image_of(scratch->hash);
  if (!image) return PASSED_CHAIN;
  if (header_word(image, WORD_NAMESPACES) && has_delimiter(scratch, key_bytes)) return PASSED_NAMESPACE;

  u32 reply_bytes = scratch->reply_bytes;
  for (int attempt = 0; attempt < 2; attempt++) {
    int found = look_up(key_bytes, 0);
    if (found > 0) return found;
    if (found == FOUND) {
      int why = push_item(scratch, image, key_bytes, with_cas);
      if (why > 0) return why;
      if (why) found = why;
    }
    if (found != AGAIN && is_still(scratch, image, found)) {
      if (found == FOUND) note_request(scratch, image);
      return found;
    }
    scratch->reply_bytes = reply_bytes;
    count(RETRIES, 1);
  }
  return PASSED_CONTENDED;
}

// Returns the offset of the first byte from `at` on that ends a key: a space or a lower byte. 0: too far.
INLINE u32 end_of_word(const struct scratch *scratch, u32 at) {
  for (u32 word = 0; word <= KEY_BYTES_MAX; word += 8) {
    u64 letters = load_64(REQUEST(at + word));
    // A byte below 0x21 borrows into its highest bit, which is clear in the byte itself. Only the lowest
    // such bit is exact.
    u64 ends = (letters - 0x2121212121212121) & ~letters & 0x8080808080808080;
    if (!ends) continue;
    u64 below = ((ends & -ends) >> 7) - 1;
    return at + word + ((below & 0x0101010101010101) * 0x0101010101010101 >> 56);
  }
  return 0;
}

// Processes the next word of the line. Returns 1 at the end, with `scratch->result`.
STATIC long take_word(u32 number, void *unused) {
  UNUSED(unused);
  struct scratch *scratch = own_scratch();
  u32 at = scratch->word_at, end = end_of_word(scratch, at);
  u32 bytes = end - at;
  if (end == 0 || bytes > KEY_BYTES_MAX) {
    scratch->result = PASSED_KEY;
    return 1;
  }
  if (bytes) {
    scratch->key_at = at;
    int found = get(bytes, scratch->with_cas);
    if (found >= 0) {
      scratch->result = found;
      return 1;
    }
    if (found == FOUND)
      scratch->hits++;
    else
      scratch->misses++;
  }
  scratch->word_at = end + 1;
  if (end < scratch->line_end && *REQUEST(end) == ' ') return 0;
  // A byte other than a space ends the word within the line: the server replies to that.
  scratch->result = end == scratch->line_end && scratch->hits + scratch->misses ? 0 : PASSED_VERB;
  return 1;
}

// Answers the request in `scratch->request`. Returns 0 once the reply is complete, or a reason to pass.
INLINE int memcached(struct scratch *scratch) {
  u32 bytes = scratch->request_bytes;
  const u8 *request = scratch->request;
  // The message is this one datagram.
  if (bytes < FRAME_BYTES || request[4] != 0 || request[5] != 1) return PASSED_FORM;
  if (bytes < FRAME_BYTES + 6) return PASSED_VERB;
  u32 verb = load_32(request + FRAME_BYTES);
  scratch->with_cas = verb == 0x73746567 && request[FRAME_BYTES + 4] == ' '; // "gets "
  if (verb != 0x20746567 && !scratch->with_cas) return PASSED_VERB;          // "get "
  if (*REQUEST(bytes - 1) != '\n') return PASSED_VERB;
  scratch->line_end = bytes - 1 - (*REQUEST(bytes - 2) == '\r');
  scratch->word_at = FRAME_BYTES + 4 + scratch->with_cas;
  scratch->hits = scratch->misses = 0;
  store_64(scratch->reply, (load_64(request) & 0xffff) | 1ull << 40);
  scratch->reply_bytes = FRAME_BYTES;
  scratch->result = PASSED_MANY_KEYS;
  loop(WORDS_MAX, take_word, 0, 0);
  if (scratch->result) return scratch->result;
  store_64(ROOM(scratch->reply_bytes), 0x0a0d444e45); // "END\r\n"
  scratch->reply_bytes += 5;
  return 0;
}
