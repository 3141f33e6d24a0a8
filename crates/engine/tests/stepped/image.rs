//! The image of the stepped writer: observed while it changes, copied, recovered.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use micanite_engine::*;
use micanite_memory::Region;

use crate::script::{self, FILLERS, GROWING, OTHERS, Reply, ask};

const FILE: &str = "image/partition-0000";
/// With room, an operation changes nothing between this many words from the beginning and from the
/// end.
const WORDS_AT_BEGIN: usize = 12 << 10;
const WORDS_AT_END: usize = 8 << 10;

/// Value, expiry and CAS value (of a store) of each key.
pub type Seen = BTreeMap<String, (Vec<u8>, u32, u64)>;

/// Makes a directory of its own for a test.
pub fn scratch(name: &str) -> PathBuf {
    let shared = Path::new("/dev/shm");
    let base = match shared.is_dir() {
        true => shared.into(),
        false => std::env::temp_dir(),
    };
    let directory = base.join(format!("micanite-stepped-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The writer's image, and a copy that is recovered.
pub struct Image {
    region: Region,
    last: Vec<u64>,
    /// True if all of it may change.
    whole: bool,
    copy: PathBuf,
    copied: File,
}

impl Image {
    /// Opens the image; `whole` if an operation may change any part of it.
    pub fn of(directory: &Path, whole: bool) -> Self {
        let file = directory.join(FILE);
        let bytes = fs::metadata(&file).unwrap().len() as usize;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let region = Region::file(&options.open(file).unwrap(), bytes).unwrap();
        let copy = directory.join("copy");
        fs::create_dir_all(copy.join("image")).unwrap();
        let copied = options.create(true).open(copy.join(FILE)).unwrap();
        copied.set_len(bytes as u64).unwrap();
        let last = vec![0; region.words()];
        Self { region, last, whole, copy, copied }
    }

    /// Records every word.
    pub fn note(&mut self) {
        for (at, last) in self.last.iter_mut().enumerate() {
            *last = self.region.word(at).load(Relaxed);
        }
    }

    /// Returns whether a word has changed since it was recorded; records the changes.
    pub fn has_changed(&mut self) -> bool {
        let words = self.last.len();
        let parts = match self.whole {
            true => [0..words, words..words],
            false => [0..WORDS_AT_BEGIN, words - WORDS_AT_END..words],
        };
        let mut changed = false;
        for at in parts.into_iter().flatten() {
            let word = self.region.word(at).load(Relaxed);
            changed |= self.last[at] != word;
            self.last[at] = word;
        }
        changed
    }
}

/// Returns the contents after a kill at this moment and a recovery.
pub fn observe(image: &mut Image, semantics: Semantics) -> Seen {
    image.note();
    let bytes: Vec<u8> = image.last.iter().flat_map(|word| word.to_le_bytes()).collect();
    image.copied.write_all_at(&bytes, 0).unwrap();
    let cache = Arc::new(Cache::new(&script::config(&image.copy, semantics)).unwrap());
    assert_eq!(*cache.image_state(), ImageState::Recovered);
    let mut worker = cache.worker(0).unwrap();
    let look =
        MetaGet { value: true, cas: semantics == Semantics::Store, uncounted: true, ..MetaGet::default() };
    let mut keys: Vec<_> = ["new", "number", "meta"].map(str::to_owned).into();
    keys.extend((0..OTHERS).map(|number| format!("other-{number}")));
    keys.extend((0..GROWING.len()).map(|number| format!("grown-{number}")));
    keys.extend((0..FILLERS).map(|number| format!("filler-{number}")));
    let mut seen = Seen::new();
    for key in keys {
        let reply: Reply = ask(&mut worker, &key, Operation::MetaGet(look));
        if reply.outcome == Some(Outcome::Hit) {
            let item = (reply.value, reply.item.expiry.0, reply.item.cas);
            seen.insert(key, item);
        }
    }
    seen
}
