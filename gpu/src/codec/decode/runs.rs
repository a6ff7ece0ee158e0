//! Recognises common trees: divisor?(keyed(patch?(afl), scale?(afl))), which nearly all keyed
//! columns of fixes have, and repeated codes: dict(rle(afl, afl), scale?(afl)?).
//!
//! Dedicated kernels decode them. They take the steps in a fixed order, with code 0 for an absent
//! node, and refuse the same input as the general kernels.

use shoal_codec::Encoding;
use shoal_engine::layout::{
    CODEC_COUNT, CODEC_DICT_OR, CODEC_EXCEPTIONS, CODEC_HEADS, CODEC_RUN_STEPS, CODEC_RUNS,
    CODEC_STORE, CodecStep,
};

use crate::codec::code;

const AFL: u32 = code(Encoding::Afl);
const SCALE: u32 = code(Encoding::Scale);
/// The mode of a keyed node whose differences are zigzag.
const ZIGZAG: u32 = 1;

/// Steps of a dedicated kernel.
type Steps = [CodecStep; CODEC_RUN_STEPS as usize];

/// Steps of a common keyed tree; `None` for other trees.
pub(super) fn keyed(compiled: &[CodecStep]) -> Option<Steps> {
    let mut left = compiled.iter().peekable();
    let mut take = |codes: &[u32]| left.next_if(|step| codes.contains(&step.code)).copied();
    let count = take(&[CODEC_COUNT]).filter(|step| step.extra == CODEC_HEADS)?;
    let heads = take(&[AFL])?;
    let scale = take(&[SCALE]).unwrap_or_default();
    take(&[CODEC_STORE])?;
    let residuals = take(&[AFL])?;
    let patch = take(&[code(Encoding::Patch)]).unwrap_or_default();
    let keyed = take(&[Encoding::KeyedDelta, Encoding::KeyedDelta2].map(code))?;
    let divisor = take(&[code(Encoding::Divisor)]).unwrap_or_default();
    let is_all = left.peek().is_none() && keyed.extra == ZIGZAG;
    is_all.then_some([count, heads, scale, residuals, patch, keyed, divisor])
}

/// Steps of a tree of repeated codes; `None` for other trees.
pub(super) fn repeats(compiled: &[CodecStep]) -> Option<Steps> {
    let mut left = compiled.iter().peekable();
    let mut take = |codes: &[u32]| left.next_if(|step| codes.contains(&step.code)).copied();
    let mut count = take(&[CODEC_COUNT])?;
    let (mut other_count, mut others, mut scale) = Default::default();
    if count.extra == CODEC_EXCEPTIONS {
        (other_count, others) = (count, take(&[AFL])?);
        scale = take(&[SCALE]).unwrap_or_default();
        take(&[CODEC_STORE])?;
        count = take(&[CODEC_COUNT])?;
    }
    let values = take(&[AFL]).filter(|_| count.extra == CODEC_RUNS)?;
    take(&[CODEC_STORE])?;
    let lengths = take(&[AFL])?;
    take(&[code(Encoding::Rle)])?;
    let dictionary = take(&[code(Encoding::Dict), CODEC_DICT_OR])?;
    let is_all = left.peek().is_none();
    is_all.then_some([other_count, others, scale, count, values, lengths, dictionary])
}
