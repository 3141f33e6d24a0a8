//! Writes replies.

/// Longest `VALUE` line: key of 250 bytes, flags, length, CAS value.
pub const VALUE_HEADER_BYTES_MAX: usize = 6 + 250 + 1 + 10 + 1 + 20 + 1 + 20 + 2;
/// Longest number line.
pub const NUMBER_BYTES_MAX: usize = 22;

pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of a storage command did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The CAS value differs.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
pub const DELETED: &[u8] = b"DELETED\r\n";
/// Reply to touch.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
pub const OK: &[u8] = b"OK\r\n";
/// End of a get or of stats.
pub const END: &[u8] = b"END\r\n";
/// Reply to an unknown command.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// Reply to `stats reset`.
pub const RESET: &[u8] = b"RESET\r\n";
/// Reply to the meta no-op.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// The value exceeds the server's limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// There is no space for the item.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// Reply to `flush_namespace` while the server still removes the keys of earlier ones.
pub const TOO_MANY_NAMESPACES: &[u8] = b"SERVER_ERROR too many namespaces flushed, try again later\r\n";
/// Reply to `flush_namespace` with a name that contains the delimiter.
pub const BAD_NAMESPACE: &[u8] = b"CLIENT_ERROR a namespace ends before its delimiter\r\n";
/// The body did not end at its announced length.
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// Reply to incr or decr of a value that is no number.
pub const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The client is not authenticated yet.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// User or password are wrong.
pub const AUTH_FAILURE: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// The value holds no user and password.
pub const AUTH_FORMAT: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";
/// The announced length exceeds [`super::TOKEN_BYTES_MAX`].
pub const AUTH_TOO_LONG: &[u8] = b"CLIENT_ERROR auth token too long\r\n";
/// User and password did not end at their announced length.
pub const BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
/// Reply to shutdown without the option that enables it.
pub const SHUTDOWN_DISABLED: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// Reply to shutdown with an unknown word.
pub const SHUTDOWN_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
/// The connection limit was reached.
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Writes `VALUE <key> <flags> <bytes>[ <cas>]`; returns its length, at most
/// [`VALUE_HEADER_BYTES_MAX`]. Panics if `out` is too short.
#[inline]
pub fn value_header(out: &mut [u8], key: &[u8], flags: u32, value_bytes: usize, cas: Option<u64>) -> usize {
    out[..6].copy_from_slice(b"VALUE ");
    let mut at = 6 + key.len();
    out[6..at].copy_from_slice(key);
    out[at] = b' ';
    at += 1;
    at += decimal(&mut out[at..], u64::from(flags));
    out[at] = b' ';
    at += 1;
    at += decimal(&mut out[at..], value_bytes as u64);
    if let Some(cas) = cas {
        out[at] = b' ';
        at += 1;
        at += decimal(&mut out[at..], cas);
    }
    out[at..at + 2].copy_from_slice(b"\r\n");
    at + 2
}

/// Writes a number and a line end; returns the length.
#[inline]
pub fn number(out: &mut [u8], number: u64) -> usize {
    let digits = decimal(out, number);
    out[digits..digits + 2].copy_from_slice(b"\r\n");
    digits + 2
}

/// Writes a number; returns how many digits it has.
#[inline]
pub(super) fn decimal(out: &mut [u8], number: u64) -> usize {
    if number < 10 {
        out[0] = b'0' + number as u8;
        return 1;
    }
    let digits = number.ilog10() as usize + 1;
    let mut rest = number;
    for byte in out[..digits].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_written_as_std_formats_them(
            key in "[!-~]{1,250}",
            flags in any::<u32>(),
            bytes in 0usize..1 << 30,
            cas in any::<Option<u64>>(),
            shift in 0u32..64,
        ) {
            let mut out = [0; VALUE_HEADER_BYTES_MAX];
            let end = value_header(&mut out, key.as_bytes(), flags, bytes, cas);
            let tail = cas.map(|cas| format!(" {cas}")).unwrap_or_default();
            let expected = format!("VALUE {key} {flags} {bytes}{tail}\r\n");
            prop_assert_eq!(&out[..end], expected.as_bytes());
            let value = cas.unwrap_or(0) >> shift;
            let end = number(&mut out, value);
            let expected = format!("{value}\r\n");
            prop_assert_eq!(&out[..end], expected.as_bytes());
        }
    }
}
