//! The header of a table: names and types of its columns, and how their numbers are printed.
//!
//! A header is a TOML text (FILE.md, section 2). The compressed file contains it; for binary
//! columns the user writes it. A parsed header is valid: options fit the types, the key exists, and
//! the names of binary columns are unique.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use shoal_codec::ValueType;

use crate::TableError;
use crate::limits::{COLUMNS_MAX, HEADER_TEXT_BYTES_MAX, PRECISION_MAX};

/// Id of the key column of a table block, and of the one column of a text block.
pub(crate) const KEY_COLUMN: u16 = 256;
/// Id of the first column of the header.
const FIRST_COLUMN: u16 = 257;

/// Name of the header file in a folder of decompressed columns.
pub(crate) const HEADER_FILE: &str = "columns.toml";

/// Properties of a table that its blocks do not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Name of the key column: rows with equal values form one series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Form of the text, if the table was CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvForm>,
    /// The columns in order.
    #[serde(rename = "column", default)]
    pub columns: Vec<ColumnHeader>,
}

/// Form of CSV text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvForm {
    /// One ASCII byte between two fields.
    pub separator: char,
    /// End of every line.
    pub line_end: LineEnd,
}

/// End of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnd {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
}

impl LineEnd {
    /// Its bytes.
    pub(crate) const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
        }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnHeader {
    /// Its name.
    pub name: String,
    /// Type of its values.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Only in integer columns: the value is the integer divided by 10 to the power of `precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<u8>,
    /// Minimum number of printed decimals; `precision` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision_min: Option<u8>,
    /// Floats: how they are printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<FloatStyle>,
    /// True if one value of the type represents an empty field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty: bool,
    /// Binary columns: name of the file of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How floats are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloatStyle {
    /// Fewest digits that read back the same: `12`, `0.5`.
    #[default]
    Shortest,
    /// The same with at least one decimal, and exponents for very large and small: `12.0`.
    Point,
    /// All digits of the binary value, which has finitely many: `0.10000000000000000555111512...`.
    Exact,
}

/// A column of a table block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockColumn {
    /// Index in the header.
    pub(crate) index: usize,
    /// Its id.
    pub(crate) id: u16,
    /// Type of its values, or of the lengths of its fields.
    pub(crate) value_type: ValueType,
    /// Index among the text columns, from 0; `None` for other columns.
    pub(crate) text: Option<usize>,
}

macro_rules! kinds {
    ($($kind:ident $name:literal $value_type:ident $(of $integer:ty)?,)*) => {
        /// Type of the values of a column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Kind {
            $(
                #[doc = concat!("`", $name, "`")]
                #[serde(rename = $name)]
                $kind,
            )*
        }

        impl Kind {
            /// Type of its values in the table block.
            #[must_use]
            pub const fn value_type(self) -> ValueType {
                match self {
                    $(Self::$kind => ValueType::$value_type,)*
                }
            }

            /// Its name in a header.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Least and greatest value of an integer type.
            pub(crate) const fn integers(self) -> Option<(i128, i128)> {
                match self {
                    $($(Self::$kind => {
                        Some((<$integer>::MIN as i128, <$integer>::MAX as i128))
                    })?)*
                    _ => None,
                }
            }
        }
    };
}

// `text` is any bytes; its values are the lengths of the fields.
kinds! {
    U8 "u8" U8 of u8,
    U16 "u16" U16 of u16,
    U32 "u32" U32 of u32,
    U64 "u64" U64 of u64,
    I8 "i8" I8 of i8,
    I16 "i16" I16 of i16,
    I32 "i32" I32 of i32,
    I64 "i64" I64 of i64,
    F32 "f32" F32,
    F64 "f64" F64,
    Text "text" U32,
}

impl ColumnHeader {
    /// A column without options.
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            precision: None,
            precision_min: None,
            style: None,
            empty: false,
            file: None,
        }
    }

    /// Name of the file that has its values, if it is binary.
    pub(crate) fn file_name(&self) -> String {
        self.file.clone().unwrap_or_else(|| format!("{}.{}", self.name, self.kind.name()))
    }

    /// Returns the rule of FILE.md that its options break, if any.
    fn fault(&self, is_csv: bool) -> Option<String> {
        let (is_integer, is_text) = (self.kind.integers().is_some(), self.kind == Kind::Text);
        let precision = self.precision.unwrap_or(0);
        let problem = if !is_integer && (self.precision.is_some() || self.precision_min.is_some()) {
            format!("precision is for integers, not for {}", self.kind.name())
        } else if precision > PRECISION_MAX {
            format!("precision is {precision}, the limit is {PRECISION_MAX}")
        } else if self.precision_min.is_some_and(|least| least > precision) {
            "precision_min is above precision".to_owned()
        } else if self.style.is_some() && (is_integer || is_text) {
            format!("style is for floats, not for {}", self.kind.name())
        } else if self.empty && is_text {
            "a text needs no value for an empty field".to_owned()
        } else if is_text && !is_csv {
            "text is for CSV; binary columns have numbers".to_owned()
        } else if self.name.is_empty() && !is_csv {
            "a column needs a name".to_owned()
        } else {
            return None;
        };
        Some(format!("column {}: {problem}", self.name))
    }
}

