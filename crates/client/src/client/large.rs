//! Operations of a batch that do not fit a datagram.

use super::{Answer, ServerStream};
use crate::error::Error;
use crate::link::Link;
use crate::operation::Operation;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Threads of a batch beside the caller's.
const THREADS_MAX: usize = 15;

/// Signals of the instruction that a thread executes.
const FAULTS: [Signal; 6] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS];

/// Operations at one server, by their numbers in the batch.
struct Work<'a> {
    stream: &'a mut ServerStream,
    address: SocketAddr,
    numbers: Vec<usize>,
}

impl Link {
    /// Executes operations over streams: those at one server one after the other, and servers beside each
    /// other, so that the batch waits one deadline for up to sixteen that are silent.
    pub(super) fn over_streams(
        &mut self,
        streams: &mut [ServerStream],
        operations: &[Operation<'_>],
        large: &[usize],
        answers: &mut [Option<Result<Answer, Error>>],
    ) {
        let began = Instant::now();
        let mut numbers = vec![Vec::new(); streams.len()];
        for number in large {
            numbers[self.driver().server_now(operations[*number].key)].push(*number);
        }
        let mut works = Vec::new();
        for (server, (stream, numbers)) in streams.iter_mut().zip(numbers).enumerate() {
            if numbers.is_empty() {
                continue;
            }
            match self.stream_address(server) {
                Ok(address) => works.push(Work { stream, address, numbers }),
                Err(error) => {
                    numbers.into_iter().for_each(|number| answers[number] = Some(Err(error.clone())));
                }
            }
        }
        let helpers = works.len().saturating_sub(1).min(THREADS_MAX);
        let (works, done) = (Mutex::new(works), Mutex::new(Vec::new()));
        let next = || lock(&works).pop();
        let run = || {
            while let Some(Work { stream, address, numbers }) = next() {
                for number in numbers {
                    let answer = stream.call((began, None), address, &operations[number]);
                    lock(&done).push((number, answer));
                }
            }
        };
        thread::scope(|scope| {
            // Signals are for the threads of the program; faults are the thread's own.
            let mut blocked = SigSet::all();
            FAULTS.into_iter().for_each(|fault| blocked.remove(fault));
            let mask = (helpers > 0).then(|| blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK));
            for _ in 0..helpers {
                // This thread does the work of one that does not begin.
                let _ = thread::Builder::new().spawn_scoped(scope, run);
            }
            if let Some(Ok(mask)) = mask {
                // The kernel takes a mask that it gave.
                let _ = mask.thread_set_mask();
            }
            run();
        });
        for (number, answer) in lock(&done).drain(..) {
            answers[number] = Some(answer);
        }
        if self.follow_ports() {
            // The next call looks for the reply. It gets an error again.
            let _ = self.poll(self.now_ns(), |_| {});
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::driver::tests::fake::Fake;
    use crate::options::Options;
    use micanite_wire::native::PartitionAccess;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
    use std::time::Duration;

    static LONG: [u8; 20_000] = [b'v'; 20_000];

    /// A server of datagrams that names a TCP port, until it is dropped.
    struct Server {
        name: String,
        stream_port: Arc<AtomicU16>,
        is_over: Arc<AtomicBool>,
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Release);
        }
    }

    impl Server {
        fn start(stream_port: u16) -> Self {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let address = socket.local_addr().unwrap();
            let (port, is_over) = (Arc::new(AtomicU16::new(stream_port)), Arc::new(AtomicBool::new(false)));
            let server =
                Self { name: address.to_string(), stream_port: port.clone(), is_over: is_over.clone() };
            thread::spawn(move || {
                let mut fake = Fake::new(&address.to_string(), 1, 4, PartitionAccess::Erew);
                let mut bytes = [0; 2048];
                while !is_over.load(Ordering::Acquire) {
                    let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
                    fake.facts.stream_port = port.load(Ordering::Acquire);
                    if let Some(reply) = fake.answer(address, &bytes[..count]) {
                        socket.send_to(&reply, from).unwrap();
                    }
                }
            });
            server
        }
    }

    /// Returns the port of a server that takes each value. Its threads end with the process.
    fn serve_stores() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                thread::spawn(move || {
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                        let length: usize = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
                        reader.read_exact(&mut vec![0; length + 2]).unwrap();
                        reader.get_mut().write_all(b"STORED\r\n").unwrap();
                        line.clear();
                    }
                });
            }
        });
        port
    }

    /// A batch waited a deadline for each silent server, and a live one waited for them.
    #[test]
    fn a_batch_waits_for_all_silent_servers_at_once() {
        let deadline = Duration::from_secs(2);
        let silent: [_; 4] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = silent.iter().map(|listener| listener.local_addr().unwrap().port());
        let servers: Vec<_> = ports.chain([serve_stores()]).map(Server::start).collect();
        let options = Options { deadline_ns: deadline.as_nanos() as u64, ..Options::default() };
        let builder = Client::builder().options(options);
        let builder = servers.iter().fold(builder, |builder, server| builder.server(&server.name));
        let mut client = builder.connect().unwrap();
        let keys: Vec<_> = (0..100).map(|number| format!("key-{number}")).collect();
        let operations: Vec<_> = keys.iter().map(|key| Operation::set(key.as_bytes(), &LONG)).collect();
        let began = Instant::now();
        let answers = client.batch(&operations);
        let took = began.elapsed();
        let driver = client.link().unwrap().driver();
        for (key, answer) in keys.iter().zip(answers) {
            let is_live = driver.server_of(key.as_bytes()) == 4;
            assert_eq!(answer.is_ok(), is_live, "{key}: {answer:?}");
        }
        assert!(took < deadline * 3, "{took:?}");
    }

    /// Sets a long value again and again, until it is stored or the time is over.
    fn stores_soon(mut set: impl FnMut() -> Result<(), Error>) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if set().is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Returns a port that refuses connections, while the stream that has it lives.
    fn closed_port() -> (TcpStream, u16) {
        let stream = TcpStream::connect(("127.0.0.1", serve_stores())).unwrap();
        let port = stream.local_addr().unwrap().port();
        (stream, port)
    }

    /// A client of long values alone tried the port of before a restart for good.
    #[test]
    fn another_port_after_a_restart_is_found() {
        let (_held, closed) = closed_port();
        for before in [closed, 0] {
            let server = Server::start(before);
            let mut client = Client::connect(&server.name).unwrap();
            let refused = client.set(b"key", &LONG, 0, 0);
            assert!(matches!(refused, Err(Error::Stream { .. } | Error::NoStream { .. })), "{refused:?}");
            server.stream_port.store(serve_stores(), Ordering::Release);
            assert!(stores_soon(|| client.set(b"key", &LONG, 0, 0)));
        }
    }

    /// As the blocking client does.
    #[cfg(feature = "async")]
    #[test]
    fn a_task_finds_another_port_after_a_restart() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let (_held, closed) = closed_port();
        for before in [closed, 0] {
            let server = Server::start(before);
            let client = runtime.block_on(crate::AsyncClient::connect(&server.name)).unwrap();
            assert!(runtime.block_on(client.set(b"key", &LONG, 0, 0)).is_err());
            server.stream_port.store(serve_stores(), Ordering::Release);
            assert!(stores_soon(|| runtime.block_on(client.set(b"key", &LONG, 0, 0))));
        }
    }
}
