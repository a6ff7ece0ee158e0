//! Types of values on the wire and their codes, which are
//! frozen (FORMAT.md, section 4).

/// Type of a column's values on the wire, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// 8-bit unsigned.
    U8 = 1,
    /// 16-bit unsigned.
    U16 = 2,
    /// 32-bit unsigned.
    U32 = 3,
    /// 64-bit unsigned.
    U64 = 4,
    /// 8-bit two's complement.
    I8 = 5,
    /// 16-bit two's complement.
    I16 = 6,
    /// 32-bit two's complement.
    I32 = 7,
    /// 64-bit two's complement.
    I64 = 8,
    /// IEEE 754 binary32.
    F32 = 9,
    /// IEEE 754 binary64.
    F64 = 10,
}

impl ValueType {
    /// Every type, in order of code.
    pub const ALL: [Self; 10] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F32,
        Self::F64,
    ];

    /// The type with this wire code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Its code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Bytes of one value.
    pub const fn width_bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The unsigned type of the same width.
    pub const fn unsigned(self) -> Self {
        match self {
            Self::U8 | Self::I8 => Self::U8,
            Self::U16 | Self::I16 => Self::U16,
            Self::U32 | Self::I32 | Self::F32 => Self::U32,
            Self::U64 | Self::I64 | Self::F64 => Self::U64,
        }
    }

    /// True for two's complement integers.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// True for IEEE 754 floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_through_their_codes() {
        for code in 0..=u8::MAX {
            let back = ValueType::from_code(code).map(ValueType::code);
            assert_eq!(back, (1..=10).contains(&code).then_some(code));
        }
    }
}
