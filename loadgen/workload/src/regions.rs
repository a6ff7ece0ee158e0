//! A seeded stream of circles for subscriptions: additions, moves and removals.
//!
//! Centres are the centres of query windows of a workload. Churn replaces regions at even
//! intervals of event time; a following region moves to every position that its object reports.
//! The changes do not depend on how calls divide the time, and no region number is reused.

use std::collections::HashMap;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::limits::{REGION_CHURN_MAX, REGION_RADIUS_M_MAX, REGIONS_MAX};
use crate::params::within;
use crate::random::{Domain, below, stream};
use crate::shard::Shard;
use crate::{Fix, Params, Workload, WorkloadError, open};

/// Parameters of regions. The parameters of the workload that places them are separate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionParams {
    /// Number of regions at any time, over all shards; at most [`REGIONS_MAX`].
    pub regions: u64,
    /// Radius of each, metres; above 0, at most [`REGION_RADIUS_M_MAX`].
    pub radius_m: f64,
    /// Share of the regions that is replaced per second of event time, 0 to
    /// [`REGION_CHURN_MAX`].
    pub churn: f64,
    /// Each region follows a simulated object, which moves as the objects of the workload do. With
    /// the seed of a generator, region `r` follows its object `r`, except for the phase of its
    /// reports.
    pub follows: bool,
}

/// One change of the regions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegionStep {
    /// A new circle.
    Add {
        /// Its number.
        region: u64,
        /// x of its centre, in the unit of fixes.
        x: f64,
        /// y of its centre.
        y: f64,
    },
    /// A new centre of a circle.
    Move {
        /// Its number.
        region: u64,
        /// x of the centre.
        x: f64,
        /// y of the centre.
        y: f64,
    },
    /// The end of a circle.
    Remove {
        /// Its number.
        region: u64,
    },
}

/// The regions of one shard. The `regions` of all shards are divided over them in the same way as
/// objects.
pub struct Regions {
    shard: Shard,
    params: RegionParams,
    /// The current circles.
    live: Vec<Circle>,
    windows: Box<dyn Workload>,
    random: Xoshiro256PlusPlus,
    /// Regions that this shard has added.
    added: u64,
    replaced: u64,
    leaders: Option<Leaders>,
}

#[derive(Clone, Copy, Debug)]
struct Circle {
    region: u64,
    x: f64,
    y: f64,
}

/// Objects whose reports move regions.
struct Leaders {
    workload: Box<dyn Workload>,
    /// Event time of the first report.
    origin_ms: i64,
    /// Index of the region that follows an object, in the order of first reports.
    places: HashMap<u64, usize>,
    /// The next report.
    ahead: Option<Fix>,
}

impl Regions {
    /// The regions of one shard for a workload of [`open`]; `Params::objects` is ignored.
    ///
    /// # Errors
    ///
    /// The errors of [`open`], and a parameter outside its range.
    pub fn new(
        workload: &str,
        params: &Params,
        regions: RegionParams,
    ) -> Result<Self, WorkloadError> {
        within("regions", regions.regions, 0, REGIONS_MAX)?;
        within("churn", regions.churn, 0.0, REGION_CHURN_MAX)?;
        within("radius_m", regions.radius_m, f64::MIN_POSITIVE, REGION_RADIUS_M_MAX)?;
        let params = Params { objects: regions.regions.max(1), ..params.clone() };
        let shard = Shard::new(&params);
        let owned = if regions.regions == 0 { 0 } else { shard.owned() };
        let mut made = Self {
            shard,
            params: regions,
            live: Vec::with_capacity(owned as usize),
            windows: open(workload, &params)?,
            random: stream(params.seed, Domain::Regions, u64::from(params.shard)),
            added: 0,
            replaced: 0,
            leaders: None,
        };
        for _ in 0..owned {
            let circle = made.add();
            made.live.push(circle);
        }
        if regions.follows && owned > 0 {
            made.leaders = Some(Leaders::new(open(workload, &params)?, &mut made.live));
        }
        Ok(made)
    }

    /// Radius of every circle, metres.
    #[must_use]
    pub fn radius_m(&self) -> f64 {
        self.params.radius_m
    }

