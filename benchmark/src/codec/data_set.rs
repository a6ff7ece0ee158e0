//! A data set: named columns of one length, and their division into blocks.
//!
//! Fixes are divided like in the service's client: at the requested number of rows, and where event
//! times exceed the range of one block.

use shoal_codec::limits::TIME_SPAN_MS_MAX;
use shoal_codec::{FixColumns, SpaceTag, Values};

use super::block::Block;

/// Rows with a name.
#[derive(Clone, Debug)]
pub(super) struct DataSet {
    pub(super) name: String,
    pub(super) content: Content,
}

/// The kind of rows.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Positions in arrival order, in one space.
    Fixes(Box<FixColumns>, SpaceTag),
    /// Generic columns.
    Columns(Vec<(String, Values)>),
}

impl DataSet {
    /// One generic column.
    pub(super) fn of_column(name: &str, column: &str, values: Values) -> Self {
        let content = Content::Columns(vec![(column.to_owned(), values)]);
        Self { name: name.to_owned(), content }
    }

    pub(super) fn rows(&self) -> usize {
        match &self.content {
            Content::Fixes(fixes, _) => fixes.len(),
            Content::Columns(columns) => columns.first().map_or(0, |(_, values)| values.len()),
        }
    }

    /// Divides fixes into runs whose event times fit one block, and sorts each run by object
    /// (stable), as a store would write its runs of sorted rows.
    pub(super) fn group(&mut self) {
        let Content::Fixes(fixes, _) = &mut self.content else {
            return;
        };
        let mut grouped = FixColumns::new();
        let mut start = 0;
        while start < fixes.len() {
            let end = start + span_rows(&fixes.time_ms[start..]);
            let mut run: Vec<usize> = (start..end).collect();
            run.sort_by_key(|row| fixes.object[*row]);
            run.into_iter().for_each(|row| grouped.push_row(fixes.row(row)));
            start = end;
        }
        **fixes = grouped;
    }

    /// Blocks of at most `block_rows` rows, in order.
    pub(super) fn blocks(&self, block_rows: usize) -> Vec<Block> {
        assert!(block_rows > 0, "a block has rows");
        let mut blocks = Vec::new();
        let mut start = 0;
        while start < self.rows() {
            let mut end = self.rows().min(start + block_rows);
            match &self.content {
                Content::Fixes(fixes, space) => {
                    end = start + span_rows(&fixes.time_ms[start..end]);
                    blocks.push(Block::of_fixes(fixes.slice(start..end), *space));
                }
                Content::Columns(columns) => blocks.push(Block::of_columns(columns, start..end)),
            }
            start = end;
        }
        blocks
    }
}

/// Number of leading rows that fit one block's time range; at least one if any.
fn span_rows(times_ms: &[i64]) -> usize {
    let (mut first_ms, mut last_ms) = (i64::MAX, i64::MIN);
    for (index, time_ms) in times_ms.iter().enumerate() {
        first_ms = first_ms.min(*time_ms);
        last_ms = last_ms.max(*time_ms);
        if last_ms.abs_diff(first_ms) > u64::from(TIME_SPAN_MS_MAX) {
            return index;
        }
    }
    times_ms.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_codec::SpaceKind;

    #[test]
    fn blocks_end_at_the_row_limit_and_at_the_time_range() {
        let far = i64::from(TIME_SPAN_MS_MAX);
        let time_ms = vec![5, 0, far, far + 1, far + 2, far + 3, far + 4];
        let rows = time_ms.len();
        let fixes = FixColumns {
            object: vec![7; rows],
            x: vec![1; rows],
            y: vec![2; rows],
            speed_mm_s: Some(vec![3; rows]),
            time_ms,
            ..FixColumns::default()
        };
        let space =
            SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 1.0 };
        let content = Content::Fixes(Box::new(fixes), space);
        let mut set = DataSet { name: "far".into(), content };
        let blocks = set.blocks(3);
        assert_eq!(blocks.iter().map(Block::rows).collect::<Vec<_>>(), [3, 3, 1]);
        let blocks = set.blocks(100);
        assert_eq!(blocks.iter().map(Block::rows).collect::<Vec<_>>(), [3, 4]);
        let names: Vec<_> = blocks[1].columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["object", "time", "x", "y", "speed"]);
        assert_eq!(blocks[1].columns[1].bytes[..8], [0, 0, 0, 0, 1, 0, 0, 0]);

        let Content::Fixes(fixes, _) = &mut set.content else { panic!("these are fixes") };
        fixes.object = vec![3, 2, 2, 1, 9, 9, 8];
        let rows = |set: &DataSet| match &set.content {
            Content::Fixes(fixes, _) => (fixes.object.clone(), fixes.time_ms.clone()),
            Content::Columns(_) => panic!("these are fixes"),
        };
        set.group();
        // The first run ends where its times no longer fit a block.
        let times_ms = vec![0, far, 5, far + 1, far + 4, far + 2, far + 3];
        assert_eq!(rows(&set), (vec![2, 2, 3, 1, 8, 9, 9], times_ms));
    }
}
