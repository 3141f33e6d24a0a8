//! Hippos (Xu, dissertation, 2014).

use super::{Number, RATE, one};

pub(super) const NUMBERS: &[Number] = &[
    one(
        "Hippos",
        "GETs of 20-byte keys and values, 1 Gbit/s",
        480e3,
        RATE,
        "Hippos (dissertation, 2014), section 3.3.1, figure 3.5",
    ),
    one(
        "Memcached (several UDP ports)",
        "GETs of 20-byte keys and values, 1 Gbit/s",
        240e3,
        RATE,
        "Hippos (dissertation, 2014), section 3.3.1, figure 3.5",
    ),
    one(
        "Hippos",
        "USR, peak rate over Memcached's, 1 Gbit/s",
        1.98,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "ETC, peak rate over Memcached's, 1 Gbit/s",
        1.41,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "APP, peak rate over Memcached's, 1 Gbit/s",
        1.15,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "VAR, peak rate over Memcached's (\"increase (2.5 x)\"), 1 Gbit/s",
        2.5,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "SYS, peak rate over Memcached's, 1 Gbit/s",
        1.33,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "ETC, peak rate over Memcached's, 10 Gbit/s",
        2.4,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "APP, peak rate over Memcached's, 10 Gbit/s",
        2.0,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
    one(
        "Hippos",
        "SYS, peak rate over Memcached's, 10 Gbit/s",
        6.9,
        "times",
        "Hippos (dissertation, 2014), section 3.3.4, figure 3.8",
    ),
];
