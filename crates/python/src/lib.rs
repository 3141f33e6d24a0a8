//! The client for Python: a server on the same host (`local:///PATH`), or others that the client library
//! reaches.
//!
//! The interpreter goes on with other threads while a server is asked. A get that the memory of a server on
//! the same host answers takes less time than that would, so it does not.

use std::cell::RefCell;

use micanite_client::{Client, Error, SharedClient, Value};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

create_exception!(micanite, MicaniteError, PyException, "A call has failed; its text says why.");

/// Capacity that the buffer keeps between two values.
const KEPT_BYTES_MAX: usize = 2 << 20;

thread_local! {
    /// Buffer of one value.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A client of one server, or of several. Threads may share it; after a fork the child connects anew.
#[pyclass(frozen, module = "micanite")]
struct Cache {
    client: SharedClient,
}

/// Connects to a server: `local:///PATH`, `HOST:PORT` of the native protocol, or `fabric://...`.
#[pyfunction]
fn connect(py: Python<'_>, url: &str) -> PyResult<Cache> {
    let client = py.detach(|| SharedClient::connect(url)).map_err(failed)?;
    Ok(Cache { client })
}

#[pymethods]
impl Cache {
    /// Returns the value of a key as bytes; None if there is none.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes(key)?;
        let mut value = VALUE.take();
        let found = self.client.get_in_memory(key, &mut value);
        let found = found.map(|found| found.map(|_| PyBytes::new(py, &value)));
        value.clear();
        value.shrink_to(KEPT_BYTES_MAX);
        VALUE.set(value);
        if let Some(found) = found {
            return Ok(found);
        }
        let found = self.run(py, |client| client.get(key))?;
        Ok(found.map(|value| PyBytes::new(py, &value.bytes)))
    }

    /// Returns a dict of those of the keys that have a value. One key that is bad, or that its server does
    /// not answer for, raises an error, and the values of the others are lost.
    fn get_many<'py>(&self, py: Python<'py>, keys: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let names = keys.iter().map(bytes).collect::<PyResult<Vec<_>>>()?;
        let values = py.detach(|| self.client.multi_get(&names)).map_err(failed)?;
        let found = PyDict::new(py);
        for (key, value) in keys.iter().zip(values) {
            if let Some(Value { bytes, .. }) = value {
                found.set_item(key, PyBytes::new(py, &bytes))?;
            }
        }
        Ok(found)
    }

    /// Stores a value; `expire`: seconds from now, 0 = never.
    #[pyo3(signature = (key, value, expire = 0, flags = 0))]
    fn set(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: u32,
        flags: u32,
    ) -> PyResult<()> {
        let (key, value) = (bytes(key)?, bytes(value)?);
        self.run(py, |client| client.set(key, value, flags, expire))
    }

    /// Stores a value if there is none; returns whether it did.
    #[pyo3(signature = (key, value, expire = 0, flags = 0))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: u32,
        flags: u32,
    ) -> PyResult<bool> {
        let (key, value) = (bytes(key)?, bytes(value)?);
        self.run(py, |client| client.add(key, value, flags, expire))
    }

    /// Removes an item; returns whether it existed.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes(key)?;
        self.run(py, |client| client.delete(key))
    }

    /// Replaces the expiry of an item; returns whether it existed.
    fn touch(&self, py: Python<'_>, key: &Bound<'_, PyAny>, expire: u32) -> PyResult<bool> {
        let key = bytes(key)?;
        self.run(py, |client| client.touch(key, expire))
    }

    /// Adds to a number; returns the sum, or None if there is none.
    #[pyo3(signature = (key, delta = 1))]
    fn incr(&self, py: Python<'_>, key: &Bound<'_, PyAny>, delta: u64) -> PyResult<Option<u64>> {
        let key = bytes(key)?;
        self.run(py, |client| client.increment(key, delta))
    }

    /// Subtracts from a number, not below 0; returns the difference, or None if there is none.
    #[pyo3(signature = (key, delta = 1))]
    fn decr(&self, py: Python<'_>, key: &Bound<'_, PyAny>, delta: u64) -> PyResult<Option<u64>> {
        let key = bytes(key)?;
        self.run(py, |client| client.decrement(key, delta))
    }

    /// Returns counts of this client of a server on the same host; empty for another server.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = py.detach(|| self.client.local_counters()).map_err(failed)?;
        let dict = PyDict::new(py);
        if let Some(of) = counted {
            for (name, count) in [
                ("hits", of.hits),
                ("misses", of.misses),
                ("asked", of.asked),
                ("requests", of.requests),
                ("attached", of.attached),
            ] {
                dict.set_item(name, count)?;
            }
        }
        Ok(dict)
    }
}

impl Cache {
    /// Runs a call while the interpreter goes on.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Client) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        // The lock is released before this thread waits for the interpreter again.
        py.detach(|| self.client.run(call)).map_err(failed)
    }
}

/// Returns the bytes of a `bytes` or `str`.
fn bytes<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    match object.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes()),
        Err(_) => Err(PyTypeError::new_err("keys and values are bytes or str")),
    }
}

fn failed(error: Error) -> PyErr {
    MicaniteError::new_err(error.to_string())
}

#[pymodule]
fn micanite(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MicaniteError", module.py().get_type::<MicaniteError>())?;
    module.add_class::<Cache>()?;
    module.add_function(wrap_pyfunction!(connect, module)?)
}
