//! Reads text that is plain or gzip, recognised by its first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::limits::READ_BUFFER_BYTES;

/// The first two bytes of every gzip member (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Plain text of a plain or gzip input.
pub(crate) enum TextInput<R> {
    /// The input as it is.
    Plain(BufReader<R>),
    /// The members of a gzip input, one after the other.
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
}

impl<R: Read> TextInput<R> {
    /// Reads the first bytes of the input.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn new(input: R) -> io::Result<Self> {
        let mut plain = BufReader::with_capacity(READ_BUFFER_BYTES, input);
        let is_gzip = plain.fill_buf()?.starts_with(&GZIP_MAGIC);
        Ok(if is_gzip { Self::Gzip(MultiGzDecoder::new(plain).into()) } else { Self::Plain(plain) })
    }
}

impl<R: Read> Read for TextInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Gzip(input) => input.read(buffer),
        }
    }
}
