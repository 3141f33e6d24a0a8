//! Little-endian numbers at an offset. Callers have checked that the offset lies within the bytes.

macro_rules! number {
    ($get:ident, $put:ident, $type:ty) => {
        #[inline]
        pub(super) fn $get(bytes: &[u8], at: usize) -> $type {
            let mut raw = [0; size_of::<$type>()];
            raw.copy_from_slice(&bytes[at..at + size_of::<$type>()]);
            <$type>::from_le_bytes(raw)
        }

        #[inline]
        pub(super) fn $put(bytes: &mut [u8], at: usize, number: $type) {
            bytes[at..at + size_of::<$type>()].copy_from_slice(&number.to_le_bytes());
        }
    };
}

number!(u16_at, put_u16, u16);
number!(u32_at, put_u32, u32);
number!(u64_at, put_u64, u64);
