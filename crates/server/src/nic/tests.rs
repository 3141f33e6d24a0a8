//! Plans for machines of several kinds.
