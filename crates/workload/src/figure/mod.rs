//! Figures as SVG: measured values over an axis, or beside each other, with their spread.
//!
//! Each figure follows the reader's preference for light or dark, tells series apart by colour
//! (Okabe and Ito's, which colour-blind readers can tell apart, too), by dashes and by marks, and
//! says units on its axes. A system has one colour in all figures (`looks.rs`). Published figures look
//! different from measured ones.
//!
//! ```
//! use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point};
//!
//! let chart = LineChart {
//!     title: "Misses against memory".to_owned(),
//!     x: Axis::log("memory (bytes)"),
//!     y: Axis::linear("object miss ratio"),
//!     lines: vec![Line {
//!         name: "LRU".to_owned(),
//!         kind: Kind::Measured,
//!         points: vec![Point::new(1e6, 0.5), Point::new(1e7, 0.2)],
//!     }],
//! };
//! assert!(chart.svg().starts_with("<svg"));
//! ```

mod axis;
mod bars;
mod canvas;
mod lines;
mod looks;
mod number;
mod text;
mod whiskers;

pub use axis::Axis;
pub use bars::{Arrangement, Bar, BarChart, Series};
pub use lines::{Line, LineChart, Point};
pub use looks::colour_of_system;
pub use number::{grouped, short};
pub use text::{aligned, csv_field};

/// Origin of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Values of this run.
    #[default]
    Measured,
    /// Somebody else's, on another machine: drawn in outline, or dotted.
    Published,
    /// Values of this run that no line joins.
    Scattered,
}
