//! A stream of the set.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::core::Core;
use crate::{ByteStream, Stream};

/// A connection that receives by io_uring. It leaves its set when it is dropped.
#[derive(Debug)]
pub struct UringStream {
    core: Rc<RefCell<Core>>,
    index: u32,
    /// Closed when this is dropped, after [`Drop::drop`] has removed it from the set.
    socket: Stream,
}

impl UringStream {
    pub(super) fn new(core: Rc<RefCell<Core>>, index: u32, socket: Stream) -> Self {
        Self { core, index, socket }
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub fn socket(&self) -> &Stream {
        &self.socket
    }
}

impl ByteStream for UringStream {
    #[inline]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.core.borrow_mut().read(self.index, into) {
            Some(received) => received,
            // Nothing was received before, and the kernel receives nothing while this thread is
            // here.
            None => self.socket.recv(into),
        }
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes)
    }

    fn end_output(&mut self) -> io::Result<()> {
        self.socket.end_output()
    }
}

impl Drop for UringStream {
    fn drop(&mut self) {
        self.core.borrow_mut().close(self.index, &self.socket);
    }
}
