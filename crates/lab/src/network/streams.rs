//! memcached's multi-gets over TCP, from a client that does no more than it must.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::blaster::Tally;
use crate::Result;
use crate::packets::{KEY_BYTES, Packets, VALUE_BYTES};

/// Connections with one multi-get in the air each.
const CONNECTIONS: usize = 32;
/// Bytes of a memcached UDP frame before the text.
const FRAME_BYTES: usize = 8;

pub(super) struct Streams {
    streams: Vec<(TcpStream, usize)>,
}

impl Streams {
    pub fn connect(server: SocketAddr) -> Result<Self> {
        let connect = |_| -> Result<_> {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok((stream, 0))
        };
        let streams = (0..CONNECTIONS).map(connect).collect::<Result<_>>()?;
        Ok(Self { streams })
    }

    /// With one multi-get on each connection, as fast as the server answers. The packets are those
    /// of memcached over UDP: the text is the same behind the frame.
    pub fn closed(&mut self, packets: &mut Packets, duration: Duration) -> Result<Tally> {
        const ITEM_BYTES: usize = "VALUE  0 8\r\n\r\n".len() + KEY_BYTES + VALUE_BYTES;
        let reply_bytes = packets.batch() * ITEM_BYTES + b"END\r\n".len();
        let mut buffer = [0; 1 << 16];
        let (began, mut tally) = (Instant::now(), Tally::default());
        let mut running = true;
        let mut in_air = 0;
        while running || in_air > 0 {
            running = running && began.elapsed() < duration;
            for (stream, missing_bytes) in &mut self.streams {
                if *missing_bytes > 0 {
                    match stream.read(&mut buffer) {
                        Ok(0) => return Err("the server has closed the connection".into()),
                        Ok(bytes) if bytes > *missing_bytes => {
                            return Err("more bytes than hits have".into());
                        }
                        Ok(bytes) => *missing_bytes -= bytes,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                    if *missing_bytes > 0 {
                        if began.elapsed() > duration + Duration::from_secs(5) {
                            return Err("a multi-get has missed some keys".into());
                        }
                        continue;
                    }
                    in_air -= 1;
                    tally.answered_datagrams += 1;
                    tally.succeeded += packets.batch() as u64;
                }
                if running {
                    let packet = packets.next(0);
                    stream.write_all(&packet[FRAME_BYTES..])?;
                    *missing_bytes = reply_bytes;
                    in_air += 1;
                    tally.sent_datagrams += 1;
                }
            }
        }
        tally.elapsed_s = began.elapsed().as_secs_f64();
        Ok(tally)
    }
}
