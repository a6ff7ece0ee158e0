//! `shoal-bench codec`: ratio and speed of the codec and others, column by column.

mod block;
mod contender;
#[cfg(feature = "cuda")]
mod cuda_contender;
mod data_set;
mod experiment;
mod generated;
mod measure;
mod mixes;
mod options;
#[cfg(feature = "peers")]
mod peers;
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
mod trees;
mod values;

pub(crate) use options::Options;
pub(crate) use run::run;
