//! Clients that mean harm: what they get cannot be written, and what they write harms nobody.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use micanite_client::Error;
use micanite_local::hello::{Answer, REPLY_BYTES, parse_reply, request};
use micanite_net::receive_with_descriptors;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mprotect, munmap};

use super::{DEADLINE, Local};

const PAGE_BYTES: usize = 4096;

/// Contents of a welcome.
pub struct Attached {
    pub socket: UnixStream,
    pub header: OwnedFd,
    pub notes: OwnedFd,
    pub requests: OwnedFd,
    pub partitions: Vec<OwnedFd>,
}

fn connect(server: &Local) -> UnixStream {
    let socket = UnixStream::connect(server.directory.join("local")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

pub fn attach(server: &Local) -> Attached {
    let mut socket = connect(server);
    socket.write_all(&request(b"", b"").unwrap()).unwrap();
    let mut reply = [0; REPLY_BYTES];
    let (count, mut first) = receive_with_descriptors(&socket, &mut reply).unwrap();
    assert_eq!(count, REPLY_BYTES);
    let (answer, wanted) = parse_reply(&reply).unwrap();
    assert_eq!((answer, first.len()), (Answer::Welcome, 3));
    let mut partitions = Vec::new();
    while partitions.len() < wanted {
        partitions.extend(receive_with_descriptors(&socket, &mut [0]).unwrap().1);
    }
    let (requests, notes, header) = (first.pop().unwrap(), first.pop().unwrap(), first.pop().unwrap());
    Attached { socket, header, notes, requests, partitions }
}

/// Maps a page, if the kernel allows it.
#[expect(unsafe_code, reason = "mapping is unsafe")]
fn map(descriptor: impl AsFd, protection: ProtFlags) -> nix::Result<std::ptr::NonNull<std::ffi::c_void>> {
    let bytes = NonZeroUsize::new(PAGE_BYTES).unwrap();
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, descriptor, 0) }
}

/// Returns whether a page of a descriptor can be made writable in any way.
#[expect(unsafe_code, reason = "mapping is unsafe")]
fn can_be_written(descriptor: &OwnedFd) -> bool {
    let writable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    if map(descriptor, writable).is_ok() {
        return true;
    }
    let page = map(descriptor, ProtFlags::PROT_READ).unwrap();
    // SAFETY: the page is mapped, and no reference leads there.
    let changed = unsafe { mprotect(page, PAGE_BYTES, writable) };
    // SAFETY: it was mapped above, and nothing refers to it.
    unsafe { munmap(page, PAGE_BYTES) }.unwrap();
    changed.is_ok()
}

/// No descriptor of the server's memory can be mapped for writing, written or cut; nor can one that is opened
/// for writing through `/proc/self/fd`, which this user may do as the owner of the file.
#[test]
fn descriptors_cannot_be_written() {
    let server = Local::start("-t 2");
    let attached = attach(&server);
    let mut count = 0;
    for descriptor in attached.partitions.iter().chain([&attached.header]) {
        assert!(!can_be_written(descriptor));
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let reopened: OwnedFd = File::options().read(true).write(true).open(path).unwrap().into();
        assert!(!can_be_written(&reopened));
        let file = File::from(reopened);
        assert!(file.write_at(&[1], 0).is_err());
        assert!(file.set_len(0).is_err() && file.set_len(1 << 40).is_err());
        count += 1;
    }
    assert!(count > 2);
    // The notes are for writing, and cannot be cut under the server.
    let notes = File::from(attached.notes);
    assert!(notes.set_len(0).is_err());
}

/// Garbage instead of a hello, half a hello and silence cost the server nothing but a place for a while.
#[test]
fn strange_hellos_are_refused() -> Result<(), Error> {
    let server = Local::start("--local-clients 3");
    for bytes in [&b"get key\r\n"[..], b"MICLOCAX", &[0xff; 600]] {
        let mut socket = connect(&server);
        let _ = socket.write_all(bytes);
        let end = socket.read(&mut [0; 64]);
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    let mut other = request(b"", b"").unwrap();
    other[8] = 99;
    let mut socket = connect(&server);
    socket.write_all(&other).unwrap();
    let mut reply = [0; REPLY_BYTES];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(parse_reply(&reply), Some((Answer::Refused, 0)));
    // Silent ones and halves take places for hellos, not those of readers; they are dismissed in time.
    let half = request(b"user", b"password").unwrap();
    let silent: Vec<UnixStream> = (0..40)
        .map(|number| {
            let mut socket = connect(&server);
            let _ = socket.write_all(&half[..number % half.len()]);
            socket
        })
        .collect();
    let end = Instant::now() + DEADLINE;
    let mut client = loop {
        match super::Client::connect(&server.url()) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    };
    client.set(b"key", b"value", 0, 0)?;
    assert!(client.get(b"key")?.is_some());
    drop(silent);
    Ok(())
}

/// A reader that writes anything into its notes makes items a little too recent at worst: no other one sees a
/// wrong value or a wrong count, and the server says that there was nonsense.
#[test]
#[expect(unsafe_code, reason = "mapping is unsafe")]
fn nonsense_in_notes_harms_nobody() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    let keys: Vec<[u8; 4]> = (0..1000_u32).map(u32::to_le_bytes).collect();
    for key in &keys {
        client.set(key, key, 0, 0)?;
    }
    let attached = attach(&server);
    let page = map(&attached.notes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE).unwrap();
    // SAFETY: a page of words that lives as long as the process; the server only loads them.
    let words: &[std::sync::atomic::AtomicU64; PAGE_BYTES / 8] = unsafe { page.cast().as_ref() };
    let mut random = 88172645463325252_u64;
    for round in 0..50_000_u64 {
        for word in words.iter().skip((round % 3) as usize * 100).take(40) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            word.store(random, std::sync::atomic::Ordering::Relaxed);
        }
        let key = &keys[round as usize % keys.len()];
        assert_eq!(client.get(key)?.unwrap().bytes, key);
    }
    server.await_stat("local", "local_nonsense", |count| count > 0);
    server.await_stat("local", "local_hits", |hits| hits >= 50_000);
    // Bytes after the hello are nonsense, too: the reader is dismissed.
    let mut socket = attached.socket;
    socket.write_all(b"more").unwrap();
    assert!(matches!(socket.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert!(client.get(&keys[0])?.is_some());
    Ok(())
}
