//! Runs the program on frames written by a test, without attaching it.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use crate::configuration::GetOptions;
use crate::maps::ImageMaps;
use crate::program::Program;

#[derive(Debug)]
pub struct TestProgram(Program);

/// Result of running the program on a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame goes to the stack in this form.
    Passed(Vec<u8>),
    /// This frame leaves on the same interface.
    Sent(Vec<u8>),
    /// Another verdict.
    Other(u32),
}

impl TestProgram {
    /// Loads the program for an interface with these addresses and Ethernet's usual MTU.
    ///
    /// # Errors
    /// Describes why it cannot be loaded.
    pub fn load(options: &GetOptions, addresses: &[IpAddr], image: &ImageMaps) -> Result<Self, String> {
        Program::with(options, addresses, (1500, false), image).map(Self)
    }

    /// Runs the program on a frame.
    ///
    /// # Errors
    /// Returns the kernel's error: it accepts only whole frames.
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
