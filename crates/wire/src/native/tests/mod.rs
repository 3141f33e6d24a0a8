//! | file | contents |
//! |---|---|
//! | `words.rs` | text form of datagrams, the notation of `testdata/native.txt` |
//! | `fabric_words.rs` | the same for the messages of a fabric |
//! | `golden.rs` | golden datagrams in both directions, and refused datagrams |
//! | `round_trips.rs` | written datagrams read back |
//! | `broken.rs` | invalid datagrams are refused, without reads beyond their end |
//! | `fabric.rs` | messages of a fabric: round trips, invalid ones |

mod broken;
mod fabric;
mod fabric_words;
mod golden;
mod round_trips;
mod words;
