//! The candidate trees of the contender that plans by trial.

use shoal_codec::{Mode, Tree, ValueType, Values};

/// Every candidate tree for these values.
pub(super) fn candidates(values: &Values, is_keyed: bool) -> Vec<Tree> {
    let afl = || Box::new(Tree::Afl);
    let patch = || Box::new(Tree::Patch(afl()));
    let scale = || Box::new(Tree::Scale(afl()));
    let z = Mode::Zigzag;
    let rle = || Box::new(Tree::Rle(patch(), patch()));
    let mut trees = vec![
        Tree::Raw,
        Tree::Const,
        Tree::Afl,
        *patch(),
        *scale(),
        Tree::Scale(patch()),
        Tree::Delta(z, patch()),
        Tree::Delta2(z, patch()),
        Tree::Delta(z, rle()),
        Tree::Delta(Mode::Plain, rle()),
        Tree::Delta(Mode::Plain, patch()),
        *rle(),
        Tree::Rle(Box::new(Tree::Delta(z, patch())), patch()),
        Tree::Rle(scale(), patch()),
        Tree::Dict(u32::MAX, patch(), None),
        Tree::Dict(u32::MAX, rle(), None),
        Tree::Delta(z, Box::new(Tree::Dict(255, afl(), Some(patch())))),
        Tree::Dict(255, afl(), Some(scale())),
    ];
    if is_keyed {
        for residuals in [patch(), Box::new(Tree::Dict(255, afl(), Some(patch())))] {
            trees.push(Tree::KeyedDelta(z, residuals.clone(), scale()));
            trees.push(Tree::KeyedDelta2(z, residuals, scale()));
        }
        trees.push(Tree::KeyedDelta(z, rle(), scale()));
        trees.push(Tree::Group(Box::new(Tree::Rle(patch(), patch()))));
    }
    match values.value_type() {
        ValueType::F32 | ValueType::F64 => {
            let exact: Vec<Tree> =
                trees.iter().map(|tree| Tree::FloatToInt(None, Box::new(tree.clone()))).collect();
            trees.extend(exact);
            trees.push(Tree::Gfc);
        }
        _ => {
            let divided: Vec<Tree> =
                trees[2..].iter().map(|tree| Tree::Divisor(None, Box::new(tree.clone()))).collect();
            trees.extend(divided);
        }
    }
    trees
}
