//! Tables as CSV files, column by column: each column gets the narrowest type that holds it.
//!
//! Whole numbers become the narrowest integer, other numbers f64 with NaN for an empty field. Any
//! other column is text, which is skipped and reported by name.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use shoal_codec::Values;

use super::data_set::{Content, DataSet};
use super::recorded::stem;
use crate::error::BenchmarkError;

/// The columns of one file, and the names of skipped columns.
pub(super) fn table(file: &Path) -> Result<(DataSet, Vec<String>), BenchmarkError> {
    let failed = |source| BenchmarkError::Read { path: file.display().to_string(), source };
    let bytes = BufReader::new(File::open(file).map_err(failed)?);
    let is_packed = file.extension().is_some_and(|ending| ending == "gz");
    let text: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) };
    let mut reader = csv::Reader::from_reader(text);
    let csv_failed = |error: csv::Error| failed(error.into());
    let names: Vec<String> =
        reader.headers().map_err(csv_failed)?.iter().map(str::to_owned).collect();
    let mut texts: Vec<Vec<String>> = vec![Vec::new(); names.len()];
    for record in reader.records() {
        let record = record.map_err(csv_failed)?;
        for (column, text) in texts.iter_mut().zip(record.iter()) {
            column.push(text.to_owned());
        }
    }
    let (mut columns, mut left_out) = (Vec::new(), Vec::new());
    for (name, texts) in names.into_iter().zip(texts) {
        match typed(&texts) {
            Some(values) => columns.push((name, values)),
            None => left_out.push(name),
        }
    }
    Ok((DataSet { name: stem(file), content: Content::Columns(columns) }, left_out))
}

/// The values in the narrowest type that holds them all; `None` for text.
fn typed(texts: &[String]) -> Option<Values> {
    if let Some(values) = texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<i128>>>()
    {
        return integers(&values).or_else(|| floats(texts));
    }
    floats(texts)
}

fn floats(texts: &[String]) -> Option<Values> {
    let value = |text: &String| if text.is_empty() { Some(f64::NAN) } else { text.parse().ok() };
    texts.iter().map(value).collect::<Option<Vec<f64>>>().map(Values::F64)
}

fn integers(values: &[i128]) -> Option<Values> {
    macro_rules! narrowest {
        ($($integer:ty => $variant:ident),*) => {
            $(if let Ok(narrow) = values.iter().map(|value| <$integer>::try_from(*value)).collect()
            {
                return Some(Values::$variant(narrow));
            })*
        };
    }
    narrowest!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64);
    let wide: Result<Vec<i64>, _> = values.iter().map(|value| i64::try_from(*value)).collect();
    wide.ok().map(Values::I64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use shoal_codec::ValueType;

    #[test]
    fn columns_have_the_narrowest_type() {
        let type_of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            typed(&texts).map(|values| values.value_type())
        };
        for (texts, expected) in [
            (&["0", "255"][..], Some(ValueType::U8)),
            (&["-1", "127"], Some(ValueType::I8)),
            (&["256"], Some(ValueType::U16)),
            (&["-129"], Some(ValueType::I16)),
            (&["65536"], Some(ValueType::U32)),
            (&["-32769"], Some(ValueType::I32)),
            (&["4294967296"], Some(ValueType::U64)),
            (&["-2147483649", "1"], Some(ValueType::I64)),
            (&["-1", "18446744073709551615"], Some(ValueType::F64)),
            (&["1.5", "2"], Some(ValueType::F64)),
            (&["1", ""], Some(ValueType::F64)),
            (&["1", "a"], None),
        ] {
            assert_eq!(type_of(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_file_is_read_into_named_columns() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("browsers.csv");
        std::fs::write(&file, "day,share,name\n1,0.25,a\n2,,b\n").unwrap();
        let (set, left_out) = table(&file).unwrap();
        assert_eq!(
            (set.name.as_str(), left_out.as_slice()),
            ("browsers", &["name".to_owned()][..])
        );
        let Content::Columns(columns) = set.content else { panic!("no columns") };
        let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["day", "share"]);
        assert!(matches!(&columns[1].1, Values::F64(shares) if shares[1].is_nan()));
    }
}
