//! CPUs of servers and of their clients.

use micanite_control::cores;

/// CPUs of servers and of clients. Both share a physical core only if there is no other. Each side has one
/// CPU of each of its cores first. A single CPU belongs to both.
#[derive(Debug, PartialEq)]
pub(crate) struct Sides {
    pub server: Vec<usize>,
    pub client: Vec<usize>,
}

impl Sides {
    /// Divides the CPUs that this thread may use.
    pub fn of_machine() -> Self {
        Self::of(&cores::by_core())
    }

    fn of(cores: &[Vec<usize>]) -> Self {
        let cores = match cores {
            [core] => core.iter().map(|cpu| vec![*cpu]).collect(),
            _ => cores.to_vec(),
        };
        let (of_server, of_client) = match cores.len() {
            1 => (&cores[..], &cores[..]),
            number => cores.split_at(number.div_ceil(2)),
        };
        Self { server: in_turns(of_server.iter()), client: in_turns(of_client.iter().rev()) }
    }

    /// Returns the first CPU of each side.
    pub fn first(&self) -> [usize; 2] {
        [self.server[0], self.client[0]]
    }
}

/// Lists one CPU of each core, then the second ones.
fn in_turns<'a>(cores: impl Iterator<Item = &'a Vec<usize>> + Clone) -> Vec<usize> {
    let most = cores.clone().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|thread| cores.clone().filter_map(move |core| core.get(thread).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(cores: &[&[usize]]) -> (Vec<usize>, Vec<usize>) {
        let cores: Vec<_> = cores.iter().map(|core| core.to_vec()).collect();
        let Sides { server, client } = Sides::of(&cores);
        (server, client)
    }

    #[test]
    fn sides_share_no_core() {
        let four = sides(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        assert_eq!(four, (vec![0, 1, 4, 5], vec![3, 2, 7, 6]));
        let adjacent = sides(&[&[0, 1], &[2, 3], &[4, 5]]);
        assert_eq!(adjacent, (vec![0, 2, 1, 3], vec![4, 5]));
        let without_threads = sides(&[&[0], &[1], &[2], &[3]]);
        assert_eq!(without_threads, (vec![0, 1], vec![3, 2]));
        let part_of_a_core = sides(&[&[0, 4], &[1]]);
        assert_eq!(part_of_a_core, (vec![0, 4], vec![1]));
    }

    #[test]
    fn sides_share_a_core_if_there_is_one() {
        assert_eq!(sides(&[&[0, 1]]), (vec![0], vec![1]));
        assert_eq!(sides(&[&[5]]), (vec![5], vec![5]));
    }
}
