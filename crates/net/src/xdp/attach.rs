//! Attaches a program to an interface: in the driver if possible, and never in place of another
//! program. Explains the kernel's refusals.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interface::Interface;
use crate::netlink;
use micanite_bpf::{MODE_GENERIC, MODE_NATIVE, program_name};

/// Place where a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver if it supports that, otherwise before the stack.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Before the stack, on frames from any driver.
    Generic,
}

/// A program on its interface, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    /// Describes the mode, with the reason if it is not the driver's.
    pub mode: String,
    /// The program runs in the driver.
    pub is_native: bool,
}

impl Attached {
    /// Returns whether the program is still attached: interfaces disappear, and others can detach
    /// programs.
    ///
    /// # Errors
    /// The kernel does not tell, as [`micanite_bpf::interface_of`] explains.
    pub fn is_attached(&self) -> io::Result<bool> {
        micanite_bpf::interface_of(self.link.as_fd()).map(|interface| interface != 0)
    }
}

/// Attaches a program to an interface.
///
/// # Errors
/// Describes the problem for users: another program is attached, or the kernel refuses.
pub fn attach(program: BorrowedFd<'_>, interface: &Interface, mode: Mode) -> Result<Attached, String> {
    let attach = |mode| micanite_bpf::attach(program, interface.index, mode);
    let native = match mode {
        Mode::Generic => None,
        Mode::Native | Mode::Auto => Some(attach(MODE_NATIVE)),
    };
    let (link, words) = match native {
        None => (attach(MODE_GENERIC), "generic XDP".to_owned()),
        Some(Ok(link)) => (Ok(link), "native XDP".to_owned()),
        Some(Err(error)) if is_taken(&error) => (Err(error), String::new()),
        Some(Err(error)) => {
            let why = native_refused(&error, interface);
            if mode == Mode::Native {
                return Err(format!("native XDP is refused: {why}"));
            }
            let words = format!("generic XDP (native refused: {why})");
            (attach(MODE_GENERIC), words)
        }
    };
    let link = link.map_err(|error| match is_taken(&error) {
        true => taken(interface),
        false => format!("the XDP program cannot be attached: {error}"),
    })?;
    Ok(Attached { link, is_native: words == "native XDP", mode: words })
}

/// Returns whether another program is attached.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(interface: &Interface) -> String {
    let name = &interface.name;
    let attached = netlink::attached(interface.index).filter(|it| it.program != 0);
    let who = match attached.map(|it| it.program) {
        Some(id) => match program_name(id) {
            Ok(program) => format!("'{program}' (id {id})"),
            Err(_) => format!("with id {id}"),
        },
        None => "of another owner".to_owned(),
    };
    format!(
        "an XDP program {who} is attached already, and is not ours to replace. \
         `ip link show dev {name}` shows it; stop its owner, or `ip link set dev {name} xdp off`"
    )
}

/// Explains errors, as far as drivers agree.
fn native_refused(error: &io::Error, interface: &Interface) -> String {
    let Interface { name, mtu, .. } = interface;
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => format!("the driver {} does not support it", interface.driver),
        // veth. Other drivers report a wrong MTU as EINVAL or EOPNOTSUPP.
        Some(libc::ERANGE) => format!(
            "the MTU {mtu}, or that of the peer, is too large; at most about 3,500: \
             `ip link set dev {name} mtu 1500`"
        ),
        Some(libc::EINVAL) if *mtu > 3000 => {
            format!("the MTU {mtu} may be too large: `ip link set dev {name} mtu 1500`")
        }
        Some(libc::ENOSPC) => {
            "too few receive queues for the peer's transmit queues, or none left for XDP".to_owned()
        }
        _ => error.to_string(),
    }
}
