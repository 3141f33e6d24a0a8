//! Suggestions for names that do not exist.

/// Shorter beginnings of a name say nothing.
const BEGINNING_BYTES_MIN: usize = 3;
/// More names than these are no help.
const BEGINNING_NAMES_MAX: usize = 3;

/// Returns a question that names the nearest of these names, or nothing if none is near.
pub fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, names.map(|known| (known, known)))[..] {
        [] => String::new(),
        ref near => format!("; did you mean '{}'?", near.join("' or '")),
    }
}

/// Returns the names that may be meant, of pairs of a spelling and the name that it stands for: those that
/// begin with what was written, if they are few; else the one with the fewest letters to change, if few
/// suffice.
pub fn nearest<'a>(written: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let names: Vec<_> = names.collect();
    let begins = names.iter().filter(|(spelling, _)| spelling.starts_with(written));
    let mut begun: Vec<_> = begins.map(|(_, name)| *name).collect();
    begun.sort_unstable();
    begun.dedup();
    if written.len() >= BEGINNING_BYTES_MIN && (1..=BEGINNING_NAMES_MAX).contains(&begun.len()) {
        return begun;
    }
    // A section at the front makes no name alike.
    let own_bytes = written.rsplit('.').next().unwrap_or(written).len();
    let near = names.iter().map(|(spelling, name)| (distance(written, spelling), *name)).min();
    near.filter(|(distance, _)| *distance <= own_bytes / 3).map(|(_, name)| name).into_iter().collect()
}

/// Counts the bytes to insert, delete or replace (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.bytes().enumerate() {
            let least = (row[j].min(row[j + 1]) + 1).min(diagonal + usize::from(a != b));
            diagonal = std::mem::replace(&mut row[j + 1], least);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let names = || ["threads", "native.payload", "port", "memory-limit", "memory-max"].into_iter();
        for (name, suggestion) in [
            ("thread", "; did you mean 'threads'?"),
            ("native.paylaod", "; did you mean 'native.payload'?"),
            ("prot", ""),
            ("ports", "; did you mean 'port'?"),
            ("memory", "; did you mean 'memory-limit' or 'memory-max'?"),
            ("native.burst", ""),
            ("store", ""),
            ("o", ""),
            ("colour", ""),
        ] {
            assert_eq!(did_you_mean(name, names()), suggestion, "{name}");
        }
    }
}