    /// The current circles, as additions.
    pub fn live(&self) -> impl ExactSizeIterator<Item = RegionStep> {
        self.live.iter().map(|circle| circle.addition())
    }

    /// Advances to `elapsed_ms` of event time after the start and appends the changes until then,
    /// in order. An earlier time has no effect.
    pub fn advance(&mut self, elapsed_ms: f64, out: &mut Vec<RegionStep>) {
        loop {
            let replaced_ms = self.replaced_at_ms();
            let led_ms = self.leaders.as_mut().and_then(Leaders::next_ms);
            let next_ms = led_ms.map_or(replaced_ms, |led_ms| led_ms.min(replaced_ms));
            if next_ms > elapsed_ms || next_ms.is_infinite() {
                return;
            }
            if next_ms < replaced_ms {
                self.follow(out);
            } else {
                self.replace(out);
            }
        }
    }

    /// Event time of the next replacement, milliseconds after the start.
    fn replaced_at_ms(&self) -> f64 {
        let per_ms = self.params.churn * self.live.len() as f64 / 1_000.0;
        (self.replaced + 1) as f64 / per_ms
    }

    fn replace(&mut self, out: &mut Vec<RegionStep>) {
        let place = below(&mut self.random, self.live.len());
        let circle = self.add();
        let replaced = std::mem::replace(&mut self.live[place], circle);
        out.push(RegionStep::Remove { region: replaced.region });
        out.push(circle.addition());
        self.replaced += 1;
    }

    fn follow(&mut self, out: &mut Vec<RegionStep>) {
        let Some((place, fix)) = self.leaders.as_mut().and_then(|leaders| leaders.take(&self.live))
        else {
            return;
        };
        let circle = &mut self.live[place];
        (circle.x, circle.y) = (fix.x, fix.y);
        out.push(RegionStep::Move { region: circle.region, x: fix.x, y: fix.y });
    }

    /// A new circle at the next window.
    fn add(&mut self) -> Circle {
        let window = self.windows.window();
        let region = self.shard.object(self.added);
        self.added += 1;
        Circle {
            region,
            x: (window.west + window.east) / 2.0,
            y: (window.south + window.north) / 2.0,
        }
    }
}

impl Circle {
    fn addition(&self) -> RegionStep {
        RegionStep::Add { region: self.region, x: self.x, y: self.y }
    }
}

impl Leaders {
    /// Assigns an object to each region of `live`, and moves the region to the first report of its
    /// object.
    fn new(mut workload: Box<dyn Workload>, live: &mut [Circle]) -> Self {
        let mut fixes = Vec::new();
        workload.fill(live.len(), &mut fixes);
        let origin_ms = fixes.first().map_or(0, |fix| fix.time_ms);
        let mut leaders = Self { workload, origin_ms, places: HashMap::new(), ahead: None };
        for fix in fixes {
            if let Some(place) = leaders.place(fix.object, live.len()) {
                (live[place].x, live[place].y) = (fix.x, fix.y);
            }
        }
        leaders
    }

    /// Returns the index of the region that follows an object; a new object gets the next region
    /// without one. `None` if every region has an object.
    fn place(&mut self, object: u64, regions: usize) -> Option<usize> {
        let next = self.places.len();
        match self.places.get(&object) {
            Some(place) => Some(*place),
            None if next < regions => {
                self.places.insert(object, next);
                Some(next)
            }
            None => None,
        }
    }

    /// Milliseconds from the first report to the next one; `None` at the end.
    fn next_ms(&mut self) -> Option<f64> {
        if self.ahead.is_none() {
            let mut fixes = Vec::with_capacity(1);
            self.workload.fill(1, &mut fixes);
            self.ahead = fixes.pop();
        }
        self.ahead.map(|fix| (fix.time_ms - self.origin_ms) as f64)
    }

    /// Takes the next report and the region that it moves.
    fn take(&mut self, live: &[Circle]) -> Option<(usize, Fix)> {
        let fix = self.ahead.take()?;
        Some((self.place(fix.object, live.len())?, fix))
    }
}
