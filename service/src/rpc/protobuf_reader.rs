//! Iterates over the fields of an encoded protobuf message.
//!
//! Report messages are read directly into columns, because a generated type can take 36 times the
//! bytes of a message: an empty fix is 2 bytes on the wire and 72 in memory. The rules are those of
//! protobuf.dev/programming-guides/encoding; groups, which are deprecated, are refused.

use crate::error::ServiceError;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct ProtobufReader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes` in the outermost message.
    base: usize,
}

impl<'a> ProtobufReader<'a> {
    /// A reader of `bytes`, which begin at offset `base` of the outermost message. Errors call the
    /// message `what`.
    pub(super) fn new(what: &'static str, bytes: &'a [u8], base: usize) -> Self {
        Self { what, bytes, at: 0, base }
    }

    /// A reader of the value of the field that was just read.
    pub(super) fn inner<'b>(&self, bytes: &'b [u8]) -> ProtobufReader<'b> {
        ProtobufReader::new(self.what, bytes, self.offset() - bytes.len())
    }

    /// Offset of the next field in the outermost message.
    pub(super) fn offset(&self) -> usize {
        self.base + self.at
    }

    /// The next field's number and value; `None` at the end.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, ServiceError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).unwrap_or(0);
        if number == 0 || number >= 1 << 29 {
            return Err(self.malformed("field number out of range"));
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Value::Bytes(self.length_delimited()?),
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(self.malformed("unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ServiceError> {
        if let Some(&byte) = self.bytes.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(byte.into());
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, ServiceError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.malformed("truncated number"));
            };
            self.at += 1;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("number exceeds 64 bits"))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ServiceError> {
        match self.bytes[self.at..].first_chunk() {
            Some(array) => {
                self.at += N;
                Ok(*array)
            }
            None => Err(self.malformed("truncated number")),
        }
    }

    #[inline]
    fn length_delimited(&mut self) -> Result<&'a [u8], ServiceError> {
        let length = self.varint()?;
        let rest = &self.bytes[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(self.malformed("truncated field")),
        }
    }

    /// The error for a problem at the current offset.
    #[cold]
    pub(super) fn malformed(&self, problem: &'static str) -> ServiceError {
        ServiceError::Malformed { what: self.what, problem, offset: self.offset() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, ServiceError> {
        let mut reader = ProtobufReader::new("Test", bytes, 0);
        let mut fields = Vec::new();
        while let Some(field) = reader.field()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let bytes =
            [0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, 7, 8, 0x25, 9, 0, 0, 0];
        let fields = walk(&bytes).unwrap();
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1)),
            (3, Value::Bytes(&[7, 8])),
            (4, Value::Fixed32(9)),
        ];
        assert_eq!(fields, expected);
        // A truncated message is valid only if the cut is between fields.
        for length in 1..bytes.len() {
            assert_eq!(walk(&bytes[..length]).is_ok(), [3, 12, 16].contains(&length), "{length}");
        }
    }

    #[test]
    fn numbers_beyond_their_range_are_refused() {
        let mut longest = [0xff; 11];
        longest[0] = 0x08;
        longest[10] = 0x01;
        assert_eq!(walk(&longest).unwrap(), [(1, Value::Varint(u64::MAX))]);
        longest[10] = 0x02;
        assert!(walk(&longest).is_err());
        for bad in
            [&[0x00][..], &[0x0b], &[0x0c], &[0x0e], &[0x0f], &[0x0a, 0xff, 0xff, 0xff, 0xff]]
        {
            assert!(walk(bad).is_err(), "{bad:?}");
        }
    }
}
