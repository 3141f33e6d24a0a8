//! Descriptors that are sent over a Unix socket beside bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Descriptors of one message, as the kernel allows.
const DESCRIPTORS_MAX: usize = 253;

/// Sends bytes with copies of descriptors, without waiting. Returns the number of bytes sent; the
/// descriptors went with the first.
///
/// # Errors
/// `WouldBlock` if there is no room, the kernel's error otherwise.
pub fn send_with_descriptors(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[impl AsFd],
) -> io::Result<usize> {
    let numbers: Vec<RawFd> = descriptors.iter().map(|it| it.as_fd().as_raw_fd()).collect();
    let control = [ControlMessage::ScmRights(&numbers)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let socket = socket.as_fd().as_raw_fd();
    super::retry(|| sendmsg::<()>(socket, &[IoSlice::new(bytes)], &control, flags, None))
}

/// Receives bytes, at most as many as fit, and the descriptors beside them. They are closed for programs
/// that this one executes. Waits if the socket does.
///
/// # Errors
/// The kernel's error; `InvalidData` if some descriptors were lost, because this process may have no more.
pub fn receive_with_descriptors(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut taken = Vec::new();
    let number = socket.as_fd().as_raw_fd();
    let mut is_cut = false;
    let count = super::retry(|| {
        let mut into = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(number, &mut into, Some(&mut control), flags)?;
        is_cut = message.flags.contains(MsgFlags::MSG_CTRUNC);
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = part {
                // SAFETY: the kernel has just made these descriptors for this process, and nobody else
                // knows their numbers.
                taken.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
            }
        }
        Ok(message.bytes)
    })?;
    if is_cut {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors were lost on their way"));
    }
    Ok((count, taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_beside_their_bytes() {
        let (near, far) = UnixStream::pair().unwrap();
        let path = std::env::temp_dir().join(format!("micanite-net-descriptors-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"here").unwrap();
        file.rewind().unwrap();
        assert_eq!(send_with_descriptors(&near, b"ab", &[&file, &file]).unwrap(), 2);
        let (count, mut taken) = receive_with_descriptors(&far, &mut [0; 2]).unwrap();
        assert_eq!((count, taken.len()), (2, 2));
        let mut text = String::new();
        File::from(taken.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "here");
        drop(near);
        assert_eq!(receive_with_descriptors(&far, &mut [0; 2]).unwrap().0, 0);
    }
}
