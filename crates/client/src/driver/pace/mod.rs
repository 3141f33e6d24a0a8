//! The pace of a lane: its window, its round trips, and the requests gathered into a datagram.

mod batch;
mod rtt;
mod window;

pub use batch::{Gathering, batch_that_pays, delay_of_batch_ns};
pub use rtt::Rtt;
pub use window::Window;
