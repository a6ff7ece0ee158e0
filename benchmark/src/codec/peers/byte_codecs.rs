//! Byte codecs: zstd, LZ4, xz, bzip2, each by its own library.
//!
//! None writes a checksum, so that sizes cover the data only; the reader knows the decoded length,
//! as in a block.

use bzip2::{Compress, Compression, Decompress};
use liblzma::stream::{Action, Filters, LzmaOptions, Status, Stream};
use lz4::block::CompressionMode;

/// A byte codec.
pub(super) trait ByteCodec {
    /// Replaces `out` with the encoded bytes.
    fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String>;

    /// Replaces `out` with the `length` decoded bytes.
    fn decode(&mut self, encoded: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String>;
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Zstandard at one level.
pub(super) struct Zstd {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Zstd {
    pub(super) fn new(level: i32) -> Result<Self, String> {
        let compressor = zstd::bulk::Compressor::new(level).map_err(text)?;
        let decompressor = zstd::bulk::Decompressor::new().map_err(text)?;
        Ok(Self { compressor, decompressor })
    }
}

impl ByteCodec for Zstd {
    fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.compressor.compress_to_buffer(bytes, out).map(|_| ()).map_err(text)
    }

    fn decode(&mut self, encoded: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        out.reserve(length);
        self.decompressor.decompress_to_buffer(encoded, out).map(|_| ()).map_err(text)
    }
}

/// LZ4 blocks, fast or with the given level of high compression.
pub(super) struct Lz4 {
    pub(super) level: Option<i32>,
}

impl ByteCodec for Lz4 {
    fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let mode = self.level.map_or(CompressionMode::DEFAULT, CompressionMode::HIGHCOMPRESSION);
        let bound = lz4::block::compress_bound(bytes.len()).map_err(text)?;
        out.resize(bound, 0);
        let length = lz4::block::compress_to_buffer(bytes, Some(mode), false, out).map_err(text)?;
        out.truncate(length);
        Ok(())
    }

    fn decode(&mut self, encoded: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.resize(length, 0);
        let wanted = i32::try_from(length).map_err(text)?;
        let written = lz4::block::decompress_to_buffer(encoded, Some(wanted), out).map_err(text)?;
        out.truncate(written);
        Ok(())
    }
}

/// Raw LZMA2 at preset 9, its dictionary no larger than the block.
pub(super) struct Xz;

impl Xz {
    /// Least and greatest dictionary of LZMA2 here, bytes.
    const DICTIONARY: [usize; 2] = [4 << 10, 64 << 20];

    fn filters(length: usize) -> Result<Filters, String> {
        let [least, most] = Self::DICTIONARY;
        let dictionary = length.next_power_of_two().clamp(least, most);
        let mut options = LzmaOptions::new_preset(9).map_err(text)?;
        options.dict_size(u32::try_from(dictionary).map_err(text)?);
        let mut filters = Filters::new();
        filters.lzma2(&options);
        Ok(filters)
    }

    fn run(mut stream: Stream, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match stream.process_vec(bytes, out, Action::Finish).map_err(text)? {
            Status::StreamEnd => Ok(()),
            status => Err(format!("the stream stopped with {status:?}")),
        }
    }
}

impl ByteCodec for Xz {
    fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        // LZMA2 falls back to stored chunks of 64 KiB with a header of 3 bytes each.
        out.reserve(bytes.len() + bytes.len() / 1_024 + 64);
        let filters = Self::filters(bytes.len())?;
        Self::run(Stream::new_raw_encoder(&filters).map_err(text)?, bytes, out)
    }

    fn decode(&mut self, encoded: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        out.reserve(length);
        let filters = Self::filters(length)?;
        Self::run(Stream::new_raw_decoder(&filters).map_err(text)?, encoded, out)
    }
}

/// bzip2 at level 9.
pub(super) struct Bzip2;

impl ByteCodec for Bzip2 {
    fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        // The manual's bound: 1 % and 600 bytes.
        out.reserve(bytes.len() + bytes.len() / 100 + 600);
        let mut stream = Compress::new(Compression::best(), 0);
        match stream.compress_vec(bytes, out, bzip2::Action::Finish).map_err(text)? {
            bzip2::Status::StreamEnd => Ok(()),
            status => Err(format!("the stream stopped with {status:?}")),
        }
    }

    fn decode(&mut self, encoded: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        // One extra byte, so that one call reaches the end.
        out.reserve(length + 1);
        match Decompress::new(false).decompress_vec(encoded, out).map_err(text)? {
            bzip2::Status::StreamEnd => Ok(()),
            status => Err(format!("the stream stopped with {status:?}")),
        }
    }
}
