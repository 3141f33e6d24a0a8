// SipHash-1-3 of an address, a port and an epoch: the cookie of the native protocol (docs/protocol.md,
// "Addresses are proved"), as in crates/server/src/native/cookie.rs.

// Returns the cookie of `scratch->native.peer` in an epoch; never 0.
INLINE u64 cookie_of(const struct native *native, u32 epoch) {
  u64 a = configuration.cookie_key[0] ^ 0x736f6d6570736575, b = configuration.cookie_key[1] ^ 0x646f72616e646f6d;
  u64 c = configuration.cookie_key[0] ^ 0x6c7967656e657261, d = configuration.cookie_key[1] ^ 0x7465646279746573;
  u64 port = native->peer_port;
  if (native->is_v6) {
    SIP_TAKE(native->peer[0]);
    SIP_TAKE(native->peer[1]);
    SIP_TAKE(port << 32 | epoch);
    SIP_TAKE(24ull << 56);
  } else {
    // The four bytes of the address are the high ones of ::ffff:a.b.c.d.
    SIP_TAKE((u64)epoch << 32 | native->peer[1] >> 32);
    SIP_TAKE(12ull << 56 | port);
  }
  c ^= 0xff;
  SIP_ROUND(a, b, c, d);
  SIP_ROUND(a, b, c, d);
  SIP_ROUND(a, b, c, d);
  u64 cookie = a ^ b ^ c ^ d;
  return cookie ? cookie : 1;
}
