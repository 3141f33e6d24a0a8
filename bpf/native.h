// GETs of the native protocol (docs/protocol.md). A datagram that holds only GETs is answered here like by
// the worker of its port (crates/server/src/native/{round,sink}.rs). Every other one goes on to that
// worker.

#define NATIVE_HEADER_BYTES 40
// Bytes of a request before its key, bytes of a reply before its value, and bytes reserved for each later
// reply.
#define NATIVE_REQUEST_BYTES 24
#define NATIVE_REPLY_BYTES 16
#define NATIVE_KEPT_BYTES 24
#define NATIVE_REQUESTS_MAX ((PAYLOAD_BYTES_MAX - NATIVE_HEADER_BYTES) / (NATIVE_REQUEST_BYTES + 8))
#define NATIVE_EPOCH_S 64
#define NATIVE_PADDED(bytes) (((bytes) + 7) & ~7ull)

enum native_status {
  NATIVE_OK = 0,
  NATIVE_NOT_FOUND = 1,
  NATIVE_UNPROVEN = 11,
  NATIVE_NO_ROOM = 12,
  NATIVE_USE_STREAM = 13
};

#include "siphash.h"

INLINE void push_native(struct scratch *scratch, u64 first_word, u32 flags) {
  store_64(ROOM(scratch->reply_bytes), first_word | 1); // a get's
  store_64(ROOM(scratch->reply_bytes + 8), flags | scratch->native.hash << 32);
  scratch->reply_bytes += NATIVE_REPLY_BYTES;
}

// Returns the status of a found value: NATIVE_OK if there is room for it.
INLINE u32 native_room(const struct scratch *scratch, u64 reply_bytes) {
  const struct native *native = &scratch->native;
  u64 kept = native->left * NATIVE_KEPT_BYTES;
  if (scratch->reply_bytes + reply_bytes + kept <= native->bytes_max) return NATIVE_OK;
  if (!native->is_proven) return NATIVE_UNPROVEN;
  return NATIVE_HEADER_BYTES + reply_bytes > native->bytes_max ? NATIVE_USE_STREAM : NATIVE_NO_ROOM;
}

// Appends the reply with the found item, which may be torn.
INLINE int push_native_item(struct scratch *scratch, const u8 *image, u64 with_cas) {
  u64 value_bytes = scratch->item.value_bytes;
  u64 reply_bytes = NATIVE_REPLY_BYTES + with_cas * 8 + NATIVE_PADDED(value_bytes);
  u64 status = native_room(scratch, reply_bytes);
  if (status != NATIVE_OK) {
    push_native(scratch, status << 8, 0);
    return 0;
  }
  if (scratch->reply_bytes + reply_bytes > scratch->reply_bytes_max) return PASSED_LONG_REPLY;
  u64 cas = with_cas ? cas_of(scratch, image) : 0;
  if (with_cas && cas == 0) return PASSED_CAS;
  push_native(scratch, value_bytes << 32 | with_cas << 16, scratch->item.flags);
  if (with_cas) {
    store_64(ROOM(scratch->reply_bytes), cas);
    scratch->reply_bytes += 8;
  }
  int why = push_value(scratch, image);
  if (why) return why;
  u32 at = scratch->reply_bytes;
  store_64(ROOM(at), 0);
  scratch->reply_bytes = NATIVE_PADDED(at);
  return 0;
}

// Answers the request at `scratch->native.at`. Returns 0, or a reason to pass.
GLOBAL int native_get(u64 unused, u64 unused_too) {
  UNUSED(unused);
  UNUSED(unused_too);
  struct scratch *scratch = own_scratch();
  struct native *native = &scratch->native;
  u32 at = native->at;
  if (at + NATIVE_REQUEST_BYTES > scratch->request_bytes) return PASSED_FORM;
  const u8 *request = REQUEST(at);
  u64 first = load_64(request);
  if ((first & 0xff) != 1) return PASSED_VERB;
  // Refuses unknown options, a value, flags and an expiry.
  if (first & 0xfffffffffffe0000 || load_64(request + 16)) return PASSED_FORM;
  u64 key_bytes = first >> 8 & 0xff, with_cas = first >> 16 & 1;
  if (key_bytes == 0) return PASSED_FORM;
  if (key_bytes > KEY_BYTES_MAX) return PASSED_KEY;
  u32 key_at = at + NATIVE_REQUEST_BYTES;
  native->at = key_at + NATIVE_PADDED(key_bytes);
  if (native->at > scratch->request_bytes) return PASSED_FORM;
  native->left--;
  native->hash = load_64(request + 8);
  scratch->key_at = key_at;
  // The client may have computed the hash with the seed of an earlier server.
  scratch->hash = native->is_stale ? hash_of(scratch, key_at, key_bytes) : native->hash;
  const u8 *image = image_of(scratch->hash);
  if (!image) return PASSED_CHAIN;
  if (header_word(image, WORD_NAMESPACES) && has_delimiter(scratch, key_bytes)) return PASSED_NAMESPACE;

  u32 reply_bytes = scratch->reply_bytes;
  for (int attempt = 0; attempt < 2; attempt++) {
    int found = look_up(key_bytes, 0);
    if (found > 0) return found;
    if (found == FOUND) {
      int why = push_native_item(scratch, image, with_cas);
      if (why > 0) return why;
      if (why) found = why;
    }
    if (found != AGAIN && is_still(scratch, image, found)) {
      if (found == FOUND) {
        note_request(scratch, image);
        native->hits++;
      } else {
        push_native(scratch, NATIVE_NOT_FOUND << 8, 0);
        native->misses++;
      }
      return 0;
    }
    scratch->reply_bytes = reply_bytes;
    count(RETRIES, 1);
  }
  return PASSED_CONTENDED;
}

