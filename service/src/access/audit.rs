//! The audit log: who did or tried what, from where, and whether it was allowed.
//!
//! It records the calls whose row in the table of rights is audited, and calls that were refused or
//! ended for their token, its rights or its quotas, as lines of the server's log or as JSON lines
//! of a file. A record never contains a token. Refusals beyond a rate are counted only. Writing
//! never delays a call: lines that the disk does not accept in time are lost. A line states how
//! many were counted only, or lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::refusal_limit::{RefusalLimit, RefusalSource};
use crate::address_places::network;
use crate::error::ServiceError;
use crate::limits::AUDIT_END_MS_MAX;
use crate::line_queue::{LineQueue, NoticeCause, lines_lost};
use crate::right::Right;

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuditRecord<'a> {
    pub(super) caller: Option<&'a Caller>,
    /// Path of the method.
    pub(super) action: &'a str,
    pub(super) fleet: Option<&'a str>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) right: Option<Right>,
    /// Why it was refused, if it was.
    pub(super) refused: Option<&'a str>,
}

impl AuditRecord<'_> {
    fn source(&self) -> RefusalSource {
        match self.caller.and_then(Caller::account) {
            Some(account) => RefusalSource::Account(account.id()),
            None => RefusalSource::Network(self.peer.map(|peer| network(peer.ip()))),
        }
    }
}

/// Where the records go: to the log of the server, or to a file.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    file: Option<LineQueue>,
    limit: Arc<RefusalLimit>,
}

impl Audit {
    /// Writes the records to this file, which is created if it does not exist.
    ///
    /// # Errors
    /// [`ServiceError::AccessFile`]; [`ServiceError::Io`] without a thread.
    pub(super) fn to_file(path: &Path) -> Result<Self, ServiceError> {
        let wrong = |error: io::Error| ServiceError::AccessFile {
            file: path.to_owned(),
            reason: error.to_string(),
        };
        let mut file = AuditFile::open(path.to_owned()).map_err(wrong)?;
        let write = move |text: &[u8]| file.write(text);
        let limit = Arc::new(RefusalLimit::default());
        let counted = limit.clone();
        let notices = move |cause| format!("{}{}", lost(cause), left_out(&counted, cause));
        let queue = LineQueue::start("audit", lines_lost(), write, notices)?;
        Ok(Self { file: Some(queue), limit })
    }

    /// Waits until all records are written, but for a bounded time.
    pub(crate) fn drain(&self) {
        match &self.file {
            Some(queue) => queue.drain(Instant::now() + Duration::from_millis(AUDIT_END_MS_MAX)),
            None => self.log_left_out(true),
        }
    }

    /// Logs the number of refusals that were counted only.
    fn log_left_out(&self, is_last: bool) {
        let not_recorded = self.limit.take_left_out(Instant::now(), is_last);
        if not_recorded > 0 {
            tracing::warn!(not_recorded, "audit: more refusals");
        }
    }

    /// Adds a record, unless it is a refusal beyond the limit of its source.
    pub(super) fn add(&self, record: &AuditRecord<'_>) {
        let AuditRecord { caller, action, fleet, peer, right, refused } = *record;
        if refused.is_some() && !self.limit.admits(record.source(), Instant::now()) {
            return;
        }
        let caller = caller.map_or("unknown", Caller::name);
        let right = right.map(Right::name);
        if let Some(queue) = &self.file {
            let peer = peer.map(|peer| peer.to_string());
            let allowed = refused.is_none();
            let fields = [
                ("caller", json!(caller)),
                ("action", json!(action)),
                ("fleet", json!(fleet)),
                ("peer", json!(peer)),
                ("right", json!(right)),
                ("allowed", json!(allowed)),
                ("reason", json!(refused)),
            ];
            queue.push(line(fields).as_bytes());
            return;
        }
        let peer = peer.map(tracing::field::display);
        self.log_left_out(false);
        match refused {
            None => tracing::info!(caller, action, fleet, peer, right, "audit: allowed"),
            Some(reason) => {
                tracing::warn!(caller, action, fleet, peer, right, reason, "audit: refused");
            }
        }
    }
}

