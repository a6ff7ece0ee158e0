//! The device encodes the same bytes as the CPU.

mod block;
mod column;
mod speed;
mod strings;
mod table;
