//! The program on frames that a test has written, attached to nothing.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use crate::configuration::GetOptions;
use crate::maps::ImageMaps;
use crate::program::Program;

/// See the module.
#[derive(Debug)]
pub struct OnFrames(Program);

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the stack, as this.
    Passed(Vec<u8>),
    /// This leaves where it came from.
    Sent(Vec<u8>),
    /// Neither.
    Other(u32),
}

impl OnFrames {
    /// The program for an interface with these addresses and Ethernet's usual MTU.
    ///
    /// # Errors
    /// In words: why it cannot be loaded.
    pub fn load(
        options: &GetOptions,
        addresses: &[IpAddr],
        image: &ImageMaps,
    ) -> Result<Self, String> {
        Program::with(options, addresses, (1500, false), image).map(Self)
    }

    /// Runs it on a frame.
    ///
    /// # Errors
    /// Of the kernel, which takes only whole frames.
    pub fn run(&self, frame: &[u8]) -> io::Result<Verdict> {
        const PASS: u32 = 2;
        const SENT: u32 = 3;
        let (verdict, frame, _) = micanite_bpf::run(self.0.descriptor.as_fd(), frame, 1)?;
        Ok(match verdict {
            PASS => Verdict::Passed(frame),
            SENT => Verdict::Sent(frame),
            other => Verdict::Other(other),
        })
    }
}
