//! TLS over a stream that splits and stalls arbitrarily.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::{ServerConfig, Tls, TlsPhase};
use crate::ByteStream;
use crate::limits::TLS_OUTPUT_BYTES_MAX;

/// Wire to a client. It is read and written in pieces of these sizes.
#[derive(Debug, Default)]
struct Wire {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    sizes: Vec<usize>,
    step: usize,
    /// Number of bytes that the client accepts.
    room: usize,
    ended: bool,
    /// The server sends no more.
    output_ended: bool,
}

#[derive(Clone, Debug, Default)]
struct Script(Rc<RefCell<Wire>>);

impl Wire {
    fn piece(&mut self) -> usize {
        self.step += 1;
        self.sizes[self.step % self.sizes.len()]
    }
}

impl ByteStream for Script {
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        if wire.to_server.is_empty() && wire.ended {
            return Ok(0);
        }
        let most = wire.piece().min(into.len()).min(wire.to_server.len());
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (place, byte) in into.iter_mut().zip(wire.to_server.drain(..most)) {
            *place = byte;
        }
        Ok(most)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        let most = wire.piece().min(bytes.len()).min(wire.room);
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        wire.room -= most;
        wire.to_client.extend(&bytes[..most]);
        Ok(most)
    }

    fn end_output(&mut self) -> io::Result<()> {
        self.0.borrow_mut().output_ended = true;
        Ok(())
    }
}

type Configs = (Arc<ServerConfig>, Arc<ClientConfig>);

static CONFIGS: LazyLock<Configs> = LazyLock::new(configs);

fn configs() -> Configs {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

/// Stream of a server, and its client.
struct Pair {
    script: Script,
    server: Tls<Script>,
    client: ClientConnection,
}

impl Pair {
    fn new(sizes: &[usize]) -> Self {
        Self::with(sizes, &CONFIGS)
    }

    fn with(sizes: &[usize], configs: &Configs) -> Self {
        let script = Script::default();
        script.0.borrow_mut().sizes = sizes.into();
        script.0.borrow_mut().room = usize::MAX;
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&configs.1), name).unwrap();
        client.set_buffer_limit(None);
        Self { server: Tls::new(script.clone(), Arc::clone(&configs.0)).unwrap(), client, script }
    }

    /// Moves bytes of the wire to and from the client; returns the client's decrypted bytes.
    fn client_turn(&mut self, room: usize) -> Vec<u8> {
        let mut wire = self.script.0.borrow_mut();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire.to_server).unwrap();
        }
        let arrived: Vec<u8> = wire.to_client.drain(..).collect();
        wire.room = room;
        let (mut arrived, mut plain) = (arrived.as_slice(), Vec::new());
        while !arrived.is_empty() {
            self.client.read_tls(&mut arrived).unwrap();
            self.client.process_new_packets().unwrap();
            // Reads the available bytes. A missing end is no error.
            let _ = self.client.reader().read_to_end(&mut plain);
        }
        plain
    }

    /// Reads like an event loop: when the wire or the stream holds input.
    fn server_reads(&mut self, into: &mut [u8]) -> usize {
        let visible = !self.script.0.borrow().to_server.is_empty();
        if !visible && !self.server.holds_input() {
            return 0;
        }
        match self.server.recv(into) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                0
            }
        }
    }

    fn shake_hands(&mut self) {
        while self.client.is_handshaking() || self.server.phase() == TlsPhase::Handshake {
            self.client_turn(usize::MAX);
            assert_eq!(self.server_reads(&mut [0; 1]), 0);
        }
        // Session tickets.
        self.client_turn(usize::MAX);
    }
}

