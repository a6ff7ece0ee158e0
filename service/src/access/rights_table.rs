//! The table of rights: what every method of every service needs.
//!
//! A method without a row is refused, and `tests/server/access_table.rs` compares the rows with the
//! descriptors of all services.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::quota_meter::MeteredQuota;
use crate::right::Right;

/// What a method needs of the token of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any valid token. For each fleet that the call concerns, any right on it.
    Token,
    /// A right on the fleet that the request names.
    Fleet(Right),
    /// A right on all fleets.
    Server(Right),
}

impl MethodRight {
    /// The quota of a call that fails if the quota is used up.
    pub(super) fn metered(&self) -> Option<MeteredQuota> {
        match self.needs {
            _ if self.waits => None,
            Needs::Fleet(Right::Report) => Some(MeteredQuota::Rows),
            Needs::Fleet(Right::Query | Right::History) => Some(MeteredQuota::Queries),
            _ => None,
        }
    }
}

impl Needs {
    /// The right that is needed; `None` for [`Needs::Token`].
    #[must_use]
    pub fn right(self) -> Option<Right> {
        match self {
            Self::Token => None,
            Self::Fleet(right) | Self::Server(right) => Some(right),
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodRight {
    /// `/PACKAGE.SERVICE/METHOD`.
    pub path: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// Whether the request is a stream, whose messages wait for the quotas of rows and queries;
    /// other calls fail.
    pub waits: bool,
    /// Whether allowed calls are recorded in the audit log; refused ones always are.
    pub is_audited: bool,
}

const fn row(path: &'static str, needs: Needs) -> MethodRight {
    let is_audited = matches!(needs, Needs::Fleet(Right::Admin) | Needs::Server(_));
    MethodRight { path, needs, waits: false, is_audited }
}

/// A row of a method whose request is a stream.
const fn stream(path: &'static str, needs: Needs) -> MethodRight {
    MethodRight { waits: true, ..row(path, needs) }
}

/// A row of a method that followers call several times per second.
const fn polled(path: &'static str, needs: Needs) -> MethodRight {
    MethodRight { is_audited: false, ..row(path, needs) }
}

/// The table.
pub const METHODS: [MethodRight; 35] = {
    use Needs::{Fleet, Server, Token};
    use Right::{Admin, History, Query, Report, Subscribe};
    [
        row("/shoal.v1.FleetService/CreateFleet", Fleet(Admin)),
        row("/shoal.v1.FleetService/GetFleet", Token),
        row("/shoal.v1.FleetService/ListFleets", Token),
        row("/shoal.v1.FleetService/RenameFleet", Fleet(Admin)),
        row("/shoal.v1.FleetService/ClearFleet", Fleet(Admin)),
        row("/shoal.v1.FleetService/DeleteFleet", Fleet(Admin)),
        stream("/shoal.v1.PositionService/Report", Fleet(Report)),
        row("/shoal.v1.PositionService/ReportOnce", Fleet(Report)),
        row("/shoal.v1.PositionService/Remove", Fleet(Report)),
        row("/shoal.v1.QueryService/Get", Fleet(Query)),
        row("/shoal.v1.QueryService/Range", Fleet(Query)),
        row("/shoal.v1.QueryService/Nearest", Fleet(Query)),
        row("/shoal.v1.QueryService/CountRegions", Fleet(Query)),
        stream("/shoal.v1.QueryService/Batch", Fleet(Query)),
        row("/shoal.v1.QueryService/Resolve", Fleet(Query)),
        row("/shoal.v1.QueryService/Names", Fleet(Query)),
        row("/shoal.v1.QueryService/ListNames", Fleet(Query)),
        row("/shoal.v1.SubscriptionService/Subscribe", Fleet(Subscribe)),
        row("/shoal.v1.SubscriptionService/Modify", Fleet(Subscribe)),
        row("/shoal.v1.HistoryService/Trajectory", Fleet(History)),
        row("/shoal.v1.HistoryService/Passed", Fleet(History)),
        row("/shoal.v1.HistoryService/AsOf", Fleet(History)),
        row("/shoal.v1.HistoryService/Replay", Fleet(History)),
        row("/shoal.v1.HistoryService/Density", Fleet(History)),
        row("/shoal.v1.HistoryService/Erase", Fleet(Admin)),
        polled("/shoal.v1.LogService/DescribeLogs", Server(Admin)),
        row("/shoal.v1.LogService/FetchCheckpoint", Server(Admin)),
        stream("/shoal.v1.LogService/Follow", Server(Admin)),
        row("/shoal.v1.LogService/Promote", Server(Admin)),
        row("/shoal.v1.LogService/Fence", Server(Admin)),
        row("/shoal.v1.LogService/Unfence", Server(Admin)),
        row("/grpc.health.v1.Health/Check", Token),
        row("/grpc.health.v1.Health/Watch", Token),
        stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Token),
        stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Token),
    ]
};

/// The row of a path.
#[must_use]
pub fn method_right(path: &str) -> Option<&'static MethodRight> {
    static ROWS: LazyLock<HashMap<&'static str, &'static MethodRight>> =
        LazyLock::new(|| METHODS.iter().map(|row| (row.path, row)).collect());
    ROWS.get(path).copied()
}
