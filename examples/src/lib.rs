//! Short programs that use the library, one file each under `examples/`.
