//! Counters of a part that a server may lack, by the names of the part's group of `stats`.

/// Declares the counters of a worker, which that worker alone writes: each with its meaning, which the page
/// of statistics shows. Further fields may follow.
macro_rules! counter_group {
    (
        $(#[doc = $title:literal])* $group:ident {
            $($(#[doc = $help:literal])* $name:ident,)*
        }
        $($further:tt)*
    ) => {
        $(#[doc = $title])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $group {
            $($(#[doc = $help])* pub $name: Counter,)*
            $($further)*
        }

        impl $group {
            /// Names and meanings.
            pub(crate) const HELP: &[(&str, &str)] = &[$((stringify!($name), concat!($($help),*)),)*];

            /// Calls with each name and number.
            pub fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name.get());)*
            }
        }
    };
}

pub(crate) use counter_group;

/// A number of a group: name, meaning, source.
pub(crate) type Row<T> = (&'static str, &'static str, fn(&T) -> u64);
