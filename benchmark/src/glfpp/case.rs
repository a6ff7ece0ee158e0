//! One point of an experiment: its objects, stream and cells.
//!
//! The numbers are from Wei, Gong, Li, "A GPU-based moving object parallel processing framework"
//! (2016), where the paper states them: windows of 100 m on 100 km x 100 km, 10 M objects, 40 M
//! updates. Objects, updates and cycles follow the flags.

use shoal_codec::PlanChoice;
use shoal_engine::limits::{CYCLE_FIXES_MAX, CYCLE_QUERIES_MAX};

use super::options::{Experiment, Options, UpdateMethod};
use crate::harness::source::Attributes;

/// Queries in a hundred updates, the paper's five mixes.
const MIXES: [u64; 5] = [10, 8, 5, 2, 1];
const MIX: u64 = 10;
const HOTSPOTS: [u32; 3] = [1, 10, 100];
const HOTSPOTS_USUAL: u32 = 10;
/// Side of a window as a share of the space's side: 100 m of 100 km.
const WINDOW: f64 = 0.001;
const LARGE_FACTOR: u64 = 10;
/// Objects that a query finds on average where the size of windows is chosen by it: as many as with
/// the paper's windows and objects.
pub(super) const USUAL_RESULTS: f64 = 10.0;
/// Updates per query of `network`, whose vehicles report at 10,000 crossings: a query finds all
/// vehicles at one crossing, about a thousand of 10 M.
const NETWORK_UPDATES: u64 = 1_000;
const SMALL_CYCLE: u64 = 100_000;
/// Shares of the objects that move in a cycle, in thousandths.
const MOVED: [u64; 5] = [1, 10, 100, 400, 1_000];
/// Most cycles of a case of `moved`.
const MOVED_CYCLES_MAX: u64 = 200;
/// Queries of a cycle that have the same window.
const OVERLAPS: [usize; 3] = [1, 10, 100];
/// Mixes compared with updates alone.
const MIXES_BESIDE: [u64; 2] = [1, 10];
/// Sides of the compared grids, among them the paper's two optima, 128 and 512. Grids with more
/// than [`CELLS_PER_OBJECT_MAX`] are left out.
const SIDES: [u32; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

const CELLS_PER_OBJECT_MAX: u64 = 16;
/// Side of the grid of the paper's experiment over threads: 65,536 cells.
const SIDE_OF_THREADS: u32 = 256;
/// Threads on the device at a time: 1, 2, 4 and 8 warps, 2 and 4 blocks of 8 warps on each of 132
/// multiprocessors.
const LAUNCH_THREADS: [u32; 6] = [4_224, 8_448, 16_896, 33_792, 67_584, 135_168];

/// How objects move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    Uniform,
    /// Around this number of hot-spots.
    Gauss(u32),
    /// Along roads.
    Network,
}

impl Distribution {
    /// The workload's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gauss(_) => "gauss",
            Self::Network => "network",
        }
    }

    /// Hot-spots of `gauss`.
    pub(super) fn hotspots(self) -> Option<u32> {
        match self {
            Self::Gauss(hotspots) => Some(hotspots),
            Self::Uniform | Self::Network => None,
        }
    }
}

/// One point of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) experiment: Experiment,
    pub(super) objects: u64,
    pub(super) distribution: Distribution,
    /// Updates in all, a whole number of cycles; 0 for queries alone.
    pub(super) updates: u64,
    /// Queries in all.
    pub(super) queries: u64,
    pub(super) cycles: u64,
    pub(super) window: f64,
    pub(super) attributes: Attributes,
    /// Cells along an axis, if the experiment sets them.
    pub(super) side: Option<u32>,
    /// Resident threads of the kernels; `None` = as many as fit.
    pub(super) launch_threads: Option<u32>,
    /// How a grid on a device is updated; `None` = as it chooses.
    pub(super) update_method: Option<UpdateMethod>,
    /// Queries of a cycle that have the same window.
    pub(super) overlap: usize,
    /// Plans of the blocks, and their most rows.
    pub(super) input: PlanChoice,
    pub(super) block_rows: usize,
    pub(super) seed: u64,
    pub(super) windows_follow: bool,
}

