//! Which columns may a block hold, and what type has each on the wire?
//!
//! Identifiers and types are law (FORMAT.md, section 4): they never change once released. Columns
//! stand in a block in ascending order of identifier. This file knows nothing of values.

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
    /// The type with this wire code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::U8,
            2 => Self::U16,
            3 => Self::U32,
            4 => Self::U64,
            5 => Self::I8,
            6 => Self::I16,
            7 => Self::I32,
            8 => Self::I64,
            9 => Self::F32,
            10 => Self::F64,
            _ => return None,
        })
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

/// A column of fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Column {
    /// Object id, u64.
    Object = 1,
    /// Event time as u32 milliseconds after the header's base.
    Time = 2,
    /// Longitude or x in i32 quanta.
    X = 3,
    /// Latitude or y in i32 quanta.
    Y = 4,
    /// Speed in u32 mm/s, optional.
    Speed = 5,
    /// Heading in u16 hundredths of a degree, optional.
    Heading = 6,
    /// Altitude in i32 mm, optional.
    Altitude = 7,
    /// User's state bits, u32, optional.
    State = 8,
}

impl Column {
    /// Every column in wire order.
    pub const ALL: [Self; 8] = [
        Self::Object,
        Self::Time,
        Self::X,
        Self::Y,
        Self::Speed,
        Self::Heading,
        Self::Altitude,
        Self::State,
    ];

    /// The column with this wire identifier, if there is one.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.id() == id)
    }

    /// Its identifier on the wire.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// The one type its values have on the wire.
    pub const fn value_type(self) -> ValueType {
        match self {
            Self::Object => ValueType::U64,
            Self::Time | Self::Speed | Self::State => ValueType::U32,
            Self::X | Self::Y | Self::Altitude => ValueType::I32,
            Self::Heading => ValueType::U16,
        }
    }

    /// True for the columns that every block holds.
    pub const fn is_mandatory(self) -> bool {
        matches!(self, Self::Object | Self::Time | Self::X | Self::Y)
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Time => "time",
            Self::X => "x",
            Self::Y => "y",
            Self::Speed => "speed",
            Self::Heading => "heading",
            Self::Altitude => "altitude",
            Self::State => "state",
        }
    }
}

/// A set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnSet(u16);

impl ColumnSet {
    /// Object, time, x and y: what every block holds.
    pub const MANDATORY: Self = Self(0b0001_1110);
    /// All eight columns.
    pub const ALL: Self = Self(0b1_1111_1110);

    /// This set and `column`.
    #[must_use]
    pub const fn with(self, column: Column) -> Self {
        Self(self.0 | 1 << column.id())
    }

    /// True if `column` is in the set.
    pub const fn contains(self, column: Column) -> bool {
        self.0 & (1 << column.id()) != 0
    }

    /// Its columns in wire order.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().filter(move |column| self.contains(*column))
    }

    /// How many columns it has.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Bytes that one row takes in plan `raw`: 20 for the mandatory columns, 34 for all.
    pub fn row_bytes(self) -> usize {
        self.iter().map(|column| column.value_type().width_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_agree_with_the_column_table() {
        let mandatory = Column::ALL.into_iter().filter(|column| column.is_mandatory());
        assert!(mandatory.eq(ColumnSet::MANDATORY.iter()));
        assert!(Column::ALL.into_iter().eq(ColumnSet::ALL.iter()));
        assert_eq!(ColumnSet::MANDATORY.row_bytes(), 20);
        assert_eq!(ColumnSet::ALL.row_bytes(), crate::limits::ROW_BYTES_MAX);
        assert_eq!(ColumnSet::MANDATORY.with(Column::Heading).row_bytes(), 22);
    }

    #[test]
    fn codes_lead_back_to_their_types_and_columns() {
        for code in 0..=u8::MAX {
            let back = ValueType::from_code(code).map(ValueType::code);
            assert_eq!(back, (1..=10).contains(&code).then_some(code));
        }
        for id in 0..=300 {
            assert_eq!(Column::from_id(id).map(Column::id), (1..=8).contains(&id).then_some(id));
        }
    }
}
