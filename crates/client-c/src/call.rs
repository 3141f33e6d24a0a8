//! Conversion of C's pointers to Rust, and of errors to C.

use crate::{Micanite, Status};
use micanite_client::{Client, Error};
use std::ffi::c_void;
use std::slice;

/// Converts bytes from C; `None` if the pointer is null and the length is not 0.
///
/// # Safety
/// `start` is null, or as many bytes as that can be read for `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return (length == 0).then_some(&[]);
    }
    // SAFETY: it is not null, so the bytes can be read, as the caller promises.
    Some(unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// Converts a key and a value from C; `None` if one of the pointers is null and its length is not 0.
///
/// # Safety
/// Each start is null, or as many bytes as that can be read for `'a`.
pub(crate) unsafe fn pair<'a>(
    (key, key_length): (*const c_void, usize),
    (value, value_length): (*const c_void, usize),
) -> Option<(&'a [u8], &'a [u8])> {
    // SAFETY: the caller promises it.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the caller promises it.
    let value = unsafe { bytes(value, value_length) };
    key.zip(value)
}

/// Calls a function with the connected client and its arguments; `None`: a required pointer is null.
///
/// # Safety
/// `client` is null or one that nobody else uses.
pub(crate) unsafe fn call<A>(
    client: *mut Micanite,
    arguments: Option<A>,
    does: impl FnOnce(&mut Client, A) -> Result<Status, Error>,
) -> Status {
    // SAFETY: the caller promises it.
    let Some(client) = (unsafe { client.as_mut() }) else {
        return Status::BadArgument;
    };
    match arguments {
        Some(arguments) => client.run(|connected| does(connected, arguments)),
        None => client.fail(Status::BadArgument, "a required pointer is null"),
    }
}
