// SipHash-1-3 of an address, a port and an epoch: the cookie of the native protocol (docs/protocol.md,
// "Addresses are proved"), as in crates/server/src/native/cookie.rs.

// Returns the cookie of `scratch->native.peer` in an epoch; never 0.
INLINE u64 cookie_of(const struct native *native, u32 epoch) {
  u64 first = configuration.cookie_key[0], second = configuration.cookie_key[1];
  u64 a = first ^ 0x736f6d6570736575, b = second ^ 0x646f72616e646f6d;
  u64 c = first ^ 0x6c7967656e657261, d = second ^ 0x7465646279746573;
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
