//! Statistics of edges, which rank trees.
//!
//! An edge is a pair (encoding, child's encoding) at a place of the full binary tree; the children
//! of place i are at 2 (i + 1) and 2 (i + 1) + 1. Its alpha is a moving average of the ratios of
//! trees that contain the edge; each new ratio has weight 1/2. Alphas are integers in Q16.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// Place, encoding, child's encoding.
type Edge = (usize, u16, u16);

/// Alphas of all edges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    alphas_q16: BTreeMap<Edge, u64>,
}

/// Appends the edges of a tree whose root is at `place`.
fn edges_of(tree: &Tree, place: usize, out: &mut Vec<Edge>) {
    for (index, child) in tree.children().into_iter().enumerate() {
        let child_place = 2 * (place + 1) + index;
        out.push((child_place, tree.encoding().id(), child.encoding().id()));
        edges_of(child, child_place, out);
    }
}

impl Edges {
    /// Records the ratio of a batch or sample with this tree.
    pub(crate) fn learn(&mut self, tree: &Tree, ratio_q16: u64) {
        let mut edges = Vec::new();
        edges_of(tree, 0, &mut edges);
        for edge in edges {
            let alpha = self.alphas_q16.entry(edge).or_insert(ratio_q16);
            *alpha = (*alpha + ratio_q16) / 2;
        }
    }

    /// Mean alpha over a tree's edges; 0 for leaves and edges without statistics.
    pub(crate) fn rank(&self, tree: &Tree) -> u64 {
        let mut edges = Vec::new();
        edges_of(tree, 0, &mut edges);
        let count = edges.len().max(1) as u64;
        let alphas = edges.iter().map(|edge| self.alphas_q16.get(edge).copied().unwrap_or(0));
        alphas.sum::<u64>() / count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{patched, scaled};

    #[test]
    fn alphas_move_halfway_to_what_batches_show() {
        let mut edges = Edges::default();
        edges.learn(&patched(), 4 << 16);
        assert_eq!(edges.rank(&patched()), 4 << 16);
        edges.learn(&patched(), 2 << 16);
        assert_eq!(edges.rank(&patched()), 3 << 16);
        assert_eq!(edges.rank(&scaled()), 0);
        // The same pair at another place is another edge.
        assert_eq!(edges.rank(&Tree::Scale(Box::new(patched()))), 0);
        assert_eq!(edges.rank(&Tree::Raw), 0);
    }
}
