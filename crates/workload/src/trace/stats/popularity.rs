//! Spread of the requests over the keys.

/// Points of a curve.
const POINTS: usize = 200;
/// Factor from a rank of a curve to the next.
const RANK_STEP: f64 = 1.1;

/// The curve of figure 2.5: keys from the least popular on, as a part of all, against the part of the
/// requests that they have. Takes the requests of each key.
pub(super) fn curve(mut requests: Vec<u32>) -> Popularity {
    requests.sort_unstable();
    let all: f64 = requests.iter().map(|count| f64::from(*count)).sum();
    let keys = requests.len();
    let mut points = Vec::new();
    let mut sum = 0.0;
    for (at, count) in requests.iter().enumerate() {
        sum += f64::from(*count);
        let is_step = (at + 1) * POINTS / keys != at * POINTS / keys;
        if is_step || at + 1 == keys {
            points.push(((at + 1) as f64 / keys as f64, sum / all));
        }
    }
    let once = requests.partition_point(|count| *count <= 1);
    let zipf = fit(&requests);
    let hottest = |part: f64| {
        let hot = ((keys as f64 * part).ceil() as usize).min(keys);
        requests[keys - hot..].iter().map(|count| f64::from(*count)).sum::<f64>() / all.max(1.0)
    };
    Popularity {
        ranks: ranks(&requests, all),
        once_share: once as f64 / keys.max(1) as f64,
        hottest_percent_share: if keys == 0 { 0.0 } else { hottest(0.01) },
        points,
        zipf,
    }
}

/// Spread of the requests over the keys.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    /// Part of the keys, part of the requests.
    pub points: Vec<(f64, f64)>,
    /// Rank of a key, the most popular first, and its part of the requests: at ranks that are evenly far
    /// apart in the logarithm.
    pub ranks: Vec<(f64, f64)>,
    /// Part of the keys that are asked for once.
    pub once_share: f64,
    /// Part of the requests that the hottest hundredth of the keys has.
    pub hottest_percent_share: f64,
    /// The law that comes closest.
    pub zipf: Option<Zipf>,
}

/// Zipf's law, fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zipf {
    pub exponent: f64,
    /// Share of the variance of the logarithms that the law explains.
    pub r_squared: f64,
}

/// The usual curve of popularity: frequency by rank.
fn ranks(ascending: &[u32], all: f64) -> Vec<(f64, f64)> {
    let keys = ascending.len();
    let mut at = Vec::new();
    let mut rank = 1;
    while rank < keys {
        at.push(rank);
        rank = (rank + 1).max((rank as f64 * RANK_STEP) as usize);
    }
    at.extend((keys > 0).then_some(keys));
    at.into_iter().map(|rank| (rank as f64, f64::from(ascending[keys - rank]) / all)).collect()
}

/// A straight line through the logarithms of rank and frequency, at ranks that are evenly far apart in
/// the logarithm, among the keys that are asked for twice or more: those that are asked for once make a
/// tail of equals. Nothing where there are too few ranks for a law.
fn fit(ascending: &[u32]) -> Option<Zipf> {
    let ranks = ascending.len() - ascending.partition_point(|count| *count <= 1);
    if ranks < 20 {
        return None;
    }
    let mut points = Vec::new();
    let mut rank = 1.0f64;
    while rank as usize <= ranks {
        let count = f64::from(ascending[ascending.len() - rank as usize]);
        points.push((rank.floor().ln(), count.ln()));
        rank = (rank * 1.1).max(rank + 1.0);
    }
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    (yy > 0.0).then(|| Zipf { exponent: -xy / xx, r_squared: xy * xy / (xx * yy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_with_everything() {
        let popularity = curve(vec![1, 97, 1, 1]);
        assert_eq!(popularity.points.last(), Some(&(1.0, 1.0)));
        assert_eq!(popularity.points[2], (0.75, 0.03));
        assert_eq!(popularity.ranks, [(1.0, 0.97), (2.0, 0.01), (3.0, 0.01), (4.0, 0.01)]);
        assert!((popularity.once_share - 0.75).abs() < 1e-9);
        assert!((popularity.hottest_percent_share - 0.97).abs() < 1e-9);
        assert!(popularity.zipf.is_none() && curve(Vec::new()).points.is_empty());
        assert!(curve(Vec::new()).ranks.is_empty());
        let many = curve(vec![3; 1_000_000]).ranks;
        assert!(many.len() < 200 && many.is_sorted() && many.last().unwrap().0 == 1e6);
    }

    #[test]
    fn the_exponent_of_a_law_is_found() {
        for exponent in [0.7, 0.99, 1.2] {
            let counts = (1..=50_000).map(|rank| (1e7 / f64::from(rank).powf(exponent)) as u32);
            let zipf = curve(counts.collect()).zipf.unwrap();
            assert!((zipf.exponent - exponent).abs() < 0.02 && zipf.r_squared > 0.99, "{zipf:?}");
        }
        let uniform = curve((0..10_000).map(|at| 100 + at % 3).collect()).zipf.unwrap();
        assert!(uniform.exponent < 0.05, "{uniform:?}");
    }
}
