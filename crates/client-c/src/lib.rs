//! The native client for C. `include/micanite.h` declares and documents it.

#![deny(missing_docs)]
#![expect(unsafe_code, reason = "C passes pointers, and the symbols have C's names")]

mod call;
mod client;
mod status;
mod value;

use call::{bytes, call, pair};
use micanite_client::{CasOutcome, Client};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

pub use client::Micanite;
pub use status::Status;
pub use value::{MicaniteValue, micanite_value_free};

/// Connects to the servers of a list, separated by commas.
///
/// # Safety
/// `servers` is null or a C string; `client` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_connect(servers: *const c_char, client: *mut *mut Micanite) -> Status {
    if servers.is_null() || client.is_null() {
        return Status::BadArgument;
    }
    // SAFETY: it is not null, and so a C string, as the caller promises.
    let servers = unsafe { CStr::from_ptr(servers) }.to_string_lossy();
    let (made, status) = Micanite::connect(servers.into_owned());
    // SAFETY: it is not null, and can be written, as the caller promises.
    unsafe { client.write(Box::into_raw(Box::new(made))) };
    status
}

/// Closes a client.
///
/// # Safety
/// `client` is null or came from [`micanite_connect`] and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_close(client: *mut Micanite) {
    if client.is_null() {
        return;
    }
    // SAFETY: it came out of a box, and nobody has it any more, as the caller promises.
    let client = unsafe { Box::from_raw(client) };
    if client.was_forked_inside() {
        std::mem::forget(client);
    }
}

/// Returns the error of the last call.
///
/// # Safety
/// `client` is null or came from [`micanite_connect`] and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_error(client: *const Micanite) -> *const c_char {
    // SAFETY: it is null or a client that no other thread uses, as the caller promises.
    match unsafe { client.as_ref() } {
        Some(client) => client.error().as_ptr(),
        None => c"no client".as_ptr(),
    }
}

/// Gets the value of a key.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_get(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    value: *mut MicaniteValue,
) -> Status {
    // SAFETY: the same promises.
    unsafe { value::fetch(client, (key, key_length), value, Client::get) }
}

/// Gets the value of a key with its CAS value.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_gets(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    value: *mut MicaniteValue,
) -> Status {
    // SAFETY: the same promises.
    unsafe { value::fetch(client, (key, key_length), value, Client::gets) }
}

/// Gets the values of many keys.
///
/// # Safety
/// The arrays have `count` entries, and pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_multi_get(
    client: *mut Micanite,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    values: *mut MicaniteValue,
) -> Status {
    // SAFETY: the same promises.
    unsafe { value::fetch_many(client, (keys, key_lengths), count, values) }
}

macro_rules! store {
    (
        $name:ident,
        $words:literal,
        |$client:ident, $key:ident, $value:ident, $flags:ident, $expiry:ident| $does:expr
    ) => {
        #[doc = $words]
        ///
        /// # Safety
        /// Pointers are null or valid for their lengths, as the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            client: *mut Micanite,
            key: *const c_void,
            key_length: usize,
            value: *const c_void,
            value_length: usize,
            $flags: u32,
            $expiry: u32,
        ) -> Status {
            // SAFETY: the caller promises that both are null or good for their lengths.
            let given = unsafe { pair((key, key_length), (value, value_length)) };
            // SAFETY: the same promises.
            unsafe { call(client, given, |$client, ($key, $value)| $does) }
        }
    };
}

store!(micanite_set, "Stores a value.", |client, key, value, flags, expiry| {
    client.set(key, value, flags, expiry).map(|()| Status::Ok)
});
store!(micanite_add, "Stores if there is no such item.", |client, key, value, flags, expiry| {
    client.add(key, value, flags, expiry).map(Status::stored)
});
store!(micanite_replace, "Stores if there is such an item.", |client, key, value, flags, expiry| {
    client.replace(key, value, flags, expiry).map(Status::stored)
});

/// Stores if the item still has this CAS value.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_cas(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    flags: u32,
    expiry: u32,
    cas: u64,
) -> Status {
    // SAFETY: the caller promises that both are null or good for their lengths.
    let given = unsafe { pair((key, key_length), (value, value_length)) };
    let store = |client: &mut Client, (key, value): (&[u8], &[u8])| {
        let outcome = client.cas(key, value, cas, (flags, expiry))?;
        Ok(match outcome {
            CasOutcome::Stored => Status::Ok,
            CasOutcome::Exists => Status::Exists,
            CasOutcome::NotFound => Status::NotFound,
        })
    };
    // SAFETY: the same promises.
    unsafe { call(client, given, store) }
}

/// Removes an item.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_delete(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
) -> Status {
    let delete = |client: &mut Client, key: &[u8]| client.delete(key).map(Status::found);
    // SAFETY: the caller promises that it is null or good for its length.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the same promises.
    unsafe { call(client, key, delete) }
}

/// Replaces the expiry of an item.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_touch(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    expiry: u32,
) -> Status {
    let touch = |client: &mut Client, key: &[u8]| client.touch(key, expiry).map(Status::found);
    // SAFETY: the caller promises that it is null or good for its length.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the same promises.
    unsafe { call(client, key, touch) }
}

/// Adds to a number.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_increment(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    let mut sum = None;
    let add = |client: &mut Client, key: &[u8]| {
        sum = client.increment(key, delta)?;
        Ok(Status::found(sum.is_some()))
    };
    // SAFETY: the caller promises that it is null or good for its length.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the same promises.
    let status = unsafe { call(client, key, add) };
    // SAFETY: the caller promises that it is null or can be written.
    unsafe { tell(number, sum) };
    status
}

/// Subtracts from a number, not below 0.
///
/// # Safety
/// Pointers are null or valid for their lengths, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_decrement(
    client: *mut Micanite,
    key: *const c_void,
    key_length: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    let mut difference = None;
    let subtract = |client: &mut Client, key: &[u8]| {
        difference = client.decrement(key, delta)?;
        Ok(Status::found(difference.is_some()))
    };
    // SAFETY: the caller promises that it is null or good for its length.
    let key = unsafe { bytes(key, key_length) };
    // SAFETY: the same promises.
    let status = unsafe { call(client, key, subtract) };
    // SAFETY: the caller promises that it is null or can be written.
    unsafe { tell(number, difference) };
    status
}

/// Writes a number, if there is one and `to` is not null.
///
/// # Safety
/// `to` is null or can be written.
unsafe fn tell(to: *mut u64, number: Option<u64>) {
    if let (false, Some(number)) = (to.is_null(), number) {
        // SAFETY: it is not null, and can be written, as the caller promises.
        unsafe { ptr::write(to, number) };
    }
}
