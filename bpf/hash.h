// XXH3-64 of up to 250 bytes (xxHash 0.8, "XXH3_len_*" and "XXH3_hashLong"). The configuration holds
// everything that depends only on the seed. clang has no 128-bit multiplication for BPF, so four 32-bit ones
// replace it. May read up to 8 bytes beyond the key.

#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME64_4 0x85EBCA77C2B2AE63ull
#define PRIME64_5 0x27D4EB2F165667C5ull
#define PRIME32_1 0x9E3779B1ull
#define PRIME32_2 0x85EBCA77ull
#define PRIME32_3 0xC2B2AE3Dull
#define PRIME_MX1 0x165667919E3779F9ull
#define PRIME_MX2 0x9FB21C651E98DF25ull

INLINE u64 multiply_fold(u64 a, u64 b) {
  u64 low = (a & 0xffffffff) * (b & 0xffffffff), high = (a >> 32) * (b >> 32);
  u64 left = (a >> 32) * (b & 0xffffffff), right = (a & 0xffffffff) * (b >> 32);
  u64 cross = (low >> 32) + (left & 0xffffffff) + right;
  u64 upper = (left >> 32) + (cross >> 32) + high;
  return upper ^ (cross << 32 | (low & 0xffffffff));
}

INLINE u64 mix_with(const u8 *in, const u64 *mix) {
  return multiply_fold(load_64(in) ^ mix[0], load_64(in + 8) ^ mix[1]);
}

INLINE u64 mix_16(const u8 *in, u32 pair) { return mix_with(in, configuration.hash_mix + 2 * pair); }

INLINE u64 avalanche(u64 hash) {
  hash = (hash ^ hash >> 37) * PRIME_MX1;
  return hash ^ hash >> 32;
}

INLINE u64 rotate(u64 word, u32 bits) { return word << bits | word >> (64 - bits); }

#define STRIPE_BYTES 64

INLINE void add_stripe(u64 *sums, const u8 *in, const u64 *words) {
#pragma clang loop unroll(disable)
  for (u32 lane = 0; lane < 8; lane++) {
    u64 word = load_64(in + lane * 8), mixed = word ^ words[lane];
    sums[lane ^ 1] += word;
    sums[lane] += (mixed & 0xffffffff) * (mixed >> 32);
  }
}

// Hashes a key of 241 to 250 bytes: three stripes, and the last 64 bytes.
INLINE u64 hash_of_stripes(struct scratch *scratch, u32 at, u64 bytes) {
  u64 *sums = scratch->sums;
  sums[0] = PRIME32_3, sums[1] = PRIME64_1, sums[2] = PRIME64_2, sums[3] = PRIME64_3;
  sums[4] = PRIME64_4, sums[5] = PRIME32_2, sums[6] = PRIME64_5, sums[7] = PRIME32_1;
#pragma clang loop unroll(disable)
  for (u32 stripe = 0; stripe < 3; stripe++)
    add_stripe(sums, REQUEST(at + stripe * STRIPE_BYTES), configuration.hash_stripes + stripe);
  add_stripe(sums, REQUEST(at + bytes - STRIPE_BYTES), configuration.hash_last_stripe);
  u64 hash = bytes * PRIME64_1;
  const u64 *merge = configuration.hash_merge;
#pragma clang loop unroll(disable)
  for (u32 lane = 0; lane < 8; lane += 2)
    hash += multiply_fold(sums[lane] ^ merge[lane], sums[lane + 1] ^ merge[lane + 1]);
  return avalanche(hash);
}

// Hashes the key at offset `at` of the request, with 65 to KEY_BYTES_MAX bytes, into `scratch->hash`.
GLOBAL int hash_long(u64 at, u64 bytes) {
  struct scratch *scratch = own_scratch();
  if (bytes > 240) {
    scratch->hash = hash_of_stripes(scratch, at, bytes);
    return 0;
  }
  u64 sum = bytes * PRIME64_1;
  if (bytes > 128) {
#pragma clang loop unroll(disable)
    for (u32 pair = 0; pair < 8; pair++) sum += mix_16(REQUEST(at + pair * 16), pair);
    sum = avalanche(sum);
#pragma clang loop unroll(disable)
    for (u32 pair = 0; pair < 7; pair++) {
      if (128 + pair * 16 + 16 > bytes) break;
      sum += mix_with(REQUEST(at + 128 + pair * 16), configuration.hash_mix_late + 2 * pair);
    }
    scratch->hash = avalanche(sum + mix_with(REQUEST(at + bytes - 16), configuration.hash_mix_last));
    return 0;
  }
#pragma clang loop unroll(disable)
  for (u32 pair = 0; pair < 4; pair++) {
    if (pair == 3 && bytes <= 96) break;
    sum += mix_16(REQUEST(at + pair * 16), 2 * pair);
    sum += mix_16(REQUEST(at + bytes - 16 - pair * 16), 2 * pair + 1);
  }
  scratch->hash = avalanche(sum);
  return 0;
}

// Hashes the key at offset `at` of the request, with 1 to KEY_BYTES_MAX bytes.
INLINE u64 hash_of(const struct scratch *scratch, u32 at, u32 bytes) {
  const u8 *in = REQUEST(at);
  if (bytes > 64) {
    hash_long(at, bytes);
    return scratch->hash;
  }
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
