//! The flags of `shoal-bench subscription`.
//!
//! The sizes of the project's bar are the defaults.

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_engine::{EvaluationMode, EventKind, EventKinds};
use shoal_workload::SpeedRange;

use crate::experiments::Files;

/// Which events are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Who comes and who goes.
    EnterLeave,
    /// The same, and every report of a member.
    WithMove,
}

impl Experiment {
    /// As the engine has it.
    pub(super) fn wanted(self) -> EventKinds {
        match self {
            Self::EnterLeave => {
                EventKinds(EventKinds::ALL.0 & !EventKinds::of(&[EventKind::Move]).0)
            }
            Self::WithMove => EventKinds::ALL,
        }
    }

    /// For people and programs.
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
    /// Around ten hot-spots, the faster the more often.
    Gauss,
}

impl Distribution {
    /// The workload's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gauss => "gauss",
        }
    }
}

/// What circles judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JudgingName {
    /// The state after a cycle.
    Cycle,
    /// Each fix.
    EveryFix,
    /// Each fix, and the segment from the one before.
    Crossing,
}

impl JudgingName {
    /// As the engine has it.
    pub(super) fn judging(self) -> EvaluationMode {
        match self {
            Self::Cycle => EvaluationMode::Cycle,
            Self::EveryFix => EvaluationMode::EveryFix,
            Self::Crossing => EvaluationMode::Crossing,
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BackendName {
    /// Shoal's engine on all cores.
    Cpu,
    /// Shoal's engine on the first NVIDIA GPU.
    Cuda,
}

impl BackendName {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Which events are told, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "enter-leave,with-move")]
    pub(super) experiment: Vec<Experiment>,
    /// Backends, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu")]
    pub(super) backends: Vec<BackendName>,
    /// Workloads, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform,gauss")]
    pub(super) distribution: Vec<Distribution>,
    /// Numbers of circles on 100 km x 100 km; 0 is the rate without any.
    #[arg(long, value_delimiter = ',', default_value = "0,1000,10000,100000,1000000")]
    pub(super) regions: Vec<u64>,
    /// Radii of the circles, metres.
    #[arg(long, value_delimiter = ',', default_value = "100,500,5000")]
    pub(super) radius: Vec<f64>,
    /// Objects of each run.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Updates of each run, the cycles that warm up not counted.
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) updates: u64,
    /// Updates of one cycle.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) cycle: u64,
    /// Speeds of `uniform`, metres a second.
    #[arg(long, default_value = "1-20", value_name = "A-B")]
    pub(super) speed_range: SpeedRange,
    /// What every circle judges.
    #[arg(long, value_enum, default_value = "cycle")]
    pub(super) judging: JudgingName,
    /// Share of the circles that is replaced in a second of event time.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(super) churn: f64,
    /// Every circle follows an object that moves as the workload's do.
    #[arg(long)]
    pub(super) follow: bool,
    /// Circles that an object is in, on average, at most; more are left out.
    #[arg(long, default_value_t = 20.0, value_name = "COUNT")]
    pub(super) memberships_max: f64,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}
