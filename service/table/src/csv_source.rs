//! Reads CSV text as groups of rows.
//!
//! [`infer`] finds the type of each column in a first pass; a header from the caller makes that
//! pass unnecessary. A field that its column would not print back byte for byte is an error.

use std::io::Read;

use crate::TableError;
use crate::field::FieldForm;
use crate::header::{ColumnHeader, CsvForm, Header, Kind};
use crate::infer::ColumnInference;
use crate::limits::{TEXT_BYTES_MAX, TEXT_SHOWN_MAX, TEXTS_BYTES_MAX};
use crate::row_group::RowGroup;
use crate::table_lines::TableLines;

/// Reads the rows of one text.
pub(crate) struct CsvSource<R> {
    lines: TableLines<R>,
    /// The table's header.
    pub(crate) header: Header,
    forms: Vec<Option<FieldForm>>,
    /// True if the current line is not yet in a group.
    has_line: bool,
}

/// Untrusted text, shortened for a message.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let cut: String = text.chars().take(TEXT_SHOWN_MAX).collect();
    if cut.len() < text.len() { format!("{cut}...") } else { cut }
}

/// The names in the head line.
fn names<R: Read>(file: &str, lines: &mut TableLines<R>) -> Result<Vec<String>, TableError> {
    if !lines.next_line()? {
        let reason = "the file is empty; its first line must name the columns";
        return Err(TableError::input(file, reason));
    }
    let name = |name: &[u8]| {
        let not_text = |_| lines.fault(&format!("`{}` is not UTF-8", shown(name)));
        String::from_utf8(name.to_vec()).map_err(not_text)
    };
    lines.fields().map(name).collect()
}

/// Finds the type of each column of a text.
///
/// # Errors
/// [`TableError::Input`] with the line if the text is not a table.
pub(crate) fn infer(file: &str, input: impl Read, separator: u8) -> Result<Header, TableError> {
    let mut lines = TableLines::new(file, input, separator);
    let names = names(file, &mut lines)?;
    let mut columns: Vec<ColumnInference> = names.iter().map(|_| Default::default()).collect();
    while lines.next_line()? {
        let mut count = 0;
        for field in lines.fields() {
            if let Some(column) = columns.get_mut(count) {
                column.add(field);
            }
            count += 1;
        }
        lines.check_fields(count, names.len())?;
    }
    let csv = CsvForm { separator: char::from(separator), line_end: lines.end() };
    let columns = names.iter().zip(&columns).map(|(name, column)| column.column(name)).collect();
    Header { key: None, csv: Some(csv), columns }.checked(file)
}

impl<R: Read> CsvSource<R> {
    /// Reads the head line and compares it with `columns`.
    ///
    /// # Errors
    /// [`TableError::Input`] for a head line that names other columns.
    pub(crate) fn open(
        file: &str,
        input: R,
        columns: &[ColumnHeader],
        separator: u8,
        key: Option<String>,
    ) -> Result<Self, TableError> {
        let mut lines = TableLines::new(file, input, separator);
        let names = names(file, &mut lines)?;
        let expected: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        if names != expected {
            let (found, expected) = (names.join(", "), expected.join(", "));
            let problem = format!("the columns are {found}; the header names {expected}");
            return Err(lines.fault(&problem));
        }
        let csv = CsvForm { separator: char::from(separator), line_end: lines.end() };
        let header = Header { key, csv: Some(csv), columns: columns.to_vec() }.checked(file)?;
        let forms = columns.iter().map(FieldForm::new).collect();
        Ok(Self { lines, header, forms, has_line: false })
    }

    /// True if the current line has a line end.
    pub(crate) fn last_has_end(&self) -> bool {
        self.lines.has_end()
    }

    /// Reads the next rows, at most `rows_max`, and fewer if their text would exceed a limit;
    /// `None` after the last row.
    ///
    /// # Errors
    /// [`TableError::Input`] with line, column and text.
    pub(crate) fn group(&mut self, rows_max: usize) -> Result<Option<RowGroup>, TableError> {
        let mut group = RowGroup::new(&self.header);
        while group.rows < rows_max {
            if !self.has_line && !self.lines.next_line()? {
                break;
            }
            self.has_line = true;
            if !self.fits(&group)? {
                break;
            }
            self.take_line(&mut group)?;
            self.has_line = false;
        }
        Ok((group.rows > 0).then_some(group))
    }

    /// True if the text fields of the current line still fit the group; fails if one exceeds the
    /// limit.
    fn fits(&self, group: &RowGroup) -> Result<bool, TableError> {
        let mut texts = group.texts.iter();
        let mut all: usize = group.texts.iter().map(Vec::len).sum();
        for (field, column) in self.lines.fields().zip(&self.header.columns) {
            if column.kind != Kind::Text {
                continue;
            }
            if field.len() > TEXT_BYTES_MAX {
                let (name, bytes) = (&column.name, field.len());
                let problem = format!("column {name}: {bytes} bytes, at most {TEXT_BYTES_MAX}");
                return Err(self.lines.fault(&problem));
            }
            let present = texts.next().map_or(0, Vec::len);
            all += field.len();
            if present + field.len() > TEXT_BYTES_MAX || all > TEXTS_BYTES_MAX {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the current line to the group.
    fn take_line(&self, group: &mut RowGroup) -> Result<(), TableError> {
        let (mut count, mut text) = (0, 0);
        for field in self.lines.fields() {
            let Some(column) = self.header.columns.get(count) else {
                count += 1;
                continue;
            };
            match &self.forms[count] {
                Some(form) => match form.read(field) {
                    Some(pattern) => group.push(count, column.kind, pattern),
                    None => return Err(self.unprintable(column, field)),
                },
                None => {
                    group.push(count, column.kind, field.len() as u64);
                    group.texts[text].extend_from_slice(field);
                    text += 1;
                }
            }
            count += 1;
        }
        self.lines.check_fields(count, self.header.columns.len())?;
        group.rows += 1;
        Ok(())
    }

    /// Error for a field that its column would not print back byte for byte.
    fn unprintable(&self, column: &ColumnHeader, field: &[u8]) -> TableError {
        let (name, kind, field) = (&column.name, column.kind.name(), shown(field));
        let problem = format!("column {name}: `{field}` would not come back exactly as {kind}");
        self.lines.fault(&problem)
    }
}
