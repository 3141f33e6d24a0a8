//! The exact consistent hash of libketama and of libmemcached's weighted ketama, so that their
//! clients find a key at the same server.

use md5::{Digest, Md5};

/// Number of MD5 digests per server of mean weight. Each digest gives four points.
const DIGESTS: f32 = 40.0;

/// Suffix that libmemcached drops from a server's name: memcached's default port.
const USUAL_PORT: &str = ":11211";

/// Points on a circle, each of which belongs to a server.
#[derive(Clone, Debug)]
pub(crate) struct Continuum {
    /// Points with their servers, in the order of points.
    points: Vec<(u32, u16)>,
}

impl Continuum {
    /// Creates the circle of servers by their names, usually `host:port`, and weights.
    pub(crate) fn new<'a>(servers: impl ExactSizeIterator<Item = (&'a str, u32)> + Clone) -> Self {
        let count = servers.len() as f32;
        let weight_of = |weight: u32| weight.max(1);
        let total: u64 = servers.clone().map(|(_, weight)| u64::from(weight_of(weight))).sum();
        let mut points = Vec::new();
        for (server, (name, weight)) in servers.enumerate() {
            // In single precision, with libmemcached's summand, because rounding matters.
            let share = weight_of(weight) as f32 / total as f32;
            let digests = (f64::from(share * DIGESTS * count) + 0.000_000_000_1) as f32;
            let name = name.strip_suffix(USUAL_PORT).unwrap_or(name);
            for number in 0..digests.floor() as u32 {
                let digest = Md5::digest(format!("{name}-{number}"));
                points.extend(digest.chunks_exact(4).map(|bytes| (point(bytes), server as u16)));
            }
        }
        points.sort_unstable();
        Self { points }
    }

    /// Returns the share of the circle that each of so many servers has.
    fn shares(&self, servers: usize) -> Vec<f64> {
        let mut shares = vec![0.0; servers];
        let circle = f64::from(u32::MAX) + 1.0;
        // Keys behind the last point belong to the first one.
        let mut before = self.points.last().map_or(0.0, |(point, _)| f64::from(*point) - circle);
        for (point, server) in &self.points {
            shares[usize::from(*server)] += (f64::from(*point) - before) / circle;
            before = f64::from(*point);
        }
        shares
    }

    /// Returns the server of a key.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        self.from(key).next().unwrap_or(0)
    }

    /// Returns the first suitable server from the key's place on.
    pub(crate) fn find_where(&self, key: &[u8], will_do: impl Fn(usize) -> bool) -> Option<usize> {
        self.from(key).find(|server| will_do(*server))
    }

    /// Iterates over the servers of all points, from the key's place on.
    fn from(&self, key: &[u8]) -> impl Iterator<Item = usize> + '_ {
        let hash = point(&Md5::digest(key));
        let first = self.points.partition_point(|(point, _)| *point < hash);
        let around = self.points[first..].iter().chain(&self.points[..first]);
        around.map(|(_, server)| usize::from(*server))
    }
}

/// Returns the share of the keys that ketama gives to each of some servers of the same weight, by name.
pub fn ketama_shares(names: &[String]) -> Vec<f64> {
    Continuum::new(names.iter().map(|name| (name.as_str(), 1))).shares(names.len())
}

/// Converts four bytes of a digest, the last of which is the most significant.
fn point(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use md5::{Digest, Md5};

    use super::Continuum;

    type Servers = Vec<(String, u32)>;
    type Places = Vec<(String, usize)>;

    /// A list of the file: servers, digest of 10,000 placements, further keys with their servers.
    struct List {
        servers: Servers,
        digest: String,
        places: Places,
    }

    fn lists() -> Vec<List> {
        let text = include_str!("../testdata/ketama.txt");
        let mut lists = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(servers) = line.strip_prefix("list ") {
                let server = |text: &str| {
                    let (name, weight) = text.split_once('=').unwrap();
                    (name.to_owned(), weight.parse().unwrap())
                };
                lists.push(List {
                    servers: servers.split(' ').map(server).collect(),
                    digest: String::new(),
                    places: Vec::new(),
                });
                continue;
            }
            let (key, server) = line.split_once(' ').unwrap();
            let list: &mut List = lists.last_mut().unwrap();
            if key == "digest" {
                list.digest = server.to_owned();
            } else {
                list.places.push((key.to_owned(), server.parse().unwrap()));
            }
        }
        lists
    }

    fn continuum(servers: &[(String, u32)]) -> Continuum {
        Continuum::new(servers.iter().map(|(name, weight)| (name.as_str(), *weight)))
    }

    #[test]
    fn keys_are_placed_like_by_libmemcached() {
        let lists = lists();
        assert_eq!(lists.len(), 6);
        for list in lists {
            let continuum = continuum(&list.servers);
            for (key, server) in list.places {
                assert_eq!(continuum.find(key.as_bytes()), server, "{key}");
            }
            let place = |number: u32| continuum.find(format!("key-{number}").as_bytes()) as u8;
            let places: Vec<u8> = (0..10_000).map(place).collect();
            let digest: String = Md5::digest(&places).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, list.digest, "{:?}", list.servers);
        }
    }

    /// Shares of the circle are the shares of many keys.
    #[test]
    fn shares_are_those_of_keys() {
        let names: Vec<_> = (0..5).map(|number| format!("host-{number}:1")).collect();
        let shares = super::ketama_shares(&names);
        let circle = Continuum::new(names.iter().map(|name| (name.as_str(), 1)));
        let mut counts = [0.0f64; 5];
        (0..50_000).for_each(|key| counts[circle.find(format!("key-{key}").as_bytes())] += 1.0 / 50_000.0);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let is_near = |(share, count): (&f64, f64)| (share - count).abs() < 0.01;
        assert!(shares.iter().zip(counts).all(is_near), "{shares:?} {counts:?}");
    }

    #[test]
    fn rounding_takes_a_digest_from_25_equal_servers() {
        // As in libmemcached, whose list of 25 servers is in the file.
        let points = |count: usize| {
            let servers: Vec<_> = (0..count).map(|number| (format!("host-{number}:1"), 3)).collect();
            continuum(&servers).points.len()
        };
        assert_eq!([points(1), points(24)], [160, 24 * 160]);
        assert_eq!(points(25), 25 * 156);
    }
}
