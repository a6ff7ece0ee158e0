//! The data sets of each experiment, in blocks.

use super::block::Block;
use super::data_set::DataSet;
use super::options::{CodecName, Experiment, Options};
use super::{generated, mixes, recorded, tabular, text, thesis};
use crate::error::BenchmarkError;

/// The compared shares of outliers.
const OUTLIERS: [f64; 6] = [0.0, 0.0001, 0.001, 0.01, 0.05, 0.1];

/// A data set in blocks, ready to be measured.
pub(super) struct Prepared {
    pub(super) name: String,
    pub(super) block_rows: u32,
    pub(super) blocks: Vec<Block>,
}

/// Prepares the data sets of an experiment one by one and passes each to `take`, so that only one
/// is in memory.
pub(super) fn each(
    experiment: Experiment,
    options: &Options,
    mut take: impl FnMut(&Prepared) -> Result<(), BenchmarkError>,
) -> Result<(), BenchmarkError> {
    let mut cut = |set: &DataSet| -> Result<(), BenchmarkError> {
        for block_rows in &options.block_rows {
            let blocks = set.blocks(*block_rows as usize);
            take(&Prepared { name: set.name.clone(), block_rows: *block_rows, blocks })?;
        }
        Ok(())
    };
    let (rows, seed) = (options.rows as usize, options.common.seed);
    match experiment {
        Experiment::Recorded | Experiment::Grouped => {
            for file in recorded::files(&options.data)? {
                let (mut set, left_out) = recorded::positions(&file)?;
                if experiment == Experiment::Grouped {
                    set.group();
                }
                if left_out > 0 {
                    println!("# {}: {left_out} rows left out", set.name);
                }
                cut(&set)?;
            }
            Ok(())
        }
        Experiment::Generated => {
            generated::data_sets(options.objects, rows, seed).try_for_each(|set| cut(&set?))
        }
        Experiment::Thesis => thesis::Generator::ALL
            .into_iter()
            .try_for_each(|generator| cut(&thesis::data_set(generator, 0.0, rows, seed))),
        Experiment::Outliers => {
            let all = thesis::Generator::ALL;
            let mut cases =
                all.iter().flat_map(|generator| OUTLIERS.map(|share| (generator, share)));
            cases.try_for_each(|(generator, share)| {
                cut(&thesis::data_set(*generator, share, rows, seed))
            })
        }
        Experiment::Changing => {
            let batch_rows = options.rows / 4;
            mixes::mixes(batch_rows as usize, seed).try_for_each(|(name, blocks)| {
                take(&Prepared { name, block_rows: batch_rows, blocks })
            })
        }
        Experiment::Tabular => {
            for file in recorded::files(options.tables.as_ref().unwrap_or(&options.data))? {
                let (set, left_out) = tabular::table(&file)?;
                if !left_out.is_empty() {
                    println!("# {}: no numbers in {}", set.name, left_out.join(", "));
                }
                cut(&set)?;
            }
            Ok(())
        }
        Experiment::Entropy => {
            for folder in &options.text {
                cut(&text::data_set(folder, (options.text_mib as usize) << 20)?)?;
            }
            let alphabets = text::ALPHABETS.into_iter();
            alphabets
                .map(|alphabet| text::symbols(alphabet, rows, seed))
                .try_for_each(|set| cut(&set))
        }
    }
}

/// The codecs of an experiment: the requested ones; for changing data also the fixed tree, for text
/// the entropy and dictionary trees.
pub(super) fn codecs(experiment: Experiment, options: &Options) -> Vec<CodecName> {
    let mut codecs = options.codecs.clone();
    if experiment == Experiment::Entropy {
        let trees = CodecName::ENTROPY_TREES.into_iter();
        let missing: Vec<_> = trees.filter(|tree| !codecs.contains(tree)).collect();
        codecs.splice(0..0, missing);
    }
    let shoal = codecs.iter().position(|codec| *codec == CodecName::Shoal);
    if let (Experiment::Changing, Some(shoal)) = (experiment, shoal)
        && !codecs.contains(&CodecName::ShoalFixed)
    {
        codecs.insert(shoal + 1, CodecName::ShoalFixed);
    }
    codecs
}
