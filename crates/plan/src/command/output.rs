//! Standard output and files.

use std::io::Write;
use std::path::Path;

use micanite_workload::trace::Failure;
use serde::Serialize;

use super::options::PlanOptions;
use crate::report::Plan;

/// Prints. Where nobody reads any more, nothing is lost.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut to = std::io::stdout().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    Ok(())
}

/// Returns a value as JSON.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

/// Writes a plan in all forms that are asked for.
pub fn write(options: &PlanOptions, plan: &Plan) -> Result<(), Failure> {
    for (folder, files) in [(&options.csv, plan.csv()), (&options.svg, plan.svg())] {
        if let Some(folder) = folder {
            files.iter().try_for_each(|(name, content)| file(&folder.join(name), content))?;
        }
    }
    match &options.json {
        Some(path) if path == Path::new("-") => return say(&json(plan)?),
        Some(path) => file(path, &json(plan)?)?,
        None => {}
    }
    say(&plan.text())
}

fn file(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, content).map_err(failed)
}
