// XXH3-64 of up to 64 bytes (xxHash 0.8, "XXH3_len_*"). The configuration holds everything that depends
// only on the seed. clang has no 128-bit multiplication for BPF, so four 32-bit ones replace it. May read
// up to 8 bytes beyond the key.

#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME_MX1 0x165667919E3779F9ull
#define PRIME_MX2 0x9FB21C651E98DF25ull

INLINE u64 multiply_fold(u64 a, u64 b) {
  u64 low = (a & 0xffffffff) * (b & 0xffffffff), high = (a >> 32) * (b >> 32);
  u64 left = (a >> 32) * (b & 0xffffffff), right = (a & 0xffffffff) * (b >> 32);
  u64 cross = (low >> 32) + (left & 0xffffffff) + right;
  u64 upper = (left >> 32) + (cross >> 32) + high;
  return upper ^ (cross << 32 | (low & 0xffffffff));
}

INLINE u64 mix_16(const u8 *in, u32 pair) {
  const u64 *mix = configuration.hash_mix;
  return multiply_fold(load_64(in) ^ mix[2 * pair], load_64(in + 8) ^ mix[2 * pair + 1]);
}

INLINE u64 avalanche(u64 hash) {
  hash = (hash ^ hash >> 37) * PRIME_MX1;
  return hash ^ hash >> 32;
}

INLINE u64 rotate(u64 word, u32 bits) { return word << bits | word >> (64 - bits); }

// Hashes the key at offset `at` of the request, with 1 to KEY_BYTES_MAX bytes.
INLINE u64 hash_of(const struct scratch *scratch, u32 at, u32 bytes) {
  const u8 *in = REQUEST(at);
  if (bytes > 16) {
    u64 sum = bytes * PRIME64_1;
    if (bytes > 32) sum += mix_16(REQUEST(at + 16), 2) + mix_16(REQUEST(at + bytes - 32), 3);
    return avalanche(sum + mix_16(in, 0) + mix_16(REQUEST(at + bytes - 16), 1));
  }
  if (bytes > 8) {
    u64 low = load_64(in) ^ configuration.hash_9_16[0];
    u64 high = load_64(REQUEST(at + bytes - 8)) ^ configuration.hash_9_16[1];
    return avalanche(bytes + __builtin_bswap64(low) + high + multiply_fold(low, high));
  }
  if (bytes > 3) {
    u64 hash = (load_32(REQUEST(at + bytes - 4)) + ((u64)load_32(in) << 32)) ^ configuration.hash_4_8;
    hash ^= rotate(hash, 49) ^ rotate(hash, 24);
    hash *= PRIME_MX2;
    hash ^= (hash >> 35) + bytes;
    hash *= PRIME_MX2;
    return hash ^ hash >> 28;
  }
  u32 first = in[0], middle = *REQUEST(at + (bytes >> 1)), last = *REQUEST(at + bytes - 1);
  u64 hash = (first << 16 | middle << 24 | last | bytes << 8) ^ configuration.hash_1_3;
  hash = (hash ^ hash >> 33) * PRIME64_2;
  hash = (hash ^ hash >> 29) * PRIME64_3;
  return hash ^ hash >> 32;
}
