//! The texts of one row, and their values.

use memchr::memchr_iter;

use super::fields::{LineSplit, split_quoted};
use super::fix::{CsvRow, Fix, NamedCsvRow};
use super::header::{CsvHeader, DATE, TEXTS};
use crate::CsvFault;
use crate::fix_fields::{
    FixField, MeasureReader, NotANumber, RowMeasures, TimeReader, measure_text_of, object_number,
    real, state_bits,
};

/// The texts of a row by field of a fix, and the date; empty where the file has no such column.
#[derive(Default)]
pub(super) struct Record<'line> {
    texts: [&'line str; TEXTS],
    /// A bit for each text that is not UTF-8, which is then empty.
    not_text: u16,
    /// True if a quote within the object's text is doubled.
    is_object_doubled: bool,
}

/// A fault of a row. It is on the heap, because results without a fault are moved for every row.
pub(super) struct RecordFault {
    /// `None` if the fault is one of the line.
    pub(super) field: Option<FixField>,
    pub(super) fault: CsvFault,
}

impl RecordFault {
    #[cold]
    pub(super) fn of(field: FixField, fault: CsvFault) -> Box<Self> {
        Box::new(Self { field: Some(field), fault })
    }

    #[cold]
    pub(super) fn of_line(fault: CsvFault) -> Box<Self> {
        Box::new(Self { field: None, fault })
    }
}

/// What is needed to read the values of a file.
pub(super) struct Values {
    pub(super) header: CsvHeader,
    pub(super) times: TimeReader,
    pub(super) measures: MeasureReader,
    /// The object of rows that state none.
    pub(super) object: Option<String>,
    pub(super) is_strict: bool,
    /// The measures of the current row that were dropped.
    pub(super) dropped: Vec<Dropped>,
}

/// A measure that was dropped: its field, and its text.
pub(super) struct Dropped {
    pub(super) field: FixField,
    pub(super) text: String,
}

impl<'line> Record<'line> {
    /// Splits a line into an empty record; false if a quoted field goes on in the next line.
    ///
    /// # Errors
    /// The number of fields is not that of the header; text after a closing quote.
    #[inline]
    pub(super) fn split(
        &mut self,
        line: &'line [u8],
        may_have_quote: bool,
        header: &CsvHeader,
    ) -> Result<bool, Box<RecordFault>> {
        match std::str::from_utf8(line) {
            Ok(line) if !may_have_quote => self.split_plain(line, header),
            _ => self.split_any(line, header),
        }
    }

    /// Splits a line of text without quotes.
    #[inline]
    fn split_plain(
        &mut self,
        line: &'line str,
        header: &CsvHeader,
    ) -> Result<bool, Box<RecordFault>> {
        let (mut start, mut ends) = (0, memchr_iter(header.delimiter, line.as_bytes()));
        for (index, place) in header.places.iter().enumerate() {
            if start > line.len() {
                return Err(wrong_count(index, header));
            }
            let end = ends.next().unwrap_or(line.len());
            if let Some(place) = *place {
                self.texts[usize::from(place)] = line[start..end].trim_ascii();
            }
            start = end + 1;
        }
        if start <= line.len() {
            return Err(wrong_count(header.places.len() + 1 + ends.count(), header));
        }
        Ok(true)
    }

    /// Splits any line.
    #[cold]
    fn split_any(
        &mut self,
        line: &'line [u8],
        header: &CsvHeader,
    ) -> Result<bool, Box<RecordFault>> {
        let split = split_quoted(line, header.delimiter, |index, field| {
            let Some(Some(place)) = header.places.get(index) else { return };
            match std::str::from_utf8(field.bytes) {
                Ok(text) => self.texts[usize::from(*place)] = text.trim_ascii(),
                Err(_) => self.not_text |= 1 << place,
            }
            let is_object = usize::from(*place) == FixField::Object as usize;
            self.is_object_doubled |= field.is_doubled && is_object;
        });
        match split.map_err(RecordFault::of_line)? {
            LineSplit::Open => Ok(false),
            LineSplit::Fields(count) if count == header.places.len() => Ok(true),
            LineSplit::Fields(found) => Err(wrong_count(found, header)),
        }
    }

