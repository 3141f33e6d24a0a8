//! Lines of the log: as text or as JSON, with a priority for the journal.

use std::fmt::{self, Debug, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use nix::sys::stat::fstat;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::output::LINE_BYTES_MAX;
use super::{IS_JSON, START};

/// Letters of a message whose object is too long. A letter takes six bytes at most as JSON.
const SHORT_LETTERS_MAX: usize = LINE_BYTES_MAX / 8;

/// Writes an event as a line.
#[derive(Debug)]
pub(super) struct Form {
    /// journald reads standard error. It has the time, and takes a line's priority from its beginning.
    is_journal: bool,
    json: Format<Json, SystemTime>,
}

impl Form {
    pub fn of_standard_error() -> Self {
        let json = tracing_subscriber::fmt::format().json().flatten_event(true).with_target(false);
        let json = json.with_current_span(false).with_span_list(false);
        let stream = std::env::var("JOURNAL_STREAM").ok();
        Self { is_journal: stream.is_some_and(|stream| is_stream(&stream, std::io::stderr())), json }
    }
}

/// Returns whether a descriptor is the stream that systemd names: `device:inode`.
fn is_stream(name: &str, descriptor: impl AsFd) -> bool {
    fstat(descriptor).is_ok_and(|of| name == format!("{}:{}", of.st_dev, of.st_ino))
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let priority = if self.is_journal { priority(level) } else { "" };
        writer.write_str(priority)?;
        if IS_JSON.load(Ordering::Relaxed) {
            let mut line = String::new();
            self.json.format_event(context, Writer::new(&mut line), event)?;
            let may_be_long = event.metadata().target() == START;
            return match may_be_long || priority.len() + line.len() <= LINE_BYTES_MAX {
                true => writer.write_str(&line),
                false => write_short_json(&mut writer, event),
            };
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        if event.metadata().target() == START {
            return write_start(&mut writer, priority, level, &fields);
        }
        if self.is_journal {
            return writeln!(writer, "{level} {}{}", fields.message, fields.others);
        }
        SystemTime.format_time(&mut writer)?;
        writeln!(writer, " {level:>5} {}{}", fields.message, fields.others)
    }
}

/// Writes an object that has only the beginning of the message: a line is cut at a length, and would not end.
fn write_short_json(writer: &mut Writer<'_>, event: &Event<'_>) -> fmt::Result {
    let (mut fields, mut time) = (Fields::default(), String::new());
    event.record(&mut fields);
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    let message: String = fields.raw.chars().take(SHORT_LETTERS_MAX).collect();
    let level = event.metadata().level().as_str();
    let object = serde_json::json!({ "timestamp": time, "level": level, "message": message, "cut": true });
    writeln!(writer, "{object}")
}

/// Returns the prefix that gives a line of the journal its priority, see sd-daemon(3).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Writes a line for the person who starts the server. The operator's words may have several lines.
fn write_start(writer: &mut Writer<'_>, priority: &str, level: Level, fields: &Fields) -> fmt::Result {
    let Fields { about, raw, .. } = fields;
    let warning = if level == Level::WARN { "warning: " } else { "" };
    let text = match about {
        Some(about) => format!("  {about:<10} {raw}"),
        None => format!("{warning}{raw}"),
    };
    writeln!(writer, "micanite: {}", text.replace('\n', &format!("\n{priority}")))
}

/// Fields of an event as text.
#[derive(Debug, Default)]
struct Fields {
    /// The message as it is, and escaped.
    raw: String,
    message: String,
    /// Subject of a line of the start.
    about: Option<String>,
    /// The others, escaped: ` name=value`.
    others: String,
}

impl Fields {
    fn take(&mut self, name: &str, value: String) {
        match name {
            "message" => {
                self.message = escaped(&value);
                self.raw = value;
            }
            "about" => self.about = Some(value),
            name => {
                let is_plain = !value.is_empty() && !value.contains([' ', '"', '=']);
                let value = escaped(&value);
                let value = if is_plain { value } else { format!("\"{}\"", value.replace('"', "\\\"")) };
                // A string takes everything.
                let _ = write!(self.others, " {name}={value}");
            }
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field.name(), format!("{value:?}"));
    }
}

/// Escapes what could end a line or change a terminal: a client may have sent it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' => escaped.push(letter),
            letter => escaped.extend(letter.escape_debug()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No byte of a client ends a line, moves a cursor, or pretends to be another field.
    #[test]
    fn hostile_text_is_escaped() {
        let mut fields = Fields::default();
        fields.take("message", "it's\n<3>forged\u{1b}[2J".into());
        fields.take("user", "a\r b=\"c\"\u{2028}\u{202e}".into());
        fields.take("peer", "127.0.0.1:5".into());
        fields.take("empty", String::new());
        assert_eq!(fields.message, r"it's\n<3>forged\u{1b}[2J");
        assert_eq!(fields.others, r#" user="a\r b=\"c\"\u{2028}\u{202e}" peer=127.0.0.1:5 empty="""#);
    }

    /// An object that is longer than a line has the beginning of its message, and ends.
    #[test]
    fn a_long_object_is_shortened() {
        use tracing_subscriber::layer::SubscriberExt;
        let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let writer = std::sync::Arc::clone(&lines);
        let layer = tracing_subscriber::fmt::Layer::default()
            .event_format(Form::of_standard_error())
            .with_writer(move || Lines(std::sync::Arc::clone(&writer)))
            .with_ansi(false);
        let subscriber = tracing_subscriber::registry().with(layer);
        let is_json = IS_JSON.swap(true, Ordering::Relaxed);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("{}", "\u{1}".repeat(5_000));
            tracing::warn!(field = "x".repeat(5_000), "short");
        });
        IS_JSON.store(is_json, Ordering::Relaxed);
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        for (line, message) in text.lines().zip(["\u{1}".repeat(SHORT_LETTERS_MAX), "short".into()]) {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line.len() < LINE_BYTES_MAX && object["cut"] == true && object["level"] == "WARN");
            assert_eq!(object["message"], message);
        }
        assert_eq!(text.lines().count(), 2);
    }

    struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The variable counts only if it names this very stream.
    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let (file, other) = (std::io::stderr(), std::fs::File::open("/proc/self/status").unwrap());
        let of = fstat(&file).unwrap();
        let name = format!("{}:{}", of.st_dev, of.st_ino);
        assert!(is_stream(&name, &file) && !is_stream(&name, &other) && !is_stream("", &file));
    }
}
