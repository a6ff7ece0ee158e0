//! The flags of `shoal-bench subscription`.
//!
//! The defaults are the sizes for which the project states a target.

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_engine::{EvaluationMode, EventKind, EventKinds};
use shoal_workload::SpeedRange;

use crate::harness::{BackendName, Common};

/// The reported events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Enter and leave events.
    EnterLeave,
    /// Also a move event for every report of a member.
    WithMove,
}

impl Experiment {
    /// The engine's set of kinds.
    pub(super) fn wanted(self) -> EventKinds {
        match self {
            Self::EnterLeave => {
                EventKinds(EventKinds::ALL.0 & !EventKinds::of(&[EventKind::Move]).0)
            }
            Self::WithMove => EventKinds::ALL,
        }
    }

    /// The events as text.
    pub(super) fn events_wanted(self) -> &'static str {
        match self {
            Self::EnterLeave => "enter, leave",
            Self::WithMove => "enter, move, leave",
        }
    }
}

/// How objects move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Distribution {
    /// Straight on, reflected at the border, one report a second.
    Uniform,
    /// Around ten hot-spots; faster objects report more often.
    Gauss,
}

impl Distribution {
    /// The name of the workload.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gauss => "gauss",
        }
    }
}

/// The fixes that are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EvaluationName {
    /// The state after a cycle.
    Cycle,
    /// Each fix.
    EveryFix,
    /// Each fix, and the segment from the previous fix to it.
    Crossing,
}

impl EvaluationName {
    /// The mode of the engine.
    pub(super) fn mode(self) -> EvaluationMode {
        match self {
            Self::Cycle => EvaluationMode::Cycle,
            Self::EveryFix => EvaluationMode::EveryFix,
            Self::Crossing => EvaluationMode::Crossing,
        }
    }
}

/// The flags of `shoal-bench subscription`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "enter-leave,with-move")]
    pub(super) experiment: Vec<Experiment>,
    /// Backends, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu")]
    pub(super) backends: Vec<BackendName>,
    /// Workloads, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform,gauss")]
    pub(super) distribution: Vec<Distribution>,
    /// Numbers of circles on 100 km x 100 km; 0 = the rate without circles.
    #[arg(long, value_delimiter = ',', default_value = "0,1000,10000,100000,1000000")]
    pub(super) regions: Vec<u64>,
    /// Radii of the circles, metres.
    #[arg(long, value_delimiter = ',', default_value = "100,500,5000")]
    pub(super) radius: Vec<f64>,
    /// Objects of each run.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Updates of each run after warm-up.
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) updates: u64,
    /// Updates of one cycle.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) cycle: u64,
    /// Speeds of `uniform`, metres a second.
    #[arg(long, default_value = "1-20", value_name = "A-B")]
    pub(super) speed_range: SpeedRange,
    /// The fixes that are evaluated.
    #[arg(long, value_enum, default_value = "cycle")]
    pub(super) evaluation_mode: EvaluationName,
    /// Share of the circles replaced per second of event time.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(super) churn: f64,
    /// Let every circle follow a different object.
    #[arg(long)]
    pub(super) follow: bool,
    /// Leave out combinations in which more circles than this contain an object on average.
    #[arg(long, default_value_t = 20.0, value_name = "COUNT")]
    pub(super) memberships_max: f64,
    #[command(flatten)]
    pub(super) common: Common,
}
