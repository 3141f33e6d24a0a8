//! | file | contents |
//! |---|---|
//! | `words.rs` | text form of datagrams, the notation of `testdata/native.txt` |
//! | `golden.rs` | golden datagrams in both directions, and refused datagrams |
//! | `round_trips.rs` | written datagrams read back |
//! | `broken.rs` | invalid datagrams are refused, without reads beyond their end |

mod broken;
mod golden;
mod round_trips;
mod words;
