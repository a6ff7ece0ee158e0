//! The audit log: who did or tried what, from where, and whether it was allowed.
//!
//! It records the calls whose row in the table of rights is audited, and every refusal, as lines of
//! the server's log or as JSON lines of a file. A record never contains a token. Writing never
//! delays a call: lines that the disk does not accept in time are lost, and a line states how many.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::caller::Caller;
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

/// Where the records go: to the log of the server, or to a file.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    file: Option<LineQueue>,
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
        let queue = LineQueue::start("audit", lines_lost(), write, lost)?;
        Ok(Self { file: Some(queue) })
    }

    /// Waits until all records are written, but for a bounded time.
    pub(crate) fn drain(&self) {
        if let Some(queue) = &self.file {
            queue.drain(Instant::now() + Duration::from_millis(AUDIT_END_MS_MAX));
        }
    }

    /// Adds a record.
    pub(super) fn add(&self, record: &AuditRecord<'_>) {
        let AuditRecord { caller, action, fleet, peer, right, refused } = *record;
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
    fn a_file_that_cannot_be_written_is_named() {
        let error = Audit::to_file(Path::new("/dev/null/audit")).unwrap_err();
        assert!(error.to_string().contains("/dev/null/audit"), "{error}");
    }
}
