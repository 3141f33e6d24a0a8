//! Answers to requests.

/// The first line of the answer to a request that was done.
const OK: &str = "OK";
/// Begins the answer to a request that was refused; the reason follows.
const REFUSED: &str = "REFUSED ";

/// The text that was asked for, or the reason of a refusal.
pub type Answer = Result<String, String>;

/// Writes an answer as it is sent. A reason of several lines, such as a problem and its remedy, becomes one.
pub fn text(answer: &Answer) -> String {
    match answer {
        Ok(text) => format!("{OK}\n{text}"),
        Err(reason) => {
            let lines: Vec<_> = reason.lines().map(str::trim).collect();
            format!("{REFUSED}{}\n", lines.join(". "))
        }
    }
}

/// Returns whether what has come so far may be the beginning of an answer.
pub fn is_begun(sent: &[u8]) -> bool {
    let begins = |with: &[u8]| sent.iter().zip(with).all(|(a, b)| a == b);
    begins(OK.as_bytes()) || begins(REFUSED.as_bytes())
}

/// Reads what a server has sent. An error is text for a person.
pub fn parse(sent: &str) -> Answer {
    match sent.split_once('\n') {
        Some((OK, text)) => Ok(text.into()),
        Some((line, _)) => match line.strip_prefix(REFUSED) {
            Some(reason) => Err(format!("refused: {reason}")),
            None => Err(format!("this is no answer: {line}")),
        },
        None => Err("the server has closed the connection without an answer".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_several_lines_arrives_whole() {
        let answer = Err("a taken port\n  choose another one".to_owned());
        assert_eq!(parse(&text(&answer)), Err("refused: a taken port. choose another one".to_owned()));
    }

    #[test]
    fn what_begins_as_no_answer_does_is_seen_at_once() {
        for begun in ["", "O", "OK", "OK\n", "OK\nalive", "R", "REFUSED ", "REFUSED no\n"] {
            assert!(is_begun(begun.as_bytes()), "{begun}");
        }
        for other in ["ERROR\r\n", "E", "STAT pid 1\r\n", "RE-", "\u{81}"] {
            assert!(!is_begun(other.as_bytes()), "{other}");
        }
    }
}
