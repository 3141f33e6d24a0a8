//! Checks of the code itself: lengths of functions, imports.

mod functions;
mod imports;
