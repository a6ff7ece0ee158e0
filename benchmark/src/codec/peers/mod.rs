//! Codecs of others as contenders: byte codecs, Pcodec and, on a device, NVIDIA's nvCOMP.
//!
//! Only with feature `peers`, because their libraries take long to build.

mod byte_codecs;
mod byte_contender;
#[cfg(feature = "cuda")]
mod nvcomp;
#[cfg(feature = "cuda")]
mod nvcomp_contender;
mod pco_contender;
mod transposed;

use byte_codecs::{Bzip2, Lz4, Xz, Zstd};
use byte_contender::ByteContender;
use pco_contender::PcoContender;

use super::contender::Contender;
use super::options::CodecName;

/// The contender of a name, or the reason for its absence.
pub(super) fn contender(name: CodecName) -> Result<Box<dyn Contender>, String> {
    Ok(match name {
        CodecName::NvCascaded => return nvcomp("Cascaded"),
        CodecName::NvBitcomp => return nvcomp("Bitcomp"),
        CodecName::NvAns => return nvcomp("ANS"),
        CodecName::NvLz4 => return nvcomp("LZ4"),
        CodecName::NvSnappy => return nvcomp("Snappy"),
        CodecName::NvZstd => return nvcomp("Zstd"),
        CodecName::NvGdeflate => return nvcomp("Gdeflate"),
        CodecName::Pco8 => Box::new(PcoContender::new(8, false)),
        CodecName::Pco12 => Box::new(PcoContender::new(12, true)),
        CodecName::Zstd1 => Box::new(ByteContender::new(Zstd::new(1)?)),
        CodecName::Zstd3 => Box::new(ByteContender::new(Zstd::new(3)?)),
        CodecName::Zstd19 => Box::new(ByteContender::new(Zstd::new(19)?)),
        CodecName::Lz4 => Box::new(ByteContender::new(Lz4 { level: None })),
        CodecName::Lz4Hc => Box::new(ByteContender::new(Lz4 { level: Some(12) })),
        CodecName::Xz => Box::new(ByteContender::new(Xz)),
        CodecName::Bzip2 => Box::new(ByteContender::new(Bzip2)),
        other => unreachable!("{other:?} is Shoal's"),
    })
}

#[cfg(feature = "cuda")]
fn nvcomp(codec: &'static str) -> Result<Box<dyn Contender>, String> {
    Ok(Box::new(nvcomp_contender::NvCompContender::new(codec)?))
}

#[cfg(not(feature = "cuda"))]
fn nvcomp(codec: &'static str) -> Result<Box<dyn Contender>, String> {
    Err(format!("this program was built without the feature `cuda`, {codec} takes a device"))
}