    /// The text of a field.
    #[inline]
    fn text(&self, field: FixField) -> Result<&'line str, Box<RecordFault>> {
        if self.not_text & 1 << field as u16 == 0 {
            Ok(self.texts[field as usize])
        } else {
            Err(RecordFault::of(field, CsvFault::NotText))
        }
    }

    #[inline]
    fn object(&self, values: &Values) -> Result<u64, Box<RecordFault>> {
        let text = self.text(FixField::Object)?;
        match object_number(text, values.header.columns.is_hexadecimal) {
            Some(object) => Ok(object),
            None => Self::object_default(text, values),
        }
    }

    /// The object of a row whose text is no number: that of the options if the text is empty.
    #[cold]
    fn object_default(text: &str, values: &Values) -> Result<u64, Box<RecordFault>> {
        let default = values.object.as_deref().filter(|_| text.is_empty());
        default.and_then(|object| object_number(object, false)).ok_or_else(|| {
            let text = default.unwrap_or(text);
            let expected = if values.header.columns.is_hexadecimal {
                "a hexadecimal number of an object"
            } else {
                "a number of an object, 0 to 18446744073709551614; a fleet with names takes texts \
                 (--fleet NAME --fleet-create named)"
            };
            RecordFault::of(FixField::Object, CsvFault::not_a(text, expected))
        })
    }

    #[inline]
    fn time_ms(&self, values: &mut Values) -> Result<i64, Box<RecordFault>> {
        let text = self.text(FixField::Time)?;
        let time = if values.header.has_decimal_commas() && text.contains(',') {
            values.times.text(&text.replace(',', "."), self.texts[DATE])
        } else {
            values.times.text(text, self.texts[DATE])
        };
        time.map_err(|reason| RecordFault::of(FixField::Time, CsvFault::Value { reason }))
    }

    #[inline]
    fn coordinate(&self, field: FixField, values: &Values) -> Result<f64, Box<RecordFault>> {
        let text = self.text(field)?;
        match real(text, values.header.has_decimal_commas()) {
            Some(value) if value.is_finite() => Ok(value),
            _ => Err(RecordFault::of(field, CsvFault::not_a(text, "a finite number"))),
        }
    }

    /// A measure in the unit of the file; `None` if it is unknown. One that is no number is an
    /// error of a strict file, otherwise it is dropped.
    #[inline]
    fn measure(
        &self,
        field: FixField,
        values: &mut Values,
    ) -> Result<Option<f64>, Box<RecordFault>> {
        let text = match self.text(field) {
            Ok("") => return Ok(None),
            Ok(text) => text,
            Err(fault) if values.is_strict => return Err(fault),
            Err(_) => {
                values.dropped.push(Dropped { field, text: "not UTF-8 text".to_owned() });
                return Ok(None);
            }
        };
        match measure_text_of(text, values.header.has_decimal_commas()) {
            Ok(value) => Ok(value),
            Err(NotANumber) if values.is_strict => {
                Err(RecordFault::of(field, CsvFault::not_a(text, "a finite number")))
            }
            Err(NotANumber) => {
                values.dropped.push(Dropped { field, text: text.to_owned() });
                Ok(None)
            }
        }
    }

    /// True if the row has an object, a time and a position.
    pub(super) fn is_complete(&self, values: &mut Values) -> bool {
        let has_object = values.object.is_some()
            || self.text(FixField::Object).is_ok_and(|object| !object.is_empty());
        has_object
            && self.time_ms(values).is_ok()
            && self.coordinate(FixField::X, values).is_ok()
            && self.coordinate(FixField::Y, values).is_ok()
    }

    /// The fix of an object, in a row without its state.
    #[inline]
    fn fix_of(&self, object: u64, values: &mut Values) -> Result<CsvRow, Box<RecordFault>> {
        let time_ms = self.time_ms(values)?;
        let x = self.coordinate(FixField::X, values)?;
        let y = self.coordinate(FixField::Y, values)?;
        let read = RowMeasures {
            speed: self.measure(FixField::Speed, values)?,
            heading: self.measure(FixField::Heading, values)?,
            altitude: self.measure(FixField::Altitude, values)?,
            validity: self.measure(FixField::Validity, values)?,
        };
        let Values { measures, dropped, .. } = values;
        let kept = measures.convert(read, |field, _| {
            dropped.push(Dropped { field, text: self.texts[field as usize].to_owned() });
        });
        let RowMeasures { speed: speed_mps, heading: heading_deg, altitude, validity } = kept;
        let fix = Fix { object, time_ms, x, y, speed_mps, heading_deg };
        Ok(CsvRow { fix, altitude_m: altitude, state: 0, valid_s: validity })
    }

    /// Reads the fix of a row.
    ///
    /// # Errors
    /// The field that cannot be read.
    #[inline]
    pub(super) fn fix(&self, values: &mut Values) -> Result<Fix, Box<RecordFault>> {
        let object = self.object(values)?;
        self.fix_of(object, values).map(|row| row.fix)
    }

    /// Reads a row.
    ///
    /// # Errors
    /// As [`Self::fix`].
    #[inline]
    pub(super) fn row(&self, values: &mut Values) -> Result<CsvRow, Box<RecordFault>> {
        let object = self.object(values)?;
        self.row_of(object, values)
    }

    /// Reads a row whose object has a name.
    ///
    /// # Errors
    /// As [`Self::fix`].
    pub(super) fn named_row(&self, values: &mut Values) -> Result<NamedCsvRow, Box<RecordFault>> {
        let name = self.text(FixField::Object)?;
        let name = match &values.object {
            Some(object) if name.is_empty() => object.clone(),
            _ if self.is_object_doubled => name.replace("\"\"", "\""),
            _ => name.to_owned(),
        };
        Ok(NamedCsvRow { name, row: self.row_of(0, values)? })
    }

    #[inline]
    fn row_of(&self, object: u64, values: &mut Values) -> Result<CsvRow, Box<RecordFault>> {
        let row = self.fix_of(object, values)?;
        let text = self.text(FixField::State)?;
        let state = match state_bits(text) {
            Some(state) => state,
            None if values.is_strict => {
                let fault = CsvFault::not_a(text, "a whole number from 0 to 4294967295");
                return Err(RecordFault::of(FixField::State, fault));
            }
            None => {
                values.dropped.push(Dropped { field: FixField::State, text: text.to_owned() });
                0
            }
        };
        Ok(CsvRow { state, ..row })
    }
}

#[cold]
fn wrong_count(found: usize, header: &CsvHeader) -> Box<RecordFault> {
    RecordFault::of_line(CsvFault::FieldCount { found, expected: header.places.len() })
}
