//! Finds the newest event times of a request on receipt, from the columns of times and objects.
//!
//! A block that does not decode has no times: the engine refuses it as a whole. While a long block
//! is read, the task yields to other calls.

use shoal_codec::{Block, Column, ColumnSet, FixColumns};
use shoal_engine::Request;

use crate::fleet::NewestTimes;

/// Rows of a block that are read before the task yields to other calls; this takes less than a
/// millisecond.
const ROWS_AT_ONCE: usize = 32 << 10;
/// The columns that are read from a block.
const COLUMNS: ColumnSet = ColumnSet::NONE.with(Column::Object).with(Column::Time);

/// Returns the newest times of a request's rows.
pub(super) async fn newest_times(request: &Request) -> NewestTimes {
    match request {
        Request::Fixes(columns) => {
            let mut times = NewestTimes::default();
            times.add_columns(columns);
            times
        }
        Request::Block(block) => of_block(block).await,
        Request::Remove(_) | Request::Clear | Request::Rewind => NewestTimes::default(),
    }
}

async fn of_block(block: &Block) -> NewestTimes {
    let (mut times, mut columns) = (NewestTimes::default(), FixColumns::new());
    for first in (0..block.rows()).step_by(ROWS_AT_ONCE) {
        let rows = first..block.rows().min(first + ROWS_AT_ONCE);
        if block.decode_columns(rows, COLUMNS, &mut columns).is_err() {
            return NewestTimes::default();
        }
        times.add_columns(&columns);
        tokio::task::yield_now().await;
    }
    times
}
