//! | file | what |
//! |---|---|
//! | `words.rs` | datagrams in words, the notation of `testdata/native.txt` |
//! | `golden.rs` | the golden datagrams in both directions, and those that are refused |
//! | `round_trips.rs` | whatever is written is read back |
//! | `broken.rs` | whatever is no datagram is refused, and never reads beyond its end |

mod broken;
mod golden;
mod round_trips;
mod words;
