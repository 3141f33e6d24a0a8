//! Describes the functions of a program to the verifier, in the kernel's type format (BTF): where
//! each function begins, and its type. A program can then pass functions to helpers as callbacks.
//! The verifier checks a global function once, for any arguments, and not again at each call.
//!
//! | in C | for the verifier |
//! |---|---|
//! | `static` | `static int name()`: the verifier ignores the parameters of such functions |
//! | global | `int name(u64, u64)`: the function must have this type |

use std::ffi::c_long;
use std::io;
use std::os::fd::OwnedFd;

use crate::{call, owned};

const BTF_LOAD: c_long = 18;
const MAGIC: u32 = 0xeb9f | 1 << 16;
const HEADER_BYTES: u32 = 24;
const KIND_INT: u32 = 1 << 24;
const KIND_FUNCTION: u32 = 12 << 24;
const KIND_PROTOTYPE: u32 = 13 << 24;
/// Encodings of an integer type: signed with 32 bits, unsigned with 64 bits.
const SIGNED_32: u32 = 1 << 24 | 32;
const UNSIGNED_64: u32 = 64;
/// Numbers of the types that come before the functions.
const TYPE_INT: u32 = 1;
const TYPE_U64: u32 = 2;
const TYPE_STATIC: u32 = 3;
const TYPE_GLOBAL: u32 = 4;
const LINKAGE_GLOBAL: u32 = 1;

/// Functions of a program, loaded into the kernel.
pub(crate) struct Functions {
    pub types: OwnedFd,
    /// First instruction and type of each function.
    pub info: Vec<[u32; 2]>,
}

impl Functions {
    /// Loads descriptions of functions, ordered by their first instructions.
    pub fn load(functions: &[(usize, &str, bool)]) -> io::Result<Self> {
        let (btf, info) = describe(functions);
        #[repr(C)]
        struct Load {
            btf: u64,
            log: u64,
            btf_bytes: u32,
            log_bytes: u32,
            log_level: u32,
        }
        let mut load = Load {
            btf: btf.as_ptr() as u64,
            log: 0,
            btf_bytes: btf.len() as u32,
            log_bytes: 0,
            log_level: 0,
        };
        let types = owned(call(BTF_LOAD, &mut load)?);
        Ok(Self { types, info })
    }
}

fn describe(functions: &[(usize, &str, bool)]) -> (Vec<u8>, Vec<[u32; 2]>) {
    const NAMES: &[u8] = b"\0int\0u64\0argument\0";
    const NAME_INT: u32 = 1;
    const NAME_U64: u32 = 5;
    const NAME_ARGUMENT: u32 = 9;
    let mut texts = NAMES.to_vec();
    let mut types = vec![NAME_INT, KIND_INT, 4, SIGNED_32];
    types.extend([NAME_U64, KIND_INT, 8, UNSIGNED_64]);
    types.extend([0, KIND_PROTOTYPE, TYPE_INT]);
    types.extend([0, KIND_PROTOTYPE | 2, TYPE_INT]);
    types.extend([NAME_ARGUMENT, TYPE_U64].repeat(2));
    let mut info = Vec::with_capacity(functions.len());
    for (number, (at, name, is_global)) in functions.iter().enumerate() {
        // The kernel calls the first function itself, with its own argument.
        let (linkage, prototype) = match *is_global && *at != 0 {
            true => (LINKAGE_GLOBAL, TYPE_GLOBAL),
            false => (0, TYPE_STATIC),
        };
        types.extend([texts.len() as u32, KIND_FUNCTION | linkage, prototype]);
        texts.extend(name.bytes().chain([0]));
        info.push([*at as u32, TYPE_GLOBAL + 1 + number as u32]);
    }
    let type_bytes = types.len() as u32 * 4;
    let header = [MAGIC, HEADER_BYTES, 0, type_bytes, type_bytes, texts.len() as u32];
    let words = header.into_iter().chain(types);
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes.extend(texts);
    (bytes, info)
}
