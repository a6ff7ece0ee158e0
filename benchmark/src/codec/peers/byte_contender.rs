//! A byte codec as a contender, on whole values or byte planes, whichever is smaller.
//!
//! The choice is made once per column over all its blocks; the time includes the conversion to
//! planes and back.

use std::time::{Duration, Instant};

use super::byte_codecs::ByteCodec;
use super::transposed::{restore, transpose};
use crate::codec::block::Block;
use crate::codec::contender::{Contender, Part};
use crate::codec::values::width;
use crate::error::BenchmarkError;

/// The layout of values before encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Values,
    Planes,
}

/// A byte codec and its selected layout.
pub(super) struct ByteContender<C> {
    codec: C,
    layout: Layout,
    planes: Vec<u8>,
}

impl<C: ByteCodec> ByteContender<C> {
    pub(super) fn new(codec: C) -> Self {
        Self { codec, layout: Layout::Values, planes: Vec::new() }
    }
}

impl<C: ByteCodec> Contender for ByteContender<C> {
    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError> {
        let mut sizes = [Layout::Values, Layout::Planes].map(|layout| (0, layout));
        let mut out = Vec::new();
        for (bytes, layout) in &mut sizes {
            self.layout = *layout;
            for index in 0..blocks.len() {
                self.encode(Part { blocks, index, column }, &mut out)?;
                *bytes += out.len();
            }
        }
        let [values, planes] = sizes;
        self.layout = if planes.0 < values.0 { planes.1 } else { values.1 };
        Ok(())
    }

    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let begin = Instant::now();
        let done = match self.layout {
            Layout::Values => self.codec.encode(part.bytes(), out),
            Layout::Planes => {
                transpose(part.bytes(), width(part.values()), &mut self.planes);
                self.codec.encode(&self.planes, out)
            }
        };
        let took = begin.elapsed();
        done.map(|()| took).map_err(BenchmarkError::Codec)
    }

    fn decode(
        &mut self,
        part: Part<'_>,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError> {
        let length = part.bytes().len();
        let begin = Instant::now();
        let done = match self.layout {
            Layout::Values => self.codec.decode(encoded, length, out),
            Layout::Planes => {
                let done = self.codec.decode(encoded, length, &mut self.planes);
                // The caller's comparison detects a wrong length.
                if done.is_ok() && self.planes.len() == length {
                    restore(&self.planes, width(part.values()), out);
                }
                done
            }
        };
        let took = begin.elapsed();
        done.map(|()| took).map_err(BenchmarkError::Codec)
    }

    fn choice(&self) -> String {
        match self.layout {
            Layout::Values => "values",
            Layout::Planes => "byte planes",
        }
        .to_owned()
    }
}
