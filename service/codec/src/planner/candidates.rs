//! Candidate trees for a sample, by rules from its statistics.
//!
//! Trees begin with `divisor` or `float_to_int` where the values allow it, followed by one of a few
//! bodies. There are at most `CANDIDATES_MAX`; a trial drops trees that do not apply.

use crate::encoding::{lzw, stateless};
use crate::limits::PLAN_DEPTH_MAX;
use crate::planner::aim::Aim;
use crate::planner::statistics::Statistics;
use crate::tree::{Tree, patched, scaled};
use crate::value_type::ValueType;
use crate::word::Mode;

/// Trees tried on one sample at most.
pub(crate) const CANDIDATES_MAX: usize = 192;
/// Number of entries in the dictionary of a tree with exceptions.
const FREQUENT_ENTRIES: u32 = 255;

fn boxed(tree: Tree) -> Box<Tree> {
    Box::new(tree)
}

/// Trees for a column with these statistics; `raw` is the first.
pub(crate) fn candidates(
    statistics: &Statistics,
    value_type: ValueType,
    has_keys: bool,
    aim: Aim,
) -> Vec<Tree> {
    let mut trees = vec![Tree::Raw, Tree::Const];
    let mut all = bodies(statistics, has_keys);
    if let Some(leaf) = aim.entropy_leaf() {
        for body in all.clone() {
            let coded = entropy_coded(&body, &leaf);
            if !all.contains(&coded) {
                all.push(coded);
            }
        }
    }
    if value_type == ValueType::U8 {
        trees.extend(text_trees(aim));
    }
    if statistics.divisor.is_some() {
        trees.extend(all.iter().map(|body| Tree::Divisor(None, boxed(body.clone()))));
    }
    if value_type.is_float() {
        trees.push(Tree::Gfc);
        if statistics.decimals.is_some() {
            trees.extend(all.iter().map(|body| Tree::FloatToInt(None, boxed(body.clone()))));
        } else {
            // Several numbers of decimals are tried, as a few values may have more than the rest.
            for decimals in [0, 1, 2, 3, 4, 6] {
                let integers = Tree::FloatToInt(Some(decimals), boxed(scaled()));
                trees.push(Tree::Patch(boxed(integers)));
            }
        }
    }
    trees.extend(all);
    trees.retain(|tree| tree.depth() <= PLAN_DEPTH_MAX);
    trees.truncate(CANDIDATES_MAX);
    trees
}

/// Trees for bytes that may be text. Large `lzw` chunks compress better; small ones allow more
/// parallel decoding.
pub(super) fn text_trees(aim: Aim) -> Vec<Tree> {
    let chunk_tiles = match aim {
        Aim::Fast => return Vec::new(),
        Aim::Balanced => lzw::CHUNK_TILES_MAX / 4,
        Aim::Small => lzw::CHUNK_TILES_MAX,
    };
    let strings = |codes| Tree::Lzw(chunk_tiles, boxed(codes));
    let frequent = |entries| Tree::Stateless(entries, stateless::CHUNK_TILES_MAX / 4);
    vec![strings(Tree::Afl), strings(Tree::Huffman), frequent(4), frequent(16)]
}

/// The tree with Huffman codes in place of packed values.
pub(crate) fn entropy_coded(tree: &Tree, leaf: &Tree) -> Tree {
    let coded = |child: &Tree| boxed(entropy_coded(child, leaf));
    match tree {
        Tree::Afl => leaf.clone(),
        Tree::Patch(child) if **child == Tree::Afl => leaf.clone(),
        // `scale(afl)` encodes short tiles, where a code costs more than it saves.
        Tree::Scale(child) if **child == Tree::Afl => tree.clone(),
        Tree::Patch(child) => Tree::Patch(coded(child)),
        Tree::Scale(child) => Tree::Scale(coded(child)),
        Tree::Group(child) => Tree::Group(coded(child)),
        Tree::Divisor(choice, child) => Tree::Divisor(*choice, coded(child)),
        Tree::FloatToInt(decimals, child) => Tree::FloatToInt(*decimals, coded(child)),
        Tree::Delta(mode, child) => Tree::Delta(*mode, coded(child)),
        Tree::Delta2(mode, child) => Tree::Delta2(*mode, coded(child)),
        Tree::Rle(values, lengths) => Tree::Rle(coded(values), coded(lengths)),
        Tree::Dict(limit, codes, rest) => {
            Tree::Dict(*limit, coded(codes), rest.as_ref().map(|rest| coded(rest)))
        }
        Tree::KeyedDelta(mode, residuals, heads) => {
            Tree::KeyedDelta(*mode, coded(residuals), heads.clone())
        }
        Tree::KeyedDelta2(mode, residuals, heads) => {
            Tree::KeyedDelta2(*mode, coded(residuals), heads.clone())
        }
        other => other.clone(),
    }
}

