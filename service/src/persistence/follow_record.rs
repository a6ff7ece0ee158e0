//! The file `server.current`: when each copy of a follower was last known to be current. It is
//! replaced every few seconds (LOG.md, section 10.3), so that copies keep their age across a
//! restart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use shoal_position_log::{LogError, Storage, TextFile};
use tracing::warn;

const FILE: TextFile<'_> = TextFile("server.current");

/// Unix milliseconds by the identity of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FollowRecord(pub(crate) BTreeMap<u128, i64>);

impl FollowRecord {
    pub(super) fn load(storage: &dyn Storage) -> Result<Self, LogError> {
        let read = match FILE.load(storage) {
            Ok(None) => return Ok(Self::default()),
            Ok(Some(text)) => Self::parse(&text),
            // A damaged file is ignored: no fleet depends on it.
            Err(LogError::Damaged { reason, .. }) => Err(reason),
            Err(error) => return Err(error),
        };
        Ok(read.unwrap_or_else(|problem| {
            let file = storage.display(FILE.0);
            warn!(file, problem, "the age of copies is not known");
            Self::default()
        }))
    }

    pub(super) fn store(&self, storage: &dyn Storage) -> Result<(), LogError> {
        FILE.store(storage, &self.text())
    }

    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (id, current_ms)| {
            let _ = writeln!(text, "current {id:032x} {current_ms}");
            text
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let entry = |line: &str| {
            let (id, current_ms) = line.strip_prefix("current ")?.split_once(' ')?;
            Some((u128::from_str_radix(id, 16).ok()?, current_ms.parse().ok()?))
        };
        let entries = text.lines().map(|line| entry(line).ok_or_else(|| line.to_owned()));
        entries.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        for entries in [vec![], vec![(5, -3), (u128::MAX, i64::MAX)]] {
            let record = FollowRecord(entries.into_iter().collect());
            assert_eq!(FollowRecord::parse(&record.text()), Ok(record));
        }
        for wrong in ["current", "current 1", "current x 1", "now 1 1"] {
            assert_eq!(FollowRecord::parse(wrong), Err(wrong.to_owned()));
        }
    }
}
