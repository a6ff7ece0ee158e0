//! The flags of `shoal-bench codec`.
//!
//! The defaults run the whole comparison on the sample file in some minutes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_codec::limits::BLOCK_ROWS_MAX;

use crate::harness::Common;

/// Maximum number of rows of a block.
const ROWS_MAX: i64 = BLOCK_ROWS_MAX as i64;

/// The compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Real positions: each file of `--data`, rows in the order of the file.
    Recorded,
    /// The same rows grouped by object, as a run of sorted rows holds them.
    Grouped,
    /// The load generator's workloads as arriving batches.
    Generated,
    /// Time, Pattern A and Pattern B of the thesis.
    Thesis,
    /// The same over shares of outliers.
    Outliers,
    /// Data whose character changes every five batches, against the first batch's best tree.
    Changing,
    /// CSV tables, each file of `--tables` column by column.
    Tabular,
    /// Text of each folder of `--text`, and symbols of alphabets of 16 to 256; not in the default.
    Entropy,
}

/// A codec with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CodecName {
    /// Shoal's codec on one core, planned block by block.
    Shoal,
    /// The same with the planner's aim `balanced`.
    ShoalBalanced,
    /// The same with the planner's aim `small`.
    ShoalSmall,
    /// The planner's trees for the first block, used for all blocks.
    ShoalFixed,
    /// For every block the smallest of a list of trees, found by trial.
    ShoalTried,
    /// Planned block by block without a key column: decoding needs no key order.
    ShoalUnkeyed,
    /// Every column as Huffman codes.
    ShoalHuffman,
    /// Bytes encoded with a dictionary of the 16 most frequent in each 16 KiB, as published.
    ShoalStateless,
    /// Bytes encoded with LZW over chunks of 64 KiB; the codes are bit-packed.
    ShoalLzw,
    /// Bytes encoded with LZW over chunks of 256 KiB; the codes are Huffman-coded.
    ShoalLzwHuffman,
    /// Shoal's codec on an NVIDIA GPU, planned block by block, columns resident.
    ShoalCuda,
    /// The same with the planner's aim `small`.
    ShoalSmallCuda,
    /// `shoal-huffman` on an NVIDIA GPU.
    ShoalHuffmanCuda,
    /// `shoal-stateless` on an NVIDIA GPU.
    ShoalStatelessCuda,
    /// `shoal-lzw` on an NVIDIA GPU.
    ShoalLzwCuda,
    /// `shoal-lzw-huffman` on an NVIDIA GPU.
    ShoalLzwHuffmanCuda,
    /// `shoal-unkeyed` on an NVIDIA GPU.
    ShoalUnkeyedCuda,
    /// nvCOMP Cascaded on an NVIDIA GPU, the best of its modes; the user's library.
    #[value(name = "nvcomp-cascaded")]
    #[serde(rename = "nvcomp-cascaded")]
    NvCascaded,
    /// nvCOMP Bitcomp.
    #[value(name = "nvcomp-bitcomp")]
    #[serde(rename = "nvcomp-bitcomp")]
    NvBitcomp,
    /// nvCOMP ANS.
    #[value(name = "nvcomp-ans")]
    #[serde(rename = "nvcomp-ans")]
    NvAns,
    /// nvCOMP LZ4.
    #[value(name = "nvcomp-lz4")]
    #[serde(rename = "nvcomp-lz4")]
    NvLz4,
    /// nvCOMP Snappy.
    #[value(name = "nvcomp-snappy")]
    #[serde(rename = "nvcomp-snappy")]
    NvSnappy,
    /// nvCOMP Zstandard.
    #[value(name = "nvcomp-zstd")]
    #[serde(rename = "nvcomp-zstd")]
    NvZstd,
    /// nvCOMP GDeflate.
    #[value(name = "nvcomp-gdeflate")]
    #[serde(rename = "nvcomp-gdeflate")]
    NvGdeflate,
    /// Pcodec, level 8, automatic.
    #[value(name = "pco-8")]
    #[serde(rename = "pco-8")]
    Pco8,
    /// Pcodec, level 12, the best of all its options.
    #[value(name = "pco-12")]
    #[serde(rename = "pco-12")]
    Pco12,
    /// Zstandard, level 1.
    #[value(name = "zstd-1")]
    #[serde(rename = "zstd-1")]
    Zstd1,
    /// Zstandard, level 3.
    #[value(name = "zstd-3")]
    #[serde(rename = "zstd-3")]
    Zstd3,
    /// Zstandard, level 19.
    #[value(name = "zstd-19")]
    #[serde(rename = "zstd-19")]
    Zstd19,
    /// LZ4, fast.
    #[value(name = "lz4")]
    #[serde(rename = "lz4")]
    Lz4,
    /// LZ4, high compression, level 12.
    #[value(name = "lz4-hc-12")]
    #[serde(rename = "lz4-hc-12")]
    Lz4Hc,
    /// xz (LZMA2), level 9.
    #[value(name = "xz-9")]
    #[serde(rename = "xz-9")]
    Xz,
    /// bzip2, level 9.
    #[value(name = "bzip2-9")]
    #[serde(rename = "bzip2-9")]
    Bzip2,
}

