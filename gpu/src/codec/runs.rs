//! Which steps are those of a common tree? divisor?(keyed(patch?(afl), scale?(afl))), as nearly all
//! keyed columns of fixes are, or repeated codes: dict(rle(afl, afl), scale?(afl)?).
//!
//! Kernels of their own take their steps in one order, with steps of code 0 where a node is
//! missing; what is refused is the same.

use shoal_engine::layout::{
    CODEC_AFL, CODEC_COUNT, CODEC_DICT, CODEC_DICT_OR, CODEC_DIVISOR, CODEC_EXCEPTIONS,
    CODEC_HEADS, CODEC_KEEP, CODEC_KEYED_DELTA, CODEC_KEYED_DELTA2, CODEC_PATCH, CODEC_RLE,
    CODEC_RUN_STEPS, CODEC_RUNS, CODEC_SCALE, CodecStep,
};

/// The mode of differences that are zigzag.
const ZIGZAG: u32 = 1;

/// Steps as such a kernel takes them.
type Steps = [CodecStep; CODEC_RUN_STEPS as usize];

/// Those of a common keyed tree; none if these are of another tree.
pub(super) fn keyed(compiled: &[CodecStep]) -> Option<Steps> {
    let mut left = compiled.iter().peekable();
    let mut take = |codes: &[u32]| left.next_if(|step| codes.contains(&step.code)).copied();
    let count = take(&[CODEC_COUNT]).filter(|step| step.extra == CODEC_HEADS)?;
    let heads = take(&[CODEC_AFL])?;
    let scale = take(&[CODEC_SCALE]).unwrap_or_default();
    take(&[CODEC_KEEP])?;
    let residuals = take(&[CODEC_AFL])?;
    let patch = take(&[CODEC_PATCH]).unwrap_or_default();
    let keyed = take(&[CODEC_KEYED_DELTA, CODEC_KEYED_DELTA2])?;
    let divisor = take(&[CODEC_DIVISOR]).unwrap_or_default();
    let is_all = left.peek().is_none() && keyed.extra == ZIGZAG;
    is_all.then_some([count, heads, scale, residuals, patch, keyed, divisor])
}

/// Those of a tree of repeated codes; none if these are of another tree.
pub(super) fn repeats(compiled: &[CodecStep]) -> Option<Steps> {
    let mut left = compiled.iter().peekable();
    let mut take = |codes: &[u32]| left.next_if(|step| codes.contains(&step.code)).copied();
    let mut count = take(&[CODEC_COUNT])?;
    let (mut other_count, mut others, mut scale) = Default::default();
    if count.extra == CODEC_EXCEPTIONS {
        (other_count, others) = (count, take(&[CODEC_AFL])?);
        scale = take(&[CODEC_SCALE]).unwrap_or_default();
        take(&[CODEC_KEEP])?;
        count = take(&[CODEC_COUNT])?;
    }
    let values = take(&[CODEC_AFL]).filter(|_| count.extra == CODEC_RUNS)?;
    take(&[CODEC_KEEP])?;
    let lengths = take(&[CODEC_AFL])?;
    take(&[CODEC_RLE])?;
    let dictionary = take(&[CODEC_DICT, CODEC_DICT_OR])?;
    let is_all = left.peek().is_none();
    is_all.then_some([other_count, others, scale, count, values, lengths, dictionary])
}
