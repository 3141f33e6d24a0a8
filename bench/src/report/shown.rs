//! A section as it is shown: its exhibits, or why there are none.

use crate::report::evidence::{Evidence, Measured};
use crate::report::section::{Exhibit, Headline, Section};

/// A section that was run.
pub(crate) struct Shown<'a> {
    pub section: &'a Section,
    pub measured: &'a Measured,
    pub exhibits: Vec<Exhibit>,
    /// Reason why nothing could be drawn.
    pub failed: Option<String>,
}

/// The sections that there is raw data of, in the order of the page.
pub(crate) fn all<'a>(evidence: &'a Evidence, known: &'a [Section]) -> Vec<Shown<'a>> {
    let measured = |section: &'a Section| Some((section, evidence.section(section.id)?));
    known.iter().filter_map(measured).map(|(section, measured)| shown(section, measured)).collect()
}

fn shown<'a>(section: &'a Section, measured: &'a Measured) -> Shown<'a> {
    let (exhibits, failed) = match (section.draw)(&measured.results()) {
        Ok(exhibits) => (exhibits, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    Shown { section, measured, exhibits, failed }
}

impl Shown<'_> {
    /// Rows of the summary.
    pub fn headlines(&self) -> impl Iterator<Item = &Headline> {
        self.exhibits.iter().filter_map(|exhibit| match exhibit {
            Exhibit::Headline(headline) => Some(headline),
            _ => None,
        })
    }

    /// Rounds that each value is of, if all commands say the same.
    pub fn rounds(&self) -> Option<u32> {
        let rounds = |typed: &str| -> Option<u32> {
            let mut words = typed.split_whitespace().skip_while(|word| *word != "--rounds").skip(1);
            words.next()?.parse().ok()
        };
        let ran = self.measured.commands.iter().filter(|ran| ran.lacks.is_none());
        let mut all = ran.map(|ran| rounds(&ran.typed));
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    /// Tells whether something went wrong. Missing hardware is not wrong.
    pub fn has_failed(&self) -> bool {
        let is_lacking = self.measured.commands.iter().any(|ran| ran.lacks.is_some());
        self.measured.failures().next().is_some() || (self.failed.is_some() && !is_lacking)
    }

    /// Failures and missing things, each in a sentence.
    pub fn troubles(&self) -> Vec<String> {
        let commands = self.measured.commands.iter().filter_map(|ran| match (&ran.failed, &ran.lacks) {
            (Some(reason), _) => Some(format!("{} failed: {reason}", ran.typed)),
            (None, Some(reason)) => Some(format!("{} was not run: {reason}", ran.typed)),
            (None, None) => None,
        });
        let drawn = self.failed.iter().map(|reason| format!("Nothing could be drawn: {reason}."));
        commands.chain(drawn).collect()
    }
}
