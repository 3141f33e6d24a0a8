//! `--io`: the way in which workers wait for their streams, and the result of probing the kernel for it.

use std::io;

use micanite_net::Uring;

use super::UsageError;

/// Value of `--io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// epoll, which was measured to be faster (`docs/benchmarks/streams.md`).
    #[default]
    Epoll,
    /// io_uring; the server does not start without it.
    Uring,
    /// io_uring where the kernel allows it, else epoll.
    Auto,
}

impl IoChoice {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Uring => "io_uring",
            Self::Auto => "auto",
        }
    }
}

impl std::str::FromStr for IoChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "epoll" => Ok(Self::Epoll),
            "io_uring" => Ok(Self::Uring),
            "auto" => Ok(Self::Auto),
            _ => Err(format!("'{name}' is none of epoll, io_uring, auto")),
        }
    }
}

/// Value of `--io`, and the result of the probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoSettings {
    pub choice: IoChoice,
    /// Error of the probe, after which `auto` means epoll.
    pub refused: Option<String>,
}

impl IoSettings {
    /// Tries io_uring, if it may be wanted.
    ///
    /// # Errors
    /// It was asked for and does not work.
    pub fn probe(&mut self) -> Result<(), UsageError> {
        self.settle(match self.choice {
            IoChoice::Epoll => Ok(()),
            IoChoice::Uring | IoChoice::Auto => Uring::probe(),
        })
    }

    fn settle(&mut self, probe: io::Result<()>) -> Result<(), UsageError> {
        let Err(error) = probe else {
            return Ok(());
        };
        if self.choice == IoChoice::Uring {
            return Err(UsageError(format!(
                "--io io_uring: the kernel refuses it: {error}\n  \
                 --io auto falls back to epoll; containers need a seccomp profile that allows io_uring"
            )));
        }
        self.refused = Some(error.to_string());
        Ok(())
    }

    /// Returns whether streams are received by io_uring.
    pub fn is_uring(&self) -> bool {
        self.choice != IoChoice::Epoll && self.refused.is_none()
    }

    /// The name of what is used.
    pub fn backend(&self) -> &'static str {
        if self.is_uring() { "io_uring" } else { "epoll" }
    }

    /// Returns the reason why this backend is used.
    pub fn reason(&self) -> String {
        match (&self.refused, self.choice) {
            (Some(refused), _) => format!("io_uring refused: {refused}"),
            (None, IoChoice::Epoll) => "--io epoll".into(),
            (None, IoChoice::Uring) => "--io io_uring".into(),
            (None, IoChoice::Auto) => "the kernel allows it".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_only_for_whoever_insists() {
        let refusal = || Err(io::Error::from_raw_os_error(1));
        let of = |choice, probe| {
            let mut io = IoSettings { choice, refused: None };
            io.settle(probe).map(|()| (io.backend(), io.reason()))
        };
        let auto = of(IoChoice::Auto, refusal()).unwrap();
        assert_eq!(auto.0, "epoll");
        assert!(auto.1.contains("not permitted"), "{}", auto.1);
        assert_eq!(of(IoChoice::Auto, Ok(())).unwrap().0, "io_uring");
        assert_eq!(of(IoChoice::Uring, Ok(())).unwrap().0, "io_uring");
        let error = of(IoChoice::Uring, refusal()).unwrap_err();
        assert!(error.0.contains("not permitted"), "{error}");
        assert_eq!(of(IoChoice::Epoll, Ok(())).unwrap().0, "epoll");
    }
}
