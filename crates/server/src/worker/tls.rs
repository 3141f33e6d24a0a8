//! TLS handshakes. A round takes one step of one handshake, so that other connections do not wait long.

use std::io;
use std::sync::Arc;

use micanite_net::tls::{ServerConfig, Tls, TlsPhase};
use micanite_net::{ByteStream, Streams, Transport};

use super::Worker;
use super::slots::{Slot, Token};
use crate::connection::Connection;
use crate::limits::{HANDSHAKE_MS_MAX, HANDSHAKES_CHECK_MS};
use crate::telemetry::log::limited;
use crate::telemetry::peer::Peer;
use crate::telemetry::table::Counters;

/// Returns a transport over a stream, with TLS if it is configured.
pub(super) fn transport<S: ByteStream>(
    stream: S,
    config: Option<Arc<ServerConfig>>,
) -> io::Result<Transport<S>> {
    match config {
        None => Ok(Transport::Plain(stream)),
        Some(config) => match Tls::new(stream, config) {
            Ok(tls) => Ok(Transport::Tls(Box::new(tls))),
            Err(error) => Err(io::Error::other(error)),
        },
    }
}

/// Counts a handshake that has ended as a new session.
pub(super) fn count_session<S: ByteStream>(stream: &Transport<S>, counters: &Counters) {
    if let Some(TlsPhase::Open { resumed: false }) = stream.tls_phase() {
        counters.ssl_new_sessions.add(1);
    }
}

/// Logs the reason of a handshake that the peer has violated, and TLS where none is spoken. A handshake that
/// is only given up is left out: checks of a load balancer do that.
pub(super) fn log_failure<S: ByteStream>(connection: &Connection<Transport<S>>, token: Token, peer: Peer) {
    if connection.speaks_tls() {
        limited!(WARN, "connection refused: TLS on a plain port", connection = %token, peer = %peer);
    }
    let stream = connection.stream();
    let reason = stream.tls_violation().filter(|_| stream.tls_phase() == Some(TlsPhase::Handshake));
    if let Some(reason) = reason {
        limited!(INFO, "TLS handshake failed", connection = %token, peer = %peer, reason = %reason);
    }
}

/// Counts the failure of a connection that ends.
pub(super) fn count_failure<S: ByteStream>(connection: &Connection<Transport<S>>, counters: &Counters) {
    counters.tls_on_plain_port.add(connection.speaks_tls().into());
    match connection.stream().tls_phase() {
        Some(TlsPhase::Handshake) => counters.ssl_handshake_errors.add(1),
        Some(TlsPhase::Failed) => counters.ssl_proto_errors.add(1),
        None | Some(TlsPhase::Open { .. }) => {}
    }
}

impl<S: ByteStream> Slot<Transport<S>> {
    /// Returns whether the handshake has not ended.
    #[inline]
    pub fn is_shaking(&self) -> bool {
        self.connection.stream().tls_phase() == Some(TlsPhase::Handshake)
    }
}

impl<P: Streams> Worker<P> {
    /// Closes connections whose handshake takes too long.
    pub(super) fn close_late_handshakes(&mut self, now_ms: u64) {
        let since_ms = now_ms - self.handshakes_checked_ms;
        if self.server.tls.is_none() || since_ms < HANDSHAKES_CHECK_MS {
            return;
        }
        self.handshakes_checked_ms = now_ms;
        let before_ms = now_ms.saturating_sub(HANDSHAKE_MS_MAX);
        self.close_where(|slot| slot.opened_ms <= before_ms && slot.is_shaking(), |_| {});
    }
}
