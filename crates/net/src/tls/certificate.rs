//! Facts of a certificate that the TLS library does not tell.

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// Explicit tag of the version, which certificates of version 1 do not have.
const VERSION: u8 = 0xa0;

/// A certificate, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Certificate<'a> {
    /// It has version 1, and so no extensions: `openssl x509 -req` makes such certificates.
    pub is_v1: bool,
    /// The last second of its validity, unix time.
    pub ends_s: i64,
    /// The public key with its algorithm (SubjectPublicKeyInfo), as DER.
    pub public_key: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads DER (RFC 5280, 4.1). Returns `None` if it is no certificate.
    pub fn of(der: &'a [u8]) -> Option<Self> {
        let (certificate, _) = value(der, SEQUENCE)?;
        let (mut fields, _) = value(certificate, SEQUENCE)?;
        let version = value(fields, VERSION);
        fields = version.map_or(fields, |(_, rest)| rest);
        // Serial number, algorithm of the signature, issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            (_, fields) = value(fields, tag)?;
        }
        let (validity, fields) = value(fields, SEQUENCE)?;
        let (_begin, end) = time(validity)?;
        let (ends_s, _) = time(end)?;
        let (_subject, key) = value(fields, SEQUENCE)?;
        let (_, rest) = value(key, SEQUENCE)?;
        let public_key = &key[..key.len() - rest.len()];
        Some(Self { is_v1: version.is_none(), ends_s, public_key })
    }
}

/// Splits `der` after its first element, which has to have this tag. Returns the element's value
/// and the rest.
pub(super) fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..0x80 => (usize::from(*length), rest),
        // The length itself takes this many bytes.
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(*length & 0x7f))?;
            let length = bytes
                .iter()
                .try_fold(0usize, |length, byte| Some(length.checked_mul(256)? + usize::from(*byte)))?;
            (length, rest)
        }
    };
    rest.split_at_checked(length).filter(|_| *first == tag)
}

/// Reads a time. Returns it in unix time, and the rest.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (year, digits, rest) = match value(der, UTC_TIME) {
        Some((text, rest)) => {
            let (year, digits) = text.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, digits, rest)
        }
        None => {
            let (text, rest) = value(der, GENERALIZED_TIME)?;
            let (year, digits) = text.split_at_checked(4)?;
            (number(year)?, digits, rest)
        }
    };
    let digits = digits.strip_suffix(b"Z").filter(|digits| digits.len() == 10)?;
    let field = |at: usize| number(&digits[2 * at..2 * at + 2]);
    let days = days(year, field(0)?, field(1)?);
    Some((((days * 24 + field(2)?) * 60 + field(3)?) * 60 + field(4)?, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the day that some years have more is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_in_both_forms_of_time() {
        for (end, expected) in [
            (rcgen::date_time_ymd(2049, 12, 31), 2_524_521_600),
            (rcgen::date_time_ymd(2050, 1, 1), 2_524_608_000),
            (rcgen::date_time_ymd(2024, 2, 29), 1_709_164_800),
            (rcgen::date_time_ymd(1999, 3, 1), 920_246_400),
            (rcgen::date_time_ymd(9999, 12, 31), 253_402_214_400),
        ] {
            let mut parameters = rcgen::CertificateParams::new(["localhost".to_string()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(1990, 1, 1);
            parameters.not_after = end;
            let key = rcgen::KeyPair::generate().unwrap();
            let made = parameters.self_signed(&key).unwrap();
            let found = Certificate::of(made.der()).unwrap();
            assert_eq!((found.ends_s, found.is_v1), (expected, false));
            assert_eq!(found.public_key, rcgen::PublicKeyData::subject_public_key_info(&key));
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let der = made.cert.der().to_vec();
        for bytes in 0..der.len() {
            assert_eq!(Certificate::of(&der[..bytes]), None, "{bytes} bytes");
        }
        for at in 0..der.len() {
            let mut changed = der.clone();
            changed[at] ^= 0x80;
            // Whatever it is, it is no panic.
            let _ = Certificate::of(&changed);
        }
    }
}
