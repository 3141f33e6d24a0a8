//! Pages say what is so: commands, figures, options, and the table of contents.

mod benchmarks;
mod book;
mod papers;
mod reference;
