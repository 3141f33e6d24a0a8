//! Conversion of C's pointers to Rust, and of errors to C.

use crate::{Micanite, Status};
use micanite_client::{Client, Error};
use std::ffi::{CString, c_void};
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

/// Calls a function with the connected client and a key.
///
/// # Safety
/// `client` is null or one that nobody else uses; the key's bytes can be read, or it is null.
pub(crate) unsafe fn call(
    client: *mut Micanite,
    (key, key_length): (*const c_void, usize),
    does: impl FnOnce(&mut Client, &[u8]) -> Result<Status, Error>,
) -> Status {
    // SAFETY: the caller promises it.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the caller promises it.
    let client = unsafe { client.as_mut() };
    let (Some(key), Some(client)) = (key, client) else {
        return Status::BadArgument;
    };
    let Some(connected) = &mut client.client else {
        return Status::Unreachable;
    };
    match does(connected, key) {
        Ok(status) => {
            client.error = CString::default();
            status
        }
        Err(error) => client.fail(&error),
    }
}