impl Case {
    /// A case of ten updates per query, uniform, without attributes.
    fn usual(experiment: Experiment, options: &Options) -> Self {
        let case = Self {
            experiment,
            objects: options.objects,
            distribution: Distribution::Uniform,
            updates: 0,
            queries: 0,
            cycles: 0,
            window: WINDOW,
            attributes: Attributes::None,
            side: None,
            launch_threads: options.cuda_threads,
            update_method: options.cuda_method,
            overlap: 1,
            input: options.input,
            block_rows: options.block_rows as usize,
            seed: options.common.seed,
            windows_follow: options.windows_follow,
        };
        case.mixed(options.updates, MIX, options.cycle)
    }

    /// `updates` with `queries_per_100`, in equal cycles of about `cycle` updates.
    fn mixed(self, updates: u64, queries_per_100: u64, cycle: u64) -> Self {
        let cycles = updates.div_ceil(cycle.min(CYCLE_FIXES_MAX as u64));
        let rows = updates.div_ceil(cycles);
        let queries = rows * queries_per_100 / 100;
        Self { updates: cycles * rows, queries: cycles * queries, cycles, ..self }
    }

    /// Queries alone.
    fn queries_alone(self, queries: u64, cycle: u64) -> Self {
        let cycles = queries.div_ceil(cycle.clamp(1, CYCLE_QUERIES_MAX as u64));
        let cycle_queries = queries.div_ceil(cycles);
        Self { updates: 0, queries: cycles * cycle_queries, cycles, ..self }
    }

    /// Windows in which a query finds `results` objects on average.
    fn window_of_results(self, results: f64) -> Self {
        let window = (results / self.objects as f64).sqrt().min(1.0);
        Self { window, ..self }
    }

    /// Whether its rows and queries equal those of another case.
    pub(super) fn is_workload_of(&self, other: &Self) -> bool {
        let Self { experiment, side, launch_threads, update_method, .. } = *self;
        *self == Self { experiment, side, launch_threads, update_method, ..other.clone() }
    }

    /// Updates of one cycle.
    pub(super) fn cycle_updates(&self) -> usize {
        (self.updates / self.cycles) as usize
    }

    /// Queries of one cycle.
    pub(super) fn cycle_queries(&self) -> usize {
        (self.queries / self.cycles) as usize
    }

    /// The name of the case within its experiment, for tables and axes.
    pub(super) fn label(&self) -> String {
        match self.experiment {
            Experiment::UpdatesAlone if self.queries == 0 => "alone".into(),
            Experiment::Mixed | Experiment::UpdatesAlone => {
                let queries = (100 * self.queries).checked_div(self.updates).unwrap_or(0);
                format!("100:{queries}")
            }
            Experiment::Threads => {
                self.launch_threads.map_or_else(|| "full".into(), |threads| threads.to_string())
            }
            Experiment::Gauss => {
                let hotspots = self.distribution.hotspots();
                hotspots.map_or_else(String::new, |hotspots| format!("H = {hotspots}"))
            }
            Experiment::Moved => {
                let share = 100.0 * self.cycle_updates() as f64 / self.objects as f64;
                format!("{share:.1} % of {}", self.objects)
            }
            Experiment::Overlap => format!("{} a window", self.overlap),
            Experiment::CellsUpdates | Experiment::CellsQueries => {
                self.side.map_or_else(String::new, |side| (side * side).to_string())
            }
            Experiment::Large
            | Experiment::Small
            | Experiment::Network
            | Experiment::Attributes => self.distribution.name().into(),
        }
    }
}

