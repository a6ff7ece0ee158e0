//! What does a file say of its columns: names, types, precision, how numbers are printed?
//!
//! One TOML text (FILE.md, section 2), stored in the file and written by hand for binary columns.
//! A header that was read is valid: names are unique, options fit their types, the key exists.

use serde::{Deserialize, Serialize};
use shoal_codec::ValueType;

/// Columns of one table at most: the directory of a block holds the largest entries of so many.
pub(crate) const COLUMNS_MAX: usize = 60;
/// Decimals at most: 10^18 fits i64.
pub(crate) const PRECISION_MAX: u8 = 18;
/// Bytes of the header's text at most.
pub(crate) const HEADER_TEXT_BYTES_MAX: usize = 1 << 20;
/// Name of the header file in a folder of columns that were decompressed.
pub(crate) const HEADER_FILE: &str = "columns.toml";

/// Everything that blocks do not say themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// Name of the column whose equal values mark rows that follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// How the text was formed, if the table was CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) csv: Option<CsvForm>,
    /// The columns in order.
    #[serde(rename = "column", default)]
    pub(crate) columns: Vec<ColumnHeader>,
}

/// Form of CSV text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CsvForm {
    /// One byte of ASCII between two fields.
    pub(crate) separator: char,
    /// What ends every line.
    pub(crate) line_end: LineEnd,
}

/// End of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LineEnd {
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
pub(crate) struct ColumnHeader {
    /// Its name.
    pub(crate) name: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    /// Integers: the value is the integer divided by so many tens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) precision: Option<u8>,
    /// Decimals that are printed at least; `precision` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) precision_min: Option<u8>,
    /// Floats: how they are printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) style: Option<FloatStyle>,
    /// A value of the type stands for an empty field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) empty: bool,
    /// Binary columns: where the values are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
}

/// How floats are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FloatStyle {
    /// Fewest digits that read back the same: `12`, `0.5`.
    #[default]
    Shortest,
    /// The same with at least one decimal, exponents for very large and small: `12.0`.
    Point,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 64-bit unsigned.
    U64,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// binary32.
    F32,
    /// binary64.
    F64,
    /// Any bytes; in the block their lengths.
    Text,
}

impl Kind {
    /// Type of its values in the table block.
    pub(crate) const fn value_type(self) -> ValueType {
        match self {
            Self::U8 => ValueType::U8,
            Self::U16 => ValueType::U16,
            Self::U32 | Self::Text => ValueType::U32,
            Self::U64 => ValueType::U64,
            Self::I8 => ValueType::I8,
            Self::I16 => ValueType::I16,
            Self::I32 => ValueType::I32,
            Self::I64 => ValueType::I64,
            Self::F32 => ValueType::F32,
            Self::F64 => ValueType::F64,
        }
    }

    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Text => "text",
        }
    }

    /// Least and greatest value of an integer type.
    pub(crate) const fn integers(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::U8 => (0, u8::MAX as i128),
            Self::U16 => (0, u16::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
            Self::I8 => (i8::MIN as i128, i8::MAX as i128),
            Self::I16 => (i16::MIN as i128, i16::MAX as i128),
            Self::I32 => (i32::MIN as i128, i32::MAX as i128),
            Self::I64 => (i64::MIN as i128, i64::MAX as i128),
            Self::F32 | Self::F64 | Self::Text => return None,
        })
    }
}

impl ColumnHeader {
    /// A column of a kind without options.
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

    /// What it breaks, if it breaks a rule.
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
    /// Reads and checks the text of a header.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_as(text, |csv| csv)
    }

    /// Reads and checks the text of a header whose form of CSV is another than it says.
    ///
    /// # Errors
    /// What is wrong with it, in words.
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
    pub(crate) fn text(&self) -> String {
        toml::to_string(self).expect("a header has nothing that TOML cannot say")
    }

    /// The rules of FILE.md, section 2.
    pub(crate) fn check(&self) -> Result<(), String> {
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
            if let Some(first) = before.iter().position(|other| other.name == column.name) {
                let (name, first, second) = (&column.name, first + 1, index + 1);
                return Err(format!("column {name} stands twice, as number {first} and {second}"));
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

    /// Number of the integer column called `key`.
    fn key_index(&self, key: &str) -> Result<usize, String> {
        match self.columns.iter().position(|column| column.name == key) {
            Some(index) if self.columns[index].kind.integers().is_some() => Ok(index),
            Some(_) => Err(format!("the key {key} must be a column of integers")),
            None => Err(format!("there is no column {key} to be the key")),
        }
    }

    /// Number of the key column, if there is one.
    pub(crate) fn key_column(&self) -> Option<usize> {
        self.key.as_ref().and_then(|key| self.key_index(key).ok())
    }

    /// Numbers of the text columns.
    pub(crate) fn texts(&self) -> impl Iterator<Item = usize> {
        let is_text = |(_, column): &(usize, &ColumnHeader)| column.kind == Kind::Text;
        self.columns.iter().enumerate().filter(is_text).map(|(index, _)| index)
    }
}

/// A binary column has a file of its own, beside those of the columns before it.
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
        assert_eq!(Header::parse(&header.text()).unwrap(), header);
        assert_eq!((header.key_column(), header.texts().collect()), (Some(0), vec![2]));
        for (from, to, problem) in [
            ("\"id\"\ntype = \"u32\"", "\"id\"\ntype = \"f32\"", "must be a column of integers"),
            ("key = \"id\"", "key = \"ID\"", "no column ID"),
            ("precision = 7", "precision = 19", "limit is 18"),
            ("precision = 7", "precision = 0", "above precision"),
            ("\"text\"", "\"text\"\nempty = true", "needs no value"),
            ("\"text\"", "\"u8\"\nstyle = \"point\"", "style is for floats"),
            ("\"f64\"", "\"f64\"\nprecision = 2", "precision is for integers"),
            ("name = \"v\"", "name = \"lon\"", "lon stands twice, as number 2 and 4"),
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