impl Header {
    /// Minimum minor version of the format that supports the header.
    pub(crate) fn version_minor(&self) -> u16 {
        let minor = |column: &ColumnHeader| match (column.kind, column.style) {
            (Kind::Text, _) => 2,
            (_, Some(FloatStyle::Exact)) => 1,
            _ => 0,
        };
        let names: BTreeSet<&str> =
            self.columns.iter().map(|column| column.name.as_str()).collect();
        let of_names = if names.len() < self.columns.len() { 3 } else { 0 };
        self.columns.iter().map(minor).max().unwrap_or(0).max(of_names)
    }

    /// Parses and checks the text of a header.
    ///
    /// # Errors
    /// A description of the first fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_as(text, |csv| csv)
    }

    /// Parses the text of a header, replaces its CSV form with the result of `form`, and checks it.
    ///
    /// # Errors
    /// The first fault, in words.
    pub(crate) fn parse_as(
        text: &str,
        form: impl FnOnce(Option<CsvForm>) -> Option<CsvForm>,
    ) -> Result<Self, String> {
        let mut header: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        header.csv = form(header.csv);
        header.check()?;
        Ok(header)
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect("every header is valid TOML")
    }

    /// Returns the header if it satisfies FILE.md, section 2.
    ///
    /// # Errors
    /// [`TableError::Input`] of `file`.
    pub(crate) fn checked(self, file: &str) -> Result<Self, TableError> {
        self.check().map_err(|reason| TableError::input(file, reason))?;
        Ok(self)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=COLUMNS_MAX).contains(&self.columns.len()) {
            let count = self.columns.len();
            return Err(format!("{count} columns, a table has 1 to {COLUMNS_MAX}"));
        }
        if let Some(csv) = self.csv
            && (!csv.separator.is_ascii() || matches!(csv.separator, '"' | '\n' | '\r'))
        {
            return Err(format!("{:?} cannot separate fields", csv.separator));
        }
        for (index, column) in self.columns.iter().enumerate() {
            let before = &self.columns[..index];
            if self.csv.is_none()
                && let Some(first) = before.iter().position(|other| other.name == column.name)
            {
                let (name, first, second) = (&column.name, first + 1, index + 1);
                return Err(format!("column {name} is duplicate, as number {first} and {second}"));
            }
            if let Some(fault) = column.fault(self.csv.is_some()) {
                return Err(fault);
            }
            if self.csv.is_none() {
                check_file(column, before)?;
            }
        }
        if let Some(key) = &self.key {
            self.key_index(key)?;
        }
        let bytes = self.text().len();
        if bytes > HEADER_TEXT_BYTES_MAX {
            let limit = HEADER_TEXT_BYTES_MAX;
            return Err(format!("names and types take {bytes} bytes, the limit is {limit}"));
        }
        Ok(())
    }

    /// Index of the integer column called `key`.
    fn key_index(&self, key: &str) -> Result<usize, String> {
        if self.columns.iter().filter(|column| column.name == key).count() > 1 {
            return Err(format!("several columns are called {key}, so none can be the key"));
        }
        match self.columns.iter().position(|column| column.name == key) {
            Some(index) if self.columns[index].kind.integers().is_some() => Ok(index),
            Some(_) => Err(format!("the key {key} must be a column of integers")),
            None => Err(format!("there is no column {key} to be the key")),
        }
    }

    /// Index of the key column, if there is one.
    pub(crate) fn key_column(&self) -> Option<usize> {
        self.key.as_ref().and_then(|key| self.key_index(key).ok())
    }

    /// The columns in the order of a table block, which begins with the key.
    pub(crate) fn block_columns(&self) -> Vec<BlockColumn> {
        let key = self.key_column();
        let others = (0..self.columns.len()).filter(|index| Some(*index) != key);
        let column = |index: usize| BlockColumn {
            index,
            id: if key == Some(index) { KEY_COLUMN } else { FIRST_COLUMN + index as u16 },
            value_type: self.columns[index].kind.value_type(),
            text: self.texts().position(|text| text == index),
        };
        key.into_iter().chain(others).map(column).collect()
    }

    /// Indexes of the text columns.
    pub(crate) fn texts(&self) -> impl Iterator<Item = usize> {
        let is_text = |(_, column): &(usize, &ColumnHeader)| column.kind == Kind::Text;
        self.columns.iter().enumerate().filter(is_text).map(|(index, _)| index)
    }
}

