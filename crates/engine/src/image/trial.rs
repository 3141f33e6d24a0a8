//! A trial: could a process with this configuration go on with what is there? It writes nothing that stays.

use std::fs;
use std::path::Path;

use crate::cache::Cache;
use crate::cache::config::Config;
use crate::cache::error::{CreateError, CreateErrorKind};
use crate::cache::layout::Layout;
use crate::cache::readers;
use crate::image::header::{self, Unusable};
use crate::image::source::{First, HeaderWords, Source};
use crate::image::{boot, damaged, room};
use crate::partition::Semantics;
use crate::region::Field;

impl Cache {
    /// Tries whether [`Cache::new`] would open what this configuration names, and returns the seed of the
    /// image that is there, and the layout that it would have. `is_own` tells that a process that will have
    /// closed it by then uses the image now. Damage is found only when it is opened.
    ///
    /// # Errors
    /// As for [`Cache::new`].
    pub fn try_out(config: &Config, is_own: bool) -> Result<Option<(u64, Layout)>, CreateError> {
        readers::check(config)?;
        // A directory that is not there yet is made, because the kernel alone knows whether it can be.
        let made = config.image.as_deref().filter(|path| !path.exists());
        let tried = match Source::of(config) {
            Ok(None) => Layout::of(config).map(|_| None),
            Ok(Some(source)) => try_source(config, &source, is_own),
            Err(error) => Err(error),
        };
        if let Some(path) = made {
            remove(path);
        }
        tried
    }
}

/// Removes a directory that was made for a trial.
fn remove(path: &Path) {
    let _ = fs::remove_file(path.join(crate::image::source::LOCK));
    let _ = fs::remove_dir(path);
}

fn try_source(
    config: &Config,
    source: &Source<'_>,
    is_own: bool,
) -> Result<Option<(u64, Layout)>, CreateError> {
    // It is released at the end.
    let _lock = if is_own { None } else { source.lock()? };
    let failed = |error| CreateError::new(format!("in {source}: {error}"));
    match source.first().map_err(failed)? {
        First::Header(header) => {
            let layout = fits(config, source, &header)?;
            // The one in use is closed by then. Another one of a cache would be discarded.
            let is_open = !is_own && header[Field::Clean as usize] != 1;
            let boot = std::iter::once(header[Field::Boot as usize]);
            if let Some(reason) =
                boot::distrust(boot).filter(|_| is_open && config.semantics == Semantics::Store)
            {
                return Err(boot::distrusted(source, reason));
            }
            Ok(Some((header[Field::Seed as usize], layout)))
        }
        First::Missing | First::Incomplete => {
            let layout = Layout::of(config)?;
            source.check_count(&layout)?;
            source.check_space(config.memory_bytes)?;
            Ok(None)
        }
    }
}

/// Checks that an image fits the configuration, or can be copied to one that does. Returns the layout of
/// that.
fn fits(config: &Config, source: &Source<'_>, header: &HeaderWords) -> Result<Layout, CreateError> {
    let mismatch =
        |reason: String| CreateError::of(CreateErrorKind::Mismatch, format!("in {source}: {reason}"));
    let layout = header::layout_of(config, header).map_err(|unusable| match unusable {
        Unusable::Other(reason) => mismatch(reason),
        Unusable::Damaged(what) => damaged(source, what),
    })?;
    source.check_count(&layout)?;
    match header::has_other_size(config, &layout) {
        true if config.maps.is_some() => Err(mismatch(header::other_size(config, &layout))),
        true => room::try_out(config, source, &layout),
        false => Ok(layout),
    }
}
