//! Attaching a program to an interface: in the driver where it can, never in place of another, and
//! what the kernel's refusals mean.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interface::Interface;
use crate::netlink;
use micanite_bpf::{MODE_GENERIC, MODE_NATIVE, program_name};

/// Where a program is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or where that has no room for it, before the stack.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Before the stack, on the frames that the driver has made: any driver.
    Generic,
}

/// A program on its interface, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    /// How, in words; with the reason, if it is not in the driver as it might be.
    pub mode: String,
    /// Whether it runs in the driver.
    pub is_native: bool,
}

impl Attached {
    /// Whether it is still there: interfaces come and go, and programs can be detached by others.
    ///
    /// # Errors
    /// The kernel does not tell, see [`micanite_bpf::interface_of`].
    pub fn is_attached(&self) -> io::Result<bool> {
        micanite_bpf::interface_of(self.link.as_fd()).map(|interface| interface != 0)
    }
}

/// Attaches a program to an interface.
///
/// # Errors
/// Another program is there, or the kernel says no; in words for the user.
pub fn attach(
    program: BorrowedFd<'_>,
    interface: &Interface,
    mode: Mode,
) -> Result<Attached, String> {
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
    Ok(Attached {
        link,
        is_native: words == "native XDP",
        mode: words,
    })
}

/// Whether something is attached already.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(interface: &Interface) -> String {
    let name = &interface.name;
    let attached = netlink::attached(interface.index).filter(|it| it.program != 0);
    let who = match attached.map(|it| it.program) {
        Some(id) => match program_name(id) {
            Ok(program) => format!("'{program}' (id {id})"),
            Err(_) => format!("of id {id}"),
        },
        None => "of somebody else".to_owned(),
    };
    format!(
        "an XDP program {who} is attached already, and is not ours to replace. `ip link show dev {name}` shows it; stop \
         what has attached it, or `ip link set dev {name} xdp off`"
    )
}

/// What the errors mean, as far as drivers agree.
fn native_refused(error: &io::Error, interface: &Interface) -> String {
    let Interface { name, mtu, .. } = interface;
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => format!("the driver {} has none", interface.driver),
        // veth; what others say to an MTU is EINVAL or EOPNOTSUPP.
        Some(libc::ERANGE) => format!(
            "the MTU {mtu}, or that of the peer, is too large; at most about 3,500: `ip link set dev {name} mtu 1500`"
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
