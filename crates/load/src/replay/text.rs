//! Requests in memcached's text protocol.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::step::{Command, stores};
use micanite_workload::trace::Operation;

/// Times to live beyond this are dates in memcached's protocol.
const RELATIVE_S_MAX: u32 = 30 * 24 * 3600;
/// The last date that memcached understands.
const DATE_S_MAX: u64 = i32::MAX as u64;

impl Command<'_> {
    /// Appends it.
    pub fn push_text(&self, to: &mut Vec<u8>) {
        let name = match self.operation {
            Operation::Get => "get",
            Operation::Gets => "gets",
            Operation::Set => "set",
            Operation::Add => "add",
            Operation::Replace => "replace",
            Operation::Append => "append",
            Operation::Prepend => "prepend",
            Operation::Cas => "cas",
            Operation::Delete => "delete",
            Operation::Increment => "incr",
            Operation::Decrement => "decr",
            Operation::Touch => "touch",
            Operation::GetAndTouch => "gat",
        };
        to.extend_from_slice(name.as_bytes());
        to.push(b' ');
        if self.operation == Operation::GetAndTouch {
            push_decimal(to, expiry(self.expiry_s));
            to.push(b' ');
        }
        to.extend_from_slice(self.key);
        match self.operation {
            Operation::Increment | Operation::Decrement => to.extend_from_slice(b" 1"),
            Operation::Touch => {
                to.push(b' ');
                push_decimal(to, expiry(self.expiry_s));
            }
            operation if stores(operation) => {
                to.extend_from_slice(b" 0 ");
                push_decimal(to, expiry(self.expiry_s));
                to.push(b' ');
                push_decimal(to, self.value_bytes.into());
                if operation == Operation::Cas {
                    to.push(b' ');
                    push_decimal(to, self.cas);
                }
                to.extend_from_slice(b"\r\n");
                to.resize(to.len() + self.value_bytes as usize, b'0');
            }
            _ => {}
        }
        to.extend_from_slice(b"\r\n");
    }
}

/// As memcached has it: seconds from now, or a date.
fn expiry(expiry_s: u32) -> u64 {
    if expiry_s <= RELATIVE_S_MAX {
        return expiry_s.into();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let date_s = now.unwrap_or_default().as_secs() + u64::from(expiry_s);
    date_s.min(DATE_S_MAX)
}

fn push_decimal(to: &mut Vec<u8>, number: u64) {
    let mut text = arrayvec::ArrayString::<20>::new();
    // Twenty digits hold every number.
    let _ = write!(text, "{number}");
    to.extend_from_slice(text.as_bytes());
}
