//! Values for C, and their release.

use crate::call::{bytes, call};
use crate::{Micanite, Status};
use micanite_client::{Client, Error, Value};
use std::ffi::c_void;
use std::{ptr, slice};

/// `micanite_value` of the header.
#[derive(Debug)]
#[repr(C)]
pub struct MicaniteValue {
    status: Status,
    flags: u32,
    cas: u64,
    bytes: *mut u8,
    length: usize,
}

impl MicaniteValue {
    const fn none(status: Status) -> Self {
        Self { status, flags: 0, cas: 0, bytes: ptr::null_mut(), length: 0 }
    }

    fn of(found: Option<Value>) -> Self {
        let Some(value) = found else {
            return Self::none(Status::NotFound);
        };
        let boxed: Box<[u8]> = value.bytes.into();
        let length = boxed.len();
        Self {
            status: Status::Ok,
            flags: value.flags,
            cas: value.cas.unwrap_or(0),
            bytes: Box::into_raw(boxed).cast(),
            length,
        }
    }
}

/// Frees the value of a get.
///
/// # Safety
/// `value` is null, or a get has written it and nobody has changed its pointer and length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn micanite_value_free(value: *mut MicaniteValue) {
    // SAFETY: it is null or can be written, as the caller promises.
    let Some(value) = (unsafe { value.as_mut() }) else {
        return;
    };
    if !value.bytes.is_null() {
        let boxed = ptr::slice_from_raw_parts_mut(value.bytes, value.length);
        // SAFETY: pointer and length came out of a box in `MicaniteValue::of`, and are taken back
        // once: they are cleared below.
        drop(unsafe { Box::from_raw(boxed) });
    }
    *value = MicaniteValue::none(value.status);
}

/// Gets one key.
///
/// # Safety
/// Pointers are null or good for their lengths.
pub(crate) unsafe fn fetch(
    client: *mut Micanite,
    key: (*const c_void, usize),
    value: *mut MicaniteValue,
    get: impl FnOnce(&mut Client, &[u8]) -> Result<Option<Value>, Error>,
) -> Status {
    if value.is_null() {
        return Status::BadArgument;
    }
    let mut found = None;
    let fetch = |client: &mut Client, key: &[u8]| {
        found = get(client, key)?;
        Ok(Status::found(found.is_some()))
    };
    // SAFETY: the same promises.
    let status = unsafe { call(client, key, fetch) };
    let told = match status {
        Status::Ok => MicaniteValue::of(found),
        _ => MicaniteValue::none(status),
    };
    // SAFETY: it is not null and can be written, as the caller promises.
    unsafe { value.write(told) };
    status
}

/// Gets many keys.
///
/// # Safety
/// The arrays have `count` entries; pointers are null or good for their lengths.
pub(crate) unsafe fn fetch_many(
    client: *mut Micanite,
    (keys, lengths): (*const *const c_void, *const usize),
    count: usize,
    values: *mut MicaniteValue,
) -> Status {
    if keys.is_null() || lengths.is_null() || values.is_null() {
        return if count == 0 { Status::Ok } else { Status::BadArgument };
    }
    // SAFETY: it is not null, and has so many entries, as the caller promises.
    let starts = unsafe { slice::from_raw_parts(keys, count) };
    // SAFETY: as above.
    let lengths = unsafe { slice::from_raw_parts(lengths, count) };
    for number in 0..count {
        // SAFETY: there is room for `count` values, as the caller promises.
        let place = unsafe { values.add(number) };
        // SAFETY: as above.
        unsafe { place.write(MicaniteValue::none(Status::BadArgument)) };
    }
    let mut wanted = Vec::with_capacity(count);
    for (start, length) in starts.iter().zip(lengths) {
        // SAFETY: each key is null or good for its length, as the caller promises.
        match unsafe { bytes(*start, *length) } {
            Some(key) => wanted.push(key),
            None => return Status::BadArgument,
        }
    }
    let mut found = Vec::new();
    let fetch = |client: &mut Client, _: &[u8]| {
        found = client.multi_get(&wanted)?;
        Ok(Status::Ok)
    };
    // SAFETY: the same promise about the client; the empty key is a literal.
    let status = unsafe { call(client, (ptr::null(), 0), fetch) };
    for number in 0..count {
        let told = match found.get_mut(number) {
            Some(value) => MicaniteValue::of(value.take()),
            None => MicaniteValue::none(status),
        };
        // SAFETY: there is room for `count` values, as the caller promises.
        let place = unsafe { values.add(number) };
        // SAFETY: as above; what was there before owns nothing.
        unsafe { place.write(told) };
    }
    status
}