/// The cases of an experiment.
pub(super) fn cases(experiment: Experiment, options: &Options) -> Vec<Case> {
    let usual = Case::usual(experiment, options);
    let with_sides = |case: Case| -> Vec<Case> {
        let cells_max = CELLS_PER_OBJECT_MAX * case.objects;
        let sides = SIDES.iter().filter(|side| u64::from(**side).pow(2) <= cells_max);
        sides.map(|side| Case { side: Some(*side), ..case.clone() }).collect()
    };
    let queries_alone =
        |case: Case| case.queries_alone(options.updates.div_ceil(MIX), options.cycle.div_ceil(MIX));
    match experiment {
        Experiment::Mixed => MIXES
            .iter()
            .map(|queries| usual.clone().mixed(options.updates, *queries, options.cycle))
            .collect(),
        Experiment::Gauss => HOTSPOTS
            .iter()
            .map(|hotspots| Case { distribution: Distribution::Gauss(*hotspots), ..usual.clone() })
            .collect(),
        Experiment::Large => [Distribution::Uniform, Distribution::Gauss(HOTSPOTS_USUAL)]
            .iter()
            .map(|distribution| {
                let objects = LARGE_FACTOR * options.objects;
                Case { objects, distribution: *distribution, ..usual.clone() }
                    .window_of_results(USUAL_RESULTS)
            })
            .collect(),
        Experiment::Small => vec![usual.mixed(options.updates, MIX, SMALL_CYCLE)],
        Experiment::Moved => {
            let fleets = [1, LARGE_FACTOR].map(|factor| factor * options.objects);
            let shares = fleets.into_iter().flat_map(|fleet| MOVED.map(|share| (fleet, share)));
            shares.flat_map(|(fleet, share)| moved(&usual, fleet, share, options)).collect()
        }
        Experiment::Overlap => {
            OVERLAPS.map(|overlap| Case { overlap, ..usual.clone() }).into_iter().collect()
        }
        Experiment::Network => {
            let cycle_queries = (usual.cycle_updates() as u64).div_ceil(NETWORK_UPDATES);
            let queries = usual.cycles * cycle_queries;
            vec![Case { distribution: Distribution::Network, queries, ..usual }]
        }
        Experiment::CellsUpdates => with_sides(usual.mixed(options.updates, 0, options.cycle)),
        Experiment::CellsQueries => with_sides(queries_alone(usual)),
        Experiment::Threads => {
            let updating = with_widths(&usual.clone().mixed(options.updates, 0, options.cycle));
            updating.into_iter().chain(with_widths(&queries_alone(usual))).collect()
        }
        Experiment::UpdatesAlone => {
            let beside = |queries| usual.clone().mixed(options.updates, queries, options.cycle);
            [0].into_iter().chain(MIXES_BESIDE).map(beside).collect()
        }
        Experiment::Attributes => vec![Case { attributes: Attributes::All, ..usual }],
    }
}

/// Cycles in which `thousandths` of `objects` objects move, by each method; none if a cycle has no
/// room for as many.
fn moved(usual: &Case, objects: u64, thousandths: u64, options: &Options) -> Vec<Case> {
    let cycle = (objects * thousandths / 1_000).max(1);
    if cycle > CYCLE_FIXES_MAX as u64 {
        return Vec::new();
    }
    let case = Case { objects, ..usual.clone() };
    let case = case.window_of_results(USUAL_RESULTS);
    let case = case.mixed(options.updates.min(cycle * MOVED_CYCLES_MAX), MIX, cycle);
    let methods = [Some(UpdateMethod::Apply), Some(UpdateMethod::Rebuild), None];
    methods.map(|update_method| Case { update_method, ..case.clone() }).into_iter().collect()
}

/// One case per number of resident threads, on the paper's grid.
fn with_widths(case: &Case) -> Vec<Case> {
    let widths = LAUNCH_THREADS.into_iter().map(Some).chain([None]);
    let side = Some(SIDE_OF_THREADS);
    widths.map(|launch_threads| Case { side, launch_threads, ..case.clone() }).collect()
}
