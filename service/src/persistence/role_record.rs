//! The file `server.role`: the replication role of the server, and its fences.
//!
//! It has a line for each field that is set. A folder without the file belongs to a leader that has
//! never had a follower.

use std::fmt::Write as _;

use shoal_position_log::{LogError, Storage, TextFile};

/// The file.
const FILE: TextFile<'_> = TextFile("server.role");

/// The role of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoredRole {
    /// It was never a follower of another server.
    #[default]
    Leader,
    /// It follows.
    Follower,
    /// It was a follower.
    Promoted,
}

/// A term of a fleet that began on another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewTerm {
    pub(crate) name: String,
    pub(crate) id: u128,
    pub(crate) term: u64,
    /// The last epoch before the term.
    pub(crate) epoch: u64,
}

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleRecord {
    pub(crate) role: StoredRole,
    /// Address of the leader of a follower, or of the server that a promoted server replaces.
    pub(crate) leader: String,
    /// Whether it has had followers, one of which may have been promoted since.
    pub(crate) has_followers: bool,
    /// Fleets that another server has taken over, with the term that began there.
    pub(crate) fenced: Vec<NewTerm>,
    /// True until `leader` has been informed of the terms that began here.
    pub(crate) is_fence_pending: bool,
    /// The identity of each fleet and the term that the pending promotion ended.
    pub(crate) replaced: Vec<(u128, u64)>,
    /// Drawn at random when it is first needed, else 0.
    pub(crate) server_id: u64,
    /// The `server_id` of `leader`, 0 until that is known.
    pub(crate) leader_id: u64,
}

impl RoleRecord {
    pub(super) fn load(storage: &dyn Storage) -> Result<Self, LogError> {
        let read = FILE.read(storage, |text| {
            Self::parse(text).map_err(|line| format!("unknown line {line:?}"))
        });
        Ok(read?.unwrap_or_default())
    }

    pub(super) fn store(&self, storage: &dyn Storage) -> Result<(), LogError> {
        FILE.store(storage, &self.text())
    }

    fn text(&self) -> String {
        let role = match self.role {
            StoredRole::Leader => "leader",
            StoredRole::Follower => "follower",
            StoredRole::Promoted => "promoted",
        };
        let mut text = format!("role {role}\n");
        if !self.leader.is_empty() {
            let _ = writeln!(text, "leader {}", self.leader);
        }
        if self.has_followers {
            text.push_str("followers yes\n");
        }
        if self.is_fence_pending {
            text.push_str("fence pending\n");
        }
        for (key, id) in [("server", self.server_id), ("follows", self.leader_id)] {
            let _ = writeln!(text, "{key} {id:016x}");
        }
        for (id, term) in &self.replaced {
            let _ = writeln!(text, "replaced {id:032x} {term:016x}");
        }
        for NewTerm { name, id, term, epoch } in &self.fenced {
            let _ = writeln!(text, "fenced {name} {id:032x} {term:016x} {epoch}");
        }
        text
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut record = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let unknown = || line.to_owned();
            let identity = |id| u128::from_str_radix(id, 16).map_err(|_| unknown());
            let number = |term| u64::from_str_radix(term, 16).map_err(|_| unknown());
            match words[..] {
                ["role", "leader"] => record.role = StoredRole::Leader,
                ["role", "follower"] => record.role = StoredRole::Follower,
                ["role", "promoted"] => record.role = StoredRole::Promoted,
                ["leader", address] => record.leader = address.to_owned(),
                ["followers", "yes"] => record.has_followers = true,
                ["fence", "pending"] => record.is_fence_pending = true,
                [key @ ("server" | "follows"), id] => {
                    let id = number(id)?;
                    if key == "server" {
                        record.server_id = id;
                    } else {
                        record.leader_id = id;
                    }
                }
                ["replaced", id, term] => record.replaced.push((identity(id)?, number(term)?)),
                ["fenced", name, id, term, epoch] => {
                    record.fenced.push(NewTerm {
                        name: name.to_owned(),
                        id: identity(id)?,
                        term: number(term)?,
                        epoch: epoch.parse().map_err(|_| unknown())?,
                    });
                }
                _ => return Err(unknown()),
            }
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let term = |name: &str| NewTerm { name: name.into(), id: u128::MAX - 5, term: 7, epoch: 9 };
        for record in [
            RoleRecord::default(),
            RoleRecord {
                role: StoredRole::Promoted,
                leader: "http://[::1]:7".into(),
                has_followers: true,
                fenced: vec![term("a"), term("b-c")],
                is_fence_pending: true,
                replaced: vec![(3, u64::MAX), (u128::MAX, 0)],
                server_id: 8,
                leader_id: u64::MAX,
            },
        ] {
            assert_eq!(RoleRecord::parse(&record.text()), Ok(record));
        }
        for wrong in ["role king", "fenced a b c", "fenced a 1 2 x", "replaced 1", "x"] {
            assert!(RoleRecord::parse(wrong).is_err(), "{wrong}");
        }
    }
}
