//! Lines for the person who runs the program, on standard error.

/// Writes a line; one that cannot be written is lost, and the program goes on.
#[macro_export]
macro_rules! log {
    ($($format:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), "micanite: {}", format_args!($($format)*));
    }};
}