impl CodecName {
    /// Shoal's entropy and dictionary trees on one core.
    pub(super) const ENTROPY_TREES: [Self; 4] =
        [Self::ShoalHuffman, Self::ShoalStateless, Self::ShoalLzw, Self::ShoalLzwHuffman];

    /// Whether it is one of Shoal's codecs.
    pub(super) fn is_shoal(self) -> bool {
        self.text().starts_with("shoal")
    }

    /// Whether it needs an NVIDIA GPU.
    #[cfg(test)]
    pub(super) fn is_on_device(self) -> bool {
        self.text().ends_with("-cuda") || self.text().starts_with("nvcomp-")
    }

    /// The name on the command line.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "recorded,generated,thesis,outliers,changing,tabular"
    )]
    pub(super) experiment: Vec<Experiment>,
    /// Codecs, in this order.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "shoal,shoal-tried,pco-8,pco-12,zstd-1,zstd-3,zstd-19,lz4,lz4-hc-12,\
                         xz-9,bzip2-9"
    )]
    pub(super) codecs: Vec<CodecName>,
    /// Folder of real positions, CSV as the load generator reads it, plain or gzip.
    #[arg(long, default_value = "sample")]
    pub(super) data: PathBuf,
    /// Folder of CSV tables [default: the real positions].
    #[arg(long)]
    pub(super) tables: Option<PathBuf>,
    /// Folders of text for `entropy`.
    #[arg(long, value_delimiter = ',', default_value = "/usr/share/doc,/usr/include")]
    pub(super) text: Vec<PathBuf>,
    /// Maximum length of the text of a folder, MiB.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) text_mib: u32,
    /// Maximum number of rows of a block.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "65536,1048576",
        value_parser = clap::value_parser!(u32).range(1..=ROWS_MAX)
    )]
    pub(super) block_rows: Vec<u32>,
    /// Rows of generated data; one batch of `changing` has a quarter of them.
    #[arg(
        long,
        default_value_t = 1_048_576,
        value_parser = clap::value_parser!(u32).range(4..=64 << 20)
    )]
    pub(super) rows: u32,
    /// Objects of `generated`.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Maximum number of measured runs of each codec on each column, without the warm-up.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Seconds after which no run except the first starts.
    #[arg(long, default_value_t = 1.0)]
    pub(super) seconds: f64,
    /// On a device, also decode columns in batches of this many MiB: all blocks of a data set,
    /// repeated up to 4,096 times; 0 disables this.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(super) together_mib: u32,
    #[command(flatten)]
    pub(super) common: Common,
}
