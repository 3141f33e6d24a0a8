//! Administration beside the requests, by threads of their own. The protocol of the control socket is
//! the crate `control`.
//!
//! | module | |
//! |---|---|
//! | `socket` | opens the control socket |
//! | `thread` | serves it: one client at a time, with deadlines |
//! | `execute` | executes its requests |
//! | `lists` | what it lists, as text and JSON |
//! | [`balance`] | changes routes by measured load |
//! | `kernel_get` | tends the program that answers GETs in the kernel |
//! | `local` | lets readers on the same host in, and takes their notes |
//! | [`numa`] | keeps the memory of partitions on the nodes of their owners |
//! | [`reload`] | reads certificates and passwords again |
//! | `restart` | executes another program, or another version of it, in the same process |

pub mod balance;
mod execute;
pub(crate) mod kernel_get;
mod lists;
pub mod local;
pub(crate) mod memory;
pub mod numa;
pub mod reload;
pub(crate) mod restart;
mod socket;
mod thread;

pub(crate) use execute::Executor;
pub(crate) use socket::{NoSocket, Socket};
pub(crate) use thread::ControlThread;
