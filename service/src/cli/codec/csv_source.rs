//! How does CSV text become groups of rows?
//!
//! Twice over the text: once to find the type of each column, once to read the values. A header
//! that is given saves the first time; then a field that would not be printed back is refused.

use std::io::BufRead;

use super::field::FieldForm;
use super::group::{Group, TEXT_BYTES_MAX};
use super::header::{ColumnHeader, CsvForm, Header, Kind};
use super::infer::ColumnGuess;
use super::lines::{Lines, fields};
use crate::cli::error::CliError;

/// Reads the rows of one table.
pub(crate) struct CsvSource<R> {
    file: String,
    lines: Lines<R>,
    separator: u8,
    header: Header,
    forms: Vec<Option<FieldForm>>,
    /// A line was read that no group has yet.
    has_line: bool,
}

/// An error of a file at a line.
fn fault<R: BufRead>(file: &str, lines: &Lines<R>, problem: &str) -> CliError {
    let reason = format!("line {}: {problem}", lines.number());
    CliError::Input { file: file.to_owned(), reason }
}

/// Text of foreign origin, as much of it as a message bears.
fn shown(text: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let text = String::from_utf8_lossy(text);
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    if cut.len() < text.len() { format!("{cut}...") } else { cut }
}

/// The names in the head line.
fn names<R: BufRead>(
    file: &str,
    lines: &mut Lines<R>,
    separator: u8,
) -> Result<Vec<String>, CliError> {
    if !lines.next().map_err(|problem| fault(file, lines, &problem))? {
        let reason = "the file is empty; its first line must name the columns".to_owned();
        return Err(CliError::Input { file: file.to_owned(), reason });
    }
    let name = |name: &[u8]| {
        let not_text = |_| fault(file, lines, &format!("`{}` is not UTF-8", shown(name)));
        String::from_utf8(name.to_vec()).map_err(not_text)
    };
    fields(lines.line(), separator).map(name).collect()
}

/// Finds the type of each column of a text.
///
/// # Errors
/// [`CliError::Input`] for text that cannot be a table, with its line.
pub(crate) fn infer(file: &str, reader: impl BufRead, separator: u8) -> Result<Header, CliError> {
    let mut lines = Lines::new(reader);
    let names = names(file, &mut lines, separator)?;
    let mut guesses: Vec<ColumnGuess> = names.iter().map(|_| ColumnGuess::new()).collect();
    while lines.next().map_err(|problem| fault(file, &lines, &problem))? {
        let mut count = 0;
        for field in fields(lines.line(), separator) {
            if let Some(guess) = guesses.get_mut(count) {
                guess.see(field);
            }
            count += 1;
        }
        check_count(file, &lines, count, names.len())?;
    }
    let csv = CsvForm { separator: char::from(separator), line_end: lines.end() };
    let columns = names.iter().zip(&guesses).map(|(name, guess)| guess.column(name)).collect();
    let header = Header { key: None, csv: Some(csv), columns };
    match header.check() {
        Ok(()) => Ok(header),
        Err(reason) => Err(CliError::Input { file: file.to_owned(), reason }),
    }
}

fn check_count<R: BufRead>(
    file: &str,
    lines: &Lines<R>,
    found: usize,
    expected: usize,
) -> Result<(), CliError> {
    if found == expected {
        return Ok(());
    }
    Err(fault(file, lines, &format!("{found} fields, the head line has {expected}")))
}

impl<R: BufRead> CsvSource<R> {
    /// Reads the head line and compares it with the header.
    ///
    /// # Errors
    /// [`CliError::Input`] for a head line that names other columns.
    pub(crate) fn open(
        file: &str,
        reader: R,
        columns: &[ColumnHeader],
        separator: u8,
        key: Option<String>,
    ) -> Result<Self, CliError> {
        let mut lines = Lines::new(reader);
        let names = names(file, &mut lines, separator)?;
        let expected: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        if names != expected {
            let (found, expected) = (names.join(", "), expected.join(", "));
            let problem = format!("the columns are {found}; the header names {expected}");
            return Err(fault(file, &lines, &problem));
        }
        let csv = CsvForm { separator: char::from(separator), line_end: lines.end() };
        let header = Header { key, csv: Some(csv), columns: columns.to_vec() };
        let checked = header.check();
        checked.map_err(|reason| CliError::Input { file: file.to_owned(), reason })?;
        let forms = columns.iter().map(FieldForm::new).collect();
        Ok(Self { file: file.to_owned(), lines, separator, header, forms, has_line: false })
    }

    /// The table's header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the line that was read last had an end.
    pub(crate) fn last_has_end(&self) -> bool {
        self.lines.last_has_end()
    }

    /// The next rows, at most `rows_max`; none at the end.
    ///
    /// # Errors
    /// [`CliError::Input`] for a line that does not fit, with column and text.
    pub(crate) fn group(&mut self, rows_max: usize) -> Result<Option<Group>, CliError> {
        let mut group = Group::new(&self.header);
        while group.rows < rows_max {
            if !self.has_line && !self.next_line()? {
                break;
            }
            self.has_line = true;
            if !self.has_room(&group)? {
                break;
            }
            self.take_line(&mut group)?;
            self.has_line = false;
        }
        Ok((group.rows > 0).then_some(group))
    }

    fn next_line(&mut self) -> Result<bool, CliError> {
        self.lines.next().map_err(|problem| fault(&self.file, &self.lines, &problem))
    }

    /// Whether the texts of the line fit the group.
    fn has_room(&self, group: &Group) -> Result<bool, CliError> {
        let mut texts = group.texts.iter();
        for (field, column) in fields(self.lines.line(), self.separator).zip(&self.header.columns) {
            if column.kind != Kind::Text {
                continue;
            }
            if field.len() > TEXT_BYTES_MAX {
                let (name, bytes) = (&column.name, field.len());
                let problem = format!("column {name}: {bytes} bytes, at most {TEXT_BYTES_MAX}");
                return Err(fault(&self.file, &self.lines, &problem));
            }
            let present = texts.next().map_or(0, Vec::len);
            if present + field.len() > TEXT_BYTES_MAX {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the line to the group.
    fn take_line(&self, group: &mut Group) -> Result<(), CliError> {
        let (mut count, mut text) = (0, 0);
        for field in fields(self.lines.line(), self.separator) {
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
        check_count(&self.file, &self.lines, count, self.header.columns.len())?;
        group.rows += 1;
        Ok(())
    }

    /// A field that its column cannot give back.
    fn unprintable(&self, column: &ColumnHeader, field: &[u8]) -> CliError {
        let (name, kind, field) = (&column.name, column.kind.name(), shown(field));
        let problem = format!("column {name}: `{field}` would not come back exactly as {kind}");
        fault(&self.file, &self.lines, &problem)
    }
}
