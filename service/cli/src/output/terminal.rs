//! Output in which a terminal obeys no text of a server or a file.
//!
//! Names, error texts and column names come from others and may contain escape sequences. On a
//! terminal these are shown as escapes. A file or a pipe gets every byte unchanged.

use std::io::{self, IsTerminal as _, Write};

use shoal_table::printable_lines;

/// Standard output.
#[derive(Debug)]
pub struct TerminalText<W> {
    out: W,
    is_terminal: bool,
    /// The first bytes of a character whose last bytes are not written yet.
    begun: Vec<u8>,
}

impl TerminalText<io::Stdout> {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        Self { out, is_terminal, begun: Vec::new() }
    }
}

impl<W: Write> Write for TerminalText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let whole = match str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        self.out.write_all(printable_lines(&String::from_utf8_lossy(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_terminal: bool, text: &[u8], step: usize) -> Vec<u8> {
        let mut out = TerminalText { out: Vec::new(), is_terminal, begun: Vec::new() };
        for part in text.chunks(step) {
            out.write_all(part).unwrap();
        }
        out.out
    }

    #[test]
    fn a_terminal_gets_escapes_and_a_file_gets_all_bytes() {
        let text = "Käthe\t\u{1b}]0;owned\u{7}\u{9b}31m トラック\n";
        for step in [1, 2, 3, 5, 100] {
            assert_eq!(written(false, text.as_bytes(), step), text.as_bytes());
            let shown = String::from_utf8(written(true, text.as_bytes(), step)).unwrap();
            assert_eq!(shown, "Käthe\t\\u{1b}]0;owned\\u{7}\\u{9b}31m トラック\n");
        }
        assert_eq!(written(true, b"a\xffb\x1b\n", 2), "a\u{fffd}b\\u{1b}\n".as_bytes());
    }
}
