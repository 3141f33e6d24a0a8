//! The pace of a lane: its window, its round trips, and the requests gathered into a datagram.

mod batch;
mod rtt;
mod window;

pub use batch::Gathering;
pub use rtt::Rtt;
pub use window::Window;
