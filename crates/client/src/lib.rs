//! The native client: directory, request direction, batching, resending.
