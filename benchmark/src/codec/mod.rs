//! `shoal-bench codec`: ratio and speed of the codec and others, column by column.

mod block;
#[cfg(feature = "codecs")]
mod byte_codecs;
#[cfg(feature = "codecs")]
mod byte_contender;
mod contender;
#[cfg(feature = "cuda")]
mod cuda_contender;
mod data_set;
mod experiment;
mod generated;
mod measure;
mod mixes;
#[cfg(feature = "cuda")]
mod nvcomp;
#[cfg(feature = "cuda")]
mod nvcomp_contender;
mod options;
#[cfg(feature = "codecs")]
mod pco_contender;
mod plot;
mod recorded;
mod row;
mod run;
mod shoal_contender;
mod table;
mod tabular;
#[cfg(test)]
mod tests;
mod text;
mod thesis;
#[cfg(feature = "codecs")]
mod transposed;
mod trees;
mod values;

pub(crate) use options::Options;
pub(crate) use run::run;
