// Hash of a key within an index: SipHash-1-3 of the client's hash, as one word, without the final length
// block (crates/engine/src/index/hash.rs). The secret is in the configuration.

#define SIP_ROUND(a, b, c, d)        \
  do {                               \
    a += b, c += d;                  \
    b = rotate(b, 13) ^ a;           \
    d = rotate(d, 16) ^ c;           \
    a = rotate(a, 32);               \
    c += b, a += d;                  \
    b = rotate(b, 17) ^ c;           \
    d = rotate(d, 21) ^ a;           \
    c = rotate(c, 32);               \
  } while (0)
#define SIP_TAKE(word)  \
  do {                  \
    u64 taken = (word); \
    d ^= taken;         \
    SIP_ROUND(a, b, c, d); \
    a ^= taken;         \
  } while (0)

INLINE u64 index_hash_of(u64 hash) {
  u64 a = configuration.secret[0] ^ 0x736f6d6570736575, b = configuration.secret[1] ^ 0x646f72616e646f6d;
  u64 c = configuration.secret[0] ^ 0x6c7967656e657261, d = configuration.secret[1] ^ 0x7465646279746573;
  SIP_TAKE(hash);
  c ^= 0xff;
  SIP_ROUND(a, b, c, d);
  SIP_ROUND(a, b, c, d);
  SIP_ROUND(a, b, c, d);
  return a ^ b ^ c ^ d;
}

INLINE u64 tag_of(u64 index_hash) {
  u64 tag = index_hash & 0xffff;
  return tag ? tag : 1;
}