/// Checks that a binary column has a file of its own.
fn check_file(column: &ColumnHeader, before: &[ColumnHeader]) -> Result<(), String> {
    let (name, file) = (&column.name, column.file_name());
    if let Some(other) = before.iter().find(|other| other.file_name() == file) {
        return Err(format!("column {name}: file {file} is that of column {}", other.name));
    }
    if file == HEADER_FILE {
        return Err(format!("column {name}: {file} is the name of the header file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_say_what_is_wrong() {
        let text = "key = \"id\"\n[csv]\nseparator = \",\"\nline_end = \"crlf\"\n\
            [[column]]\nname = \"id\"\ntype = \"u32\"\n\
            [[column]]\nname = \"lon\"\ntype = \"i32\"\nprecision = 7\nprecision_min = 1\n\
            empty = true\n[[column]]\nname = \"note\"\ntype = \"text\"\n\
            [[column]]\nname = \"v\"\ntype = \"f64\"\nstyle = \"point\"\n";
        let header = Header::parse(text).unwrap();
        assert_eq!(header.version_minor(), 2);
        let exact = text.replace("point", "exact").replace("\"text\"", "\"u8\"");
        assert_eq!(Header::parse(&exact).unwrap().version_minor(), 1);
        assert_eq!(Header::parse(&exact.replace("exact", "point")).unwrap().version_minor(), 0);
        assert_eq!(Header::parse(&header.text()).unwrap(), header);
        let twice = header.text().replace("name = \"v\"", "name = \"lon\"");
        assert_eq!(Header::parse(&twice).unwrap().version_minor(), 3);
        assert_eq!((header.key_column(), header.texts().collect()), (Some(0), vec![2]));
        for (from, to, problem) in [
            ("\"id\"\ntype = \"u32\"", "\"id\"\ntype = \"f32\"", "must be a column of integers"),
            ("key = \"id\"", "key = \"ID\"", "no column ID"),
            ("precision = 7", "precision = 19", "limit is 18"),
            ("precision = 7", "precision = 0", "above precision"),
            ("\"text\"", "\"text\"\nempty = true", "needs no value"),
            ("\"text\"", "\"u8\"\nstyle = \"point\"", "style is for floats"),
            ("\"f64\"", "\"f64\"\nprecision = 2", "precision is for integers"),
            ("name = \"v\"", "name = \"id\"", "several columns are called id"),
            ("separator = \",\"", "separator = \"\\\"\"", "cannot separate"),
            ("type = \"u32\"", "type = \"u33\"", "u33"),
            ("empty = true", "unknown = true", "unknown"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = Header::parse(&changed).unwrap_err();
            assert!(error.contains(problem), "{error} lacks {problem}");
        }
        assert!(Header::parse("").unwrap_err().contains("1 to 60"));
        let binary = text.replacen("[csv]\nseparator = \",\"\nline_end = \"crlf\"\n", "", 1);
        assert!(Header::parse(&binary).unwrap_err().contains("text is for CSV"));
    }

    #[test]
    fn a_header_of_long_names_is_refused() {
        let header = |bytes: usize| Header {
            key: None,
            csv: Some(CsvForm { separator: ',', line_end: LineEnd::Lf }),
            columns: vec![ColumnHeader::new(&"n".repeat(bytes), Kind::U8)],
        };
        let rest = header(0).text().len();
        assert_eq!(header(HEADER_TEXT_BYTES_MAX - rest).check(), Ok(()));
        let error = header(HEADER_TEXT_BYTES_MAX - rest + 1).check().unwrap_err();
        assert!(error.contains("take 1048577 bytes, the limit is 1048576"), "{error}");
    }

    #[test]
    fn binary_columns_have_files_of_their_own() {
        let column = |name: &str, file: &str| {
            format!("[[column]]\nname = \"{name}\"\ntype = \"u8\"\n{file}")
        };
        for (second, problem) in [
            (column("b", "file = \"a.u8\"\n"), "column b: file a.u8 is that of column a"),
            (column("b", "file = \"columns.toml\"\n"), "column b: columns.toml is the name of"),
        ] {
            let error = Header::parse(&(column("a", "") + &second)).unwrap_err();
            assert!(error.contains(problem), "{error} lacks {problem}");
        }
        Header::parse(&(column("a", "") + &column("b", "file = \"a.u16\"\n"))).unwrap();
    }
}
