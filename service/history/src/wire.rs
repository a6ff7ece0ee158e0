//! Little-endian fields written and read in order.
//!
//! Callers check lengths first: reading a field beyond the end is a programmer error and panics.

/// Appends fields.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

/// Takes fields.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

macro_rules! fields {
    ($($name:ident: $type:ty),+) => {
        impl Writer {
            $(pub(crate) fn $name(&mut self, value: $type) {
                self.0.extend_from_slice(&value.to_le_bytes());
            })+
        }

        impl Reader<'_> {
            $(pub(crate) fn $name(&mut self) -> $type {
                let (field, rest) = self.0.split_first_chunk().expect("callers check lengths");
                self.0 = rest;
                <$type>::from_le_bytes(*field)
            })+
        }
    };
}

fields!(u16: u16, u32: u32, i32: i32, u64: u64, i64: i64, f64: f64, u128: u128);
