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
    // SAFETY: the caller promises that it is null or good for its length.
    let key = unsafe { bytes(key.0, key.1) }.filter(|_| !value.is_null());
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
    if !value.is_null() {
        // SAFETY: it is not null and can be written, as the caller promises.
        unsafe { value.write(told) };
    }
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
    let (mut starts, mut sizes) = (&[][..], &[][..]);
    if !keys.is_null() && !lengths.is_null() {
        // SAFETY: it is not null, and has so many entries, as the caller promises.
        starts = unsafe { slice::from_raw_parts(keys, count) };
        // SAFETY: as above.
        sizes = unsafe { slice::from_raw_parts(lengths, count) };
    }
    let are_given = starts.len() == count && (count == 0 || !values.is_null());
    let key = |number: usize| {
        let (start, length) = (starts.get(number)?, sizes.get(number)?);
        // SAFETY: each key is null or good for its length, as the caller promises.
        unsafe { bytes(*start, *length) }
    };
    let wanted: Vec<_> = (0..if values.is_null() { 0 } else { count }).map(key).collect();
    let known: Vec<_> = wanted.iter().flatten().copied().collect();
    let mut found = Vec::new();
    let fetch = |client: &mut Client, ()| {
        found = client.get_each(&known);
        let failed = found.iter().find_map(|one| one.as_ref().err());
        failed.map_or(Ok(Status::Ok), |error| Err(error.clone()))
    };
    // SAFETY: the same promise about the client.
    let mut status = unsafe { call(client, are_given.then_some(()), fetch) };
    let mut found = found.into_iter();
    let mut first_failed = None;
    for (number, key) in wanted.iter().enumerate() {
        let told = match (key, key.and_then(|_| found.next())) {
            (_, Some(Ok(value))) => MicaniteValue::of(value),
            (_, Some(Err(error))) => {
                first_failed.get_or_insert(number);
                MicaniteValue::none(Status::of(&error))
            }
            // There was no client to ask.
            (Some(_), None) => MicaniteValue::none(status),
            (None, None) => MicaniteValue::none(Status::BadArgument),
        };
        // SAFETY: there is room for `count` values, as the caller promises.
        let place = unsafe { values.add(number) };
        // SAFETY: as above; what was there before owns nothing.
        unsafe { place.write(told) };
    }
    let first_null = wanted.iter().position(Option::is_none);
    if are_given && first_null.is_some_and(|null| first_failed.is_none_or(|failed| null < failed)) {
        // SAFETY: the same promise about the client.
        status = unsafe { call(client, None::<()>, |_, ()| Ok(Status::Ok)) };
    }
    status
}
