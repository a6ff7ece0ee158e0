//! Writes groups of rows as CSV text, byte for byte as it was read.
//!
//! Groups are not checked here, because the decoder has checked lengths and types.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::TableError;
use crate::field::FieldForm;
use crate::header::{CsvForm, Header};
use crate::row_group::{RowGroup, pattern};

/// Writes the text of one table.
pub(crate) struct CsvSink<W> {
    out: W,
    /// Name of `out` in errors.
    file: PathBuf,
    form: CsvForm,
    header: Header,
    forms: Vec<Option<FieldForm>>,
    /// Text of one group; each row begins with the line end of the previous line.
    text: Vec<u8>,
}

impl<W: Write> CsvSink<W> {
    /// Writes the head line without its line end; `file` is the name of `out` in errors.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn open(
        out: W,
        file: &Path,
        form: CsvForm,
        header: Header,
    ) -> Result<Self, TableError> {
        let names: Vec<&str> = header.columns.iter().map(|column| column.name.as_str()).collect();
        let text = names.join(&form.separator.to_string()).into_bytes();
        let forms = header.columns.iter().map(FieldForm::new).collect();
        let mut sink = Self { out, file: file.to_owned(), form, header, forms, text };
        sink.write_text()?;
        Ok(sink)
    }

    /// Bytes of the text that was written last.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Writes some rows.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn write(&mut self, group: &RowGroup) -> Result<(), TableError> {
        self.text.clear();
        let mut places = vec![0; group.texts.len()];
        for row in 0..group.rows {
            self.text.extend_from_slice(self.form.line_end.bytes());
            let mut text = 0;
            for (index, column) in self.header.columns.iter().enumerate() {
                if index > 0 {
                    self.text.push(self.form.separator as u8);
                }
                let value = pattern(&group.columns[index], column.kind, row);
                match &self.forms[index] {
                    Some(form) => form.print(value, &mut self.text),
                    None => {
                        let end = places[text] + value as usize;
                        self.text.extend_from_slice(&group.texts[text][places[text]..end]);
                        places[text] = end;
                        text += 1;
                    }
                }
            }
        }
        self.write_text()
    }

    /// Writes the last line end if the text had one, and returns the writer.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn finish(mut self, last_has_end: bool) -> Result<W, TableError> {
        self.text.clear();
        if last_has_end {
            self.text.extend_from_slice(self.form.line_end.bytes());
        }
        self.write_text()?;
        Ok(self.out)
    }

    fn write_text(&mut self) -> Result<(), TableError> {
        self.out.write_all(&self.text).map_err(TableError::writing(&self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv_source::{CsvSource, infer};

    /// Reads a text in groups of at most `rows` rows, and writes the groups as text.
    fn through(text: &str, rows: usize) -> String {
        let header = infer("test", text.as_bytes(), b',').unwrap();
        let mut source =
            CsvSource::open("test", text.as_bytes(), &header.columns, b',', None).unwrap();
        assert_eq!(source.header, header);
        let mut sink =
            CsvSink::open(Vec::new(), Path::new("out"), header.csv.unwrap(), header).unwrap();
        while let Some(group) = source.group(rows).unwrap() {
            assert!(group.rows <= rows);
            sink.write(&group).unwrap();
        }
        String::from_utf8(sink.finish(source.last_has_end()).unwrap()).unwrap()
    }

    #[test]
    fn text_comes_back_byte_for_byte() {
        for text in [
            "a\n",
            "a",
            "a,b\n1,2\n3,4\n",
            "a,b\r\n1,2\r\n3,4",
            "id,lon,speed,note\n1,-97.743,,\"a, b\"\n2,30,0.5,\n3,-0.5,1.25,\"x\ny\"\n",
            "\u{feff}a,\"b\"\n007,1e5\n8,x\n",
            "a\n\n1\n\n",
            "id,v,v\n1,2,3\n",
            "id,,\n1,2,3\n",
            "id,name\n1,5\" PIPE\n2,x\n",
            "id,v\n\n1,1\n\n\n2,2\n\n",
            "id,v\r\n1,1\r\n\r\n2,2\r\n\r\n",
            "id,v\n1,\"a\"\"\nb\"\n",
            "\u{feff}\"a,b\",c\n1,2\n",
            "a,b\n1,2\r\n\n3,4\n",
            "x,y\n0.1,NaN\n0.30000000000000004,1\n",
        ] {
            for rows in [1, 2, 100] {
                assert_eq!(through(text, rows), text);
            }
        }
    }

    #[test]
    fn text_that_is_no_table_is_refused_with_its_line() {
        for (text, problem) in [
            ("", "the file is empty"),
            ("a,b\n1\n", "line 2: 1 fields, the head line has 2"),
            ("a,b\n1,2,3\n", "line 2: 3 fields"),
            ("a,b\r\n1,2\r\n\n", "line 3: the line ends in LF"),
            ("a\r\n1\n", "line 2: the line ends in LF"),
            ("a\n\"1\n", "line 2: a quote is not closed"),
        ] {
            let error = infer("t.csv", text.as_bytes(), b',').unwrap_err().to_string();
            assert!(error.starts_with("t.csv: ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_given_type_must_give_the_text_back() {
        let text = "v\n1\n1.0\n";
        let columns = infer("t.csv", "v\n1\n".as_bytes(), b',').unwrap().columns;
        let mut source = CsvSource::open("t.csv", text.as_bytes(), &columns, b',', None).unwrap();
        let error = source.group(10).unwrap_err().to_string();
        assert!(
            error.contains("line 3: column v: `1.0` would not come back exactly as u8"),
            "{error}"
        );
        let other = CsvSource::open("t.csv", "w\n".as_bytes(), &columns, b',', None);
        let error = other.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the columns are w; the header names v"), "{error}");
    }
}
