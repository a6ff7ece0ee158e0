//! The table of columns of a fix, and a batch of fixes as columns of equal length.
//!
//! `columns!` renders [`Column`], [`FixRow`], [`FixColumns`] and every function over all columns.
//! A new attribute takes a row here and one in FORMAT.md, section 4. Positions are in quanta of
//! the fleet's space. An absent attribute is unknown in every row; an absent state is 0. The engine
//! validates values.

use crate::error::BlockError;
use crate::header::VERSION_MINOR_VALIDITY;
use crate::value_type::ValueType;
use crate::values::{Native, Patterns, Values};

macro_rules! columns {
    (
        $($(#[$doc:meta])* $id:literal $column:ident $name:literal
            $field:ident: $native:ty, $wire:ident in $unit:literal;)+
        attributes:
        $($(#[$attribute_doc:meta])* $attribute_id:literal $attribute:ident $attribute_name:literal
            $attribute_field:ident: $attribute_native:ty, $attribute_wire:ident
            in $attribute_unit:literal, $unknown:ident = $unknown_value:expr;)+
    ) => {
        $(
            #[doc = concat!("Value of an unknown ", $attribute_name, ".")]
            pub const $unknown: $attribute_native = $unknown_value;
        )+

        /// A column of fixes. Identifiers and types are frozen: they never change once released.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Column {
            $($(#[$doc])* $column = $id,)+
            $($(#[$attribute_doc])* $attribute = $attribute_id,)+
        }

        impl Column {
            /// Columns that every block holds, in wire order.
            pub const MANDATORY: [Self; [$($id),+].len()] = [$(Self::$column),+];
            /// Columns that a block may lack, in wire order; they follow the mandatory ones.
            pub const ATTRIBUTES: [Self; [$($attribute_id),+].len()] = [$(Self::$attribute),+];
            /// Every column in wire order.
            pub const ALL: [Self; [$($id,)+ $($attribute_id),+].len()] =
                [$(Self::$column,)+ $(Self::$attribute),+];

            /// The one type of its values on the wire.
            pub const fn value_type(self) -> ValueType {
                match self {
                    $(Self::$column => ValueType::$wire,)+
                    $(Self::$attribute => ValueType::$attribute_wire,)+
                }
            }

            /// Its name in messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)+
                    $(Self::$attribute => $attribute_name,)+
                }
            }

            /// Unit of its values in memory.
            pub const fn unit(self) -> &'static str {
                match self {
                    $(Self::$column => $unit,)+
                    $(Self::$attribute => $attribute_unit,)+
                }
            }

            /// Value of a row in which it is unknown, `None` for mandatory columns.
            pub const fn unknown(self) -> Option<i64> {
                match self {
                    $(Self::$column => None,)+
                    $(Self::$attribute => Some($unknown as i64),)+
                }
            }
        }

        /// One fix; unknown attributes hold their sentinels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct FixRow {
            $($(#[$doc])* pub $field: $native,)+
            $($(#[$attribute_doc])* pub $attribute_field: $attribute_native,)+
        }

        impl FixRow {
            /// A fix whose attributes are all unknown.
            pub const fn new($($field: $native),+) -> Self {
                Self { $($field,)+ $($attribute_field: $unknown,)+ }
            }
        }

        /// A batch of fixes as columns of equal length.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct FixColumns {
            $($(#[$doc])* pub $field: Vec<$native>,)+
            $($(#[$attribute_doc])* pub $attribute_field: Option<Vec<$attribute_native>>,)+
        }

        impl FixColumns {
            /// No rows, no attributes, capacity for `rows` in the mandatory columns.
            pub fn with_capacity(rows: usize) -> Self {
                Self { $($field: Vec::with_capacity(rows),)+ ..Self::default() }
            }

            /// Values of one column, `None` if it is absent.
            pub fn column(&self, column: Column) -> Option<ColumnValues<'_>> {
                match column {
                    $(Column::$column => Some(self.$field.as_slice().into()),)+
                    $(Column::$attribute => self.$attribute_field.as_deref().map(Into::into),)+
                }
            }

            /// Copies some rows to new columns.
            ///
            /// # Panics
            /// If a column has fewer rows.
            #[must_use]
            pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
                Self {
                    $($field: self.$field[rows.clone()].to_vec(),)+
                    $($attribute_field: self
                        .$attribute_field
                        .as_ref()
                        .map(|values| values[rows.clone()].to_vec()),)+
                }
            }

            /// Drops the rows from index `rows` on; does nothing if there are at most `rows`.
            pub fn truncate(&mut self, rows: usize) {
                $(self.$field.truncate(rows);)+
                $(if let Some(values) = &mut self.$attribute_field {
                    values.truncate(rows);
                })+
            }

            /// Appends one fix. An absent attribute is created, with unknown values for the rows
            /// before, only when the fix has a known value for it.
            pub fn push_row(&mut self, row: FixRow) {
                let rows = self.len();
                $(self.$field.push(row.$field);)+
                $(push_attribute(
                    &mut self.$attribute_field,
                    rows,
                    row.$attribute_field,
                    $unknown,
                );)+
            }

            /// The fix at `index`.
            ///
            /// # Panics
            /// If `index` is not below [`FixColumns::len`], or the columns are not equally long.
            pub fn row(&self, index: usize) -> FixRow {
                FixRow {
                    $($field: self.$field[index],)+
                    $($attribute_field: match &self.$attribute_field {
                        Some(values) => values[index],
                        None => $unknown,
                    },)+
                }
            }

            /// Replaces one column by values as they stand on the wire, where times count from
            /// `base_time_ms`.
            ///
            /// # Panics
            /// If the values do not have the column's type.
            pub fn set_column(&mut self, column: Column, values: Values, base_time_ms: i64) {
                match (column, values) {
                    (Column::Time, Values::U32(offsets)) => {
                        let time_ms = |offset_ms| base_time_ms + i64::from(offset_ms);
                        self.time_ms = offsets.into_iter().map(time_ms).collect();
                    }
                    (Column::Object, Values::U64(values)) => self.object = values,
                    (Column::X, Values::I32(values)) => self.x = values,
                    (Column::Y, Values::I32(values)) => self.y = values,
                    $((Column::$attribute, Values::$attribute_wire(values)) => {
                        self.$attribute_field = Some(values);
                    })+
                    (column, _) => unreachable!("{} has one type", column.name()),
                }
            }

            /// Values of one column as they stand on the wire, where times count from
            /// `base_time_ms`; `None` if it is absent.
            pub fn values(&self, column: Column, base_time_ms: i64) -> Option<Values> {
                Some(match column {
                    Column::Time => {
                        let offset = |time_ms: &i64| time_ms.wrapping_sub(base_time_ms) as u32;
                        Values::U32(self.time_ms.iter().map(offset).collect())
                    }
                    Column::Object => Values::U64(self.object.clone()),
                    Column::X => Values::I32(self.x.clone()),
                    Column::Y => Values::I32(self.y.clone()),
                    $(Column::$attribute => {
                        Values::$attribute_wire(self.$attribute_field.clone()?)
                    })+
                })
            }

            /// Bit patterns of a column that is present, as they stand on the wire.
            pub(crate) fn patterns(&self, column: Column, base_time_ms: i64) -> Patterns<'_> {
                match column {
                    Column::Time => {
                        // The offset fits, because a writer of blocks has checked the time span.
                        let offset = |time_ms: &i64| time_ms.wrapping_sub(base_time_ms) as u32;
                        Patterns::U32(self.time_ms.iter().map(offset).collect())
                    }
                    Column::Object => Native::patterns(&self.object).into(),
                    Column::X => Native::patterns(&self.x).into(),
                    Column::Y => Native::patterns(&self.y).into(),
                    $(Column::$attribute => {
                        let values = self.$attribute_field.as_deref().expect("it is present");
                        Native::patterns(values).into()
                    })+
                }
            }

            /// Calls `visitor` for each attribute.
            pub(crate) fn visit_attributes<V: AttributeVisitor>(
                &mut self,
                visitor: &V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(Column::$attribute, &mut self.$attribute_field)?;)+
                Ok(())
            }
        }
    };
}

columns! {
    /// Object id.
    1 Object "object" object: u64, U64 in "";
    /// Event time in Unix milliseconds; on the wire an offset from the header's base time.
    2 Time "time" time_ms: i64, U32 in "ms";
    /// Longitude or x in quanta.
    3 X "x" x: i32, I32 in "quanta";
    /// Latitude or y in quanta.
    4 Y "y" y: i32, I32 in "quanta";
    attributes:
    /// Speed in mm/s, [`SPEED_UNKNOWN`] where unknown.
    5 Speed "speed" speed_mm_s: u32, U32 in "mm/s", SPEED_UNKNOWN = u32::MAX;
    /// Heading in hundredths of a degree clockwise from north, [`HEADING_UNKNOWN`] where unknown.
    6 Heading "heading" heading_cdeg: u16, U16 in "cdeg", HEADING_UNKNOWN = u16::MAX;
    /// Altitude in mm, [`ALTITUDE_UNKNOWN`] where unknown.
    7 Altitude "altitude" altitude_mm: i32, I32 in "mm", ALTITUDE_UNKNOWN = i32::MIN;
    /// The user's state bits, [`STATE_NONE`] where the fix has none.
    8 State "state" state: u32, U32 in "", STATE_NONE = 0;
    /// How long the fix is valid after its time, in ms, [`VALIDITY_UNKNOWN`] where it does not say.
    9 Validity "validity" valid_ms: u32, U32 in "ms", VALIDITY_UNKNOWN = u32::MAX;
}

/// Values of one column in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnValues<'a> {
    /// 16-bit unsigned.
    U16(&'a [u16]),
    /// 32-bit unsigned.
    U32(&'a [u32]),
    /// 64-bit unsigned.
    U64(&'a [u64]),
    /// 32-bit signed.
    I32(&'a [i32]),
    /// 64-bit signed: event times in Unix milliseconds.
    I64(&'a [i64]),
}

macro_rules! column_values {
    ($($variant:ident $native:ty),+) => {
        $(impl<'a> From<&'a [$native]> for ColumnValues<'a> {
            fn from(values: &'a [$native]) -> Self {
                Self::$variant(values)
            }
        })+

        impl ColumnValues<'_> {
            /// Number of values.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)+
                }
            }
        }
    };
}

column_values!(U16 u16, U32 u32, U64 u64, I32 i32, I64 i64);

impl ColumnValues<'_> {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An operation on each optional column, whatever its type.
pub(crate) trait AttributeVisitor {
    /// Error of a visit, which ends the iteration.
    type Error;
    /// Visits one optional column.
    fn visit<N: Native>(
        &self,
        column: Column,
        values: &mut Option<Vec<N>>,
    ) -> Result<(), Self::Error>;
}

/// Appends `value` to an optional column of `rows` rows. An absent column is created, with
/// `unknown` in these rows, only if `value` is not `unknown`.
fn push_attribute<T: Copy + PartialEq>(
    column: &mut Option<Vec<T>>,
    rows: usize,
    value: T,
    unknown: T,
) {
    match column {
        Some(values) => values.push(value),
        None if value == unknown => {}
        None => {
            let mut values = vec![unknown; rows];
            values.push(value);
            *column = Some(values);
        }
    }
}

impl Column {
    /// The column with this wire identifier, if there is one.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.id() == id)
    }

    /// Its identifier on the wire.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Minor version of the format that introduced the column of fixes with this identifier; 0 for
    /// columns of tables.
    pub(crate) const fn version_minor(id: u16) -> u16 {
        if id == Self::Validity.id() { VERSION_MINOR_VALIDITY } else { 0 }
    }

    /// Its place in [`Column::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }

    /// True for the columns that every block holds.
    pub const fn is_mandatory(self) -> bool {
        self.index() < Self::MANDATORY.len()
    }
}

impl FixColumns {
    /// No rows, no attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows of the object column; [`FixColumns::check`] compares the other columns with
    /// it.
    pub fn len(&self) -> usize {
        self.object.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// The columns that are present.
    pub fn column_set(&self) -> ColumnSet {
        let present = |column: &Column| column.is_mandatory() || self.column(*column).is_some();
        Column::ALL.into_iter().filter(present).fold(ColumnSet(0), ColumnSet::with)
    }

    /// Checks that all columns that are present are equally long.
    ///
    /// # Errors
    /// [`BlockError::ColumnLength`] names the first column that differs from the object column.
    pub fn check(&self) -> Result<(), BlockError> {
        let rows = self.len();
        for column in Column::ALL {
            let length = self.column(column).map_or(rows, |values| values.len());
            if length != rows {
                return Err(BlockError::ColumnLength { column: column.name(), length, rows });
            }
        }
        Ok(())
    }

    /// Drops all rows; allocations and the set of columns stay as they are.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

/// A set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnSet(u16);

impl ColumnSet {
    /// The columns that every block holds: object, time, x and y.
    pub const MANDATORY: Self = Self::of(&Column::MANDATORY);
    /// All columns.
    pub const ALL: Self = Self::of(&Column::ALL);
    /// No column.
    pub const NONE: Self = Self::of(&[]);

    const fn of(columns: &[Column]) -> Self {
        match columns {
            [] => Self(0),
            [first, others @ ..] => Self::of(others).with(*first),
        }
    }

    /// This set and `column`.
    #[must_use]
    pub const fn with(self, column: Column) -> Self {
        Self(self.0 | 1 << column.id())
    }

    /// The columns of this set or `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The columns of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if `column` is in the set.
    pub const fn contains(self, column: Column) -> bool {
        self.0 & (1 << column.id()) != 0
    }

    /// Its columns in wire order.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().filter(move |column| self.contains(*column))
    }

    /// Number of its columns.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Bytes of one row in plan `raw`: 20 for the mandatory columns, 38 for all.
    pub fn row_bytes(self) -> usize {
        self.iter().map(|column| column.value_type().width_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_each_other_and_sizes_are_those_of_the_format() {
        for (index, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!((column.index(), column.unknown().is_none()), (index, index < 4));
        }
        for id in 0..=300 {
            assert_eq!(Column::from_id(id).map(Column::id), (1..=9).contains(&id).then_some(id));
        }
        assert!(Column::MANDATORY.into_iter().eq(ColumnSet::MANDATORY.iter()));
        assert!(Column::ALL.into_iter().eq(ColumnSet::ALL.iter()));
        assert_eq!(ColumnSet::MANDATORY.row_bytes(), 20);
        assert_eq!(ColumnSet::ALL.row_bytes(), 38);
        assert_eq!(ColumnSet::MANDATORY.with(Column::Heading).row_bytes(), 22);
    }

    #[test]
    fn an_attribute_appears_with_its_first_known_value() {
        let mut columns = FixColumns::new();
        columns.push_row(FixRow::new(1, 10, 100, 200));
        assert_eq!(columns.column_set(), ColumnSet::MANDATORY);
        columns.push_row(FixRow { speed_mm_s: 7, ..FixRow::new(2, 11, 101, 201) });
        columns.push_row(FixRow { state: 1, ..FixRow::new(3, 12, 102, 202) });
        assert_eq!(columns.speed_mm_s, Some(vec![SPEED_UNKNOWN, 7, SPEED_UNKNOWN]));
        assert_eq!(columns.state, Some(vec![0, 0, 1]));
        assert_eq!(columns.heading_cdeg, None);
        columns.check().unwrap();
        assert_eq!(columns.row(1), FixRow { speed_mm_s: 7, ..FixRow::new(2, 11, 101, 201) });
        columns.truncate(1);
        assert_eq!(columns.len(), 1);
        columns.clear();
        assert!(columns.is_empty());
        columns.check().unwrap();
    }

    #[test]
    fn unequal_columns_are_named() {
        let columns = FixColumns { heading_cdeg: Some(vec![1]), ..FixColumns::new() };
        let message = columns.check().unwrap_err().to_string();
        assert!(message.contains("heading") && message.contains('1'), "{message}");
    }
}
