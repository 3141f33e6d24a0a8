//! Answers to requests.

/// The first line of the answer to a request that was done.
const OK: &str = "OK";
/// Begins the answer to a request that was refused; the reason follows.
const REFUSED: &str = "REFUSED ";

/// The text that was asked for, or the reason of a refusal.
pub type Answer = Result<String, String>;

/// Writes an answer as it is sent.
pub fn text(answer: &Answer) -> String {
    match answer {
        Ok(text) => format!("{OK}\n{text}"),
        Err(reason) => format!("{REFUSED}{reason}\n"),
    }
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
