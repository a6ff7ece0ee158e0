//! Random scenes: the objects of a test lie everywhere, on one point, around it or along a border,
//! so that cells are empty, even and crowded.

use shoal_engine::Space;
use shoal_engine::layout::Grid;
use shoal_testkit::Random;

/// The distribution of objects; can be changed.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    Uniform,
    Point,
    Cluster,
    Border,
}

/// Draws positions.
pub(crate) struct Scene {
    pub(crate) random: Random,
    pub(crate) space: Space,
    crowd: Crowd,
    middle: (i32, i32),
}

impl Scene {
    /// Geographic for even seeds, else a plane of one of three sizes.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x67_6c66_7070);
        let plane = |width_m, height_m, quantum_m| {
            Space::planar(width_m, height_m, quantum_m).expect("the plane exists")
        };
        let space = match seed % 6 {
            1 => plane(100_000.0, 60_000.0, 0.01),
            3 => plane(40.0, 30.0, 1.0),
            5 => plane(f64::from(i32::MAX), f64::from(i32::MAX), 1.0),
            _ => Space::geographic(),
        };
        let bounds = space.bounds();
        let x = random.quanta(bounds.x_min, bounds.x_max);
        let middle = (x, random.quanta(bounds.y_min, bounds.y_max));
        Self { random, space, crowd: Crowd::Uniform, middle }
    }

    /// Chooses another distribution.
    pub(crate) fn turn(&mut self) {
        let crowds = [Crowd::Uniform, Crowd::Point, Crowd::Cluster, Crowd::Border];
        self.crowd = *self.random.pick(&crowds);
        self.middle = self.anywhere();
    }

    pub(crate) fn anywhere(&mut self) -> (i32, i32) {
        let bounds = self.space.bounds();
        let x = self.random.quanta(bounds.x_min, bounds.x_max);
        (x, self.random.quanta(bounds.y_min, bounds.y_max))
    }

    /// A place of the space within some quanta of another.
    pub(crate) fn near(&mut self, (x, y): (i32, i32), quanta: i64) -> (i32, i32) {
        let bounds = self.space.bounds();
        let mut side = |middle: i32, min: i32, max: i32| {
            let value = i64::from(middle) + self.random.between(-quanta, quanta);
            value.clamp(min.into(), max.into()) as i32
        };
        let x = side(x, bounds.x_min, bounds.x_max);
        (x, side(y, bounds.y_min, bounds.y_max))
    }

    /// A place in the present crowd.
    pub(crate) fn point(&mut self) -> (i32, i32) {
        let bounds = self.space.bounds();
        match self.crowd {
            Crowd::Uniform => self.anywhere(),
            Crowd::Point => self.middle,
            Crowd::Cluster => {
                let width = f64::from(bounds.x_max) * self.random.unit().powi(6);
                self.near(self.middle, width as i64 + 1)
            }
            Crowd::Border => {
                let (x, y) = self.anywhere();
                match self.random.below(4) {
                    0 => (bounds.x_min, y),
                    1 => (bounds.x_max, y),
                    2 => (x, bounds.y_min),
                    _ => (x, bounds.y_max),
                }
            }
        }
    }

    /// A grid over the space or a part of it.
    pub(crate) fn grid(&mut self) -> Grid {
        let cells = *self.random.pick(&[(1, 1), (2, 33), (8, 8), (37, 23), (128, 64)]);
        self.grid_of(cells)
    }

    /// A grid with this number of columns and rows, over the space or a part of it.
    pub(crate) fn grid_of(&mut self, (columns, rows): (u64, u64)) -> Grid {
        let bounds = self.space.bounds();
        let (mut west, mut south) = (bounds.x_min, bounds.y_min);
        let (mut east, mut north) = (bounds.x_max, bounds.y_max);
        if self.random.once_in(3) {
            let (a, b) = (self.anywhere(), self.anywhere());
            (west, east) = (a.0.min(b.0), a.0.max(b.0));
            (south, north) = (a.1.min(b.1), a.1.max(b.1));
        }
        let (width, height) =
            (u64::from(east.abs_diff(west)) + 1, u64::from(north.abs_diff(south)) + 1);
        let (columns, rows) = (width.min(columns), height.min(rows));
        Grid {
            scale_x: (columns << 32) / width,
            scale_y: (rows << 32) / height,
            x_min: west,
            y_min: south,
            x_max: east,
            y_max: north,
            columns: columns as u32,
            rows: rows as u32,
        }
    }

    /// Shuffles a list.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.random.below(end as u64 + 1) as usize);
        }
    }
}
