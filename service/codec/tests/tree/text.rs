//! Texts of trees identify them.

use crate::sample::trees;

#[test]
fn every_tree_has_its_own_text_and_size() {
    let mut texts: Vec<String> = trees().iter().map(ToString::to_string).collect();
    for (tree, text) in trees().iter().zip(&texts) {
        assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
        assert!(tree.depth() <= tree.nodes(), "{text}");
        assert_eq!(text.parse().as_ref(), Ok(tree));
    }
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), trees().len());
}