// Prefetches the bucket of the next request, before its form is checked.
STATIC long native_bucket_ahead(u32 number, void *unused) {
  UNUSED(unused);
  struct scratch *scratch = own_scratch();
  const u8 *request = REQUEST(scratch->native.at);
  u64 key_bytes = request[1];
  scratch->native.at += NATIVE_REQUEST_BYTES + NATIVE_PADDED(key_bytes);
  bucket_ahead(scratch, number, load_64(request + 8));
  return 0;
}

STATIC long native_next(u32 number, void *unused) {
  int why = native_get(0, 0);
  own_scratch()->native.why = why;
  return why != 0;
}

// Checks whether the datagram's cookie proves the sender's address. Returns a new cookie, or 0 if the
// client has the current one.
INLINE u64 prove(struct scratch *scratch, u64 cookie) {
  struct native *native = &scratch->native;
  u32 epoch = scratch->now_s / NATIVE_EPOCH_S;
  u64 current = cookie_of(native, epoch);
  native->is_proven = 1;
  if (cookie == current) return 0;
  native->is_proven = cookie && cookie == cookie_of(native, epoch - 1);
  return current;
}

// Answers the request in `scratch->request`. Returns 0 once the reply is complete, or a reason to pass.
INLINE int native(struct scratch *scratch, const struct packet *packet) {
  struct native *native = &scratch->native;
  const u8 *request = scratch->request;
  u32 bytes = scratch->request_bytes;
  if (bytes < NATIVE_HEADER_BYTES || bytes > configuration.native_bytes_max) return PASSED_FORM;
  // A reply to port 0 is impossible.
  if (packet->source_port == 0) return PASSED_FORM;
  u64 first = load_64(request), second = load_64(request + 8);
  // Checks magic, version 1, kind of requests, known flags, and fields that have to be zero.
  if ((first & 0xfffcffffffff) != 0x0101694d || second >> 48) return PASSED_PROTOCOL;
  u64 requests = first >> 48;
  if (requests == 0 || requests > NATIVE_REQUESTS_MAX) return PASSED_FORM;

  native->peer[0] = packet->source[0];
  native->peer[1] = packet->source[1];
  native->peer_port = packet->source_port;
  native->is_v6 = packet->is_v6;
  u64 renewal = prove(scratch, load_64(request + 32));
  native->bytes_max = native->is_proven ? configuration.native_bytes_max : bytes;
  scratch->reply_bytes_max = configuration.native_reply_bytes_max[packet->is_v6 & 1];
  u32 generation = control.generation;
  native->is_stale = (u32)second != generation;
  native->at = NATIVE_HEADER_BYTES;
  native->left = requests;
  native->hits = native->misses = 0;
  scratch->reply_bytes = NATIVE_HEADER_BYTES;
  // Hashes of another generation are unusable, and computed per request.
  if (is_worth_it(requests) && !native->is_stale) {
    loop(requests, native_bucket_ahead, 0, 0);
    loop(requests, item_ahead, 0, 0);
    native->at = NATIVE_HEADER_BYTES;
  }
  loop(requests, native_next, 0, 0);
  if (native->why) return native->why;
  // A frame may hold less than the longest datagram.
  if (scratch->reply_bytes > scratch->reply_bytes_max) return PASSED_LONG_REPLY;

  store_64(scratch->reply, 0x0201694d | requests << 48);
  store_64(scratch->reply + 8, generation | (second >> 32 << 32));
  store_64(scratch->reply + 16, load_64(request + 16)); // sequence, client
  store_64(scratch->reply + 24, load_64(request + 24)); // echo
  store_64(scratch->reply + 32, renewal);
  scratch->hits = native->hits;
  scratch->misses = native->misses;
  return 0;
}
