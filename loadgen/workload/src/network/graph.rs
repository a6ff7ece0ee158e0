//! A road network: nodes and, for each, its neighbours in one array (compressed sparse rows).
//!
//! There is at least one road, and every road is open in both directions.

use rand_xoshiro::rand_core::Rng;

use crate::direction::length;
use crate::random::below;

/// The network, in a rectangle whose lower left corner is the origin.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<(f64, f64)>,
    /// Neighbours of node `n` are at `starts[n]..starts[n + 1]`.
    starts: Vec<u32>,
    neighbours: Vec<u32>,
    sides_m: (f64, f64),
}

/// A road in the direction of travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Road {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Graph {
    /// The network of `nodes` (metres) and `pairs` of nodes. Requires at least one pair, with valid
    /// node numbers.
    pub(super) fn new(nodes: Vec<(f64, f64)>, pairs: &[Road], sides_m: (f64, f64)) -> Self {
        let mut starts = vec![0_u32; nodes.len() + 1];
        for pair in pairs {
            starts[pair.from as usize + 1] += 1;
            starts[pair.to as usize + 1] += 1;
        }
        for node in 0..nodes.len() {
            starts[node + 1] += starts[node];
        }
        let mut places = starts.clone();
        let mut neighbours = vec![0; pairs.len() * 2];
        for pair in pairs {
            for (from, to) in [(pair.from, pair.to), (pair.to, pair.from)] {
                let place = &mut places[from as usize];
                neighbours[*place as usize] = to;
                *place += 1;
            }
        }
        Self { nodes, starts, neighbours, sides_m }
    }

    /// Width and height of the space.
    pub(super) fn sides_m(&self) -> (f64, f64) {
        self.sides_m
    }

    /// The position of a crossing.
    pub(super) fn node(&self, node: u32) -> (f64, f64) {
        self.nodes[node as usize]
    }

    /// Number of roads; each direction counts.
    pub(super) fn roads(&self) -> usize {
        self.neighbours.len()
    }

    /// A road by its number below [`roads`](Self::roads).
    pub(super) fn road(&self, number: usize) -> Road {
        let from = self.starts.partition_point(|start| *start as usize <= number) - 1;
        Road { from: from as u32, to: self.neighbours[number] }
    }

    /// A random road from the end of `road`; back only if there is no other.
    pub(super) fn next(&self, road: Road, random: &mut impl Rng) -> Road {
        let node = road.to as usize;
        let neighbours =
            &self.neighbours[self.starts[node] as usize..self.starts[node + 1] as usize];
        let back = neighbours.iter().position(|node| *node == road.from);
        let to = match back {
            Some(back) if neighbours.len() > 1 => {
                let choice = below(random, neighbours.len() - 1);
                neighbours[choice + usize::from(choice >= back)]
            }
            _ => neighbours[below(random, neighbours.len())],
        };
        Road { from: road.to, to }
    }

    /// The mean length of a road.
    pub(super) fn road_length_mean_m(&self) -> f64 {
        let length_m = |number| {
            let Road { from, to } = self.road(number);
            let (from, to) = (self.node(from), self.node(to));
            length(to.0 - from.0, to.1 - from.1)
        };
        (0..self.roads()).map(length_m).sum::<f64>() / self.roads() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::object_stream;

    #[test]
    fn only_a_dead_end_leads_back() {
        let nodes = vec![(0.0, 0.0), (3.0, 4.0), (9.0, 4.0), (3.0, 9.0)];
        let road = |from, to| Road { from, to };
        let graph = Graph::new(nodes, &[road(0, 1), road(1, 2), road(3, 1)], (9.0, 9.0));
        let mut random = object_stream(5, 5);
        let mut met = [0; 4];
        for _ in 0..1_000 {
            assert_eq!(graph.next(road(1, 0), &mut random), road(0, 1));
            met[graph.next(road(0, 1), &mut random).to as usize] += 1;
        }
        assert!(met[0] == 0 && met[1] == 0 && met[2] > 400 && met[3] > 400, "{met:?}");
        assert_eq!(graph.roads(), 6);
        let all: Vec<Road> = (0..6).map(|number| graph.road(number)).collect();
        assert_eq!(all[0], road(0, 1));
        assert_eq!(all.iter().filter(|other| other.from == 1).count(), 3);
        assert!((graph.road_length_mean_m() - 16.0 / 3.0).abs() < 1e-12);
    }
}
