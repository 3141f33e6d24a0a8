//! A section of the page.

use super::html::{download, escape, scrolling, table};
use crate::report::clock::span;
use crate::report::data;
use crate::report::evidence::Ran;
use crate::report::section::{Exhibit, Table};
use crate::report::shown::Shown;

/// Tables with more rows are offered as CSV only.
const ROWS_SHOWN_MAX: usize = 120;

pub(super) fn section(shown: &Shown<'_>) -> String {
    let section = shown.section;
    let (id, title) = (section.id, escape(&section.text.title));
    let (mut number, rounds) = (0, shown.rounds());
    let exhibits: String =
        shown.exhibits.iter().map(|exhibit| self::exhibit((id, rounds), exhibit, &mut number)).collect();
    format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n<p \
         class=\"question\">{}</p>\n{}{exhibits}{}{}</section>\n",
        escape(&section.text.question),
        troubles(shown),
        beside(shown),
        commands(shown),
    )
}

fn troubles(shown: &Shown<'_>) -> String {
    let troubles = shown.troubles();
    let all = troubles.iter().map(|trouble| format!("<p class=\"trouble\">{}</p>\n", escape(trouble)));
    all.collect()
}

fn exhibit((id, rounds): (&str, Option<u32>), exhibit: &Exhibit, number: &mut usize) -> String {
    match exhibit {
        Exhibit::Lines(chart) => {
            let caption = chart.caption(rounds);
            figure(id, exhibit, (&chart.title, &chart.svg(), caption), number)
        }
        Exhibit::Bars(chart) => {
            let caption = chart.caption(rounds);
            figure(id, exhibit, (&chart.title, &chart.svg(), caption), number)
        }
        Exhibit::Table(rows) => {
            *number += 1;
            format!(
                "<div class=\"exhibit\">\n{}<p class=\"data\">{}</p>\n</div>\n",
                table(rows),
                csv_link(id, rows, *number)
            )
        }
        Exhibit::Note(text) => format!("<p class=\"note\">{}</p>\n", escape(text)),
        Exhibit::Headline(_) => String::new(),
    }
}

fn figure(
    id: &str,
    exhibit: &Exhibit,
    (title, svg, caption): (&str, &str, Option<String>),
    number: &mut usize,
) -> String {
    *number += 1;
    let values = data::table(exhibit).unwrap_or_default();
    format!(
        "<figure class=\"exhibit\">\n{}<figcaption class=\"data\">{}{}{}</figcaption>\n</figure>\n",
        scrolling(title, svg),
        caption.map_or_else(String::new, |text| format!("<p>{}</p>\n", escape(&text))),
        csv_link(id, &values, *number),
        details(&values),
    )
}

fn csv_link(id: &str, values: &Table, number: usize) -> String {
    let name = format!("{id}-{number}.csv");
    download(&name, "text/csv", &data::csv(values), &format!("{name} ({} rows)", values.rows.len()))
}

/// The values of a figure as a table, for those who cannot see it or want numbers.
fn details(values: &Table) -> String {
    if values.rows.len() > ROWS_SHOWN_MAX {
        return String::new();
    }
    let untitled = Table { title: String::new(), ..values.clone() };
    format!("\n<details><summary>The values</summary>\n{}</details>\n", table(&untitled))
}

/// Shows the published figure and the differences.
fn beside(shown: &Shown<'_>) -> String {
    let text = &shown.section.text;
    format!(
        "<dl class=\"beside\">\n<dt>Published, {}</dt><dd>{}</dd>\n<dt>What differs \
         here</dt><dd>{}</dd>\n</dl>\n",
        escape(&text.source),
        escape(&text.published),
        escape(&text.differs),
    )
}

fn commands(shown: &Shown<'_>) -> String {
    let measured = shown.measured;
    let all: String = measured.commands.iter().map(|ran| command(&measured.id, ran)).collect();
    format!(
        "<h3>How it was measured</h3>\n<p>{}, {}, commit {}.</p>\n{all}",
        escape(&measured.begun),
        span(measured.seconds),
        escape(&measured.commit.text()),
    )
}

fn command(id: &str, ran: &Ran) -> String {
    let mut after = Vec::new();
    match (&ran.lacks, &ran.failed) {
        (Some(_), _) => after.push("not run".to_owned()),
        (None, Some(_)) => after.push(format!("failed after {}", span(ran.seconds))),
        (None, None) => after.push(span(ran.seconds)),
    }
    if ran.json.is_some() {
        after.push(format!("<a href=\"raw/{id}/{0}.json\">{0}.json</a>", escape(&ran.result)));
    }
    if ran.lacks.is_none() {
        after.push(format!("<a href=\"raw/{id}/{0}.log\">its log</a>", escape(&ran.result)));
    }
    let notes: String = ran.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"notes\">\n{notes}</ul>\n") };
    format!(
        "<pre tabindex=\"0\"><code>{}</code></pre>\n<p class=\"data\">{}</p>\n{notes}",
        escape(&ran.typed),
        after.join(" \u{b7} ")
    )
}
