//! Runs the program on frames written by a test, without attaching it.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use micanite_bpf::{Bound, Object};

use crate::configuration::GetOptions;
use crate::maps::ImageMaps;
use crate::program::{Program, Source};

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

    /// Loads another program over the same maps, and over some that only it has.
    ///
    /// # Errors
    /// Describes why it cannot be loaded.
    pub fn load_other<'a>(
        (object, maps): (&'a Object, &'a dyn Fn(&str) -> Bound<'a>),
        options: &GetOptions,
        addresses: &[IpAddr],
        image: &ImageMaps,
    ) -> Result<Self, String> {
        Program::of(&Source { object, maps }, options, addresses, (1500, false), image).map(Self)
    }

    /// Runs the program several times, each time on the frame that the time before left; returns the
    /// nanoseconds of one run and the last verdict.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn repeat(&self, frame: &[u8], times: u32) -> io::Result<(u32, u32)> {
        let (verdict, _, ns) = micanite_bpf::run(self.0.descriptor.as_fd(), frame, times)?;
        Ok((ns, verdict))
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
