//! Judges the providers of one-sided reads.

use micanite_fabric::{Progress, Provider};

use crate::doctor::facts::{Facts, NoFabric};
use crate::doctor::report::{Section, State};

/// Lists the providers, and what each promises.
pub fn fabric(facts: &Facts) -> Section {
    let mut section = Section::new("fabric: one-sided reads (libfabric)");
    match &facts.built.fabric {
        Ok(fabric) => {
            section.say(State::Fine, format!("built in: {}", fabric.version));
            for (provider, probed) in &fabric.providers {
                match probed {
                    Ok(()) => section.say(State::Fine, promises(provider)),
                    Err(reason) => section.say(State::Note, format!("{}: {reason}", provider.name)),
                }
            }
        }
        Err(NoFabric::NotLoaded(error)) => {
            section.say_with(State::Note, error.clone(), ["apt-get install libfabric1".into()]);
        }
        Err(NoFabric::NotBuilt) => section.say_with(
            State::Note,
            "this program was built without it: without the feature libfabric",
            ["apt-get install libfabric-dev pkg-config && cargo build --release --features libfabric".into()],
        ),
    }
    section
}

/// Says what a provider promises, and what it does not.
fn promises(provider: &Provider) -> String {
    let reads = match (provider.reads_without_target, provider.progress) {
        (true, Progress::Device) => "reads complete without the target (by the NIC, untested)".to_owned(),
        (true, progress) => format!("reads complete without the target (by {})", progress.name()),
        (false, progress) => format!("reads wait for the target (for {})", progress.name()),
    };
    let access = match provider.checks_access {
        true => "keys and ranges are checked",
        false => "neither keys nor ranges are checked: only among processes that trust each other",
    };
    let sleep = match provider.has_descriptor {
        true => "an idle thread sleeps",
        false => "an idle thread polls",
    };
    format!("{}: {reads}; {access}; {sleep}; {}", provider.name, provider.note)
}
