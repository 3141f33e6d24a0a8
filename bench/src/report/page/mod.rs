//! The page: one file of HTML with everything in it.

mod html;
mod published;
mod sections;

use html::{escape, json, table};

use crate::report::clock::span;
use crate::report::evidence::Evidence;
use crate::report::section::{Form, Section, Table};
use crate::report::shown::{self, Shown};

const STYLE: &str = include_str!("style.css");

pub(crate) fn page(evidence: &Evidence, known: &[Section]) -> Result<String, String> {
    let shown = shown::all(evidence, known);
    let raw = serde_json::to_string(evidence).map_err(|error| error.to_string())?;
    let body: String = shown.iter().map(sections::section).collect();
    let parts = [
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Micanite: report</title>\n<style>\n",
        STYLE,
        "</style>\n</head>\n<body>\n",
        &head(evidence),
        "<main>\n",
        &contents(&shown),
        &summary(&shown),
        &body,
        &published_numbers()?,
        &troubles(evidence, &shown, known),
        &again(evidence),
        "</main>\n",
        &json("raw-data", &raw),
        "</body>\n</html>\n",
    ];
    Ok(parts.concat())
}

/// Facts of the run and of the machine.
fn head(evidence: &Evidence) -> String {
    let head = &evidence.head;
    let form = match head.form {
        Form::Short => "short: few rounds; make report has more",
        Form::Full => "full",
    };
    let mut facts = vec![
        ("begun", head.begun.clone()),
        ("took", span(head.seconds)),
        ("form", form.to_owned()),
        ("commit", head.commit.text()),
    ];
    for (name, value) in &head.machine.facts {
        facts.push((name, value.clone()));
    }
    let fact = |(name, value): (&str, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(&value))
    };
    let facts: String = facts.into_iter().map(fact).collect();
    let peers = head.peers.iter().map(|peer| {
        let version = peer
            .version
            .as_deref()
            .map_or_else(|| format!("not here; {} fetches it", peer.install), str::to_owned);
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(&peer.name), escape(&version))
    });
    let peers: String = peers.collect();
    format!(
        "<header>\n<h1>Micanite: what it does on this machine</h1>\n\
         <p>Micanite is an in-memory cache and store that speaks memcached's protocol, on the engine of MICA \
         (Lim, Han, Andersen, Kaminsky, NSDI 2014). \
         This page was written by one command, which measured everything below on one machine. A contender \
         and the peer it is compared with take turns, round by round, in one run; \
         a ratio is the median of the rounds' ratios, and a spread is the least and the greatest of the \
         rounds. Ratios carry from machine to machine better than rates do. \
         Numbers in outline or marked as published are those of papers, on their authors' machines.</p>\n\
         <h2 id=\"machine\">The machine and the run</h2>\n<dl class=\"facts\">\n{facts}</dl>\n\
         <h3>Other servers</h3>\n<dl class=\"facts\">\n{peers}</dl>\n</header>\n"
    )
}

fn contents(shown: &[Shown<'_>]) -> String {
    let entry = |id: &str, title: &str| format!("<li><a href=\"#{id}\">{}</a></li>\n", escape(title));
    let sections: String =
        shown.iter().map(|shown| entry(shown.section.id, &shown.section.text.title)).collect();
    let rest = [
        ("published", "Published numbers"),
        ("missing", "What is missing"),
        ("again", "Once more, elsewhere"),
    ];
    let rest: String = rest.iter().map(|(id, title)| entry(id, title)).collect();
    format!(
        "<nav aria-labelledby=\"contents\">\n<h2 \
         id=\"contents\">Contents</h2>\n<ol>\n{}{sections}{rest}</ol>\n</nav>\n",
        entry("summary", "Summary")
    )
}

/// The sections' headlines.
pub(crate) fn summary_table(shown: &[Shown<'_>]) -> Table {
    let rows = shown.iter().flat_map(|shown| {
        let row = |headline: &crate::report::section::Headline| {
            vec![
                headline.what.clone(),
                headline.ours.clone(),
                headline.published.clone(),
                shown.section.text.title.clone(),
            ]
        };
        shown.headlines().map(row)
    });
    Table {
        title: String::new(),
        columns: ["what", "measured here (least .. greatest)", "published", "section"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    }
}

fn summary(shown: &[Shown<'_>]) -> String {
    let rows = summary_table(shown);
    let content = if rows.rows.is_empty() {
        "<p>None of the sections that were run has a number for the summary.</p>\n".to_owned()
    } else {
        table(&rows)
    };
    format!("<section aria-labelledby=\"summary\">\n<h2 id=\"summary\">Summary</h2>\n{content}</section>\n")
}

fn published_numbers() -> Result<String, String> {
    let table = table(&published::table()?);
    Ok(format!(
        "<section aria-labelledby=\"published\">\n<h2 id=\"published\">Published numbers</h2>\n\
         <p>What the papers say in their text, on their machines: for orientation, since other hardware \
         makes other rates. \
         What is only to be seen in their figures is not guessed here.</p>\n{table}</section>\n"
    ))
}

/// Lists failed commands, skipped commands, and missing peers.
fn troubles(evidence: &Evidence, shown: &[Shown<'_>], known: &[Section]) -> String {
    let mut items: Vec<String> = Vec::new();
    for shown in shown {
        for trouble in shown.troubles() {
            items.push(format!(
                "<a href=\"#{}\">{}</a>: {}",
                shown.section.id,
                escape(&shown.section.text.title),
                escape(&trouble)
            ));
        }
    }
    let left_out: Vec<_> =
        known.iter().map(|section| section.id).filter(|id| evidence.section(id).is_none()).collect();
    if !left_out.is_empty() {
        let command = format!("make bench ARGS='--again {}'", left_out.join(","));
        items.push(format!(
            "Sections that were not asked for: <code>{}</code> measures them and keeps the rest.",
            escape(&command)
        ));
    }
    let missing = evidence.head.peers.iter().filter(|peer| peer.version.is_none());
    items.extend(missing.map(|peer| {
        format!("{} is not here: <code>{}</code> fetches it.", escape(&peer.name), escape(&peer.install))
    }));
    let list: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
    let content = if list.is_empty() {
        "<p>Nothing: every command was run and ended well.</p>\n".to_owned()
    } else {
        format!("<ul>\n{list}</ul>\n")
    };
    format!(
        "<section aria-labelledby=\"missing\">\n<h2 id=\"missing\">What is \
         missing</h2>\n{content}</section>\n"
    )
}

fn again(evidence: &Evidence) -> String {
    format!(
        "<section aria-labelledby=\"again\">\n<h2 id=\"again\">Once more, elsewhere</h2>\n\
         <p>This page was made by</p>\n<pre><code>{}</code></pre>\n\
         <p>in the source tree. <code>make bench</code> takes less than ten minutes, <code>make \
         report</code> about half an hour on two cores, after building. \
         <code>make bench ARGS='--list'</code> names the sections, <code>--only ID</code> runs some of them, \
         <code>--peer NAME=ADDRESS</code> adds a server that is already running. \
         All raw data is in this page, in the element <code>raw-data</code>, and beside it in <a \
         href=\"raw/report.json\">raw/report.json</a> with the commands' logs.</p>\n</section>\n",
        escape(&evidence.head.command)
    )
}

#[cfg(test)]
mod tests;
