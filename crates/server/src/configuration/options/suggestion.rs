//! Suggestions for names that do not exist.

/// Returns a question that names the nearest of these names, or nothing if none is near.
pub fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = names.map(|known| (distance(name, known), known)).min();
    // A section at the front makes no name alike.
    let own_bytes = name.rsplit('.').next().unwrap_or(name).len();
    match near {
        Some((distance, known)) if distance <= own_bytes / 3 => format!("; did you mean '{known}'?"),
        _ => String::new(),
    }
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
        let names = || ["threads", "native.payload", "port"].into_iter();
        for (name, suggestion) in [
            ("thread", "; did you mean 'threads'?"),
            ("native.paylaod", "; did you mean 'native.payload'?"),
            ("prot", ""),
            ("ports", "; did you mean 'port'?"),
            ("native.burst", ""),
            ("o", ""),
            ("colour", ""),
        ] {
            assert_eq!(did_you_mean(name, names()), suggestion, "{name}");
        }
    }
}
