//! Replies to GETs in memcached's text.

use crate::Result;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub name: &'a [u8],
    pub flags: u32,
    pub value: &'a [u8],
}

fn number<T: std::str::FromStr>(word: Option<&[u8]>) -> Result<T> {
    let text = std::str::from_utf8(word.ok_or("a word is missing")?)?;
    text.parse().map_err(|_| format!("{text:?} is no number").into())
}

/// All of a reply's items. An error unless it is well-formed to its end.
pub(crate) fn parse(mut bytes: &[u8], has_cas: bool) -> Result<Vec<Item<'_>>> {
    let mut items = Vec::new();
    while bytes != b"END\r\n" {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n").ok_or("no line")?;
        let mut words = bytes[..end].split(|byte| *byte == b' ');
        if words.next() != Some(b"VALUE") {
            return Err("neither VALUE nor END".into());
        }
        let name = words.next().ok_or("no key")?;
        let (flags, length): (u32, usize) = (number(words.next())?, number(words.next())?);
        if has_cas {
            number::<u64>(words.next())?;
        }
        if words.next().is_some() {
            return Err("too many words".into());
        }
        let rest = &bytes[end + 2..];
        let value = rest.get(..length).ok_or("the value is cut off")?;
        bytes = rest[length..].strip_prefix(b"\r\n").ok_or("the value does not end where it should")?;
        items.push(Item { name, flags, value });
    }
    Ok(items)
}
