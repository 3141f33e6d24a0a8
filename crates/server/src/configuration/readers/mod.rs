//! Readers of the memory outside of this process: a program in the kernel, and processes on the same host.

mod kernel_get;
mod local;

pub use kernel_get::KernelGetSettings;
pub(super) use kernel_get::kernel_get;
pub use local::LocalSettings;
pub(super) use local::local;