/// Trees of integers, or of bit patterns, without divisor.
fn bodies(statistics: &Statistics, has_keys: bool) -> Vec<Tree> {
    let afl = || Box::new(Tree::Afl);
    let [patch, scale] = [|| boxed(patched()), || boxed(scaled())];
    let scaled_patch = || boxed(Tree::Scale(patch()));
    let runs = || boxed(Tree::Rle(afl(), afl()));
    let patched_runs = || boxed(Tree::Rle(patch(), patch()));
    let mut trees = Vec::new();
    if statistics.has_runs() {
        // Precedes `group` of the same runs, because on a tie the first tree is chosen, and this
        // one decodes faster.
        trees.push(*runs());
    }
    if has_keys {
        for mode in [Mode::Zigzag, Mode::Plain] {
            trees.push(Tree::KeyedDelta(mode, patch(), scale()));
            trees.push(Tree::KeyedDelta2(mode, patch(), scale()));
        }
        for runs in [runs(), patched_runs()] {
            trees.push(Tree::KeyedDelta(Mode::Zigzag, runs.clone(), scale()));
            trees.push(Tree::Group(runs));
        }
        trees.push(Tree::Group(scaled_patch()));
    }
    trees.extend([*scale(), *scaled_patch(), *patch(), Tree::Afl]);
    trees.push(Tree::Delta(Mode::Zigzag, patch()));
    trees.push(Tree::Delta(Mode::Plain, scaled_patch()));
    trees.push(Tree::Delta(Mode::Plain, patch()));
    trees.push(Tree::Delta(Mode::Plain, scale()));
    trees.push(Tree::Delta2(Mode::Zigzag, patch()));
    trees.push(Tree::Delta(Mode::Zigzag, runs()));
    trees.push(Tree::Delta(Mode::Zigzag, patched_runs()));
    let frequent = Tree::Dict(FREQUENT_ENTRIES, afl(), Some(patch()));
    trees.push(Tree::Delta(Mode::Zigzag, boxed(frequent)));
    trees.push(Tree::Delta(Mode::Plain, boxed(Tree::Rle(scale(), afl()))));
    if statistics.has_runs() {
        trees.push(Tree::Rle(scale(), afl()));
        trees.push(Tree::Rle(boxed(Tree::Delta(Mode::Zigzag, patch())), afl()));
        trees.push(Tree::Rle(boxed(Tree::Delta(Mode::Zigzag, patch())), patch()));
    }
    let codes = || {
        let differences = boxed(Tree::Delta(Mode::Zigzag, afl()));
        [afl(), patch(), scaled_patch(), runs(), patched_runs(), differences]
    };
    match statistics.distinct {
        Some(distinct) if distinct * 2 <= statistics.values => {
            trees.extend(codes().map(|codes| Tree::Dict(u32::MAX, codes, None)));
            if distinct > FREQUENT_ENTRIES as usize {
                trees.push(Tree::Dict(FREQUENT_ENTRIES, afl(), Some(scale())));
                trees.push(Tree::Dict(15, runs(), Some(scale())));
            }
        }
        _ => trees.push(Tree::Dict(FREQUENT_ENTRIES, afl(), Some(scale()))),
    }
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_bounded_different_and_shallow() {
        let columns: [Vec<u32>; 3] = [
            (0..3000).map(|row| row / 5 * 100).collect(),
            (0..3000_u32).map(|row| row.wrapping_mul(0x9e37_79b9)).collect(),
            Vec::new(),
        ];
        for values in columns {
            for value_type in [ValueType::I32, ValueType::F32, ValueType::U8] {
                let statistics = Statistics::of(value_type, &values);
                let trees = candidates(&statistics, value_type, true, Aim::Small);
                assert!((10..=CANDIDATES_MAX).contains(&trees.len()), "{}", trees.len());
                assert_eq!(trees[0], Tree::Raw);
                assert!(trees.iter().all(|tree| tree.depth() <= PLAN_DEPTH_MAX));
                let different: std::collections::HashSet<_> = trees.iter().collect();
                assert_eq!(different.len(), trees.len());
            }
        }
    }
}