/// Echoes messages over the given wire. They have to return unchanged.
fn echo(sizes: &[usize], room: usize, reads: usize, messages: &[Vec<u8>]) {
    let mut pair = Pair::new(sizes);
    let expected: Vec<u8> = messages.concat();
    let (mut echoed, mut unsent) = (Vec::new(), Vec::new());
    let mut messages = messages.iter();
    let mut buffer = vec![0; reads];
    let mut idle = 0;
    while echoed.len() < expected.len() {
        if let Some(message) = messages.next() {
            pair.client.writer().write_all(message).unwrap();
        }
        let came = pair.client_turn(room);
        echoed.extend_from_slice(&came);
        let flushed = pair.server.flush();
        if flushed.is_ok() && unsent.is_empty() {
            let bytes = pair.server_reads(&mut buffer);
            unsent.extend_from_slice(&buffer[..bytes]);
        }
        if !unsent.is_empty()
            && let Ok(sent) = pair.server.send(&unsent)
        {
            unsent.drain(..sent);
        }
        idle = if came.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 100_000, "nothing moves any more");
    }
    assert!(echoed == expected);
    assert!(matches!(pair.server.phase(), TlsPhase::Open { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bytes_arrive_for_any_split(
        sizes in prop::collection::vec(0..5000_usize, 1..8),
        last in 1..20_000_usize,
        room in 1..40_000_usize,
        reads in 1..20_000_usize,
        lengths in prop::collection::vec(1..40_000_usize, 1..6),
    ) {
        let sizes = [sizes, vec![last]].concat();
        let message = |(number, bytes): (usize, &usize)| vec![number as u8; *bytes];
        let messages: Vec<_> = lengths.iter().enumerate().map(message).collect();
        echo(&sizes, room, reads.max(64), &messages);
    }

    #[test]
    fn garbage_only_ends_the_connection(
        bytes in prop::collection::vec(any::<u8>(), 1..3000),
        at in 0..600_usize,
        during in any::<bool>(),
    ) {
        let mut pair = Pair::new(&[usize::MAX]);
        if during {
            // Replaces part of the client's next bytes.
            pair.client_turn(usize::MAX);
            let mut wire = pair.script.0.borrow_mut();
            let at = at.min(wire.to_server.len());
            wire.to_server.truncate(at);
        } else {
            pair.shake_hands();
        }
        pair.script.0.borrow_mut().to_server.extend(&bytes);
        pair.script.0.borrow_mut().ended = true;
        let mut into = [0; 4096];
        let mut outcome = pair.server.recv(&mut into);
        for _ in 0..10 {
            if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::WouldBlock) {
                break;
            }
            outcome = pair.server.recv(&mut into);
        }
        // None of it was decrypted: the result is an error, or the end after half a record.
        prop_assert!(!matches!(outcome, Ok(1..)), "{outcome:?}");
        prop_assert!(pair.server.holds_input() || matches!(outcome, Ok(0)));
    }
}

#[test]
fn unread_plaintext_is_held() {
    let mut pair = Pair::new(&[usize::MAX]);
    pair.shake_hands();
    pair.client.writer().write_all(&[7; 5000]).unwrap();
    pair.client_turn(usize::MAX);
    let mut into = [0; 1000];
    for left in [4000, 3000, 2000, 1000, 0] {
        assert_eq!(pair.server.recv(&mut into).unwrap(), 1000);
        assert_eq!(into, [7; 1000]);
        assert_eq!(pair.server.holds_input(), left > 0);
    }
    let nothing = pair.server.recv(&mut into).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

#[test]
fn unsent_output_is_held_and_bounded() {
    let mut pair = Pair::new(&[usize::MAX]);
    pair.shake_hands();
    pair.client_turn(0);
    let bytes = vec![3; 100_000];
    let sent = pair.server.send(&bytes).unwrap();
    assert!(sent > 0 && sent <= TLS_OUTPUT_BYTES_MAX);
    assert!(pair.server.holds_output());
    let full = pair.server.send(&bytes[sent..]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    pair.client_turn(usize::MAX);
    pair.server.flush().unwrap();
    assert!(!pair.server.holds_output());
    assert_eq!(pair.client_turn(usize::MAX), vec![3; sent]);
}

#[test]
fn the_peers_closing_alert_is_the_end() {
    let mut pair = Pair::new(&[usize::MAX]);
    pair.shake_hands();
    pair.client.writer().write_all(b"last").unwrap();
    pair.client.send_close_notify();
    pair.client_turn(usize::MAX);
    let mut into = [0; 100];
    assert_eq!(pair.server.recv(&mut into).unwrap(), 4);
    assert!(pair.server.holds_input());
    assert_eq!(pair.server.recv(&mut into).unwrap(), 0);
}

#[test]
fn second_connections_resume_the_session() {
    let configs = configs();
    let mut first = Pair::with(&[usize::MAX], &configs);
    first.shake_hands();
    assert_eq!(first.server.phase(), TlsPhase::Open { resumed: false });
    let mut second = Pair::with(&[usize::MAX], &configs);
    second.shake_hands();
    // Without tickets in this configuration, the server caches sessions.
    assert_eq!(second.server.phase(), TlsPhase::Open { resumed: true });
}

#[test]
fn dropped_streams_send_the_closing_alert() {
    let mut pair = Pair::new(&[usize::MAX]);
    pair.shake_hands();
    let Pair { server, script, mut client } = pair;
    drop(server);
    let bytes: Vec<u8> = script.0.borrow_mut().to_client.drain(..).collect();
    client.read_tls(&mut bytes.as_slice()).unwrap();
    assert!(client.process_new_packets().unwrap().peer_has_closed());
}
