//! Cookies: that a client receives what is sent to its address.
//!
//! Stateless: a keyed hash of address, port and epoch. A cookie of this epoch or the last one is
//! good (`docs/protocol.md`, "Addresses are proved").

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

use crate::limits::COOKIE_EPOCH_S;

/// The secret of a server, drawn at start.
#[derive(Clone, Copy)]
pub struct CookieKey(pub [u64; 2]);

impl std::fmt::Debug for CookieKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("CookieKey(..)")
    }
}

impl CookieKey {
    /// The cookie of an address; never 0.
    fn cookie(&self, peer: SocketAddr, epoch: u32) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        // The same over whichever socket an IPv4 address shows, and to a program in front of them.
        match peer.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u64(u64::from(peer.port()) << 32 | u64::from(epoch));
        hasher.finish().max(1)
    }
}

/// Result of checking a datagram's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The sender receives what is sent to this address.
    pub proven: bool,
    /// The cookie to send along; 0 if the client has it.
    pub renewal: u64,
}

/// Checks cookies for one worker; remembers those of the last address.
#[derive(Debug)]
pub struct Cookies {
    key: CookieKey,
    last: Option<(SocketAddr, u32)>,
    current: u64,
    /// Cookie of the previous epoch; computed when a cookie is not the current one.
    previous: Option<u64>,
}

impl Cookies {
    /// By the secret of the server.
    pub fn new(key: CookieKey) -> Self {
        Self { key, last: None, current: 0, previous: None }
    }

    /// Checks the cookie of a datagram from an address.
    #[inline]
    pub fn check(&mut self, peer: SocketAddr, cookie: u64, now_s: u32) -> Proof {
        let epoch = now_s / COOKIE_EPOCH_S;
        if self.last != Some((peer, epoch)) {
            self.current = self.key.cookie(peer, epoch);
            self.previous = None;
            self.last = Some((peer, epoch));
        }
        let is_current = cookie == self.current;
        Proof {
            proven: is_current || (cookie != 0 && cookie == self.previous(peer, epoch)),
            renewal: if is_current { 0 } else { self.current },
        }
    }

    fn previous(&mut self, peer: SocketAddr, epoch: u32) -> u64 {
        let key = self.key;
        let previous = || key.cookie(peer, epoch.wrapping_sub(1));
        *self.previous.get_or_insert_with(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u32 = 100 * COOKIE_EPOCH_S;

    fn peer(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_cookie_proves_its_own_address_and_port_for_one_to_two_epochs() {
        let mut cookies = Cookies::new(CookieKey([1, 2]));
        let one = peer("10.0.0.1:1000");
        let first = cookies.check(one, 0, NOW_S);
        assert!(!first.proven && first.renewal != 0);
        let cookie = first.renewal;
        let good = Proof { proven: true, renewal: 0 };
        assert_eq!(cookies.check(one, cookie, NOW_S), good);
        for other in ["10.0.0.1:1001", "10.0.0.2:1000", "[::1]:1000"] {
            assert!(!cookies.check(peer(other), cookie, NOW_S).proven, "{other}");
        }
        assert_eq!(cookies.check(peer("[::ffff:10.0.0.1]:1000"), cookie, NOW_S), good);
        assert_eq!(cookies.check(one, cookie, NOW_S + COOKIE_EPOCH_S - 1), good);
        let later = cookies.check(one, cookie, NOW_S + COOKIE_EPOCH_S);
        assert!(later.proven && later.renewal != 0 && later.renewal != cookie);
        assert!(!cookies.check(one, cookie, NOW_S + 2 * COOKIE_EPOCH_S).proven);
    }

    #[test]
    fn servers_have_cookies_of_their_own() {
        let one = peer("10.0.0.1:1000");
        let cookie = Cookies::new(CookieKey([1, 2])).check(one, 0, NOW_S).renewal;
        let mut other = Cookies::new(CookieKey([1, 3]));
        assert!(!other.check(one, cookie, NOW_S).proven);
    }
}
