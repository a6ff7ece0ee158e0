//! Reads text that is plain or gzip, recognised by its first bytes.
//!
//! Zeros after gzip data are padding, as of tapes and of disks after a power failure, and are ignored
//! as by gunzip; other bytes there are an error.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::limits::READ_BUFFER_BYTES;

/// The first two bytes of every gzip member (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Plain text of a plain or gzip input.
pub enum TextInput<R> {
    /// The input as it is.
    Plain(BufReader<R>),
    /// The members of a gzip input, one after the other.
    Gzip(Box<GzDecoder<BufReader<R>>>),
    /// The end of a gzip input.
    End,
}

impl<R: Read> TextInput<R> {
    /// Reads the first bytes of the input.
    ///
    /// # Errors
    /// Those of reading.
    pub fn new(input: R) -> io::Result<Self> {
        let mut plain = BufReader::with_capacity(READ_BUFFER_BYTES, input);
        let is_gzip = plain.fill_buf()?.starts_with(&GZIP_MAGIC);
        Ok(if is_gzip { Self::Gzip(GzDecoder::new(plain).into()) } else { Self::Plain(plain) })
    }

    /// Begins the next gzip member, or ends if there is none.
    fn next_member(&mut self) -> io::Result<()> {
        if let Self::Gzip(decoder) = std::mem::replace(self, Self::End) {
            let mut input = decoder.into_inner();
            if input.fill_buf()?.first() == Some(&GZIP_MAGIC[0]) {
                *self = Self::Gzip(GzDecoder::new(input).into());
            } else {
                skip_padding(&mut input)?;
            }
        }
        Ok(())
    }
}

/// Reads zeros to the end of the input.
fn skip_padding(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            let problem = "bytes other than zeros follow the gzip data";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let count = bytes.len();
        input.consume(count);
    }
}

impl<R: Read> Read for TextInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = match self {
                Self::Plain(input) => return input.read(buffer),
                Self::Gzip(decoder) => decoder.read(buffer)?,
                Self::End => return Ok(0),
            };
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.next_member()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut text = Vec::new();
        let result = TextInput::new(bytes).unwrap().read_to_end(&mut text);
        (text, result.err().map(|error| error.to_string()))
    }

    #[test]
    fn members_follow_each_other_and_zeros_end_them() {
        let two = [packed(b"a\n"), packed(b""), packed(b"b\n")].concat();
        assert_eq!(read(&two), (b"a\nb\n".to_vec(), None));
        for zeros in [1, 512, 3 * READ_BUFFER_BYTES] {
            assert_eq!(read(&[two.clone(), vec![0; zeros]].concat()), (b"a\nb\n".to_vec(), None));
        }
        for (tail, problem) in [
            (&b"text"[..], "bytes other than zeros follow the gzip data"),
            (&[0, 0, 7][..], "bytes other than zeros"),
            (&[0x1f][..], "unexpected end of file"),
            (&[0x1f, 0x8b][..], "unexpected end of file"),
        ] {
            let (text, error) = read(&[two.clone(), tail.to_vec()].concat());
            assert_eq!(text, b"a\nb\n");
            assert!(error.as_deref().unwrap_or("none").contains(problem), "{tail:?}: {error:?}");
        }
    }
}