/// A line of the file; fields without a value are left out.
fn line<const FIELDS: usize>(fields: [(&str, Value); FIELDS]) -> String {
    let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let fields = [("time", Value::from(time))].into_iter().chain(fields);
    let fields = fields.filter(|(_, value)| !value.is_null());
    let object: Map<_, _> = fields.map(|(name, value)| (name.to_owned(), value)).collect();
    format!("{}\n", Value::Object(object))
}

/// A line with the number of refusals that were counted only.
fn left_out(limit: &RefusalLimit, cause: NoticeCause) -> String {
    match limit.take_left_out(Instant::now(), cause.is_last) {
        0 => String::new(),
        left_out => line([("not_recorded", json!(left_out))]),
    }
}

fn lost(cause: NoticeCause) -> String {
    match cause.lost {
        0 => String::new(),
        lost => line([("lost", json!(lost))]),
    }
}

/// A file that may be renamed and replaced while it is written.
struct AuditFile {
    path: PathBuf,
    file: File,
}

impl AuditFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let written = self.file.metadata()?;
        let is_same = fs::metadata(&self.path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (written.dev(), written.ino()));
        if !is_same {
            *self = Self::open(self.path.clone())?;
        }
        self.file.write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::caller::Proof;

    #[test]
    fn records_are_json_lines_of_the_file_of_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::to_file(&path).unwrap();
        let caller = Caller::unlimited(Proof::Process);
        let record = AuditRecord {
            caller: Some(&caller),
            action: "/a/B",
            fleet: Some("f"),
            peer: Some(SocketAddr::from(([192, 0, 2, 1], 7))),
            right: Some(Right::Admin),
            refused: None,
        };
        audit.add(&record);
        drained(&audit);
        fs::rename(&path, folder.path().join("old")).unwrap();
        audit.add(&AuditRecord { caller: None, fleet: None, refused: Some("why"), ..record });
        drained(&audit);
        let read = |name: &str| -> Value {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let (old, new) = (read("old"), read("audit.jsonl"));
        assert_eq!((&old["caller"], &old["allowed"]), (&json!("server"), &json!(true)));
        assert_eq!((&old["fleet"], &old["peer"]), (&json!("f"), &json!("192.0.2.1:7")));
        assert_eq!((&new["caller"], &new["reason"]), (&json!("unknown"), &json!("why")));
        assert_eq!((new.get("fleet"), &new["allowed"]), (None, &json!(false)));
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "others cannot read it");
    }

    fn drained(audit: &Audit) {
        let queue = audit.file.as_ref().unwrap();
        queue.drain(Instant::now() + Duration::from_secs(60));
    }

    #[test]
    fn a_flood_of_refusals_has_few_lines_and_a_count() {
        const FLOOD: usize = 100_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::to_file(&path).unwrap();
        let peer = |port| Some(SocketAddr::from(([192, 0, 2, 1], port)));
        let refusal = AuditRecord {
            caller: None,
            action: "/a/B",
            fleet: None,
            peer: None,
            right: None,
            refused: Some("why"),
        };
        for port in 0..FLOOD {
            audit.add(&AuditRecord { peer: peer(port as u16), ..refusal });
        }
        let other = Some(SocketAddr::from(([192, 0, 2, 2], 7)));
        audit.add(&AuditRecord { peer: other, ..refusal });
        audit.add(&AuditRecord { refused: None, right: Some(Right::Admin), ..refusal });
        drained(&audit);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let left_out: u64 = lines.iter().filter_map(|line| line["not_recorded"].as_u64()).sum();
        let refused = lines.iter().filter(|line| line["allowed"] == false).count();
        assert_eq!(left_out as usize + refused, FLOOD + 1);
        assert!(refused < FLOOD / 100, "{refused}");
        assert!(text.contains("192.0.2.2:7") && text.contains("true"), "others are recorded");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = Audit::to_file(Path::new("/dev/null/audit")).unwrap_err();
        assert!(error.to_string().contains("/dev/null/audit"), "{error}");
    }
}
