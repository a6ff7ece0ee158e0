//! Which steps are those of a common keyed tree: divisor?(keyed(patch?(afl), scale?(afl)))?
//!
//! Nearly all keyed columns of fixes are such trees. A kernel of their own takes their steps in one
//! order, with steps of code 0 where a node is missing; what is refused is the same.

use shoal_engine::layout::{
    CODEC_AFL, CODEC_COUNT, CODEC_DIVISOR, CODEC_HEADS, CODEC_KEEP, CODEC_KEYED_DELTA,
    CODEC_KEYED_DELTA2, CODEC_PATCH, CODEC_RUN_STEPS, CODEC_SCALE, CodecStep,
};

/// The mode of differences that are zigzag.
const ZIGZAG: u32 = 1;

/// The steps as that kernel takes them; none if these are of another tree.
pub(super) fn steps(compiled: &[CodecStep]) -> Option<[CodecStep; CODEC_RUN_STEPS as usize]> {
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
