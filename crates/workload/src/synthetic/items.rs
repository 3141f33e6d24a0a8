//! Keys and values of a run's items, of one length or of many.

use crate::{DataSet, EtcModel, KeyedLengths, Keys, Pool, PoolItem, Values};

/// Keys and values by the numbers of their items.
#[derive(Clone, Debug)]
pub enum Items {
    /// All keys have one length, and all values.
    Alike {
        keys: Keys,
        values: Values,
    },
    /// Items of the published model of the ETC pool.
    EtcModel,
    /// Keys of one length, values around a mean.
    Around(KeyedLengths),
    Pool(Pool),
}

impl From<DataSet> for Items {
    fn from(lengths: DataSet) -> Self {
        Self::alike(lengths)
    }
}

impl Items {
    /// All keys have one length, and all values.
    pub fn alike(lengths: DataSet) -> Self {
        Self::Alike { keys: Keys::new(lengths.key_bytes), values: Values::new(lengths.value_bytes) }
    }

    /// Length of an item's key.
    #[inline]
    pub fn key_bytes(&self, item: u64) -> usize {
        match self {
            Self::Alike { keys, .. } => keys.key_bytes(),
            Self::Around(lengths) => lengths.key_bytes,
            Self::EtcModel => EtcModel.key_bytes(item),
            Self::Pool(pool) => of(*pool, item).key_bytes(),
        }
    }

    /// Length of an item's value.
    #[inline]
    pub fn value_bytes(&self, item: u64) -> usize {
        match self {
            Self::Alike { values, .. } => values.value_bytes(),
            Self::Around(lengths) => lengths.value_bytes(item),
            Self::EtcModel => EtcModel.value_bytes(item),
            Self::Pool(pool) => of(*pool, item).value_bytes(),
        }
    }

    /// The longest key and the longest value.
    pub fn longest(&self) -> DataSet {
        let (key_bytes, value_bytes) = match self {
            Self::Alike { keys, values } => (keys.key_bytes(), values.value_bytes()),
            Self::Around(lengths) => return lengths.longest(),
            Self::EtcModel => (EtcModel::KEY_BYTES_MAX, EtcModel::VALUE_BYTES_MAX),
            Self::Pool(pool) => (pool.key_bytes_max(), pool.value_bytes_max()),
        };
        DataSet { key_bytes, value_bytes }
    }

    /// Number of items with different keys.
    pub fn items_max(&self) -> u64 {
        match self {
            Self::Alike { keys, .. } => keys.items_max(),
            Self::Around(lengths) => Keys::new(lengths.key_bytes).items_max(),
            Self::EtcModel | Self::Pool(_) => crate::ITEMS_MAX,
        }
    }

    /// Appends an item's key.
    #[inline]
    pub fn push_key(&self, item: u64, to: &mut Vec<u8>) {
        match self {
            Self::Alike { keys, .. } => keys.push(item, to),
            _ => Keys::new(self.key_bytes(item)).push(item, to),
        }
    }

    /// Writes an item's key to the beginning of `place`, and returns it.
    ///
    /// # Panics
    /// When it is longer.
    #[inline]
    pub fn write_key<'a>(&self, item: u64, place: &'a mut [u8]) -> &'a [u8] {
        let key_bytes = self.key_bytes(item);
        let key = &mut place[..key_bytes];
        match self {
            Self::Alike { keys, .. } => keys.write(item, key),
            _ => Keys::new(key_bytes).write(item, key),
        }
        key
    }

    /// Returns whether `key` is this item's.
    #[inline]
    pub fn has_key(&self, item: u64, key: &[u8]) -> bool {
        match self {
            Self::Alike { keys, .. } => keys.matches(item, key),
            _ => Keys::new(self.key_bytes(item)).matches(item, key),
        }
    }

    /// An item's value: what it is made by, and checked.
    #[inline]
    pub fn values(&self, item: u64) -> Values {
        Values::new(self.value_bytes(item))
    }
}

const fn of(pool: Pool, number: u64) -> PoolItem {
    PoolItem { pool, number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_every_kind() {
        let alike: DataSet = "16/100".parse().unwrap();
        let kinds = [
            Items::from(alike),
            Items::EtcModel,
            Items::Around(KeyedLengths { key_bytes: 100, value_bytes_mean: 1024 }),
            Items::Pool(Pool::App),
            Items::Pool(Pool::Etc),
        ];
        for items in kinds {
            for item in 0..2000 {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                items.push_key(item, &mut key);
                items.values(item).push(item, 3, &mut value);
                let mut place = [0; crate::KEY_BYTES_MAX];
                assert_eq!(items.write_key(item, &mut place), key);
                assert!(items.has_key(item, &key) && !items.has_key(item + 1, &key));
                assert!(items.values(item).verify(item, &value));
                assert_eq!(value.len(), items.value_bytes(item));
                let longest = items.longest();
                assert!(key.len() <= longest.key_bytes && value.len() <= longest.value_bytes);
            }
        }
    }
}
